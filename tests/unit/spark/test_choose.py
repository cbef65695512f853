"""The choice of the next turn: who goes together, who goes alone, and when tables are cared for."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from shoal.dataplane.scheduler import ATTEMPTS_BEFORE_BISECTION
from shoal.kernel.errors import StorageError
from shoal.kernel.time import SECOND
from shoal.log.leases import Leases
from shoal.log.root import Root
from shoal.spark import choose
from shoal.spark.bench import Bench
from shoal.spark.choose import CARE_AFTER, CARE_LATEST
from shoal.spark.outcome import StepFailed
from shoal.spark.select.bisect import Guilty
from shoal.spark.turns import (
    BisectTurn,
    CoarserTurn,
    HousekeepTurn,
    IngestTurn,
    PanesTurn,
    RollUpTurn,
    SelectTurn,
    TogetherTurn,
    UnreadTurn,
)
from shoal.spark.windows.panes import open_panes
from tests.unit.spark.peer import NOW, Peer
from tests.unit.spark.small import ABOVE, EQUAL, INPUT, RATIO, STREAM, Stream, row
from tests.unit.spark.windows import world


@pytest.fixture
def peer(root: Path) -> Iterator[Peer]:
    peer = Peer(Root.open(root))
    yield peer
    peer.crew.close()


@pytest.fixture
def stream(peer: Peer) -> Stream:
    """A stream that somebody else ingests."""
    return Stream(peer.floor.root)


def test_nothing_to_do(peer: Peer, stream: Stream) -> None:
    assert peer.next() is None
    assert peer.chooser.next_due(NOW) is None
    peer.select()
    assert peer.next() is None, "it has read everything"


def test_selects_at_the_same_place_go_together(peer: Peer, stream: Stream) -> None:
    """And each is at work then: it has one step in flight at most."""
    names = sorted(peer.select(some).instance for some in (ABOVE, EQUAL, RATIO))
    stream.commit([(1, 1, 1.0)])
    turn = peer.next()
    assert isinstance(turn, SelectTurn)
    assert sorted(turn.instances) == names
    assert tuple(work.instance for work in turn.works) == turn.instances
    assert (turn.read.after, turn.read.upto, turn.fill) == (0, 1, None)
    assert all(part.running for part in peer.floor.parts.values())
    stream.commit([(2, 1, 1.0)])
    assert peer.next(NOW + SECOND) is None


def test_a_group_is_bounded(peer: Peer, stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "GROUP_MOST", 2)
    for some in (ABOVE, EQUAL, RATIO):
        peer.select(some)
    stream.commit([(1, 1, 1.0)])
    first, second = peer.next(), peer.next()
    assert first is not None
    assert second is not None
    assert [len(first.instances), len(second.instances)] == [2, 1]


def test_who_stands_elsewhere_goes_by_itself(peer: Peer, stream: Stream) -> None:
    first = peer.select(ABOVE)
    stream.commit([(1, 1, 1.0)])
    second = peer.select(EQUAL)
    stream.commit([(2, 1, 1.0)])
    turns = [peer.next(), peer.next()]
    found = {turn.instances: turn.read.after for turn in turns if isinstance(turn, SelectTurn)}
    assert found == {(first.instance,): 0, (second.instance,): 1}


def test_who_failed_goes_alone_and_holds_nobody_up(peer: Peer, stream: Stream) -> None:
    ill = peer.select(ABOVE)
    well = [peer.select(EQUAL).instance, peer.select(RATIO).instance]
    stream.commit([(1, 1, 1.0)])
    peer.fail(ill)
    turns = [peer.next(), peer.next()]
    groups = [sorted(turn.instances) for turn in turns if turn is not None]
    assert sorted(groups) == sorted([[ill.instance], sorted(well)])


def test_who_backs_off_is_left_alone_until_its_time(peer: Peer, stream: Stream) -> None:
    ill = peer.select(ABOVE)
    stream.commit([(1, 1, 1.0)])
    retry = peer.floor.scheduler.failed(ill.instance, NOW).retry_at
    assert peer.next() is None
    assert peer.chooser.next_due(NOW) == retry
    assert peer.next(retry) is not None


def test_rows_are_suspected_after_some_failures(peer: Peer, stream: Stream) -> None:
    ill = peer.select(ABOVE)
    ill.add([row("a", 1.0)], None)
    stream.commit([(1, 1, 1.0)])
    peer.fail(ill, ATTEMPTS_BEFORE_BISECTION - 1)
    turn = peer.next()
    assert isinstance(turn, SelectTurn)
    peer.over(turn)
    peer.fail(ill)
    turn = peer.next()
    assert isinstance(turn, BisectTurn)
    assert [r.query for r in turn.work.rows] == ["a"]


def test_back_fill_and_live_steps_take_turns(peer: Peer, stream: Stream) -> None:
    """A back-fill is a step of its own, for its row alone."""
    stream.commit([(1, 1, 1.0)])
    part = peer.select()
    part.add([row("old", 1.0), row("new", 1.0)], None)
    part.add([row("back", 1.0)], 0)
    stream.commit([(2, 1, 1.0)])
    kinds = []
    for _ in range(4):
        turn = peer.next()
        assert isinstance(turn, SelectTurn)
        kinds.append(turn.fill is not None)
        if turn.fill is not None:
            assert [r.query for r in turn.works[0].rows] == ["back"]
        peer.over(turn)
    assert sorted(kinds) == [False, False, True, True]


def test_a_back_fill_that_fails_is_looked_into(peer: Peer, stream: Stream) -> None:
    stream.commit([(1, 1, 1.0)])
    part = peer.select()
    part.add([row("back", 1.0)], 0)
    part.fill_failures = ATTEMPTS_BEFORE_BISECTION
    turn = peer.next()
    assert isinstance(turn, BisectTurn)
    assert turn.fill is not None


def test_an_ingest_is_asked_when_its_time_has_come(peer: Peer) -> None:
    part = peer.ingest(store=True)
    part.look_at = NOW + SECOND
    assert peer.next() is None
    assert peer.chooser.next_due(NOW) == NOW + SECOND
    assert isinstance(peer.next(NOW + SECOND), IngestTurn)
    assert peer.chooser.next_due(NOW) is None, "it is at work"


def test_selects_at_the_head_of_a_stream_that_is_not_stored(peer: Peer) -> None:
    """They take part in its step; what is asked of them meanwhile waits for its end."""
    ingest, part = peer.ingest(store=False), peer.select(store=False)
    part.add([row("a", 1.0)], None)
    turn = peer.next()
    assert isinstance(turn, TogetherTurn)
    assert turn.instances == (ingest.instance, part.instance)
    assert [r.query for r in turn.works[0].rows] == ["a"]
    assert list(peer.floor.undecided) == [part.instance]


def test_a_stored_stream_waits_for_nobody(peer: Peer) -> None:
    ingest = peer.ingest(store=True)
    peer.select()
    turn = peer.next()
    assert isinstance(turn, IngestTurn)
    assert turn.instances == (ingest.instance,)
    assert peer.floor.undecided == {}


def test_a_reader_first_comes_to_the_head(peer: Peer) -> None:
    """Else its tuples would have to be read from the source a second time."""
    ingest, part = peer.ingest(store=False), peer.select(store=False)
    ingest.writer.commit(step=ingest.writer.step + 1, segments=[], transactions={"rows": 0})
    peer.floor.feed(INPUT)
    turn = peer.next()
    assert isinstance(turn, SelectTurn)
    assert peer.next() is None, "the ingest waits while its reader is at work"
    part.position = ingest.writer.step
    peer.over(turn)
    assert isinstance(peer.next(), TogetherTurn)


def test_tables_are_cared_for_when_nothing_else_is_to_do(peer: Peer, stream: Stream) -> None:
    part = peer.select()
    peer.floor.uncared[part.instance] = CARE_AFTER - 1
    assert peer.next() is None
    peer.floor.uncared[part.instance] = CARE_AFTER
    stream.commit([(1, 1, 1.0)])
    turn = peer.next(NOW + SECOND)
    assert isinstance(turn, SelectTurn), "tuples first"
    peer.over(turn)
    part.position = 1
    turn = peer.next(NOW + SECOND)
    assert isinstance(turn, HousekeepTurn)
    assert turn.instances == (part.instance,)
    peer.over(turn)
    assert peer.next(NOW + SECOND) is None, "once"


def test_tables_are_cared_for_at_the_latest_after_so_many_steps(peer: Peer, stream: Stream) -> None:
    part = peer.select()
    stream.commit([(1, 1, 1.0)])
    peer.floor.uncared[part.instance] = CARE_LATEST
    assert isinstance(peer.next(), HousekeepTurn)


def test_care_leaves_what_a_reader_still_needs(peer: Peer) -> None:
    """A reader here, or elsewhere with a lease; and the dead letters are a table too."""
    ingest, part = peer.ingest(store=True), peer.select()
    part.position = 5
    ingest.look_at = NOW + SECOND
    peer.floor.uncared[ingest.instance] = CARE_AFTER
    turn = peer.next()
    assert isinstance(turn, HousekeepTurn)
    cares = [(care.writer.instance, care.horizon, care.before) for care in turn.cares]
    assert cares == [(INPUT, 5, None), (f"{INPUT}.dead", None, None)], "each has its own readers"
    assert turn.readers == (), "nothing goes"
    peer.over(turn)
    leases = Leases(peer.floor.root.folder("readers", INPUT))
    leases.register("peer-2", position=3, expires=NOW + SECOND)
    letters = Leases(peer.floor.root.folder("readers", f"{INPUT}.dead"))
    letters.register("peer-2", position=2, expires=NOW + SECOND)
    peer.floor.uncared[ingest.instance] = CARE_AFTER
    turn = peer.next()
    assert isinstance(turn, HousekeepTurn)
    assert [care.horizon for care in turn.cares] == [3, 2]


def test_care_lets_go_of_what_a_stream_need_not_keep(peer: Peer) -> None:
    """Tuples and results by the watermark, dead letters by the clock."""
    ingest = peer.ingest(store=True, retain=10 * SECOND)
    part = peer.select(retain=10 * SECOND)
    peer.floor.uncared[ingest.instance] = CARE_AFTER
    ingest.look_at = NOW + SECOND
    turn = peer.next()
    assert isinstance(turn, HousekeepTurn)
    assert [care.before for care in turn.cares] == [None, NOW - 10 * SECOND], "no watermark yet"
    assert turn.readers == (part.instance,)
    assert list(peer.floor.undecided) == [part.instance], "it is not asked for history meanwhile"
    peer.over(turn)
    for writer in (ingest.writer, part.writer):
        writer.commit(step=writer.step + 1, segments=[], transactions={"wm": 50 * SECOND})
    part.position = ingest.writer.step
    for instance in (ingest.instance, part.instance):
        peer.floor.uncared[instance] = CARE_AFTER
        turn = peer.next()
        assert isinstance(turn, HousekeepTurn)
        assert (turn.instances, turn.cares[0].before) == ((instance,), 40 * SECOND)
        peer.over(turn)


def test_history_that_is_gone_is_its_row_s_own_trouble(peer: Peer, stream: Stream) -> None:
    """A lease had run out; the component goes on without the row."""
    for second in (1, 2, 3):
        stream.commit([(second, 1, 1.0)])
    part = peer.select()
    part.add([row("back", 1.0)], 0)
    files = [stream.writer.table.path / path for path in stream.writer.live]
    stream.writer.retain(below_step=3)
    for path in files[:2]:
        path.unlink()
    turn = peer.next()
    assert isinstance(turn, UnreadTurn)
    (found,) = turn(cast("Bench", None)).outcomes
    assert isinstance(found, Guilty)
    assert [one.query for one in found.rows] == ["back"]
    assert "past the horizon" in found.reasons[0]


def test_a_range_that_cannot_be_read_is_a_failure_like_any_other(
    peer: Peer, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = peer.select()
    stream.commit([(1, 1, 1.0)])
    peer.floor.feed(INPUT)

    def fail(*_: object, **__: object) -> None:
        raise StorageError("the disk is gone")

    monkeypatch.setattr(part.feed, "next_range", fail)
    turn = peer.next()
    assert isinstance(turn, UnreadTurn)
    (found,) = turn(cast("Bench", None)).outcomes
    assert isinstance(found, StepFailed)
    assert (found.instance, found.phase, found.reason) == (
        part.instance,
        "plan",
        "the disk is gone",
    )


def test_care_does_not_disturb_a_step(peer: Peer, stream: Stream) -> None:
    part = peer.select()
    part.running = True
    peer.floor.uncared[part.instance] = CARE_LATEST
    assert peer.next() is None


def test_shares_go_by_weight(peer: Peer, stream: Stream) -> None:
    """Whoever used least of what is its due is next."""
    first, second = peer.select(ABOVE), peer.select(EQUAL)
    stream.commit([(1, 1, 1.0)])
    second.position = 0
    for part in (first, second):
        peer.floor.scheduler.turn(part.instance).alone = True
    peer.floor.scheduler.turn(first.instance).passed = 5.0
    turn = peer.next()
    assert turn is not None
    assert turn.instances == (second.instance,)


def test_panes_take_turns_by_themselves(peer: Peer, stream: Stream) -> None:
    """Beside selects of the same range: what they write is another thing."""
    panes, select = peer.panes(), peer.select()
    stream.commit([(1, 1, 1.0)])
    turns = [peer.next(), peer.next(NOW + SECOND)]
    (mine,) = [turn for turn in turns if isinstance(turn, PanesTurn)]
    (other,) = [turn for turn in turns if isinstance(turn, SelectTurn)]
    assert (mine.instances, other.instances) == ((panes.instance,), (select.instance,))
    assert (mine.read.upto, mine.work.grouped) == (1, True)
    assert mine.input is peer.floor.inputs[INPUT]
    assert peer.next(NOW + 2 * SECOND) is None


def test_a_roll_up_waits_for_a_window(peer: Peer, stream: Stream) -> None:
    panes = peer.panes()
    roller = peer.roll_up()
    roller.add([world.row("a", world.window(10))], 3 * SECOND)
    for second in (4, 9):
        peer.mark(panes, second)
        assert peer.next() is None
    assert roller.lag == 0
    peer.mark(panes, 11)
    turn = peer.next()
    assert isinstance(turn, RollUpTurn)
    assert (turn.instances, turn.fill, turn.suspects) == ((roller.instance,), None, False)
    assert (turn.work.due.done, turn.work.due.reached) == (9 * SECOND, 11 * SECOND)
    assert peer.next(NOW + SECOND) is None


def test_a_roll_up_s_history_and_present_take_turns(peer: Peer, stream: Stream) -> None:
    panes = peer.panes()
    peer.mark(panes, 30)
    roller = peer.roll_up()
    roller.add([world.row("a", world.window(10))], 3 * SECOND)
    peer.mark(panes, 50)
    fills = []
    for _ in range(4):
        turn = peer.next()
        assert isinstance(turn, RollUpTurn)
        fills.append(turn.fill is not None)
        peer.over(turn)
    assert fills == [True, False, True, False]


def test_rows_of_a_roll_up_are_suspected(peer: Peer, stream: Stream) -> None:
    """After failures alone, of the present as of history."""
    panes = peer.panes()
    peer.mark(panes, 30)
    roller = peer.roll_up()
    roller.add([world.row("a", world.window(10))], 3 * SECOND)
    roller.fill_failures = ATTEMPTS_BEFORE_BISECTION
    turn = peer.next()
    assert isinstance(turn, RollUpTurn)
    assert (turn.suspects, turn.fill is None) == (True, False)
    peer.over(turn)
    roller.end("a", at=roller.event_time, now=True)
    roller.add([world.row("b", world.window(10))], None)
    peer.mark(panes, 50)
    for _ in range(ATTEMPTS_BEFORE_BISECTION):
        peer.floor.scheduler.failed(roller.instance, NOW - 60 * SECOND)
    turn = peer.next()
    assert isinstance(turn, RollUpTurn)
    assert (turn.suspects, turn.fill is None) == (True, True)


def test_coarser_panes_wait_until_they_are_complete(peer: Peer, stream: Stream) -> None:
    fine = peer.panes()
    coarse = replace(world.PANES, pane=10 * SECOND)
    part = peer.panes(world.panes_spec(coarse, finer=fine.instance))
    part.writer.commit(step=2, segments=[], transactions={"wm": 0})
    part = open_panes(peer.floor.root, part.spec, part.feed, owner="peer-1", weight=1.0)
    peer.floor.parts[part.instance] = part
    peer.mark(fine, 9)
    assert peer.next() is None
    peer.mark(fine, 11)
    turn = peer.next()
    assert isinstance(turn, CoarserTurn)
    assert turn.instances == (part.instance,)


def test_panes_are_kept_for_the_longest_window(peer: Peer, stream: Stream) -> None:
    """Longer than the stream says, as long as somebody needs them."""
    retained = replace(world.panes_spec(), stream=replace(STREAM, retain=20 * SECOND))
    panes = peer.panes(retained)
    peer.mark(panes, 100)
    roller = peer.roll_up(retain=20 * SECOND)
    before = []
    for length in (None, 10, 70):
        if length is not None:
            roller.add([world.row(f"q{length}", world.window(length, 10))], None)
        peer.floor.uncared[panes.instance] = CARE_AFTER
        turn = peer.next()
        assert isinstance(turn, HousekeepTurn)
        before.append(turn.cares[0].before)
        assert turn.readers == (roller.instance,)
        peer.over(turn)
    assert before == [80 * SECOND, 80 * SECOND, 35 * SECOND]


def test_a_lease_holds_panes_that_others_make(peer: Peer, stream: Stream) -> None:
    panes = peer.panes()
    peer.mark(panes, 100)
    roller = peer.roll_up(retain=20 * SECOND)
    roller.add([world.row("a", world.window(70, 10))], None)
    peer.floor.remove(panes.instance)
    peer.next()
    leases = Leases(peer.floor.root.folder("readers", panes.instance))
    (lease,) = leases.list(NOW)
    assert lease.position == 0, "no segment says that it is older"
