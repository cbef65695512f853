"""What an engine must do with windows if it runs them; engine_suite.py says what if not.

The panes are of one second, grouped by zone, with a filter on n and a count; a query asks for n
below a constant, and for groups of more than so many.
"""

import pytest

from shoal.dataplane import commands as c
from shoal.dataplane.rows import RosterRow
from shoal.kernel.errors import UserError
from shoal.query.selection import Key, Signature
from shoal.query.windows.plan import Grouped, Measure, Panes, Partial, RollUp, Shape
from shoal.query.windows.shape import Window
from tests.conformance.under import (
    INGEST,
    SECOND,
    STREAM,
    TIMEOUT,
    EngineUnderTest,
    SuiteBase,
    view_of,
)

__all__ = ["MAKE", "ROLL_UP", "WindowsSuite"]

COUNT = Partial(name="a0_n", type="BIGINT", make="count(*)", merge="sum(`a0_n`)", each="1L")
PANES = Panes(
    stream="readings",
    reads=STREAM.canonical_name,
    pane=SECOND,
    keys=(Grouped(name="k0", expression="s.`zone`", type="INT"),),
    filters=(Grouped(name="f0", expression="s.`n`", type="BIGINT"),),
    always="",
    errors="",
    measures=(Measure(name="a0", type="BIGINT", partials=(COUNT,), final="`a0_n`"),),
    name="v1 panes of readings by zone",
)


def _signature(condition: str, *holes: str, keys: tuple[Key, ...] = ()) -> Signature:
    return Signature(
        stream="readings",
        holes=holes,
        keys=keys,
        range=None,
        condition=condition,
        errors="",
        may_throw=False,
        name=f"v1 {condition}",
    )


MAKE = c.Panes(instance="panes-1", input=INGEST.instance, stream=STREAM, panes=PANES)
ROLL_UP = c.RollUp(
    instance="rollup-1",
    input=MAKE.instance,
    stream=STREAM,
    roll_up=RollUp(
        panes=PANES,
        where=_signature("(s.`f0` < p.p0)", "BIGINT"),
        having=_signature(
            "(s.`_shape` = p.p0) AND (s.`a0` > p.p1)",
            "BIGINT",
            "BIGINT",
            keys=(Key(expression="s.`_shape`", hole=0, many=False),),
        ),
        name="v1 counts by zone",
    ),
)


def _row(query: str, length: int, slide: int, *, below: int = 1000, above: int = 0) -> RosterRow:
    window = Window(length=length * SECOND, slide=slide * SECOND, offset=0)
    shape = Shape(window=window, parameters=(below,))
    return RosterRow(
        query=query, version=1, parameters=(shape.number, above), columns=(), shape=shape
    )


class WindowsSuite(SuiteBase):
    """Windows."""

    def _start(self, under: EngineUnderTest) -> None:
        for component in (INGEST, MAKE, ROLL_UP):
            under.engine.call(c.Start(component=component, weight=1.0), timeout=TIMEOUT)

    def _join(self, under: EngineUnderTest, row: RosterRow, begin: int | None = None) -> None:
        command = c.AddRows(instance=ROLL_UP.instance, rows=(row,), begin=begin)
        under.engine.call(command, timeout=TIMEOUT)

    def test_Q1_windows_that_the_watermark_has_passed(self, under: EngineUnderTest) -> None:
        """Each with its own constants, and no window before its time or in part."""
        self._start(under)
        self._join(under, _row("tens", 10, 10))
        self._join(under, _row("low", 10, 10, below=14, above=1))
        self._join(under, _row("slides", 20, 10))
        under.bring(*range(4, 35))
        under.settle()
        got = under.counts(ROLL_UP.instance)
        assert sorted(one for one in got if one[0] == "tens") == [
            *(("tens", 10, zone, n) for zone, n in enumerate((2, 2, 1, 1))),
            *(("tens", 20, zone, n) for zone, n in enumerate((2, 2, 3, 3))),
        ]
        assert sorted(one for one in got if one[0] == "low") == [
            ("low", 10, 0, 2),
            ("low", 10, 1, 2),
        ]
        assert {end for query, end, _, _ in got if query == "slides"} == {10, 20}
        (view,) = view_of(under.engine, ROLL_UP.instance)
        assert (view.lag, view.watermark, view.roster_rows) == (0, 24 * SECOND, 3)

    def test_Q2_windows_outlive_their_owner(self, under: EngineUnderTest) -> None:
        """Another engine goes on with panes, rows and history; each window once."""
        self._start(under)
        self._join(under, _row("a", 10, 10))
        under.bring(*range(25))
        under.settle()
        second = under.another()
        try:
            for component in (INGEST, MAKE, ROLL_UP):
                second.call(c.TakeOver(component=component, weight=1.0), timeout=TIMEOUT)
            past = c.AddRows(instance=ROLL_UP.instance, rows=(_row("b", 10, 10),), begin=0)
            second.call(past, timeout=TIMEOUT)
            under.bring(*range(25, 51))
            under.settle(second)
        finally:
            second.close()
        got = under.counts(ROLL_UP.instance)
        wanted = [(10, 3, 3, 2, 2), (20, 2, 2, 3, 3), (30, 3, 3, 2, 2), (40, 2, 2, 3, 3)]
        counts = [(end, zone, n) for end, *some in wanted for zone, n in enumerate(some)]
        for query in ("a", "b"):
            assert sorted(one[1:] for one in got if one[0] == query) == counts

    def test_Q3_windows_end_with_their_query(self, under: EngineUnderTest) -> None:
        """What is due within the lateness still comes; a share of the tuples makes no window."""
        self._start(under)
        for query in ("a", "b"):
            self._join(under, _row(query, 10, 10))
        under.bring(*range(1, 25))
        under.settle()
        keep = c.SetKeep(instance=ROLL_UP.instance, query="a", keep=0.5)
        with pytest.raises(UserError):
            under.engine.call(keep, timeout=TIMEOUT)
        drop = c.DropRow(instance=ROLL_UP.instance, query="a", now=False)
        assert under.engine.call(drop, timeout=TIMEOUT)["until"] == 24 * SECOND
        under.bring(*range(25, 61))
        under.settle()
        got = under.counts(ROLL_UP.instance)
        assert {end for query, end, _, _ in got if query == "a"} == {10, 20}
        assert {end for query, end, _, _ in got if query == "b"} == {10, 20, 30, 40, 50}
