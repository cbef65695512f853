"""Rows as text: every type, NULL, and what JSON has no number for."""

import json
from decimal import Decimal

import pyarrow as pa

from shoal.spark.deliver.sinks.encode import csv_text, json_lines

ROWS = pa.table(
    {
        "a": pa.array([1, None], pa.int32()),
        "d": pa.array([Decimal("1.20"), None], pa.decimal128(10, 2)),
        "ts": pa.array([1, -1], pa.timestamp("us", "UTC")),
        "x": pa.array([float("nan"), 1e300]),
        "s%": ['h"é%s\n', ""],
        "b": pa.array([b"\x00\xff", None]),
        "l": pa.array([[1, None], None], pa.list_(pa.int32())),
        "day": pa.array([1, None], pa.date32()),
        "yes": pa.array([True, None]),
    }
)


def test_json_lines() -> None:
    first, second = (json.loads(line) for line in json_lines(ROWS).decode().splitlines())
    assert first == {
        "a": 1,
        "d": 1.2,
        "ts": "1970-01-01T00:00:00.000001Z",
        "x": "NaN",
        "s%": 'h"é%s\n',
        "b": "AP8=",
        "l": [1, None],
        "day": "1970-01-02",
        "yes": True,
    }
    assert second == {
        **dict.fromkeys(first),
        "ts": "1969-12-31T23:59:59.999999Z",
        "x": 1e300,
        "s%": "",
    }
    assert '"d":1.20' in json_lines(ROWS).decode()


def test_the_same_rows_give_the_same_bytes_however_they_are_cut() -> None:
    whole = json_lines(ROWS)
    assert whole == json_lines(ROWS.slice(0, 1)) + json_lines(ROWS.slice(1))


def test_csv_tells_null_from_empty_text() -> None:
    rows = pa.table({"s": ["", None, 'a"b'], "n": [1, None, 3]})
    assert csv_text(rows, header=True).decode() == '"s","n"\n"",1\n,\n"a""b",3\n'
    assert (
        csv_text(ROWS, header=False).decode().startswith('1,"1.20","1970-01-01T00:00:00.000001Z"')
    )
