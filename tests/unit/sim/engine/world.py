"""Help for tests of the invented engine: a stream, a selection, an engine with time.

As a program it plays a scene and prints a digest of all that was seen.
"""

import hashlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from shoal.dataplane import commands as c
from shoal.dataplane.reports import ComponentView, StepDone
from shoal.dataplane.rows import RosterRow
from shoal.kernel.rng import Rng
from shoal.kernel.time import HOUR, SECOND, Instant
from shoal.query.catalog import SourceDef, StreamDef, parse_schema
from shoal.query.draft import parse_selection
from shoal.query.meaning.evaluate import analyze
from shoal.query.selection import Selection
from shoal.sim.engine.config import Costs, EngineConfig
from shoal.sim.engine.engine import SimEngine
from shoal.sim.engine.memory import Memory

BEGIN: Instant = 1_000 * HOUR


def stream_of(kind: str = "push", *, store: bool = True, **options: str) -> StreamDef:
    return StreamDef(
        name="w",
        columns=parse_schema("value BIGINT, ts TIMESTAMP, zone INT"),
        timestamp="ts",
        lateness=10 * SECOND,
        store=store,
        idle_advances=False,
        source=SourceDef(kind=kind, options=options),
    )


def ingest_of(stream: StreamDef, instance: str = "w-1") -> c.Ingest:
    return c.Ingest(instance=instance, stream=stream)


def selection_of(stream: StreamDef, where: str) -> Selection:
    draft = parse_selection(f"SELECT value FROM w WHERE {where}", stream)
    return draft.resolve(analyze(draft.probe))


def select_of(stream: StreamDef, where: str, *, name: str = "") -> c.Select:
    found = selection_of(stream, where)
    instance = name or found.signature.instance
    return c.Select(instance=instance, input="w-1", stream=stream, signature=found.signature)


def row_of(query: str, stream: StreamDef, where: str, **fields: Any) -> RosterRow:
    found = selection_of(stream, where)
    return RosterRow(
        query=query, version=1, parameters=found.parameters, columns=found.columns, **fields
    )


def tuples(*values: int) -> list[dict[str, Any]]:
    """Tuple n has the event time n seconds and zone n % 4."""
    return [{"value": n, "ts": n * SECOND, "zone": n % 4} for n in values]


class Bench:
    """An engine on a memory of its own."""

    def __init__(
        self,
        *,
        memory: Memory | None = None,
        config: EngineConfig | None = None,
        costs: Costs | None = None,
        seed: int = 1,
        now: Instant = BEGIN,
        functions: Mapping[str, Any] | None = None,
    ) -> None:
        self.memory = memory or Memory()
        self.engine = SimEngine(
            self.memory,
            owner="p1",
            rng=Rng(seed),
            now=now,
            config=config or EngineConfig(jitter=0.0),
            costs=costs,
            functions=functions,
        )
        self._client = f"client-{seed}"
        self._sequence = 0
        self.done: list[StepDone] = []

    def start(self, *components: c.Component, weight: float = 1.0) -> None:
        for component in components:
            self.call(c.Start(component=component, weight=weight))

    def call(self, command: c.Command) -> Mapping[str, Any]:
        return self.engine.call(command, timeout=0)

    def add(self, component: c.Select, *rows: RosterRow, begin: Instant | None = None) -> None:
        self.call(c.AddRows(instance=component.instance, rows=rows, begin=begin))

    def push(self, rows: Sequence[Any] | Any) -> None:
        self.memory.push("w-1", self._client, self._sequence, rows)
        self._sequence += 1
        self.engine.announce("w-1")

    def run(self, seconds: float) -> list[StepDone]:
        """Let time pass; the steps that were done meanwhile."""
        self.engine.advance(self.engine.now + int(seconds * SECOND))
        self.engine.validate()
        self.memory.validate()
        found = [report for report in self.engine.reports() if isinstance(report, StepDone)]
        self.done += found
        return found

    def view(self, instance: str) -> ComponentView:
        (found,) = [v for v in self.engine.view().components if v.instance == instance]
        return found

    def values(self, instance: str) -> list[int]:
        return [result.values["value"] for result in self.memory.results(instance)]


def digest() -> str:
    """A scene with jitter, errors, shedding and several queries, as a digest of what was seen."""
    seen = hashlib.sha256()
    bench = Bench(config=EngineConfig(jitter=0.3, hiccup_chance=0.1))
    stream = stream_of()
    bench.start(ingest_of(stream))
    wheres = ("value > 1", "zone = 1", "12 / zone > 5", "value IN (3, 4, 5)")
    for where in wheres:
        select = select_of(stream, where)
        bench.start(select)
        rows = [row_of(f"q{n}", stream, where, keep=0.5 + n / 10) for n in range(4)]
        bench.add(select, *rows)
    for n in range(40):
        bench.push(tuples(*range(n, n + 9)))
        bench.run(0.07 * n)
        seen.update(repr(bench.engine.view()).encode())
    seen.update(repr(bench.done).encode())
    for instance in bench.memory.tables:
        seen.update(repr(bench.memory.results(instance)).encode())
    assert len(bench.done) > 100
    return seen.hexdigest()


if __name__ == "__main__":
    sys.stdout.write(digest() + "\n")
