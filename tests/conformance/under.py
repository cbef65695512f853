"""What the suites of an engine speak to: an engine, the world around it, and how to ask.

The stream is `n BIGINT, ts TIMESTAMP, zone INT, kwh DOUBLE`, lateness 10 seconds; tuple n has the
event time n seconds, zone n % 4 and kwh n. `trap(n, x)` is TRUE, but raises where x is 13. A second
stream makes its own tuples and is not stored.
"""

from typing import Protocol

from shoal.dataplane import commands as c
from shoal.dataplane.contract import Engine
from shoal.dataplane.reports import (
    ComponentView,
    Report,
)
from shoal.dataplane.rows import RosterRow
from shoal.kernel.errors import ShoalError
from shoal.kernel.ids import instance_of
from shoal.query.catalog import SourceDef, StreamDef, parse_schema
from shoal.query.draft import parse_selection
from shoal.query.selection import Selection

__all__ = [
    "FAR",
    "INGEST",
    "SECOND",
    "STREAM",
    "TICKS",
    "TIMEOUT",
    "EngineUnderTest",
    "SuiteBase",
    "view_of",
]


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

    def counts(self, instance: str) -> list[tuple[str, int, int, int]]:
        """(query, end in seconds, zone, count) of every window that a roll-up has given."""
        ...

    def another(self) -> Engine:
        """One more engine on the same root."""
        ...


class SuiteBase:
    """How the suites ask."""

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
        if not view_of(under.engine, INGEST.instance):
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


def view_of(engine: Engine, instance: str) -> list[ComponentView]:
    return [view for view in engine.view().components if view.instance == instance]
