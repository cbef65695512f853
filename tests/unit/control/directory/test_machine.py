"""The machine as a whole: its contract with the peer, its states, and small meshes of it."""

import itertools
from typing import Any

import pytest
from msgspec import Struct

from shoal.control.directory.config import DirectoryConfig
from shoal.control.directory.machine import (
    DECIDED,
    IGNORED,
    ILLEGAL,
    TABLE,
    DirectoryMachine,
    State,
)
from shoal.control.directory.messages import (
    MESSAGES,
    QUESTIONS,
    Compare,
    Find,
    Found,
    Neighbours,
    OwnerFound,
    OwnerLost,
    Publish,
    Published,
    Push,
    RecordsChanged,
    Store,
    Watch,
    Watching,
    Withdraw,
    Withdrawn,
    ident_of,
)
from shoal.kernel.effects import Persist, SetTimer
from shoal.kernel.errors import LocalError, RemoteError, UserError
from shoal.kernel.events import Asked, Received, Started, Stopping, TimerFired, Unreachable
from shoal.kernel.rng import Rng
from shoal.kernel.time import MINUTE, SECOND
from shoal.sim.checkers.directory import DirectoryChecker
from tests.checked import Checked
from tests.unit.control.directory.pieces import (
    AES,
    FLOW,
    Mesh,
    answers,
    contact,
    item,
    news,
    notes,
    offer,
    sent,
    started,
    stream,
)

INPUTS = (
    *MESSAGES.values(),
    *QUESTIONS,
    *(Started, Stopping, Unreachable, TimerFired, Neighbours, OwnerFound, OwnerLost),
)


def state_of(checked: Checked) -> State:
    machine = checked.inner
    assert isinstance(machine, DirectoryMachine)
    return machine.state


def test_every_pair_stands_in_exactly_one_table() -> None:
    for pair in itertools.product(State, INPUTS):
        assert [pair in table for table in (TABLE, IGNORED, ILLEGAL)].count(True) == 1, pair
    assert len(TABLE) + len(IGNORED) + len(ILLEGAL) == len(State) * len(INPUTS)
    assert all(TABLE[pair][0] is None for pair in DECIDED)


# --- the life of one directory ------------------------------------------------------------------


def test_it_is_apart_until_the_ring_says_where_it_stands() -> None:
    checked = started("p1", members=())
    assert state_of(checked) is State.APART
    checked.handle(Neighbours(contact("p6"), (contact("p2"),)), 0)
    assert state_of(checked) is State.LEARNING
    checked.handle(Neighbours(None, ()), 1)
    assert state_of(checked) is not State.APART, "alone on its ring it keeps everything"
    checked.handle(Neighbours(None, (contact("p2"),)), 2)
    assert state_of(checked) is State.APART


def test_D1_nothing_is_taken_from_the_disk_and_what_an_earlier_version_left_is_removed() -> None:
    machine = DirectoryMachine(contact("p1"), DirectoryConfig(), Rng(1))
    stored = {"directory/shelf": b"x", "ring/contacts": b"y"}
    effects = machine.handle(Started(stored), 0)
    assert [one for one in effects if isinstance(one, Persist)] == [
        Persist("directory/shelf", None)
    ]
    assert machine.held(0) == ()


def test_who_keeps_the_key_itself_needs_no_message() -> None:
    checked = started("p1", members=("p1",))
    effects = checked.handle(Asked(1, Publish((offer("p1"),))), 0)
    assert answers(effects) == [Published(1, 0, 1)]
    assert sent(effects) == []
    assert answers(checked.handle(Asked(2, Find(AES)), 1)) == [Found(AES, (offer("p1"),))]


def test_one_timer_stands_at_the_earliest_deadline() -> None:
    checked = started("p5")
    effects = checked.handle(Asked(1, Find(AES)), 0)
    timers = [one for one in effects if isinstance(one, SetTimer)]
    assert [one.timer for one in timers] in ([], ["directory/wait"])
    machine = checked.inner
    assert isinstance(machine, DirectoryMachine)
    assert machine._armed == machine.desk.deadlines.next


def test_who_stood_still_learns_anew() -> None:
    checked = started("p1", members=("p1",))
    checked.handle(TimerFired("directory/wait"), 40 * SECOND)
    effects = checked.handle(TimerFired("directory/beat"), 10 * MINUTE)
    assert "stood still for 560 s" in notes(effects)
    assert state_of(checked) is State.LEARNING


def test_D3_at_the_end_every_question_is_answered_and_records_are_taken_back() -> None:
    checked = started("p1")
    checked.handle(Asked(1, Publish((offer("p1"), stream("p1")))), 0)
    checked.handle(Asked(2, Find(FLOW)), 0)
    effects = checked.handle(Stopping(), SECOND)
    assert len(answers(effects)) == 2
    assert any(isinstance(message, Push) for _, message in sent(effects))
    assert state_of(checked) is State.STOPPED
    (late,) = answers(checked.handle(Asked(3, Find(AES)), SECOND))
    assert isinstance(late, UserError)
    assert checked.handle(Stopping(), SECOND) == []
    assert checked.handle(TimerFired("directory/beat"), SECOND) == []


@pytest.mark.parametrize("event", [Started({}), OwnerFound("1", AES, None)])
def test_what_may_not_happen_is_our_defect(event: Struct) -> None:
    checked = started("p1")
    if isinstance(event, Started):
        with pytest.raises(LocalError, match="Started while"):
            checked.inner.handle(event, 1)
    else:
        machine = DirectoryMachine(contact("p1"), DirectoryConfig(), Rng(1))
        with pytest.raises(LocalError, match="OwnerFound while idle"):
            machine.handle(event, 1)


def test_an_event_of_nobody_is_our_defect() -> None:
    with pytest.raises(LocalError, match="does not know it"):
        started("p1").inner.handle(RecordsChanged(AES, ()), 1)


@pytest.mark.parametrize(
    "message",
    [
        Store(1, (item(offer("p6"), 1),)),
        Push(1, contact("p4").key, (item(offer("p6"), 1),)),
        Compare(1, b"", (), sure=False),
    ],
)
def test_what_is_refused_leaves_no_trace(message: Struct) -> None:
    checked = started("p1")
    before = checked.view()
    with pytest.raises(RemoteError):
        checked.handle(Received(contact("p5"), message), 1)
    assert checked.view() == before
    assert sent(checked.handle(TimerFired("directory/wait"), 2)) == []


def test_who_cannot_be_reached_is_not_waited_for() -> None:
    checked = started("p5")
    (need,) = news(checked.handle(Asked(1, Publish((offer("p5"),))), 0))
    effects = checked.handle(OwnerFound(need.token, AES, contact("p1")), 1)
    assert [name for name, _ in sent(effects)] == ["p1"]
    checked.handle(Unreachable(contact("p1")), 2)
    assert checked.view().stores == 0  # type: ignore[attr-defined]


# --- several of them ----------------------------------------------------------------------------


def test_published_here_is_found_there_and_withdrawn_is_not() -> None:
    mesh = Mesh(6, checkers=[DirectoryChecker()])
    one, other = mesh.world.nodes[1], mesh.world.nodes[4]
    record = offer(one.name)
    mine = type(record)(record.key, one.contact, "aes")
    assert mesh.ask(one, Publish((mine,))) == Published(1, 0, 3)
    assert mesh.ask(other, Find(AES)) == Found(AES, (mine,))
    assert mesh.ask(one, Withdraw((ident_of(mine),))) == Withdrawn(1, 0, 0)
    for node in mesh.world.nodes:
        assert mesh.ask(node, Find(AES)) == Found(AES, ())


def _published(mesh: Mesh, key_name: str = "aes") -> Any:
    """A record whose owner is no keeper of its key."""
    keepers = mesh.keepers(AES)
    owner = next(node for node in mesh.world.nodes if node not in keepers)
    record = type(offer())(AES, owner.contact, key_name)
    assert mesh.ask(owner, Publish((record,))) == Published(1, 0, 3)
    return owner, record


def test_R1_two_neighbours_at_once_lose_no_record() -> None:
    """Owners do not renew meanwhile, so nothing hides a loss."""
    mesh = Mesh(
        8,
        renew_period=600 * SECOND,
        lease=2_000 * SECOND,
        suspect_lease=700 * SECOND,
        tombstone_life=4_000 * SECOND,
        learning_max=700 * SECOND,
        checkers=[DirectoryChecker()],
    )
    owner, record = _published(mesh)
    for _ in range(2):
        keepers = mesh.keepers(AES)
        mesh.crash(*[node for node in keepers[:2] if node is not owner])
        mesh.run(40)
        assert mesh.ask(owner, Find(AES)) == Found(AES, (record,))
    holding = [node for node in mesh.keepers(AES) if mesh.machine(node).keeper.shelf.live(AES, 0)]
    assert len(holding) == 3


def test_R1_a_peer_that_joins_is_handed_what_it_keeps_from_now_on() -> None:
    mesh = Mesh(4, checkers=[DirectoryChecker()])
    owner, record = _published(mesh)
    for _ in range(8):
        mesh.start(mesh.world.add_host())
        mesh.run(6)
        assert mesh.ask(owner, Find(AES)) == Found(AES, (record,))
    for node in mesh.keepers(AES):
        entries = mesh.machine(node).keeper.shelf.entries
        assert ident_of(record) in entries


def test_D1_who_has_crashed_is_found_for_a_lease_at_most() -> None:
    mesh = Mesh(6, checkers=[DirectoryChecker()])
    owner, record = _published(mesh)
    asker = next(node for node in mesh.world.nodes if node is not owner)
    mesh.crash(owner)
    assert mesh.ask(asker, Find(AES)) == Found(AES, (record,))
    mesh.run(mesh.config.lease / SECOND + 10)
    assert mesh.ask(asker, Find(AES)) == Found(AES, ())


def test_D1_who_starts_again_with_its_disk_has_nothing_to_say_of_before() -> None:
    mesh = Mesh(6, checkers=[DirectoryChecker()])
    owner, record = _published(mesh)
    mesh.crash(owner)
    mesh.run(2)
    mesh.start(owner)
    mesh.run(3)
    again = type(record)(AES, owner.contact, "aes", 0.5)
    mesh.ask(owner, Publish((again,)))
    assert mesh.ask(mesh.keepers(AES)[0], Find(AES)) == Found(AES, (again,))


def test_a_watcher_hears_of_a_record() -> None:
    mesh = Mesh(5)
    watcher = mesh.world.nodes[0]
    assert mesh.ask(watcher, Watch(AES)) == Watching(AES)
    _, record = _published(mesh)
    mesh.run(1)
    (watch,) = mesh.machine(watcher).watcher.watches.values()
    assert watch.told == (record,)


def test_a_slow_keeper_costs_time_and_nothing_else() -> None:
    mesh = Mesh(6)
    mesh.world.slow_down(mesh.keepers(AES)[0], 200_000)
    owner, record = _published(mesh)
    assert mesh.ask(owner, Find(AES)) == Found(AES, (record,))
