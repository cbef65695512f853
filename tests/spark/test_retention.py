"""A stream that is kept for a while: what has ended goes, and nobody takes the rest for all."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

import shoal
from shoal.cli.local import Mesh, stream_instance
from shoal.kernel.errors import UserError
from shoal.kernel.time import SECOND, format_instant

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

#: 2024-03-01, and a tuple each second from then on.
BEGIN = 1_709_251_200
SECONDS = 16
KEPT = 4


def test_L4_Q1_what_is_kept_is_whole(
    tmp_path: Path, spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tuples, results and dead letters; history that is left is served, the rest refused."""
    monkeypatch.setattr("shoal.spark.choose.CARE_AFTER", 2)
    with shoal.connect(tmp_path, spark=spark) as mesh:
        stream = mesh.create_stream(
            "r",
            "ts TIMESTAMP, n INT",
            timestamp="ts",
            source=shoal.push(),
            retain=f"{KEPT} seconds",
        )
        query = mesh.select("all", "SELECT ts, n FROM r WHERE n >= 0")
        for second in range(SECONDS):
            _push(mesh, second)
            mesh.drain()
        _until(lambda: all(view.retained > SECONDS // 2 for view in mesh.status().components))
        table = DeltaTable(str(tmp_path / "tables" / stream_instance(stream)))
        stored = sorted(table.to_pyarrow_table(columns=["n"]).column("n").to_pylist())
        assert stored == list(range(stored[0], SECONDS)), "from the oldest on, without a hole"
        assert 0 < stored[0] < SECONDS - KEPT
        found = [row["n"] for row in query.rows()]
        assert found == list(range(found[0], SECONDS))
        assert 0 < found[0] < SECONDS - KEPT
        _ask_for_history(mesh, stored[0])


def _ask_for_history(mesh: Mesh, oldest: int) -> None:
    """A start is refused where something is gone, and served in whole where nothing is."""
    with pytest.raises(UserError, match="no longer reaches back"):
        mesh.select("never", "SELECT n FROM r WHERE n > 0", start=_instant(0))
    back = mesh.select("back", "SELECT n FROM r WHERE n > 1", start=_instant(oldest))
    mesh.drain()
    assert [row["n"] for row in back.rows()] == list(range(oldest + 1, SECONDS))


def _push(mesh: Mesh, second: int) -> None:
    due = datetime.fromtimestamp(BEGIN + second, UTC)
    mesh.append("r", [{"ts": due, "n": second}], client="one", sequence=second)


def _instant(second: int) -> str:
    return format_instant((BEGIN + second) * SECOND)


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "what has ended is still there"
        time.sleep(0.02)
