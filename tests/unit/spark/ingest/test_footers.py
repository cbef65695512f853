"""Footers: what they say for sure, and that they say nothing where there is any doubt."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.spark.ingest.footers import Footer, read_footer

INSTANT = pa.timestamp("us", "UTC")


def write(path: Path, values: list[int | None], *, kind: pa.DataType = INSTANT, **how: Any) -> str:
    count = len(values)
    table = pa.table({"ts": pa.array(values, kind), "a": pa.array(range(count), pa.int32())})
    pq.write_table(table, path, **how)
    return str(path)


def footer(path: str) -> Footer | None:
    return read_footer(path, "ts", ["ts", "a"])


def test_rows_and_bounds_over_all_row_groups(tmp_path: Path) -> None:
    path = write(tmp_path / "x", [5, 9, 3, 4, -7], row_group_size=2)
    assert pq.read_metadata(path).num_row_groups == 3
    assert footer(path) == Footer(rows=5, earliest=-7, latest=9)


def test_milliseconds_are_instants_too(tmp_path: Path) -> None:
    path = write(tmp_path / "x", [5, 9], kind=pa.timestamp("ms", "UTC"))
    assert footer(path) == Footer(rows=2, earliest=5_000, latest=9_000)


@pytest.mark.parametrize(
    ("values", "how"),
    [
        ([], {}),
        ([1, None], {}),
        ([1, 2], {"write_statistics": False}),
        ([1, 2], {"kind": pa.timestamp("us")}),
        ([1, 2], {"kind": pa.timestamp("us", "Asia/Tokyo")}),
        ([1, 2], {"kind": pa.timestamp("ns", "UTC")}),
        ([1, 2], {"kind": pa.int64()}),
        ([1, 2], {"kind": INSTANT, "use_deprecated_int96_timestamps": True}),
    ],
    ids=["empty", "null", "no statistics", "no zone", "Tokyo", "nanoseconds", "number", "int96"],
)
def test_in_doubt_it_says_nothing(tmp_path: Path, values: Any, how: Any) -> None:
    assert footer(write(tmp_path / "x", values, **how)) is None


def test_a_file_that_is_not_what_the_stream_declares(tmp_path: Path) -> None:
    path = write(tmp_path / "x", [1])
    assert read_footer(path, "ts", ["ts", "a", "b"]) is None
    assert read_footer(path, "TS", ["TS", "a"]) is None
    twice = pa.table([pa.array([1], INSTANT), pa.array([1]), pa.array([2])], ["ts", "a", "a"])
    pq.write_table(twice, tmp_path / "twice")
    assert footer(str(tmp_path / "twice")) is None


def test_a_file_that_is_gone_or_no_parquet(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("no parquet")
    assert footer(str(tmp_path / "x")) is None
    assert footer(str(tmp_path / "gone")) is None
