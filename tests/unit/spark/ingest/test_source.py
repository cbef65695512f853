"""What every source promises: a batch is a function of its range, and its rows have places."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, get_type_hints

import pyarrow as pa
import pytest

from shoal.kernel.time import SECOND
from shoal.log.journal import FORGET_AFTER, Journal
from shoal.log.spool import Spool
from shoal.query.catalog import SourceDef, parse_schema
from shoal.spark.ingest.files import FileSource
from shoal.spark.ingest.push import PushSource
from shoal.spark.ingest.rate import RateSource
from shoal.spark.ingest.source import ROW_IN_TASK, Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = parse_schema("ts TIMESTAMP, a INT")
#: Long after all that a test writes.
NOW = 4_000_000_000 * SECOND


def files(folder: Path) -> Source:
    for name in ("n/1.json", "s/2.json", "n/3.json"):
        path = folder / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"ts": "2026-03-01T00:00:00Z", "a": 1}\n{"a": 2}\n')
    journal = Journal(folder / "journal", forget_after=FORGET_AFTER)
    journal.claim(1)
    options = {"path": str(folder / "in"), "format": "json"}
    return FileSource(SourceDef(kind="files", options=options), journal, keep=False)


def push(folder: Path) -> Source:
    spool = Spool(folder / "spool", bytes_max=1 << 20)
    rows = pa.table({"ts": pa.array([1, 2], pa.timestamp("us", "UTC")), "a": [1, 2]})
    for client, sequence in (("n", 0), ("s", 0), ("n", 1)):
        spool.append(client, sequence, rows)
    return PushSource(spool)


def rate(folder: Path) -> Source:
    options = {"rows_per_second": "3", "splits": "2"}
    return RateSource(SourceDef(kind="rate", options=options), started=NOW - SECOND)


@pytest.mark.slow
@pytest.mark.parametrize("make", [files, push, rate])
def test_a_source(tmp_path: Path, spark: "SparkSession", make: Callable[[Path], Source]) -> None:
    source = make(tmp_path)
    assert source.waiting(0) == () or not isinstance(source, FileSource | RateSource)
    source.discover(NOW)
    batch = source.next_batch(0)
    assert batch is not None
    assert (batch.after, batch.upto) == (0, 3)
    assert source.next_batch(3) is None
    assert source.batch(0, 3) == batch
    assert source.waiting(0) == batch.splits
    assert source.waiting(3) == ()
    assert source.describe(batch)
    assert not source.parts_are_positions or batch.parts == 3
    raw = source.read(spark, batch, COLUMNS)
    found = [
        raw.frame.selectExpr(
            "a", f"{raw.corrupt} AS c", f"{raw.part} AS p", f"{raw.row} AS r", f"{raw.split} AS s"
        ).collect()
        for _ in range(2)
    ]
    assert sorted(found[0]) == sorted(found[1])
    places = [(row.p, row.r) for row in found[0]]
    assert len(dict.fromkeys(places)) == len(places)
    assert all(0 <= row.p < batch.parts and row.c is None for row in found[0])
    assert sorted({row.s for row in found[0]}) == list(range(len(batch.splits)))
    part = source.batch(1, 2)
    again = source.read(spark, part, COLUMNS).frame.select("a").collect()
    assert len(again) == len(found[0]) // 3
    source.release(3, NOW)


def test_the_sources_have_the_calls_of_the_protocol() -> None:
    calls = [name for name in vars(Source) if not name.startswith("_")]
    assert "next_batch" in calls
    for kind in (FileSource, PushSource, RateSource):
        missing = [name for name in calls if not hasattr(kind, name)]
        assert missing == []
        assert get_type_hints(kind.batch) == get_type_hints(Source.batch)


@pytest.mark.slow
def test_rows_of_a_task_count_from_nought(spark: "SparkSession") -> None:
    """Spark puts the task's number into the upper bits; they are not part of the row."""
    rows = spark.range(0, 6, 1, 2).selectExpr("spark_partition_id() AS p", f"{ROW_IN_TASK} AS r")
    assert sorted((row.p, row.r) for row in rows.collect()) == [
        (task, row) for task in (0, 1) for row in range(3)
    ]
