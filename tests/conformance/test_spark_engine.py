"""Spark's engine keeps the contract."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.dataplane.contract import Engine
from shoal.dataplane.reports import Report
from shoal.log.reader import Reader
from shoal.log.root import Root
from shoal.log.spool import Spool
from shoal.log.types import arrow_type
from shoal.spark.engine import SparkEngine, wall_clock
from shoal.spark.ingest.component import SPOOL_BYTES_MAX
from tests.conformance.engine_suite import EngineSuite
from tests.conformance.under import INGEST, STREAM
from tests.conformance.windows_suite import WindowsSuite

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SCHEMA = pa.schema([(column.name, arrow_type(column.type)) for column in STREAM.columns])
#: Seconds to wait for anything.
PATIENCE = 120.0


class SparkUnderTest:
    """A SparkEngine that reads a spool."""

    def __init__(self, root: Path, spark: "SparkSession") -> None:
        self._root = Root.open(root)
        self._spark = spark
        self.engine: Engine = SparkEngine(spark, self._root, owner="first")
        folder = self._root.folder("spools", INGEST.instance)
        self._spool = Spool(folder, bytes_max=SPOOL_BYTES_MAX)
        self._sequence = 0

    def bring(self, *numbers: int) -> None:
        rows = [
            {"n": n, "ts": _EPOCH + timedelta(seconds=n), "zone": n % 4, "kwh": float(n)}
            for n in numbers
        ]
        self._spool.append("test", self._sequence, pa.Table.from_pylist(rows, schema=_SCHEMA))
        self._sequence += 1
        self.engine.announce(INGEST.instance)

    def settle(self, engine: Engine | None = None) -> None:
        engine = engine or self.engine
        asked = wall_clock()
        engine.announce(INGEST.instance)
        deadline = time.monotonic() + PATIENCE
        while any(
            view.looked < asked if view.kind == "ingest" else view.lag
            for view in engine.view().components
        ):
            assert time.monotonic() < deadline, engine.view()
            time.sleep(0.01)

    def wait_for(self, kind: type[Report]) -> list[Report]:
        found: list[Report] = []
        deadline = time.monotonic() + PATIENCE
        while not any(isinstance(report, kind) for report in found):
            assert time.monotonic() < deadline, found
            found += self.engine.reports()
            time.sleep(0.01)
        return found

    def results(self, instance: str) -> list[tuple[str, int, int]]:
        folder = self._root.table(instance).path
        segments = Reader(self._root, instance, after=0).segments_between(0, 1 << 62)
        parts = [pq.read_table(folder / segment.path) for segment in segments]
        rows = [row for part in parts for row in part.to_pylist()]
        rows.sort(key=lambda row: row["_step"])
        return [(row["_query"], row["_version"], row.get("n", row.get("value"))) for row in rows]

    def counts(self, instance: str) -> list[tuple[str, int, int, int]]:
        folder = self._root.table(instance).path
        segments = Reader(self._root, instance, after=0).segments_between(0, 1 << 62)
        parts = [pq.read_table(folder / segment.path) for segment in segments]
        return [
            (one["_query"], int(one["window_end"].timestamp()), one["k0"], one["a0"])
            for part in parts
            for one in part.to_pylist()
        ]

    def another(self) -> Engine:
        return SparkEngine(self._spark, self._root, owner="second")


class TestSparkEngine(EngineSuite, WindowsSuite):
    @pytest.fixture
    def under(self, root: Path, spark: "SparkSession") -> Iterator[SparkUnderTest]:
        spark.udf.register("trap", _trap, "boolean")
        under = SparkUnderTest(root, spark)
        yield under
        under.engine.close()


def _trap(n: int | None, x: int | None) -> bool:
    """A user's function that raises for one value."""
    if x == 13:
        raise ValueError("thirteen")
    return True
