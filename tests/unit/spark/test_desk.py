"""The desk: what commands do and answer, and what becomes of turns. Nothing here needs Spark."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from shoal.dataplane import commands as c
from shoal.dataplane.reports import (
    Failed,
    FencedOff,
    Served,
    StepDone,
    Suspended,
)
from shoal.dataplane.rows import FOREVER
from shoal.dataplane.scheduler import BACKOFF_FIRST, BACKOFF_MOST
from shoal.kernel.errors import Fenced, LocalError, UserError
from shoal.kernel.time import SECOND
from shoal.log.root import Root
from shoal.log.writer import Writer
from shoal.spark.outcome import StepFailed, StepOutcome
from shoal.spark.select.bisect import Guilty
from shoal.spark.turns import (
    BisectTurn,
    Finished,
    HousekeepTurn,
    IngestTurn,
    PanesTurn,
    RollUpTurn,
    SelectTurn,
    TogetherTurn,
    Turn,
)
from tests.unit.spark.office import NAME, Office, committed, made
from tests.unit.spark.small import EQUAL, INPUT, STREAM, Stream, row, spec
from tests.unit.spark.windows import world

UNSTORED = replace(STREAM, store=False)


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


# Windows


def test_windows_from_tuples_to_served(office: Office) -> None:
    """Panes and a roll-up start, rows join, a commit goes all the way, and history is filled."""
    stream = Stream(office.root)
    office.start(world.panes_spec())
    rolls = world.roll_up_spec(world.PLAIN)
    office.start(rolls)
    named = rolls.instance
    asked = c.AddRows(instance=named, rows=(world.row("a", world.window(10)),), begin=None)
    assert office.call(asked)["start"] < 0
    stream.commit([(36, 1, 1.0)], wm=31)
    lagging = office.desk.lagging(0, office.now)
    assert lagging is None, "nobody has told yet"
    office.desk.announced(INPUT)
    kinds = []
    while (turn := office.turn()) is not None:
        kinds.append(type(turn).__name__)
        lagging = office.desk.lagging(0, office.now)
        assert lagging is not None
        office.end(turn, [made(turn)])
    assert kinds == ["PanesTurn", "RollUpTurn"]
    assert office.desk.lagging(0, office.now) is None
    (served,) = office.told(Served)
    assert served.instance == named
    past = c.AddRows(instance=named, rows=(world.row("b", world.window(10)),), begin=5 * SECOND)
    assert office.call(past)["start"] == 5 * SECOND
    turn = office.turn()
    assert isinstance(turn, RollUpTurn)
    assert turn.fill is not None
    office.end(turn, [made(turn)])
    assert office.turn() is None
    assert office.view(named).lag == 0


def test_a_roll_up_that_fails_tries_again(office: Office) -> None:
    """Its history counts by itself."""
    stream = Stream(office.root)
    office.start(world.panes_spec())
    rolls = world.roll_up_spec(world.PLAIN)
    office.start(rolls)
    stream.commit([(36, 1, 1.0)], wm=31)
    office.desk.announced(INPUT)
    turn = office.turn()
    assert isinstance(turn, PanesTurn)
    failed = StepFailed(instance=turn.instances[0], phase="job", cause=ValueError("no"))
    office.end(turn, [failed])
    office.now += BACKOFF_MOST
    turn = office.turn()
    assert turn is not None
    office.end(turn, [made(turn)])
    while (turn := office.turn()) is not None:
        office.end(turn, [made(turn)])
    past = c.AddRows(
        instance=rolls.instance, rows=(world.row("b", world.window(10)),), begin=5 * SECOND
    )
    office.call(past)
    component = office.desk._floor.select(rolls.instance)
    office.fail()
    assert component.fill_failures == 1
    turn = office.turn()
    assert isinstance(turn, RollUpTurn)
    office.end(turn, [made(turn)])
    assert (component.fill_failures, component.filling) == (0, False)
    share = c.SetKeep(instance=rolls.instance, query="b", keep=0.5)
    with pytest.raises(UserError, match="share of the tuples"):
        office.call(share)
