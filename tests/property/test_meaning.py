"""The evaluator of conditions gives what DuckDB gives, tuple by tuple.

DuckDB reads the predicates as they are written, the evaluator the texts of their signatures, over
rows with NULL, NaN and extremes. (Spark is asked the same in tests/spark/test_query_types.py.)
"""

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.query.draft import parse_selection
from shoal.query.meaning.evaluate import analyze, condition, errors
from tests.property.predicates import predicate, spell
from tests.property.spark_types import answers, resolve
from tests.property.streams import READINGS

if TYPE_CHECKING:
    # As text: see test_selection_meaning.py.
    from duckdb import DuckDBPyConnection as Judge

_INTS = (None, -3, -1, 0, 1, 2, 3, 2147483647, -2147483648)
_KWHS = (None, float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 0.5, 1.25, 1.0, 1e3)
_NAMES = (None, "", "a", "b", "ab", "é", "it's")
_COLUMNS = {column.name: column.type for column in READINGS.columns}
_ROWS = 300


def _rows() -> list[dict[str, Any]]:
    rng = Random(5)
    return [
        {
            "id": at,
            "meter": rng.choice(_INTS),
            "zone": rng.choice(_INTS[:7]),
            "kwh": rng.choice(_KWHS),
            "total": rng.choice((*_INTS, 9223372036854775807)),
            "tiny": rng.choice((*_INTS[:7], 127, -128)),
            "name": rng.choice(_NAMES),
            "flag": rng.choice((None, True, False)),
        }
        for at in range(_ROWS)
    ]


ROWS = _rows()


@pytest.fixture(scope="module")
def judge() -> "Iterator[Judge]":
    connection = duckdb.connect(config={"threads": 1})
    connection.execute(
        "CREATE TABLE readings (id INT, meter INT, zone INT, kwh DOUBLE, total BIGINT, "
        "tiny TINYINT, name VARCHAR, flag BOOLEAN)"
    )
    insert = "INSERT INTO readings VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    connection.executemany(insert, [list(row.values()) for row in ROWS])
    yield connection
    connection.close()


@pytest.mark.slow
@settings(max_examples=250)
@given(st.integers(min_value=0, max_value=1_000_000))
def test_values_are_duckdbs(judge: "Judge", seed: int) -> None:
    """Every value, not only TRUE."""
    rng = Random(seed)
    text = spell(rng, predicate(rng))
    draft = parse_selection(f"SELECT * FROM readings WHERE {text}", READINGS)
    assert list(analyze(draft.probe)) == [answer.lower() for answer in answers(draft)], text
    selection = resolve(draft)
    run = condition(selection.signature, _COLUMNS)
    failing = errors(selection.signature, _COLUMNS)
    wanted = judge.execute(f"SELECT {text} FROM readings ORDER BY id").fetchall()
    for row, (value,) in zip(ROWS, wanted, strict=True):
        got = run(row, selection.parameters)
        # A condition is a conjunction, of which only TRUE matters.
        assert (got is True) == (value is True), (text, row, got, value)
        assert failing is None or failing(row, selection.parameters) is False, (text, row)
