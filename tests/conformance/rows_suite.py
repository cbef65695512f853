"""What any engine must do with rows: which tuples they get, and what is counted.

A part of the contract's suite, see engine_suite.py.
"""

from dataclasses import replace

import pytest

from shoal.dataplane import commands as c
from shoal.dataplane.contract import Engine
from shoal.dataplane.rows import ALWAYS, FOREVER
from shoal.kernel.errors import LocalError
from shoal.query.draft import parse_selection
from tests.conformance.under import (
    FAR,
    INGEST,
    SECOND,
    TICKS,
    TIMEOUT,
    EngineUnderTest,
    SuiteBase,
    view_of,
)

__all__ = ["RowsSuite"]


class RowsSuite(SuiteBase):
    """Rows and what they see."""

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

    def test_Q1_Q2_back_fill(self, under: EngineUnderTest) -> None:
        """A start in the past is served from history, each tuple once, whoever goes on."""
        instance = self.start(under, "kwh > 100")
        under.bring(1, 2, 3)
        under.settle()
        under.bring(4, 5)
        under.settle()
        found = self.selection(under, "kwh > 0")
        assert self.add(under, instance, self.row("past", found), begin=2 * SECOND) == 2 * SECOND
        under.bring(6)
        under.settle()
        assert sorted(n for _, _, n in under.results(instance)) == [3, 4, 5, 6]
        second = under.another()
        try:
            second.call(c.TakeOver(component=self.component(found), weight=1.0), timeout=TIMEOUT)
            under.bring(7)
            under.settle()
            second.announce(INGEST.instance)
            under.settle(second)
        finally:
            second.close()
        assert sorted(n for _, _, n in under.results(instance)) == [3, 4, 5, 6, 7]

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

    def test_Q1_Q3_drop(self, under: EngineUnderTest) -> None:
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

    def test_Q1_a_drop_now_ends_every_version(self, under: EngineUnderTest) -> None:
        """An altered query still owes its old version's results; after `now` it owes nothing."""
        instance = self.start(under, "kwh > 0", "kwh > 0")
        under.bring(1, 2, 5)
        under.settle()
        for query in ("a", "b"):
            altered = self.row(query, self.selection(under, "kwh > 1"), version=2)
            command = c.ReplaceRow(source=instance, target=instance, row=altered)
            under.engine.call(command, timeout=TIMEOUT)
        drop = c.DropRow(instance=instance, query="a", now=True)
        under.engine.call(drop, timeout=TIMEOUT)
        under.bring(3, 6)
        under.settle()
        got = under.results(instance)
        assert sorted((v, n) for q, v, n in got if q == "a") == [(1, 1), (1, 2), (1, 5)]
        assert sorted((v, n) for q, v, n in got if q == "b") == [
            *((1, n) for n in (1, 2, 3, 5)),
            (2, 6),
        ]
        self.stop(under, instance)
        component = self.component(self.selection(under, "kwh > 0"))
        answer = under.engine.call(c.TakeOver(component=component, weight=1.0), timeout=TIMEOUT)
        rows = answer["rows"]
        cut = [row.cut < FOREVER for row in rows if row.query == "a"]  # type: ignore[attr-defined]
        assert cut == [True, True], "a restart does not bring them back"

    def test_Q3_a_replacement_that_is_refused_ends_nothing(self, under: EngineUnderTest) -> None:
        """The target has a row of that name and version: the source's goes on as it was."""
        here = self.start(under, "kwh > 0")
        there = self.start(under, "zone = 2")
        row = self.row("a", self.selection(under, "zone = 3"))
        with pytest.raises(LocalError, match="in the roster of"):
            under.engine.call(c.ReplaceRow(source=here, target=there, row=row), timeout=TIMEOUT)
        under.bring(1, 2)
        under.settle()
        assert under.results(here) == [("a", 1, 1), ("a", 1, 2)]
        assert under.results(there) == [("a", 1, 2)]

    def test_S3_a_share_outlives_a_replacement(self, under: EngineUnderTest) -> None:
        """Whoever alters a query need not know which share was set last."""
        here = self.start(under, "kwh > -1")
        found = self.selection(under, "zone < 9")
        there = self.component(found)
        under.engine.call(c.Start(component=there, weight=1.0), timeout=TIMEOUT)
        under.engine.call(c.SetKeep(instance=here, query="a", keep=0.5), timeout=TIMEOUT)
        row = self.row("a", found, version=2)
        command = c.ReplaceRow(source=here, target=there.instance, row=row)
        under.engine.call(command, timeout=TIMEOUT)
        under.bring(*range(1, 401))
        under.settle()
        count = len(under.results(there.instance))
        (view,) = view_of(under.engine, there.instance)
        assert 120 < count < 280
        assert count + view.counters["shed/a"] == 400

    def test_S3_keep(self, under: EngineUnderTest) -> None:
        """Less is looked at, and what was not is counted."""
        instance = self.start(under, "kwh > -1", "kwh > -1")
        under.engine.call(c.SetKeep(instance=instance, query="b", keep=0.5), timeout=TIMEOUT)
        under.bring(*range(1, 401))
        under.settle()
        found = [q for q, _, _ in under.results(instance)]
        (view,) = view_of(under.engine, instance)
        assert found.count("a") == 400
        assert 120 < found.count("b") < 280
        assert found.count("b") + view.counters["shed/b"] == 400
        under.engine.call(c.SetKeep(instance=instance, query="b", keep=1.0), timeout=TIMEOUT)
        before = found.count("b")
        under.bring(*range(401, 501))
        under.settle()
        after = [q for q, _, _ in under.results(instance)]
        assert after.count("b") == before + 100

    def test_Q3_weight(self, under: EngineUnderTest) -> None:
        """It changes nothing that a query gets, and outlives the owner."""
        instance = self.start(under, "kwh > 0", "kwh > 0")
        under.bring(1)
        under.settle()
        command = c.SetWeight(instance=instance, query="b", weight=2.5)
        assert under.engine.call(command, timeout=TIMEOUT) == {"weight": 2.5}
        under.bring(2)
        under.settle()
        assert sorted(under.results(instance)) == [(q, 1, n) for q in "ab" for n in (1, 2)]
        component = self.component(self.selection(under, "kwh > 0"))
        self.stop(under, instance)
        answer = under.engine.call(c.TakeOver(component=component, weight=1.0), timeout=TIMEOUT)
        rows = {row.query: row.weight for row in answer["rows"]}  # type: ignore[attr-defined]
        assert rows == {"a": 1.0, "b": 2.5}

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
        (view,) = view_of(under.engine, INGEST.instance)
        assert (view.counters["in"], view.counters["late"], view.counters["dead"]) == (4, 1, 1)
        assert view.watermark == 90 * SECOND
        (select,) = view_of(under.engine, instance)
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
        (view,) = view_of(under.engine, instance)
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
