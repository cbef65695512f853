"""The invented engine keeps the contract, by the suite that Spark's engine passes."""

from collections.abc import Iterator
from typing import Any

import pytest

from shoal.dataplane.contract import Engine
from shoal.dataplane.reports import Report
from shoal.kernel.rng import Rng
from shoal.kernel.time import HOUR, SECOND, Instant
from shoal.query.meaning.evaluate import Installed
from shoal.sim.engine.engine import SimEngine
from shoal.sim.engine.memory import Memory
from tests.conformance.engine_suite import EngineSuite
from tests.conformance.under import INGEST

#: Some time in the invented world; event times are near 0, so that nothing is ahead of the clock.
BEGIN: Instant = 1_000 * HOUR
#: Simulated time that anything may take.
PATIENCE = 600 * SECOND


def trap(n: int | None, x: int | None) -> bool:
    """A user's function that raises for one value."""
    if x == 13:
        raise ValueError("thirteen")
    return True


class SimUnderTest:
    """A SimEngine that reads a spool in memory, and the time that all engines on it share."""

    def __init__(self, seed: int = 1) -> None:
        self.memory = Memory()
        self.now = BEGIN
        self._rng = Rng(seed)
        self._engines: list[SimEngine] = []
        self._sequence = 0
        self.engine: Engine = self.another("first")

    def bring(self, *numbers: int) -> None:
        rows: list[dict[str, Any]] = [
            {"n": n, "ts": n * SECOND, "zone": n % 4, "kwh": float(n)} for n in numbers
        ]
        self.memory.push(INGEST.instance, "test", self._sequence, rows)
        self._sequence += 1
        self.engine.announce(INGEST.instance)

    def settle(self, engine: Engine | None = None) -> None:
        engine = engine or self.engine
        # What an engine has seen at this instant, it may have seen before what was brought at it.
        self.pass_time(1)
        asked, until = self.now, self.now + PATIENCE
        engine.announce(INGEST.instance)
        while any(
            view.looked < asked if view.kind == "ingest" else view.lag
            for view in engine.view().components
        ):
            assert self.now < until, engine.view()
            self.pass_time(SECOND // 100)

    def wait_for(self, kind: type[Report]) -> list[Report]:
        found: list[Report] = []
        until = self.now + PATIENCE
        while not any(isinstance(report, kind) for report in found):
            assert self.now < until, found
            self.pass_time(SECOND // 100)
            found += self.engine.reports()
        return found

    def results(self, instance: str) -> list[tuple[str, int, int]]:
        found = self.memory.results(instance)
        name = "value" if found and "value" in found[0].values else "n"
        return [(result.query, result.version, result.values[name]) for result in found]

    def counts(self, instance: str) -> list[tuple[str, int, int, int]]:
        raise AssertionError("an invented engine runs no windows")

    def another(self, owner: str = "second") -> SimEngine:
        engine = SimEngine(
            self.memory,
            owner=owner,
            rng=self._rng.split(owner),
            now=self.now,
            functions={"trap": Installed(run=trap, type="BOOLEAN")},
        )
        self._engines.append(engine)
        return engine

    def pass_time(self, duration: int) -> None:
        """All engines live through the same time."""
        self.now += duration
        for engine in self._engines:
            engine.advance(self.now)
            engine.validate()
        self.memory.validate()


class TestSimEngine(EngineSuite):
    windows = False

    @pytest.fixture
    def under(self) -> Iterator[SimUnderTest]:
        under = SimUnderTest()
        yield under
        under.engine.close()
