"""The Delta sink: rows once, whoever repeats them, beside foreign writers."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from shoal.kernel.errors import Fenced, StorageError
from shoal.log.entries import Mark
from shoal.log.sinktable import SinkTable

ROWS = pa.table({"n": pa.array([1, 2], pa.int64()), "_id": pa.array([7, 8], pa.int64())})


def sink(path: Path) -> SinkTable:
    return SinkTable(path=path, delivery="hot-0a0b0c0d", optional=("_id",))


def append(table: SinkTable, mark: Mark, rows: pa.Table = ROWS) -> None:
    table.append(rows.schema, lambda: iter([rows]), instance="select-1", mark=mark)


def count(path: Path) -> int:
    found: int = DeltaTable(str(path)).to_pyarrow_table().num_rows
    return found


def test_L2_a_repeated_step_is_added_once(tmp_path: Path) -> None:
    table = sink(tmp_path / "t")
    append(table, Mark(1, 5))
    append(table, Mark(1, 5))
    append(table, Mark(2, 5))
    append(table, Mark(2, 4))
    assert count(tmp_path / "t") == 2
    append(table, Mark(2, 9))
    assert count(tmp_path / "t") == 4


def test_L3_a_lower_epoch_adds_nothing(tmp_path: Path) -> None:
    table = sink(tmp_path / "t")
    append(table, Mark(3, 5))
    with pytest.raises(Fenced, match="another owner"):
        append(table, Mark(2, 6))
    assert count(tmp_path / "t") == 2


def test_L2_two_owners_between_check_and_commit(tmp_path: Path) -> None:
    """One sleeps after it looked; the other commits the same step; the first sees that."""
    path = tmp_path / "t"
    append(sink(path), Mark(1, 1))
    other = sink(path)
    slept: list[str] = []

    def trace(point: str) -> None:
        if point == "checked" and not slept:
            slept.append(point)
            append(other, Mark(2, 2))

    sleepy = SinkTable(path=path, delivery="hot-0a0b0c0d", optional=("_id",), trace=trace)
    append(sleepy, Mark(1, 2))
    assert slept
    assert count(path) == 4


def test_foreign_commits_between_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "t"
    append(sink(path), Mark(1, 1))

    def trace(point: str) -> None:
        if point == "checked":
            write_deltalake(str(path), ROWS, mode="append")

    SinkTable(path=path, delivery="hot-0a0b0c0d", optional=("_id",), trace=trace).append(
        ROWS.schema, lambda: iter([ROWS]), instance="select-1", mark=Mark(1, 2)
    )
    assert count(path) == 6


def test_a_later_version_adds_columns_to_a_table_of_ours(tmp_path: Path) -> None:
    table = sink(tmp_path / "t")
    append(table, Mark(1, 1))
    append(table, Mark(1, 2), ROWS.append_column("more", pa.array(["a", "b"])))
    append(table, Mark(1, 3))
    found = DeltaTable(str(tmp_path / "t")).to_pyarrow_table()
    texts = [value for value in found.column("more").to_pylist() if value is not None]
    assert (found.num_rows, sorted(texts)) == (6, ["a", "b"])


def test_rows_in_many_parts_are_one_commit(tmp_path: Path) -> None:
    def parts() -> Iterator[pa.Table]:
        yield ROWS
        yield ROWS

    table = sink(tmp_path / "t")
    table.append(ROWS.schema, parts, instance="select-1", mark=Mark(1, 1))
    assert DeltaTable(str(tmp_path / "t")).version() == 1
    assert count(tmp_path / "t") == 4


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "notes.txt").write_text("mine")
    with pytest.raises(StorageError, match="not a Delta table"):
        sink(tmp_path / "t").check(ROWS.schema)


def test_a_table_of_the_user_is_checked_and_never_changed(tmp_path: Path) -> None:
    path = tmp_path / "t"
    DeltaTable.create(str(path), pa.schema([("n", pa.int32()), ("x", pa.string())]))
    with pytest.raises(StorageError, match="another type"):
        sink(path).check(ROWS.schema)
    narrow = pa.table({"n": pa.array([1], pa.int32()), "_id": pa.array([7], pa.int64())})
    append(sink(path), Mark(1, 1), narrow)
    assert DeltaTable(str(path)).to_pyarrow_table().to_pylist() == [{"n": 1, "x": None}]
