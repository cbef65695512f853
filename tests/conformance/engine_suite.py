"""What any engine must do: the contract of dataplane/contract.py as tests.

    class TestMyEngine(EngineSuite):
        @pytest.fixture
        def under(self, ...) -> Iterator[EngineUnderTest]: ...

The suite speaks to an engine by commands and reports alone; the adapter brings tuples in, waits,
and reads results back. A simulated engine passes it as well as Spark's, or one of them is wrong.

The stream is `n BIGINT, ts TIMESTAMP, zone INT, kwh DOUBLE`, lateness 10 seconds; tuple n has the
event time n seconds, zone n % 4 and kwh n. `trap(n, x)` is TRUE, but raises where x is 13. A second
stream makes its own tuples and is not stored.
"""

from dataclasses import replace
from typing import Protocol

import pytest

from shoal.dataplane import commands as c
from shoal.dataplane.contract import Engine
from shoal.dataplane.reports import (
    ComponentView,
    FencedOff,
    Report,
    Served,
    StepDone,
    Suspended,
)
from shoal.dataplane.rows import ALWAYS, FOREVER, RosterRow
from shoal.kernel.errors import LocalError, ShoalError
from shoal.kernel.ids import instance_of
from shoal.query.catalog import SourceDef, StreamDef, parse_schema
from shoal.query.draft import parse_selection
from shoal.query.selection import Selection

__all__ = ["INGEST", "SECOND", "STREAM", "EngineSuite", "EngineUnderTest"]

STREAM = StreamDef(
    name="readings",
    columns=parse_schema("n BIGINT, ts TIMESTAMP, zone INT, kwh DOUBLE"),
    timestamp="ts",
    lateness=10_000_000,
    store=True,
    idle_advances=False,
    source=SourceDef(kind="push", options={}),
)
INGEST = c.Ingest(instance="readings-1", stream=STREAM)
#: Tuples that the stream makes itself; `value` counts them.
TICKS = c.Ingest(
    instance="ticks-1",
    stream=StreamDef(
        name="ticks",
        columns=parse_schema("value BIGINT, ts TIMESTAMP"),
        timestamp="ts",
        lateness=0,
        store=False,
        idle_advances=False,
        source=SourceDef(kind="rate", options={"rows_per_second": "100"}),
    ),
)
SECOND = 1_000_000
TIMEOUT = 60.0
#: An event time, in seconds, that is ahead of any clock.
FAR = 100_000_000_000


class EngineUnderTest(Protocol):
    """An engine on a root of its own, and the world around it."""

    engine: Engine

    def bring(self, *numbers: int) -> None:
        """Give these tuples to the stream's source."""
        ...

    def settle(self, engine: Engine | None = None) -> None:
        """Wait until all that was brought is consumed by all that runs, here or there."""
        ...

    def wait_for(self, kind: type[Report]) -> list[Report]:
        """Wait for a report of this kind; all reports until then."""
        ...

    def results(self, instance: str) -> list[tuple[str, int, int]]:
        """(query, version, n) of everything a select has given, by commits, each in its order.

        Of a stream without `n` it is `value`.
        """
        ...

    def another(self) -> Engine:
        """One more engine on the same root."""
        ...


class EngineSuite:
    """The contract. Subclasses give the fixture `under`."""

    # Help

    def selection(self, under: EngineUnderTest, where: str) -> Selection:
        draft = parse_selection(
            f"SELECT n FROM readings WHERE {where}", STREAM, extra_functions=["trap"]
        )
        answer = under.engine.call(c.Analyze(probe=draft.probe), timeout=TIMEOUT)
        return draft.resolve(answer["cells"])  # type: ignore[arg-type]

    def component(self, found: Selection) -> c.Select:
        return c.Select(
            instance=instance_of("select", found.signature.name),
            input=INGEST.instance,
            stream=STREAM,
            signature=found.signature,
        )

    def row(self, query: str, found: Selection, *, version: int = 1) -> RosterRow:
        return RosterRow(
            query=query, version=version, parameters=found.parameters, columns=found.columns
        )

    def start(self, under: EngineUnderTest, *wheres: str) -> str:
        """The stream and one component; its queries are named a, b, c, ..."""
        if not _view(under.engine, INGEST.instance):
            under.engine.call(c.Start(component=INGEST, weight=1.0), timeout=TIMEOUT)
        found = [self.selection(under, where) for where in wheres]
        component = self.component(found[0])
        under.engine.call(c.Start(component=component, weight=1.0), timeout=TIMEOUT)
        rows = tuple(self.row("abcdefgh"[n], one) for n, one in enumerate(found))
        self.add(under, component.instance, *rows)
        return component.instance

    def add(
        self, under: EngineUnderTest, instance: str, *rows: RosterRow, begin: int | None = None
    ) -> int:
        command = c.AddRows(instance=instance, rows=rows, begin=begin)
        answer = under.engine.call(command, timeout=TIMEOUT)
        start = answer["start"]
        assert isinstance(start, int)
        return start

    # Starting and stopping

    def test_L3_each_owner_has_an_epoch_of_its_own(self, under: EngineUnderTest) -> None:
        """Start creates; stop lets go; take-over goes on with a higher epoch, nothing lost."""
        first = under.engine.call(c.Start(component=INGEST, weight=1.0), timeout=TIMEOUT)
        under.bring(1, 2)
        under.settle()
        step = _view(under.engine, INGEST.instance)[0].step
        self.stop(under, INGEST.instance)
        second = under.engine.call(c.TakeOver(component=INGEST, weight=1.0), timeout=TIMEOUT)
        assert second["epoch"] > first["epoch"]  # type: ignore[operator]
        assert second["step"] == step

    def stop(self, under: EngineUnderTest, instance: str) -> None:
        """Stop, as soon as no step is in the way."""
        for _ in range(1000):
            try:
                under.engine.call(c.Stop(instance=instance), timeout=TIMEOUT)
            except ShoalError:
                under.settle()
                continue
            return
        raise AssertionError("the component never let go")

    def test_what_cannot_be_done_is_refused(self, under: EngineUnderTest) -> None:
        """A caller's mistake is answered, and costs nobody anything."""
        engine = under.engine
        with pytest.raises(LocalError):
            engine.call(c.TakeOver(component=INGEST, weight=1.0), timeout=TIMEOUT)
        instance = self.start(under, "kwh > 2")
        for wrong in (
            c.Start(component=INGEST, weight=1.0),
            c.Stop(instance="nobody"),
            c.AddRows(instance="nobody", rows=(), begin=None),
            c.AddRows(instance=INGEST.instance, rows=(), begin=None),
            c.DropRow(instance=instance, query="nobody", now=False),
            c.SetKeep(instance=instance, query="nobody", keep=0.5),
            c.SetKeep(instance=instance, query="a", keep=0.0),
            c.Analyze(probe="SELECT typeof(s.`none`) AS t0 FROM (SELECT 1 AS x) AS s"),
        ):
            with pytest.raises(ShoalError):
                engine.call(wrong, timeout=TIMEOUT)
        twice = self.row("a", self.selection(under, "kwh > 3"))
        with pytest.raises(ShoalError):
            self.add(under, instance, twice)
        under.bring(1, 2, 3)
        under.settle()
        assert under.results(instance) == [("a", 1, 3)]

    def test_a_closed_engine_refuses(self, under: EngineUnderTest) -> None:
        """After close nothing is carried out."""
        engine = under.another()
        engine.close()
        with pytest.raises(ShoalError):
            engine.call(c.Start(component=INGEST, weight=1.0), timeout=TIMEOUT)

    # Rows

    def test_Q1_rows_count_from_now_on(self, under: EngineUnderTest) -> None:
        """From the greatest event time consumed, exclusive."""
        instance = self.start(under, "kwh > 1", "kwh > 3")
        under.bring(1, 2, 3, 4, 5)
        under.settle()
        third = self.row("later", self.selection(under, "kwh > 0"))
        assert self.add(under, instance, third) == 5 * SECOND
        under.bring(4, 5, 6)
        under.settle()
        got = under.results(instance)
        assert sorted(n for q, _, n in got if q == "a") == [2, 3, 4, 4, 5, 5, 6]
        assert sorted(n for q, _, n in got if q == "b") == [4, 4, 5, 5, 6]
        assert sorted(n for q, _, n in got if q == "later") == [6]

    def test_Q1_back_fill(self, under: EngineUnderTest) -> None:
        """A start in the past is served from history, each tuple once."""
        instance = self.start(under, "kwh > 100")
        under.bring(1, 2, 3)
        under.settle()
        under.bring(4, 5)
        under.settle()
        row = self.row("past", self.selection(under, "kwh > 0"))
        assert self.add(under, instance, row, begin=2 * SECOND) == 2 * SECOND
        under.bring(6)
        under.settle()
        assert sorted(n for _, _, n in under.results(instance)) == [3, 4, 5, 6]

    def test_Q1_replace(self, under: EngineUnderTest) -> None:
        """The old version until x, the new one from x, in the same component or another."""
        here = self.start(under, "kwh > 1", "kwh > 1")
        other = self.selection(under, "zone = 2")
        there = self.component(other)
        under.engine.call(c.Start(component=there, weight=1.0), timeout=TIMEOUT)
        under.bring(1, 2, 3, 4)
        under.settle()
        same = self.row("a", self.selection(under, "kwh > 7"), version=2)
        for command in (
            c.ReplaceRow(source=here, target=here, row=same),
            c.ReplaceRow(source=here, target=there.instance, row=self.row("b", other, version=2)),
        ):
            answer = under.engine.call(command, timeout=TIMEOUT)
            assert answer["start"] == 4 * SECOND
        under.bring(3, 4, 5, 6, 7, 8, 10)
        under.settle()
        got = under.results(here)
        assert sorted(n for q, v, n in got if (q, v) == ("a", 1)) == [2, 3, 3, 4, 4]
        assert sorted(n for q, v, n in got if (q, v) == ("a", 2)) == [8, 10]
        assert sorted(n for q, v, n in got if q == "b") == [2, 3, 3, 4, 4]
        assert sorted(under.results(there.instance)) == [("b", 2, 6), ("b", 2, 10)]

    def test_Q1_drop(self, under: EngineUnderTest) -> None:
        """What is due still comes; after `now` nothing does."""
        instance = self.start(under, "kwh > 0", "kwh > 0", "kwh > 0")
        under.bring(1, 2, 5)
        under.settle()
        for query, now in (("a", False), ("b", True)):
            command = c.DropRow(instance=instance, query=query, now=now)
            answer = under.engine.call(command, timeout=TIMEOUT)
            assert answer["until"] == 5 * SECOND
            assert (answer["cut"] < FOREVER) == now  # type: ignore[operator]
        under.bring(3, 5, 6)
        under.settle()
        got = under.results(instance)
        assert sorted(n for q, _, n in got if q == "a") == [1, 2, 3, 5, 5]
        assert sorted(n for q, _, n in got if q == "b") == [1, 2, 5]
        assert sorted(n for q, _, n in got if q == "c") == [1, 2, 3, 5, 5, 6]

    def test_S3_keep(self, under: EngineUnderTest) -> None:
        """Less is looked at, and what was not is counted."""
        instance = self.start(under, "kwh > -1", "kwh > -1")
        under.engine.call(c.SetKeep(instance=instance, query="b", keep=0.5), timeout=TIMEOUT)
        under.bring(*range(1, 401))
        under.settle()
        found = [q for q, _, _ in under.results(instance)]
        (view,) = _view(under.engine, instance)
        assert found.count("a") == 400
        assert 120 < found.count("b") < 280
        assert found.count("b") + view.counters["shed/b"] == 400
        under.engine.call(c.SetKeep(instance=instance, query="b", keep=1.0), timeout=TIMEOUT)
        before = found.count("b")
        under.bring(*range(401, 501))
        under.settle()
        after = [q for q, _, _ in under.results(instance)]
        assert after.count("b") == before + 100

    def test_Q2_rows_outlive_their_owner(self, under: EngineUnderTest) -> None:
        """Another engine goes on where the first stopped, with its rows."""
        instance = self.start(under, "kwh > 0")
        under.bring(1, 2)
        under.settle()
        component = self.component(self.selection(under, "kwh > 0"))
        self.stop(under, instance)
        answer = under.engine.call(c.TakeOver(component=component, weight=1.0), timeout=TIMEOUT)
        (row,) = answer["rows"]  # type: ignore[misc]
        assert (row.query, row.start) == ("a", ALWAYS)
        under.bring(3)
        under.settle()
        assert under.results(instance) == [("a", 1, 1), ("a", 1, 2), ("a", 1, 3)]

    # What rows see

    def test_Q1_late_and_dead_tuples_are_nobodys(self, under: EngineUnderTest) -> None:
        """Also where a row has no end: they are counted, and no query sees them."""
        instance = self.start(under, "kwh > 0")
        under.bring(100)
        under.settle()
        under.bring(50, 95, FAR)
        under.settle()
        assert under.results(instance) == [("a", 1, 100), ("a", 1, 95)]
        (view,) = _view(under.engine, INGEST.instance)
        assert (view.counters["in"], view.counters["late"], view.counters["dead"]) == (4, 1, 1)
        assert view.watermark == 90 * SECOND
        (select,) = _view(under.engine, instance)
        assert select.watermark == 90 * SECOND

    def test_Q1_null_is_not_true(self, under: EngineUnderTest) -> None:
        """Three-valued logic, also under NOT."""
        wheres = ("nullif(n, 3) > 1", "NOT nullif(n, 3) > 1", "nullif(n, 3) > 1 OR zone = 3")
        instances = [self.start(under, where) for where in wheres]
        under.bring(1, 2, 3, 4)
        under.settle()
        got = [[n for _, _, n in under.results(instance)] for instance in instances]
        assert got == [[2, 4], [1], [2, 3, 4]]

    def test_S3_errors_are_null_and_counted(self, under: EngineUnderTest) -> None:
        """A division by zero is no match and stops nobody; the query has a count of them."""
        instance = self.start(under, "12 / zone > 5", "12 / zone > 11")
        under.bring(1, 2, 3, 4, 8)
        under.settle()
        got = under.results(instance)
        assert [n for q, _, n in got if q == "a"] == [1, 2]
        assert [n for q, _, n in got if q == "b"] == [1]
        (view,) = _view(under.engine, instance)
        assert (view.counters["error/a"], view.counters["error/b"]) == (2, 2)
        assert view.failures == 0

    def test_Q1_a_start_that_is_still_to_come(self, under: EngineUnderTest) -> None:
        instance = self.start(under, "kwh > 100")
        under.bring(1, 2)
        under.settle()
        row = self.row("later", self.selection(under, "kwh > 0"))
        assert self.add(under, instance, row, begin=5 * SECOND) == 5 * SECOND
        under.bring(3, 5, 6)
        under.settle()
        assert under.results(instance) == [("later", 1, 6)]

    def test_O1_a_commit_is_in_order(self, under: EngineUnderTest) -> None:
        """By event time, then by identity, where it is selected; equal tuples are two tuples."""
        instance = self.start(under, "kwh > 100")
        row = self.row("timed", self.selection(under, "kwh > 0"))
        self.add(under, instance, replace(row, columns=("n", "ts")))
        under.bring(5, 3, 4, 3, 1)
        under.settle()
        under.bring(2)
        under.settle()
        assert [n for _, _, n in under.results(instance)] == [1, 3, 3, 4, 5, 2]

    def test_Q1_a_stream_that_is_not_stored(self, under: EngineUnderTest) -> None:
        """Its selects see each of its tuples once; also under another owner."""
        under.engine.call(c.Start(component=TICKS, weight=1.0), timeout=TIMEOUT)
        draft = parse_selection("SELECT value FROM ticks WHERE value % 2 = 1", TICKS.stream)
        answer = under.engine.call(c.Analyze(probe=draft.probe), timeout=TIMEOUT)
        found = draft.resolve(answer["cells"])  # type: ignore[arg-type]
        component = c.Select(
            instance=found.signature.instance,
            input=TICKS.instance,
            stream=TICKS.stream,
            signature=found.signature,
        )
        under.engine.call(c.Start(component=component, weight=1.0), timeout=TIMEOUT)
        self.add(under, component.instance, self.row("odd", found))
        self._gather(under, under.engine, component.instance, 50)
        second = under.another()
        try:
            for one in (TICKS, component):
                second.call(c.TakeOver(component=one, weight=1.0), timeout=TIMEOUT)
            before = len(under.results(component.instance))
            self._gather(under, second, component.instance, before + 50)
        finally:
            second.close()
        got = [n for _, _, n in under.results(component.instance)]
        assert got == list(range(got[0], got[0] + 2 * len(got), 2))

    def _gather(self, under: EngineUnderTest, engine: Engine, instance: str, count: int) -> None:
        """Let time pass until there are so many results."""
        for _ in range(10_000):
            under.settle(engine)
            if len(under.results(instance)) >= count:
                return
        raise AssertionError("the stream has run dry")

    # What is durable

    def test_Q3_what_was_acknowledged_outlives_the_owner(self, under: EngineUnderTest) -> None:
        """Ends, shares, versions and suspensions; and counters go on."""
        instance = self.start(under, *["trap(n, 1)"] * 3, "trap(n, 13)")
        engine = under.engine
        under.bring(*range(1, 41))
        under.wait_for(Suspended)
        under.settle()
        engine.call(c.DropRow(instance=instance, query="a", now=False), timeout=TIMEOUT)
        engine.call(c.SetKeep(instance=instance, query="b", keep=0.5), timeout=TIMEOUT)
        under.bring(*range(41, 81))
        under.settle()
        before = _view(engine, instance)[0].counters["shed/b"]
        assert before > 0
        component = self.component(self.selection(under, "trap(n, 1)"))
        self.stop(under, instance)
        answer = engine.call(c.TakeOver(component=component, weight=1.0), timeout=TIMEOUT)
        rows = {row.query: row for row in answer["rows"]}  # type: ignore[attr-defined]
        assert (rows["a"].until, rows["b"].keep) == (40 * SECOND, 0.5)
        assert rows["c"].until == FOREVER
        assert rows["d"].suspended
        under.bring(*range(81, 121))
        under.settle()
        got = under.results(instance)
        assert [n for q, _, n in got if q == "a"] == list(range(1, 41))
        assert [n for q, _, n in got if q == "c"] == list(range(1, 121))
        assert not [n for q, _, n in got if q == "d"]
        (view,) = _view(engine, instance)
        assert view.counters["shed/b"] > before
        kept = len([n for q, _, n in got if q == "b"])
        assert kept + view.counters["shed/b"] == 120
        assert view.failures == 0

    def test_Q2_a_new_owner_in_the_middle_of_it(self, under: EngineUnderTest) -> None:
        """Whatever the first was about to do: each tuple once, history and present."""
        instance = self.start(under, "kwh > 100")
        for n in range(0, 40, 4):
            under.bring(n, n + 1, n + 2, n + 3)
        under.settle()
        past = self.row("past", self.selection(under, "kwh > 0"))
        self.add(under, instance, past, begin=2 * SECOND)
        under.bring(*range(40, 60))
        component = self.component(self.selection(under, "kwh > 0"))
        second = under.another()
        try:
            for one in (component, INGEST):
                second.call(c.TakeOver(component=one, weight=1.0), timeout=TIMEOUT)
            under.bring(60)
            under.settle(second)
        finally:
            second.close()
        got = under.results(instance)
        assert sorted(n for _, _, n in got) == list(range(3, 61))

    # What is reported

    def test_served_tells_when_a_row_first_counts(self, under: EngineUnderTest) -> None:
        """After the acknowledgement of a roster version, by the first step that covers it."""
        instance = self.start(under, "kwh > 0")
        under.bring(1)
        under.settle()
        under.engine.reports()
        later = self.row("later", self.selection(under, "kwh > 0"))
        command = c.AddRows(instance=instance, rows=(later,), begin=None)
        version = under.engine.call(command, timeout=TIMEOUT)["roster"]
        under.bring(2)
        reports = under.wait_for(Served)
        (served,) = [r for r in reports if isinstance(r, Served)]
        assert (served.instance, served.roster_version) == (instance, version)
        first = next(r for r in reports if isinstance(r, StepDone) and r.instance == instance)
        assert (first.roster_version, first.roster_rows) == (version, 2)
        assert served.steps >= 1

    def test_what_a_step_took_and_worked_on_is_told(self, under: EngineUnderTest) -> None:
        """The counts of the cost model, and the time; the fitted cost is in the view."""
        here = self.start(under, "kwh > 1", "kwh > 2")
        there = self.start(under, "zone = 3")
        under.bring(1, 2, 3, 4)
        under.settle()
        past = self.row("past", self.selection(under, "kwh > 3"))
        self.add(under, here, past, begin=0)
        under.settle()
        done = [r for r in under.engine.reports() if isinstance(r, StepDone)]
        for instance, out in ((INGEST.instance, 4), (here, 5 + 1), (there, 1)):
            mine = [r for r in done if r.instance == instance]
            assert sum(r.rows_in for r in mine) == 4
            assert sum(r.rows_out for r in mine) == out
            assert all(r.busy > 0 and r.group >= 1 for r in mine if r.rows_in)
            assert all(abs(sum(r.seconds.values()) - r.busy) < 1e-6 for r in mine)
        history = [r for r in done if r.rows_history]
        assert [(r.instance, r.rows_history, r.rows_out) for r in history] == [(here, 4, 1)]
        live = [r for r in done if r.instance == here and r.rows_in]
        assert [r.roster_rows for r in live] == [2]
        (view,) = _view(under.engine, here)
        assert view.cost["step"] > 0
        assert all(value >= 0 for value in view.cost.values())
        assert under.engine.view().cycle_seconds > 0

    def test_late_and_dead_are_counted(self, under: EngineUnderTest) -> None:
        """Older than the watermark before its commit: late; the watermark is in the view."""
        self.start(under, "kwh > 0")
        under.bring(100)
        under.settle()
        under.bring(50, 91, 101)
        under.settle()
        (view,) = _view(under.engine, INGEST.instance)
        assert view.watermark == 91 * SECOND
        assert (view.counters["in"], view.counters["late"], view.counters["dead"]) == (4, 1, 0)

    def test_L2_steps_are_reported_once_in_order(self, under: EngineUnderTest) -> None:
        """Numbers without gap or repeat; positions run on; results are counted."""
        instance = self.start(under, "kwh > 2")
        for n in range(1, 6):
            under.bring(n)
            under.settle()
        done = [r for r in under.engine.reports() if isinstance(r, StepDone)]
        for name in (INGEST.instance, instance):
            steps = [r.step for r in done if r.instance == name]
            assert steps == list(range(steps[0], steps[0] + len(steps)))
        served = [r for r in done if r.instance == instance]
        places = [r.positions[INGEST.instance] for r in served]
        assert places == sorted(dict.fromkeys(places))
        assert sum(r.rows_out for r in served) == 3
        assert all(r.committed >= r.source_committed > 0 for r in served)
        (view,) = _view(under.engine, instance)
        assert (view.lag, view.roster_rows, view.failures) == (0, 1, 0)
        assert view.step == served[-1].step

    def test_Q3_a_row_that_fails_is_suspended(self, under: EngineUnderTest) -> None:
        """It alone, in the open; the rest goes on and has lost nothing."""
        instance = self.start(under, "trap(n, 1)", "trap(n, 13)", "trap(n, 2)")
        calm = self.start(under, "kwh > 10")
        under.bring(1, 2, 13, 14)
        (found,) = [r for r in under.wait_for(Suspended) if isinstance(r, Suspended)]
        assert (found.instance, found.query, found.version) == (instance, "b", 1)
        assert found.reason
        under.settle()
        under.bring(17, 18)
        under.settle()
        assert [n for _, _, n in under.results(calm)] == [13, 14, 17, 18]
        for query in ("a", "c"):
            got = [n for q, _, n in under.results(instance) if q == query]
            assert got == [1, 2, 13, 14, 17, 18]
        assert not [n for q, _, n in under.results(instance) if q == "b"]

    # Fencing

    def test_L3_a_second_engine_fences_the_first(self, under: EngineUnderTest) -> None:
        """Whoever takes over goes on; who was there stops, says so, and commits no more."""
        instance = self.start(under, "kwh > 0")
        under.bring(1, 2)
        under.settle()
        component = self.component(self.selection(under, "kwh > 0"))
        second = under.another()
        try:
            for one in (INGEST, component):
                second.call(c.TakeOver(component=one, weight=1.0), timeout=TIMEOUT)
            refused = self.row("x", self.selection(under, "kwh > 0"))
            with pytest.raises(ShoalError):
                self.add(under, instance, refused)
            under.bring(3)
            fenced = [r for r in under.wait_for(FencedOff) if isinstance(r, FencedOff)]
            assert fenced[0].instance in (INGEST.instance, instance)
            under.settle(second)
            epochs = {v.instance: v.epoch for v in second.view().components}
            for view in under.engine.view().components:
                assert view.epoch < epochs[view.instance]
            assert under.results(instance) == [("a", 1, 1), ("a", 1, 2), ("a", 1, 3)]
        finally:
            second.close()


def _view(engine: Engine, instance: str) -> list[ComponentView]:
    return [view for view in engine.view().components if view.instance == instance]
