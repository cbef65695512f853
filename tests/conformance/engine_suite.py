"""What any engine must do: the contract of dataplane/contract.py as tests.

    class TestMyEngine(EngineSuite):
        @pytest.fixture
        def under(self, ...) -> Iterator[EngineUnderTest]: ...

The suite speaks to an engine by commands and reports alone; the adapter brings tuples in, waits,
and reads results back (under.py). A simulated engine passes it as well as Spark's, or one of them
is wrong. What rows get is in rows_suite.py; what windows are, for engines that run them, in
windows_suite.py. The others refuse them (`windows = False`).

Left out   AddDeliveries, EndDelivery, ResumeDelivery, and the start of a deliver component: sinks
           are files and tables of the user, and an engine of an invented world has none. Where
           there are no sinks they are refused, as this suite says; what they do where there are
           is tested in tests/unit/spark/deliver and tests/spark/test_deliver.py.
"""

from itertools import pairwise

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
from shoal.dataplane.scheduler import ATTEMPTS_BEFORE_BISECTION, BACKOFF_FIRST
from shoal.kernel.errors import LocalError, ShoalError
from tests.conformance.rows_suite import RowsSuite
from tests.conformance.under import INGEST, SECOND, TIMEOUT, EngineUnderTest, view_of
from tests.conformance.windows_suite import MAKE, ROLL_UP

__all__ = ["EngineSuite"]


class EngineSuite(RowsSuite):
    """The contract. Subclasses give the fixture `under`."""

    #: Whether this engine runs windows; if so, it passes WindowsSuite, too.
    windows = True

    # Starting and stopping

    def test_L3_each_owner_has_an_epoch_of_its_own(self, under: EngineUnderTest) -> None:
        """Start creates; stop lets go; take-over goes on with a higher epoch, nothing lost."""
        first = under.engine.call(c.Start(component=INGEST, weight=1.0), timeout=TIMEOUT)
        under.bring(1, 2)
        under.settle()
        step = view_of(under.engine, INGEST.instance)[0].step
        self.stop(under, INGEST.instance)
        second = under.engine.call(c.TakeOver(component=INGEST, weight=1.0), timeout=TIMEOUT)
        assert second["epoch"] > first["epoch"]  # type: ignore[operator]
        assert second["step"] == step

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
            c.SetWeight(instance=instance, query="nobody", weight=2.0),
            c.SetWeight(instance=instance, query="a", weight=0.0),
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

    def test_windows_are_run_or_refused(self, under: EngineUnderTest) -> None:
        """What an engine cannot do it says at once, and goes on."""
        under.engine.call(c.Start(component=INGEST, weight=1.0), timeout=TIMEOUT)
        for component in (MAKE, ROLL_UP):
            start = c.Start(component=component, weight=1.0)
            if self.windows:
                under.engine.call(start, timeout=TIMEOUT)
                continue
            with pytest.raises(LocalError, match="cannot be run"):
                under.engine.call(start, timeout=TIMEOUT)
        kinds = {view.kind for view in under.engine.view().components}
        assert kinds == ({"ingest", "panes", "roll-up"} if self.windows else {"ingest"})

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
        before = view_of(engine, instance)[0].counters["shed/b"]
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
        (view,) = view_of(engine, instance)
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
        (view,) = view_of(under.engine, here)
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
        (view,) = view_of(under.engine, INGEST.instance)
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
        (view,) = view_of(under.engine, instance)
        assert (view.lag, view.roster_rows, view.failures) == (0, 1, 0)
        assert view.step == served[-1].step
        assert view.rates["in"] > view.rates["out"] > 0

    def test_a_step_that_fails_is_told_and_tried_again_later_and_later(
        self, under: EngineUnderTest
    ) -> None:
        """The wait doubles with each failure, until the row that is to blame is found."""
        instance = self.start(under, "trap(n, 13)")
        under.bring(1)
        reports = under.wait_for(Suspended)
        failed = [r for r in reports if isinstance(r, Failed)]
        assert [r.instance for r in failed] == [instance] * ATTEMPTS_BEFORE_BISECTION
        assert [r.attempts for r in failed] == list(range(1, ATTEMPTS_BEFORE_BISECTION + 1))
        assert all("thirteen" in r.reason for r in failed)
        for before, after in pairwise(failed):
            wait = BACKOFF_FIRST << (after.attempts - 1)
            assert after.retry_at - before.retry_at >= wait, "it came no sooner than was said"
        under.settle()
        (view,) = view_of(under.engine, instance)
        assert (view.failures, view.reason, view.lag) == (0, "", 0)

    def test_what_is_for_a_deliver_component_is_refused_where_none_runs(
        self, under: EngineUnderTest
    ) -> None:
        engine = under.engine
        for wrong in (
            c.AddDeliveries(instance="deliver-1", deliveries=()),
            c.EndDelivery(instance="deliver-1", delivery="a"),
            c.ResumeDelivery(instance="deliver-1", delivery="a"),
        ):
            with pytest.raises(LocalError):
                engine.call(wrong, timeout=TIMEOUT)

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
