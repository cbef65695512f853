"""The view is a picture: it does not change when the machine does."""

from shoal.control.directory.machine import DirectoryMachine
from shoal.control.directory.messages import LIVE, Find, Publish, Watch
from shoal.control.directory.view import DirectoryView, Held
from shoal.kernel.events import Asked
from shoal.kernel.keys import key_of_name
from tests.unit.control.directory.pieces import AES, contact, offer, started, stream


def test_a_picture_of_one_peer() -> None:
    checked = started("p1")
    machine = checked.inner
    assert isinstance(machine, DirectoryMachine)
    before = machine.view()
    mine = (offer("p1"), stream("p1"))
    checked.handle(Asked(1, Publish(mine)), 10)
    checked.handle(Asked(2, Find(key_of_name("q"))), 10)
    checked.handle(Asked(3, Watch(AES)), 10)
    assert before == DirectoryView(
        state="learning",
        low=contact("p6").key,
        backups=(contact("p2"), contact("p3")),
        live=0,
        withdrawn=0,
        expired=0,
        own=0,
        unsettled=0,
        searches=0,
        stores=0,
        copies=0,
        comparisons=2,
        routes=0,
        lookups=0,
        watches=0,
        followers=0,
    )
    after = machine.view()
    assert (after.live, after.own, after.unsettled, after.copies) == (1, 2, 2, 2)
    assert (after.searches, after.lookups, after.watches, after.followers) == (1, 2, 1, 1)


def test_what_is_held_is_told_with_what_its_lease_still_has() -> None:
    checked = started("p1")
    machine = checked.inner
    assert isinstance(machine, DirectoryMachine)
    checked.handle(Asked(1, Publish((offer("p1"),))), 0)
    (held,) = machine.held(1_000)
    assert isinstance(held, Held)
    assert (held.ident.thing, held.ident.owner, held.state) == ("aes", "p1", LIVE)
    assert held.left == machine.config.lease - 1_000
    assert machine.held(machine.config.lease)[0].left == 0
