"""Sources as a program says them, and the rows that it pushes."""

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import shoal
from shoal.cli.sources import Pushed, arrow_rows, source_of
from shoal.kernel.errors import UserError
from shoal.log.root import Root
from shoal.query.catalog import SourceDef, parse_schema
from tests.property.streams import READINGS

STREAM = replace(READINGS, name="s", columns=parse_schema("ts TIMESTAMP, a INT, d DECIMAL(4,1)"))
MOMENT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_every_source_is_valid_as_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = shoal.files("in", format="csv", header=True, files_per_step=3)
    assert files == SourceDef(
        kind="files",
        options={
            "path": str(tmp_path / "in"),
            "format": "csv",
            "header": "True",
            "files_per_step": "3",
        },
    )
    rate = shoal.rate(rows_per_second=100, splits=2, seed=-1)
    assert rate.options == {"rows_per_second": "100", "splits": "2", "seed": "-1"}
    for source in (files, rate, shoal.push()):
        source.validate()


def test_rows_become_the_columns_of_the_stream() -> None:
    rows = [{"d": Decimal("1.5"), "ts": MOMENT}, {"a": 7, "ts": None}]
    found = arrow_rows(STREAM, rows)
    assert found.schema.names == ["ts", "a", "d"]
    assert found.column("ts").type == pa.timestamp("us", "UTC")
    assert found.to_pylist() == [
        {"ts": MOMENT, "a": None, "d": Decimal("1.5")},
        {"ts": None, "a": 7, "d": None},
    ]


def test_a_table_becomes_the_columns_of_the_stream() -> None:
    """Any order, any type that holds the same values; what is not given is NULL."""
    given = pa.table({"a": pa.array([7], pa.int64()), "ts": pa.array([MOMENT], pa.timestamp("ms"))})
    found = arrow_rows(STREAM, given)
    assert found.schema == arrow_rows(STREAM, []).schema
    assert found.to_pylist() == [{"ts": MOMENT, "a": 7, "d": None}]


@pytest.mark.parametrize(
    "rows",
    [
        [{"a": "seven"}],
        [{"a": 1 << 40}],
        [{"a": 1 << 70}],
        [{"ts": "2026-03-01"}],
        [{"ts": date(2026, 3, 1), "a": 1.5}],
        [{"d": Decimal("12345.6")}],
        pa.table({"a": [1 << 40]}),
        pa.table({"a": ["seven"]}),
        pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]),
    ],
)
def test_rows_that_do_not_fit_are_refused_with_the_types(rows: Any) -> None:
    with pytest.raises(UserError, match="do not fit stream s") as raised:
        arrow_rows(STREAM, rows)
    assert "a is INT" in raised.value.hint


@pytest.mark.parametrize("rows", [[{"ts": None}, {"b": 1}], pa.table({"a": [1], "b": [2]})])
def test_a_column_that_the_stream_has_not(rows: Any) -> None:
    with pytest.raises(UserError, match="column 'b' is not in stream s") as raised:
        arrow_rows(STREAM, rows)
    assert raised.value.detail == "columns: ts, a, d"


def test_a_statement_s_path_begins_where_the_process_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written = SourceDef(kind="files", options={"path": "in", "format": "csv"})
    assert source_of(written) == shoal.files("in", format="csv")
    assert source_of(shoal.push()) == shoal.push()


def test_pushed_rows_are_counted_once_and_outlive_who_forgets_them(root: Path) -> None:
    pushed = Pushed(Root.open(root))
    assert pushed.append(READINGS, [{"meter": 7}], client="c", sequence=0) == 1
    assert pushed.append(READINGS, [{"meter": 8}], client="c", sequence=1) == 2
    pushed.forget(READINGS)
    assert pushed.append(READINGS, [{"meter": 8}], client="c", sequence=1) <= 2
    assert pushed.append(READINGS, [{"meter": 9}], client="c", sequence=2) == 3
    with pytest.raises(UserError, match="does not take pushed rows"):
        pushed.append(
            replace(READINGS, source=shoal.rate(rows_per_second=1)), [], client="c", sequence=0
        )
