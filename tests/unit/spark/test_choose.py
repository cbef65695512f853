"""The choice of the next turn: who goes together, who goes alone, and when tables are cared for."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from shoal.dataplane import commands as c
from shoal.dataplane.progress import Progress
from shoal.dataplane.reports import Report
from shoal.dataplane.scheduler import ATTEMPTS_BEFORE_BISECTION
from shoal.kernel.errors import StorageError
from shoal.kernel.time import SECOND
from shoal.log.leases import Leases
from shoal.log.root import Root
from shoal.query.selection import Signature
from shoal.spark import choose
from shoal.spark.bench import Bench
from shoal.spark.choose import CARE_AFTER, CARE_LATEST, Chooser
from shoal.spark.deliver.crew import Crew
from shoal.spark.floor import Floor
from shoal.spark.ingest.component import IngestComponent, open_ingest
from shoal.spark.outcome import StepFailed
from shoal.spark.select.bisect import Guilty
from shoal.spark.select.component import SelectComponent, open_select
from shoal.spark.turns import (
    BisectTurn,
    HousekeepTurn,
    IngestTurn,
    SelectTurn,
    TogetherTurn,
    Turn,
    UnreadTurn,
)
from tests.unit.spark.small import ABOVE, EQUAL, INPUT, RATIO, STREAM, Stream, row, spec

NOW = 100 * SECOND


class Peer:
    """A floor, and the chooser of what is to be done on it."""

    def __init__(self, root: Root) -> None:
        self.told: list[Report] = []
        self.floor = Floor(root, owner="peer-1", report=self.told.append)
        self.crew = Crew(
            root,
            self.floor.scheduler,
            Progress(),
            feed_of=self.floor.feed,
            report=lambda _: None,
        )
        self.chooser = Chooser(self.floor, self.crew)

    def select(
        self, selection: Signature = ABOVE, *, store: bool = True, retain: int = 0
    ) -> SelectComponent:
        stream = replace(STREAM, store=store, retain=retain)
        wanted = replace(spec(selection), stream=stream)
        part = open_select(
            self.floor.root, wanted, self.floor.feed(INPUT), owner="peer-1", weight=1.0
        )
        self.floor.add(part)
        return part

    def ingest(self, *, store: bool, retain: int = 0) -> IngestComponent:
        stream = replace(STREAM, store=store, retain=retain)
        wanted = c.Ingest(instance=INPUT, stream=stream)
        part = open_ingest(self.floor.root, wanted, owner="peer-1", weight=1.0, now=NOW)
        self.floor.add(part)
        return part

    def next(self, now: int = NOW) -> Turn | None:
        return self.chooser.next_turn(now)

    def over(self, turn: Turn) -> None:
        """The turn has ended, whatever came of it."""
        for instance in turn.instances:
            self.floor.parts[instance].running = False
            self.floor.scheduler.idle(instance)

    def fail(self, part: SelectComponent, times: int = 1) -> None:
        for _ in range(times):
            self.floor.scheduler.failed(part.instance, NOW - 60 * SECOND)


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
