"""The checker of the directory finds what is wrong, and excuses what faults excuse."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from shoal.control.directory.messages import (
    EXPIRED,
    LIVE,
    WITHDRAWN,
    Find,
    Found,
    Item,
    Publish,
    Published,
    Push,
    Record,
    Store,
    Version,
    Withdraw,
    ident_of,
)
from shoal.kernel.effects import Answer
from shoal.kernel.events import Asked
from shoal.kernel.time import SECOND
from shoal.sim.checkers.checker import Violation
from shoal.sim.checkers.directory import DirectoryChecker
from shoal.sim.loop import Failed
from shoal.sim.node import Node
from tests.unit.control.directory.pieces import AES, Mesh, offer

#: Owners that renew so rarely that nothing mends by itself what a test breaks.
RARE = {
    "renew_period": 600 * SECOND,
    "lease": 2_000 * SECOND,
    "suspect_lease": 700 * SECOND,
    "tombstone_life": 4_000 * SECOND,
    "learning_max": 700 * SECOND,
}


class Checked:
    """A mesh under the checker, with one record in it."""

    def __init__(self, peers: int = 6, *, quiet: bool = True, **config: Any) -> None:
        self.checker = DirectoryChecker()
        self.mesh = Mesh(peers, checkers=[self.checker], **(config or RARE))
        self.checker.config = self.mesh.config
        keepers = self.mesh.keepers(AES)
        self.owner = next(node for node in self.mesh.world.nodes if node not in keepers)
        self.record: Record = type(offer())(AES, self.owner.contact, "aes")
        self.ident = ident_of(self.record)
        assert self.mesh.ask(self.owner, Publish((self.record,))) == Published(1, 0, 3)
        if quiet:
            self.mesh.run(50)

    @property
    def keepers(self) -> list[Node]:
        return self.mesh.keepers(AES)

    def drop(self, node: Node) -> None:
        """It has forgotten the record."""
        shelf = self.mesh.machine(node).keeper.shelf
        entry = shelf.entries.get(self.ident)
        if entry is not None:
            shelf.drop(entry)

    def settle(self) -> None:
        self.mesh.world.calm()
        self.mesh.world.settle()
        self.mesh.run(15)
        self.mesh.world.finish()


def test_R1_D1_D2_D3_a_mesh_in_peace_passes() -> None:
    one = Checked()
    for node in one.mesh.world.nodes:
        assert one.mesh.ask(node, Find(AES)) == Found(AES, (one.record,))
    one.mesh.ask(one.owner, Withdraw((one.ident,)))
    one.mesh.run(50)
    assert one.mesh.ask(one.owner, Find(AES)) == Found(AES, ())
    one.settle()
    figures = one.checker.figures()
    assert figures["records_secured"] == 1
    assert figures["finds_judged"] >= 7


# --- R1 -----------------------------------------------------------------------------------------


def test_R1_a_record_that_nobody_holds_any_more_is_found() -> None:
    one = Checked()
    for node in one.keepers:
        one.drop(node)
    with pytest.raises(Failed, match="R1: nobody holds 'aes'"):
        one.mesh.run(2)


def test_R1_the_loss_of_all_holders_at_once_is_excused() -> None:
    one = Checked()
    one.mesh.run(2)
    one.mesh.crash(*one.keepers)
    one.mesh.run(5)


def test_R1_the_loss_of_two_of_three_is_no_excuse_for_the_third() -> None:
    one = Checked(8)
    one.mesh.run(2)
    first, second, third = one.keepers
    one.mesh.crash(first, second)
    one.drop(third)
    with pytest.raises(Failed, match="R1: nobody holds"):
        one.mesh.run(2)


def test_R1_who_is_cut_off_may_lose_records_for_a_while() -> None:
    one = Checked()
    one.mesh.world.disturb("partition")
    one.mesh.run(2)
    for node in one.keepers:
        one.drop(node)
    one.mesh.run(5)
    one.mesh.world.undisturb("partition")


@pytest.mark.parametrize(("quiet", "found"), [(True, True), (False, False)])
def test_R1_what_is_stored_and_not_found_is_a_violation_in_peace(
    *, quiet: bool, found: bool
) -> None:
    one = Checked(quiet=quiet)
    if not quiet:
        one.mesh.world.disturb("weather")
    one.drop(one.keepers[0])
    if found:
        with pytest.raises(Failed, match=r"R1: .* did not find"):
            one.mesh.ask(one.owner, Find(AES))
    else:
        one.mesh.ask(one.owner, Find(AES))


def test_R1_copies_that_do_not_exist_are_found() -> None:
    one = Checked()
    node = one.owner
    question = Asked(99, Publish((one.record,)))
    for keeper in one.keepers:
        one.drop(keeper)
    one.checker.after_event(node, question, [])
    with pytest.raises(Violation, match=r"R1: .* was told of 3 copies"):
        one.checker.after_event(node, question, [Answer(99, Published(1, 0, 3))])


@pytest.mark.parametrize("fault", [False, True])
@pytest.mark.parametrize(
    ("told", "held", "lost", "wrong"),
    [
        (3, 3, 0, ""),
        (3, 2, 0, "2 hold it, 0 peers were lost"),
        (3, 2, 1, ""),
        (3, 1, 1, "1 hold it, 1 peers were lost"),
        (2, 3, 0, "in peace there should be 3"),
        (1, 2, 0, "in peace there should be 3"),
    ],
)
def test_R1_an_owner_is_told_the_truth_about_copies(
    told: int, held: int, lost: int, wrong: str, *, fault: bool
) -> None:
    """Also under faults nobody may be told of too many; only in peace of too few."""
    one = Checked()
    spare = [node for node in one.mesh.world.nodes if node not in (*one.keepers, one.owner)]
    for keeper in one.keepers[held:]:
        one.drop(keeper)
    for node in spare[:lost]:
        one.checker._downs[node] = one.mesh.world.now
    if fault:
        one.mesh.world.disturb("weather")
    question = Asked(99, Publish((one.record,)))
    one.checker.after_event(one.owner, question, [])
    if wrong and not (fault and "peace" in wrong):
        with pytest.raises(Violation, match=f"R1: .* was told of {told} copies of .*; {wrong}"):
            one.checker.after_event(one.owner, question, [Answer(99, Published(1, 0, told))])
    else:
        one.checker.after_event(one.owner, question, [Answer(99, Published(1, 0, told))])


def test_R1_what_the_keeper_lacks_when_liveness_is_due_is_found() -> None:
    one = Checked()
    one.drop(one.keepers[1])
    with pytest.raises(Failed, match=f"R1: {one.keepers[1].name} does not hold"):
        one.mesh.world.settle()


# --- D1 -----------------------------------------------------------------------------------------


def _forever(one: Checked) -> None:
    """The owner has ended, and keepers do not let go."""
    one.mesh.crash(one.owner)
    for node in one.keepers:
        one.mesh.machine(node).keeper.shelf.entries[one.ident].until = 1 << 62


def _never_withdrawn(one: Checked) -> None:
    """A withdrawal is answered, and nobody has heard of it."""
    life = one.checker._life(one.owner)
    assert life is not None
    life.records[one.ident].published = False
    life.records[one.ident].withdrawn = one.mesh.world.now


@pytest.mark.parametrize("how", [_forever, _never_withdrawn])
def test_D1_what_is_held_for_too_long_is_found(how: Callable[[Checked], None]) -> None:
    one = Checked()
    config = replace(one.mesh.config, lease=20 * SECOND)
    one.checker.config = config
    how(one)
    with pytest.raises(Failed, match=r"D1: .* still holds 'aes'"):
        one.mesh.run(100)


def test_D1_what_is_found_after_it_was_withdrawn_is_a_violation_in_peace() -> None:
    one = Checked()
    _never_withdrawn(one)
    one.mesh.run(1)
    with pytest.raises(Failed, match=r"D1: .* found 'aes' .*, withdrawn 1 s before"):
        one.mesh.ask(one.owner, Find(AES))


def test_D1_what_never_was_is_found() -> None:
    one = Checked()
    one.checker._lives.clear()
    one.checker.up(one.keepers[0])
    with pytest.raises(Violation, match="which never was"):
        one.checker._judge(
            one.keepers[0],
            AES,
            _question(one, one.keepers[0]),
            Found(AES, (one.record,)),
        )


def test_R1_what_is_found_twice_is_found() -> None:
    one = Checked()
    with pytest.raises(Violation, match=r"found 'aes' .* twice"):
        one.checker._judge(
            one.owner, AES, _question(one, one.owner), Found(AES, (one.record, one.record))
        )


def _question(one: Checked, node: Node) -> Any:
    """A question that was asked just now."""
    one.checker.after_event(node, Asked(98, Find(AES)), [])
    return one.checker._questions[node, 98]


def test_D1_a_peer_that_starts_with_records_is_found() -> None:
    one = Checked()
    build = one.mesh.world._factory

    def haunted(*arguments: Any) -> Any:
        peer = build(*arguments)
        inner = peer.machines["directory"].inner
        (entry,) = one.mesh.machine(one.keepers[0]).keeper.shelf.entries.values()
        inner.keeper.take(entry.item(0), 1 << 62)
        return peer

    one.mesh.world._factory = haunted
    with pytest.raises(Failed, match=r"D1: .* starts with records of an earlier life"):
        one.mesh.start(one.mesh.world.add_host())


# --- D2 and D3 ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("back_alive", "promise"), [(False, "D2"), (True, "D1")])
def test_D2_a_version_that_goes_back_is_found(promise: str, *, back_alive: bool) -> None:
    one = Checked()
    keeper = one.keepers[0]
    entry = one.mesh.machine(keeper).keeper.shelf.entries[one.ident]
    now = one.mesh.world.now
    if back_alive:
        newer = (Version(1, entry.version.counter + 5, entry.version.counter + 5), WITHDRAWN)
    else:
        newer = (Version(1, entry.version.counter + 5, entry.version.since), entry.state)
    here = keeper.local(now)
    for until in (here + one.mesh.config.tombstone_life, here - SECOND):
        one.checker._seen[keeper][one.ident] = (*newer, until)
        with pytest.raises(Violation, match=f"{promise}: "):
            one.checker._check_versions(keeper, Push(0, AES, (entry.item(now),)))


class Ends:
    """A keeper is told twice that a record has ended: by somebody's copy, or by the owner."""

    def __init__(self) -> None:
        self.one = Checked()
        self.keeper = self.one.keepers[0]
        self.one.drop(self.keeper)
        del self.one.checker._seen[self.keeper][self.one.ident]

    @property
    def life(self) -> int:
        return self.one.mesh.config.tombstone_life

    def told(self, counter: int, left: int, kind: Any = Push, state: int = WITHDRAWN) -> None:
        """It holds what a message says."""
        one, here = self.one, self.keeper.local(self.one.mesh.world.now)
        item = Item(one.record, Version(one.record.owner.incarnation, counter, 26), state, left)
        one.drop(self.keeper)
        one.mesh.machine(self.keeper).keeper.take(item, here + left)
        message = Store(7, (item,)) if kind is Store else Push(7, AES, (item,))
        one.checker._check_versions(self.keeper, message)


@pytest.mark.parametrize("whose", ["its own", "another"])
def test_D2_an_end_is_remembered_by_the_clock_of_its_keeper(whose: str) -> None:
    """It leaps, and the keeper forgets before others, who tell it of an older end."""
    ends = Ends()
    world = ends.one.mesh.world
    ends.told(62, 0, Store)
    world.leap(ends.keeper if whose == "its own" else ends.one.keepers[1], ends.life)
    if whose == "its own":
        ends.told(31, SECOND)
        with pytest.raises(Violation, match=r"D1: .* back"):
            ends.told(31, SECOND, state=LIVE)
    else:
        with pytest.raises(Violation, match="D2: "):
            ends.told(31, SECOND)


@pytest.mark.parametrize(("kind", "left", "short"), [(Push, 1, 0), (Push, 30, 2), (Store, 0, 2)])
def test_D2_a_copy_of_an_end_is_remembered_as_long_as_it_says(
    kind: Any, left: int, short: int
) -> None:
    """What its owner itself withdraws, for the whole time."""
    ends = Ends()
    ends.told(62, left * SECOND, kind)
    span = ends.life if kind is Store else left * SECOND
    ends.one.mesh.world.leap(ends.keeper, span - short * SECOND)
    if short:
        with pytest.raises(Violation, match="D2: "):
            ends.told(31, SECOND)
    else:
        ends.told(31, SECOND)


@pytest.mark.parametrize("ago", [0, 2])
def test_D2_an_owner_that_stood_still_renews_what_had_run_out(ago: int) -> None:
    """With the same version, once the end is forgotten; nobody else may, and not before."""
    one = Checked()
    keeper = one.keepers[0]
    entry = one.mesh.machine(keeper).keeper.shelf.entries[one.ident]
    until = keeper.local(one.mesh.world.now) + (1 - ago) * one.mesh.config.tombstone_life
    one.checker._seen[keeper][one.ident] = (entry.version, EXPIRED, until)
    items = Push(0, AES, (entry.item(one.mesh.world.now),))
    if ago:
        one.checker._check_versions(keeper, items)
        one.checker._lives[one.owner.contact.name, one.owner.contact.incarnation].ended = 1
    with pytest.raises(Violation, match="D1: "):
        one.checker._check_versions(keeper, items)


def test_R1_the_records_of_an_owner_that_stands_still_may_run_out() -> None:
    """After a short pause they must be there; after a long one they have ended."""
    one = Checked(lease=80 * SECOND)
    one.mesh.run(5)
    truth = next(truth for _, ident, truth in one.checker._records() if ident == one.ident)
    one.mesh.world.pause(one.owner)
    one.mesh.run(10)
    assert truth.holders
    one.mesh.run(80)
    assert not truth.holders


def test_D3_a_question_without_an_answer_is_found() -> None:
    one = Checked()
    one.checker.after_event(one.owner, Asked(97, Find(AES)), [])
    limit = (one.mesh.config.question_timeout) / SECOND
    one.mesh.run(limit)
    with pytest.raises(Failed, match=r"D3: .* has not answered Find \(97\)"):
        one.mesh.run(5)


def test_D3_who_stands_still_is_not_expected_to_answer() -> None:
    one = Checked()
    one.checker.after_event(one.owner, Asked(97, Find(AES)), [])
    one.mesh.world.pause(one.owner)
    one.mesh.run(60)
    one.checker._questions.clear()


def test_D3_what_is_open_at_the_end_is_found() -> None:
    one = Checked()
    one.checker.after_event(one.owner, Asked(97, Find(AES)), [])
    with pytest.raises(Failed, match="by the end"):
        one.mesh.world.finish()


def test_what_belongs_to_a_life_ends_with_it() -> None:
    one = Checked()
    one.checker.after_event(one.owner, Asked(97, Find(AES)), [])
    one.mesh.crash(one.owner)
    assert one.checker._questions == {}
    one.mesh.run(40)
