"""The desk: what commands do and answer, and what becomes of turns. Nothing here needs Spark."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from shoal.dataplane import commands as c
from shoal.dataplane.reports import (
    Failed,
    FencedOff,
    Report,
    Served,
    StepDone,
    Suspended,
)
from shoal.dataplane.rows import FOREVER
from shoal.dataplane.scheduler import BACKOFF_FIRST, BACKOFF_MOST
from shoal.kernel.errors import Fenced, LocalError
from shoal.kernel.time import SECOND
from shoal.log.root import Root
from shoal.log.writer import Writer
from shoal.spark.desk import Desk
from shoal.spark.outcome import StepFailed, StepOutcome
from shoal.spark.select.bisect import Guilty
from shoal.spark.select.step import SelectWork
from shoal.spark.turns import (
    BisectTurn,
    Finished,
    HousekeepTurn,
    IngestTurn,
    SelectTurn,
    TogetherTurn,
    Turn,
)
from tests.unit.spark.small import EQUAL, INPUT, STREAM, Stream, row, spec

NAME = spec().instance
UNSTORED = replace(STREAM, store=False)


class Office:
    """A desk, its clock, and workers whose steps find nothing."""

    def __init__(self, root: Root, commits: ThreadPoolExecutor) -> None:
        self.root = root
        self.reports: list[Report] = []
        self.now = 1000 * SECOND
        self.desk = Desk(
            cast("Any", None), root, owner="peer-1", commits=commits, report=self.reports.append
        )

    def ask(self, command: c.Command) -> "Future[Any]":
        answer: Future[Any] = Future()
        self.desk.ask(command, answer, self.now)
        return answer

    def call(self, command: c.Command) -> Any:
        return self.ask(command).result(timeout=0)

    def start(self, component: c.Component) -> Any:
        return self.call(c.Start(component=component, weight=1.0))

    def add(self, *queries: str, begin: int | None = None) -> Any:
        rows = tuple(row(query, 1.0) for query in queries)
        return self.call(c.AddRows(instance=NAME, rows=rows, begin=begin))

    def turn(self) -> Turn | None:
        """The next turn, a little later than the last."""
        self.now += SECOND // 10
        work = self.desk.next_work(self.now)
        return None if work is None else cast("Turn", cast("partial[Any]", work).func)

    def end(self, turn: Turn, outcomes: Sequence[Any]) -> None:
        self.desk.finished(Finished(turn=turn, outcomes=tuple(outcomes)), self.now)

    def step(self) -> SelectTurn:
        """One step of selects, well done."""
        turn = self.turn()
        assert isinstance(turn, SelectTurn)
        self.end(turn, [committed(work) for work in turn.works])
        return turn

    def fail(self, *, reason: str = "[CAST] no") -> Turn:
        """One turn that comes to nothing, its back-off over."""
        turn = self.turn()
        assert turn is not None
        failed = [
            StepFailed(instance=name, phase="job", cause=ValueError(reason))
            for name in turn.instances
        ]
        self.end(turn, failed)
        self.now += BACKOFF_MOST
        return turn

    def view(self, instance: str = NAME) -> Any:
        found = self.desk.view(self.now, threads=1).components
        return next((view for view in found if view.instance == instance), None)

    def told(self, kind: type[Report]) -> list[Any]:
        return [report for report in self.reports if isinstance(report, kind)]


def committed(work: SelectWork, **transactions: int) -> StepOutcome:
    """A step that found nothing."""
    commit = work.writer.commit(
        step=work.writer.step + 1,
        segments=[],
        transactions={**work.transactions, **transactions},
    )
    return StepOutcome(
        instance=work.instance,
        commit=commit,
        rows_in=1,
        rows_out=0,
        roster_rows=len(work.rows),
        roster_version=work.roster_version,
        busy=0.1,
    )


@pytest.fixture
def office(root: Path) -> Iterator[Office]:
    with ThreadPoolExecutor(1) as commits:
        office = Office(Root.open(root), commits)
        yield office
        office.desk.close()


@pytest.fixture
def stream(office: Office) -> Stream:
    """A stream that somebody else ingests, and a select of it here."""
    stream = Stream(office.root)
    office.start(spec())
    return stream


# Commands


def test_started_once(office: Office, stream: Stream) -> None:
    assert (office.view().epoch, office.view().step) == (1, 1)
    with pytest.raises(LocalError, match="runs here already"):
        office.start(spec())


def test_started_again_with_its_rows(office: Office, stream: Stream) -> None:
    """Whoever starts a component learns which queries it has."""
    office.add("a")
    office.call(c.Stop(instance=NAME))
    assert office.view() is None
    answer = office.start(spec())
    assert [r.query for r in answer["rows"]] == ["a"]
    assert answer["epoch"] == 2


def test_taken_over_only_if_there_is_something(office: Office, stream: Stream) -> None:
    with pytest.raises(LocalError, match="has no table"):
        office.call(c.TakeOver(component=spec(EQUAL), weight=1.0))
    office.call(c.Stop(instance=NAME))
    assert office.call(c.TakeOver(component=spec(), weight=1.0))["epoch"] == 2


def test_what_is_not_known_is_refused(office: Office) -> None:
    """An answer, never an end of the engine."""
    with pytest.raises(LocalError, match="not known to the engine"):
        office.call(cast("Any", "sing"))
    with pytest.raises(LocalError, match="does not run here"):
        office.call(c.Stop(instance="nobody"))
    with pytest.raises(LocalError, match="does not run here as a select"):
        office.call(c.SetKeep(instance="nobody", query="a", keep=0.5))


def test_a_component_stops_when_its_step_has_ended(office: Office, stream: Stream) -> None:
    """However busy it is: before its next turn."""
    stream.commit([(1, 1, 1.0)])
    turn = office.turn()
    assert turn is not None
    stopping = office.ask(c.Stop(instance=NAME))
    assert not stopping.done()
    assert office.view() is not None
    office.end(turn, [])
    assert stopping.result(timeout=0) == {}
    assert office.view() is None


def test_rows_count_from_the_greatest_event_time_consumed(office: Office, stream: Stream) -> None:
    stream.commit([(7, 1, 1.0)])
    office.step()
    answer = office.add("a")
    assert answer["start"] == 7 * SECOND
    assert answer["roster"] == office.view().roster_version


def test_dropped_rows_say_how_long_they_count(office: Office, stream: Stream) -> None:
    stream.commit([(7, 1, 1.0)])
    office.step()
    office.add("a", "b")
    soon = office.call(c.DropRow(instance=NAME, query="a", now=False))
    assert soon == {"until": 7 * SECOND, "cut": FOREVER}
    now = office.call(c.DropRow(instance=NAME, query="b", now=True))
    assert now == {"until": 7 * SECOND, "cut": 1}


def test_a_row_that_moves_leaves_no_gap(office: Office, stream: Stream) -> None:
    """The old one counts up to the instant from which the new one does: the later of the two."""
    stream.commit([(7, 1, 1.0)])
    office.step()
    office.add("a")
    office.start(spec(EQUAL))
    stream.commit([(9, 1, 1.0)])
    office.desk._floor.feed(INPUT)
    ahead = office.desk._floor.select(spec(EQUAL).instance)
    read = ahead.next_range()
    assert read is not None
    ahead.work(read)
    moved = c.ReplaceRow(source=NAME, target=ahead.instance, row=row("a", 7, version=2))
    assert office.call(moved)["start"] == 9 * SECOND
    (old,) = office.desk._floor.select(NAME).rows()
    (new,) = ahead.rows()
    assert (old.until, new.start) == (9 * SECOND, 9 * SECOND)


def test_a_share_is_set(office: Office, stream: Stream) -> None:
    office.add("a")
    assert office.call(c.SetKeep(instance=NAME, query="a", keep=0.25)) == {"keep": 0.25}


def test_a_weight_is_set(office: Office, stream: Stream) -> None:
    """It is the component's from then on, and its row's for good."""
    office.add("a", "b")
    assert office.call(c.SetWeight(instance=NAME, query="a", weight=3.0)) == {"weight": 3.0}
    assert office.desk._floor.scheduler.turn(NAME).weight == 3.0
    office.call(c.Stop(instance=NAME))
    assert [r.weight for r in office.start(spec())["rows"]] == [3.0, 1.0]
    with pytest.raises(LocalError, match="weighs"):
        office.call(c.SetWeight(instance=NAME, query="a", weight=0.0))


# Steps


def test_a_step_is_reported(office: Office, stream: Stream) -> None:
    stream.commit([(7, 1, 1.0)], wm=4)
    office.step()
    (done,) = office.told(StepDone)
    assert (done.instance, done.positions) == (NAME, {INPUT: 1})
    assert office.view().lag == 0
    assert office.view().watermark == 4 * SECOND
    assert office.desk.view(office.now, threads=3).steps == 1


def test_the_first_step_that_covers_a_row_is_told(office: Office, stream: Stream) -> None:
    """The step in flight does not; two steps ended since the answer."""
    stream.commit([(7, 1, 1.0)])
    turn = office.turn()
    assert isinstance(turn, SelectTurn)
    version = office.add("a")["roster"]
    office.end(turn, [committed(work) for work in turn.works])
    assert office.told(Served) == []
    stream.commit([(8, 1, 1.0)])
    office.step()
    (served,) = office.told(Served)
    assert (served.instance, served.roster_version, served.steps) == (NAME, version, 2)
    stream.commit([(9, 1, 1.0)])
    office.step()
    assert len(office.told(Served)) == 1, "once"


def test_back_fill_moves_no_position(office: Office, stream: Stream) -> None:
    stream.commit([(7, 1, 1.0)])
    office.step()
    office.add("a", begin=0)
    assert office.view().lag == 1
    turn = office.step()
    assert turn.fill is not None
    assert office.view().lag == 0
    assert office.view().positions == {INPUT: 1}


def test_an_announced_commit_is_seen_at_once(office: Office, stream: Stream) -> None:
    office.start(spec(EQUAL))
    assert office.turn() is None
    stream.commit([(7, 1, 1.0)])
    assert office.desk.next_work(office.now) is None, "it was looked for just now"
    office.desk.announced(INPUT)
    assert office.desk.next_work(office.now) is not None


def test_turns_side_by_side_share_the_time(office: Office, stream: Stream) -> None:
    """Each took its tenth of a second; of the peer's time they had one together, not two."""
    stream.commit([(7, 1, 1.0)])
    office.step()
    office.start(spec(EQUAL))
    stream.commit([(8, 1, 1.0)])
    office.add("a", begin=0)
    office.reports.clear()
    turns = [office.turn(), office.turn()]
    assert all(isinstance(turn, SelectTurn) for turn in turns)
    office.now += SECOND
    for turn in turns:
        assert isinstance(turn, SelectTurn)
        office.end(turn, [replace(committed(w), seconds={"job": 0.1}) for w in turn.works])
    first, second = office.told(StepDone)
    assert first.busy == pytest.approx(0.1 * (0.1 + 0.5) / 1.1), "a tenth of a second alone"
    assert second.busy == pytest.approx(0.05)
    assert dict(second.seconds) == {"job": pytest.approx(0.05)}


def test_care_is_in_the_cost_of_its_component(office: Office, stream: Stream) -> None:
    stream.commit([(7, 1, 1.0)])
    office.step()
    office.desk._floor.uncared[NAME] = 1000
    turn = office.turn()
    assert isinstance(turn, HousekeepTurn)
    office.desk.finished(Finished(turn=turn, outcomes=(), cared=0.5), office.now)
    assert office.view().cost["care"] == 0.0, "it counts with the next steps"
    stream.commit([(8, 1, 1.0)])
    office.step()
    assert office.view().cost["care"] == pytest.approx(0.25)


# Failures


def test_a_failure_is_reported_and_seen(office: Office, stream: Stream) -> None:
    stream.commit([(7, 1, 1.0)])
    office.fail()
    (failed,) = office.told(Failed)
    assert (failed.attempts, failed.reason) == (1, "job: [CAST] no")
    assert failed.retry_at == office.now - BACKOFF_MOST + BACKOFF_FIRST
    view = office.view()
    assert (view.state, view.failures, view.reason) == ("failing", 1, "job: [CAST] no")
    office.step()
    assert (office.view().state, office.view().reason) == ("waiting", "")


def test_a_guilty_row_is_suspended_and_the_rest_goes_on(office: Office, stream: Stream) -> None:
    office.add("good", "bad")
    stream.commit([(7, 1, 1.0)])
    while isinstance(office.fail(), SelectTurn):
        pass
    turn = office.turn()
    assert isinstance(turn, BisectTurn), "asked again after a bisection that failed too"
    guilty = [r for r in turn.work.rows if r.query == "bad"]
    office.end(turn, [Guilty(instance=NAME, rows=tuple(guilty), reasons=("no",), trials=4)])
    (told,) = office.told(Suspended)
    assert (told.instance, told.query, told.version, told.reason) == (NAME, "bad", 1, "no")
    assert [r.query for r in office.step().works[0].rows] == ["good"]


def test_nobody_is_guilty_when_the_machine_is_ill(office: Office, stream: Stream) -> None:
    office.add("a")
    stream.commit([(7, 1, 1.0)])
    while isinstance(office.fail(), SelectTurn):
        pass
    before = office.view().failures
    turn = office.turn()
    assert turn is not None
    office.end(turn, [Guilty(instance=NAME, rows=(), reasons=(), trials=1)])
    assert office.told(Suspended) == []
    assert office.view().failures == before + 1
    assert office.turn() is None, "it backs off"


def test_a_back_fill_that_always_fails_is_looked_into(office: Office, stream: Stream) -> None:
    """Though the live steps between its attempts go well."""
    stream.commit([(7, 1, 1.0)])
    office.step()
    office.add("bad", begin=0)
    turn: Turn | None = None
    for second in range(8, 20):
        stream.commit([(second, 1, 1.0)])
        turn = office.turn()
        if isinstance(turn, BisectTurn):
            break
        assert isinstance(turn, SelectTurn)
        if turn.fill is None:
            office.end(turn, [committed(work) for work in turn.works])
            continue
        failed = StepFailed(instance=NAME, phase="job", cause=ValueError("no"))
        office.end(turn, [failed])
        office.now += BACKOFF_MOST
    assert isinstance(turn, BisectTurn)
    assert turn.fill is not None
    office.end(turn, [Guilty(instance=NAME, rows=turn.work.rows, reasons=("no",), trials=2)])
    assert [told.query for told in office.told(Suspended)] == ["bad"]
    office.step()
    assert office.view().lag == 0


def test_whoever_was_fenced_stops_here(office: Office, stream: Stream) -> None:
    stream.commit([(7, 1, 1.0)])
    turn = office.turn()
    assert turn is not None
    fenced = StepFailed(instance=NAME, phase="commit", cause=Fenced("gone"), fenced=True)
    office.end(turn, [fenced])
    assert [told.instance for told in office.told(FencedOff)] == [NAME]
    assert office.view() is None
    assert office.turn() is None


def test_whoever_is_fenced_while_caring_stops_too(office: Office, stream: Stream) -> None:
    """Another owner has come; there is nothing to try again."""
    office.desk._floor.uncared[NAME] = 1000
    turn = office.turn()
    assert isinstance(turn, HousekeepTurn)
    Writer.take_over(office.root, NAME, owner="peer-2")
    with pytest.raises(Fenced):
        turn.cares[0].writer.commit(step=2, segments=[], transactions={})
    office.end(turn, turn(office.desk._bench).outcomes)
    assert [told.instance for told in office.told(FencedOff)] == [NAME]


# Ingest


def test_an_ingest_without_data_is_asked_less_and_less(office: Office) -> None:
    """Until somebody says that there is something."""
    office.start(c.Ingest(instance=INPUT, stream=STREAM))
    waits = []
    for _ in range(8):
        turn = office.turn()
        assert isinstance(turn, IngestTurn)
        office.end(turn, turn(office.desk._bench).outcomes)
        due = office.desk.next_due(office.now)
        assert due is not None
        waits.append(due - office.now)
        office.now = due
    assert waits == sorted(waits)
    assert waits[-1] > waits[0]
    office.desk._floor.parts[INPUT].look_at = FOREVER  # type: ignore[union-attr]
    assert office.turn() is None
    office.desk.announced(INPUT)
    assert isinstance(office.turn(), IngestTurn)


def test_lagging_is_who_has_not_answered(office: Office) -> None:
    """An ingest that has looked since, and a select that has read it all."""
    asked = office.now
    office.start(c.Ingest(instance=INPUT, stream=STREAM))
    office.start(spec())
    lagging = office.desk.lagging(asked, office.now)
    assert lagging is not None
    assert lagging.instance == INPUT
    turn = office.turn()
    assert isinstance(turn, IngestTurn)
    office.end(turn, turn(office.desk._bench).outcomes)
    lagging = office.desk.lagging(asked, office.now)
    assert lagging is None or lagging.instance == NAME


def test_what_is_asked_during_a_joint_step_waits(office: Office) -> None:
    """Where the select will stand is known only when the step is done."""
    office.start(c.Ingest(instance=INPUT, stream=UNSTORED))
    office.start(replace(spec(), stream=UNSTORED))
    while not isinstance(turn := office.turn(), TogetherTurn):
        assert isinstance(turn, SelectTurn)
        office.end(turn, [committed(work) for work in turn.works])
    rows = (row("a", 1.0),)
    added = office.ask(c.AddRows(instance=NAME, rows=rows, begin=None))
    moved = office.ask(c.ReplaceRow(source=NAME, target=NAME, row=row("a", 2.0, version=2)))
    assert not added.done()
    assert not moved.done()
    assert office.ask(c.SetKeep(instance="nobody", query="a", keep=0.5)).done(), "it need not wait"
    (work,) = turn.works
    ingest = turn.ingest
    facts = {"rows": 1, "evmax": 9 * SECOND, "in/source": 1}
    step = ingest.writer.step + 1
    indexed = StepOutcome(
        instance=INPUT,
        commit=ingest.writer.commit(step=step, segments=[], transactions=facts),
        rows_in=1,
        rows_out=1,
    )
    office.end(turn, [indexed, committed(work, **{f"in/{INPUT}": step, "evmax": 9 * SECOND})])
    assert added.result(timeout=0)["start"] == 9 * SECOND
    assert moved.result(timeout=0)["start"] == 9 * SECOND
    assert office.view().lag == 0


def test_whoever_still_waits_at_the_end_is_told(office: Office) -> None:
    office.start(c.Ingest(instance=INPUT, stream=UNSTORED))
    office.start(replace(spec(), stream=UNSTORED))
    while not isinstance(turn := office.turn(), TogetherTurn):
        assert isinstance(turn, SelectTurn)
        office.end(turn, [committed(work) for work in turn.works])
    added = office.ask(c.AddRows(instance=NAME, rows=(row("a", 1.0),), begin=None))
    office.desk.abandon()
    with pytest.raises(LocalError, match="has stopped"):
        added.result(timeout=0)
