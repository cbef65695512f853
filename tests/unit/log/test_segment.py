"""Segments: names, files, and statistics that never say too little."""

import json
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.kernel.errors import LocalError, StorageError
from shoal.log.root import Root, TableDir
from shoal.log.segment import (
    Segment,
    SegmentName,
    _bounds,
    _literal,
    adopt_segment,
    name_of,
    segment_from_stats,
    write_segment,
)

INSTANT = pa.timestamp("us", "UTC")


@pytest.fixture
def table(root: Path) -> TableDir:
    table = Root.open(root).table("readings")
    table.staging.mkdir(parents=True)
    return table


def write(table: TableDir, columns: dict[str, Any], **partition: str) -> Segment:
    rows = pa.table(columns)
    return write_segment(table, rows, epoch=3, step=7, part=0, partition=partition)


def stats(table: TableDir, values: Any) -> tuple[Any, Any, Any]:
    known = json.loads(write(table, {"x": values}).stats, parse_float=Decimal)
    return tuple(known[kind].get("x") for kind in ("minValues", "maxValues", "nullCount"))


def test_a_name_says_epoch_and_step() -> None:
    name = name_of(epoch=3, step=7, part=0)
    assert SegmentName.parse(name) == SegmentName(epoch=3, step=7)
    assert name_of(epoch=3, step=7, part=0) != name
    assert SegmentName.parse("part-0000.snappy.parquet") is None
    assert SegmentName(epoch=1, step=9) < SegmentName(epoch=2, step=1)


def test_written_whole_under_its_partition(table: TableDir) -> None:
    columns = {"x": [1, 2], "_step": [7, 7], "_kind": ["late", "late"]}
    segment = write(table, columns, _kind="late")
    assert segment.path.startswith("_kind=late/e3-s7-0-")
    content = pq.read_table(table.path / segment.path, partitioning=None)
    assert content.column_names == ["x", "_step"]
    assert (segment.rows, segment.min_step, segment.max_step) == (2, 7, 7)
    assert segment.bytes == (table.path / segment.path).stat().st_size
    compression = pq.read_metadata(table.path / segment.path).row_group(0).column(0).compression
    assert compression == "ZSTD"


def test_instants_are_microseconds_in_utc(table: TableDir) -> None:
    berlin = pa.array([1_700_000_000_000_000], pa.timestamp("us", "Europe/Berlin"))
    segment = write(table, {"x": berlin})
    assert pq.read_schema(table.path / segment.path).field("x").type == INSTANT
    assert json.loads(segment.stats)["minValues"]["x"] == "2023-11-14T22:13:20.000000Z"


@pytest.mark.parametrize(
    ("values", "low", "high", "nulls"),
    [
        (pa.array([3, None, -1]), -1, 3, 1),
        (pa.array([1.5, 2.5]), Decimal("1.5"), Decimal("2.5"), 0),
        (pa.array([1.5, math.nan]), Decimal("1.5"), None, 0),
        (pa.array([-math.inf, math.inf]), None, None, 0),
        (pa.array([None, None], pa.int64()), None, None, 2),
        (pa.array([True, None]), None, None, 1),
        (pa.array([b"a"]), None, None, 0),
        (pa.array(["b", "a"]), "a", "b", 0),
        (pa.array([date(2026, 3, 1)]), "2026-03-01", "2026-03-01", 0),
        (pa.array([datetime(1, 1, 1, tzinfo=UTC)], INSTANT), "0001-01-01T00:00:00.000000Z", ..., 0),
        (pa.array([400_000_000_000_000_000], INSTANT), None, None, 0),
        (pa.array([Decimal("1.50")]), Decimal("1.50"), Decimal("1.50"), 0),
        (pa.array([Decimal("1234567890123456.78")]), None, None, 0),
    ],
)
def test_statistics(table: TableDir, values: Any, low: Any, high: Any, nulls: int) -> None:
    found = stats(table, values)
    assert found == (low, low if high is ... else high, nulls)


def test_a_long_text_is_cut_to_a_bound(table: TableDir) -> None:
    low, high, _ = stats(table, pa.array(["a" * 100, "b" * 31 + "\ud7ff" + "z"]))
    assert low == "a" * 32
    assert high == "b" * 31 + "\ue000"
    top = "\U0010ffff" * 40
    assert stats(table, pa.array([top]))[1] is None


def test_nested_columns_have_no_statistics(table: TableDir) -> None:
    assert stats(table, pa.array([[1, 2]])) == (None, None, None)


def test_bounds_span_row_groups(table: TableDir) -> None:
    rows = 300_000
    segment = write(table, {"x": list(range(rows)), "_step": [7] * rows})
    known = json.loads(segment.stats)
    assert (known["minValues"]["x"], known["maxValues"]["x"]) == (0, rows - 1)
    assert pq.read_metadata(table.path / segment.path).num_row_groups == 3


def test_a_span_of_instants(table: TableDir) -> None:
    """What is not told, or is no instant, has no bound."""
    times = pa.array([5, -3, None], pa.timestamp("us", "UTC"))
    segment = write(table, {"x": times, "y": pa.array([None] * 3, pa.timestamp("us", "UTC"))})
    assert segment.span("x") == (-3, 5)
    assert segment.span("y") == segment.span("z") == (None, None)


def test_no_rows_no_segment(table: TableDir) -> None:
    with pytest.raises(LocalError, match="without rows"):
        write(table, {"x": pa.array([], pa.int64())})


def test_a_partition_value_must_name_a_folder(table: TableDir) -> None:
    with pytest.raises(LocalError, match="cannot name a folder"):
        write(table, {"x": [1]}, _kind="a/b")


def test_a_file_of_spark_is_adopted(table: TableDir) -> None:
    file = table.staging / "part-00000.zstd.parquet"
    pq.write_table(pa.table({"x": [1, 2], "_step": [9, 9]}), file)
    segment = adopt_segment(table, file, epoch=3, step=9, part=1, partition={"_kind": "ok"})
    assert not file.exists()
    assert segment.path.startswith("_kind=ok/e3-s9-1-")
    assert (segment.rows, segment.min_step, segment.max_step) == (2, 9, 9)


def test_a_maximum_that_is_nan_in_one_row_group_is_left_out() -> None:
    """Spark's footers say NaN, ours leave it out; whatever its place, nothing may be skipped."""

    @dataclass
    class Statistics:
        min: float
        max: float
        has_min_max: bool = True
        has_null_count: bool = True
        null_count: int = 0

    @dataclass
    class Chunk:
        statistics: Statistics

    numbers, holed = Chunk(Statistics(1.0, 5.0)), Chunk(Statistics(2.0, math.nan))
    for chunks in ([numbers, holed], [holed, numbers]):
        found = _bounds(chunks)
        assert found is not None
        assert _literal(found[0], upper=False) == "1.0"
        assert _literal(found[1], upper=True) is None


def test_a_torn_file_is_not_adopted(table: TableDir) -> None:
    file = table.staging / "part-00000.parquet"
    file.write_bytes(b"PAR1 and then nothing")
    with pytest.raises(StorageError, match="cannot adopt"):
        adopt_segment(table, file, epoch=3, step=9, part=1, partition={})
    assert file.exists()


def test_read_back_from_an_entry(table: TableDir) -> None:
    segment = write(table, {"x": [1], "_step": [7]})
    again = segment_from_stats(
        path=segment.path, size=segment.bytes, partition={}, stats=segment.stats
    )
    assert again == segment
    silent = segment_from_stats(path="x", size=1, partition={}, stats=None)
    assert (silent.min_step, silent.max_step) == (0, 1 << 62)
