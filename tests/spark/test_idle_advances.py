"""A stream that says IDLE ADVANCES: in silence the watermark follows the clock, for queries too."""

from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import shoal
from shoal.cli import local
from shoal.dataplane.reports import ComponentView
from shoal.kernel.time import HOUR, SECOND, Instant
from shoal.spark.engine import SparkEngine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from shoal.cli.local import Mesh

pytestmark = pytest.mark.slow

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LATENESS = 10 * SECOND
#: What is further behind the clock than idle_after + lateness is late once the stream is silent.
BEHIND = 2 * LATENESS + LATENESS


class Clock:
    """Stands still until somebody moves it."""

    def __init__(self) -> None:
        self.now: Instant = 500_000 * HOUR

    def __call__(self) -> Instant:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(local, "SparkEngine", partial(SparkEngine, clock=clock))
    monkeypatch.setattr(local, "wall_clock", clock)
    return clock


def test_Q1_in_silence_the_watermark_follows_the_clock(
    root: Path, spark: "SparkSession", clock: Clock
) -> None:
    """Before the first tuple and after the last; who comes too late after it is late for all."""
    with shoal.connect(root, spark=spark) as mesh:
        mesh.create_stream(
            "readings",
            "ts TIMESTAMP, n INT",
            timestamp="ts",
            lateness="10 seconds",
            idle_advances=True,
            source=shoal.push(),
        )
        query = mesh.select("all", "SELECT n FROM readings WHERE n > 0")
        mesh.drain()
        assert _watermarks(mesh) == [clock.now - BEHIND] * 2, "before the first tuple"
        first = clock.now - 5 * SECOND
        _push(mesh, clock, first, 1)
        assert _watermarks(mesh) == [first - LATENESS] * 2
        clock.now += 60 * SECOND
        mesh.drain()
        assert _watermarks(mesh) == [clock.now - BEHIND] * 2, "after silence"
        _push(mesh, clock, clock.now - BEHIND - SECOND, 2)
        _push(mesh, clock, clock.now - BEHIND, 3)
        assert [row["n"] for row in query.rows()] == [1, 3]
        ingest = _view(mesh, "ingest")
        assert (ingest.counters["in"], ingest.counters["late"]) == (3, 1)
        query.drop()
        clock.now += BEHIND + 60 * SECOND
        mesh.drain()
        assert _watermarks(mesh) == [clock.now - BEHIND] * 2
    assert _at_work(root, spark) == ["ingest"], "what was dropped is over, by the clock alone"


def _push(mesh: "Mesh", clock: Clock, at: Instant, n: int) -> None:
    row = {"ts": _EPOCH + timedelta(microseconds=at), "n": n}
    mesh.append("readings", [row], client="test", sequence=n - 1)
    # What was looked at in this very instant may have been looked at before.
    clock.now += 1
    mesh.drain()


def _view(mesh: "Mesh", kind: str) -> ComponentView:
    (view,) = [view for view in mesh.status().components if view.kind == kind]
    return view


def _watermarks(mesh: "Mesh") -> list[Instant | None]:
    """The stream's and the select's."""
    return [_view(mesh, kind).watermark for kind in ("ingest", "select")]


def _at_work(root: Path, spark: "SparkSession") -> list[str]:
    with shoal.connect(root, spark=spark) as mesh:
        return [view.kind for view in mesh.status().components]
