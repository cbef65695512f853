"""Spark's types as Arrow's: both directions of the one table."""

from decimal import Decimal

import pyarrow as pa
import pytest

from shoal.kernel.errors import LocalError
from shoal.log.types import INSTANT, arrow_type, arrow_values
from shoal.query.terms.types import ALPHABETIC, FRACTIONAL, INTEGRAL


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TINYINT", pa.int8()),
        ("SMALLINT", pa.int16()),
        ("INT", pa.int32()),
        ("BIGINT", pa.int64()),
        ("FLOAT", pa.float32()),
        ("DOUBLE", pa.float64()),
        ("STRING", pa.string()),
        ("DATE", pa.date32()),
        ("TIMESTAMP", pa.timestamp("us", "UTC")),
        ("DECIMAL(10,2)", pa.decimal128(10, 2)),
        (" decimal(38, 0) ", pa.decimal128(38, 0)),
        ("ARRAY<DECIMAL(4,1)>", pa.list_(pa.decimal128(4, 1))),
        ("array<timestamp>", pa.list_(INSTANT)),
    ],
)
def test_a_type(text: str, expected: pa.DataType) -> None:
    assert arrow_type(text) == expected


def test_every_type_that_a_column_may_have_is_in_the_table() -> None:
    for name in (*INTEGRAL, *FRACTIONAL, *ALPHABETIC):
        assert arrow_type(name) == arrow_type(f"ARRAY<{name}>").value_type


@pytest.mark.parametrize("text", ["MAP<INT,INT>", "TIMESTAMP_NTZ", "DECIMAL", "", "INT INT"])
def test_a_type_without_counterpart(text: str) -> None:
    with pytest.raises(LocalError, match="no counterpart"):
        arrow_type(text)


def test_instants_and_dates_come_as_integers() -> None:
    instants = arrow_values([1, None, -1], "TIMESTAMP")
    assert instants.type == INSTANT
    assert instants.cast(pa.int64()).to_pylist() == [1, None, -1]
    days = arrow_values([19_000, None], "DATE")
    assert days.type == pa.date32()
    assert days.cast(pa.int32()).to_pylist() == [19_000, None]


def test_lists_keep_their_borders() -> None:
    """A list that is NULL, or empty, has no constants; a NULL in a list stays."""
    found = arrow_values([(1, 2), (), None, (3, None)], "ARRAY<INT>")
    assert found.to_pylist() == [[1, 2], [], [], [3, None]]
    dates = arrow_values([(1,), (2, 3)], "array<date>")
    assert dates.type == pa.list_(pa.date32())
    assert [len(part) for part in dates.to_pylist()] == [1, 2]


def test_a_constant_where_a_list_belongs() -> None:
    with pytest.raises(LocalError, match="where a list belongs"):
        arrow_values([7], "ARRAY<INT>")


def test_constants_of_the_other_types() -> None:
    assert arrow_values([Decimal("1.5")], "DECIMAL(10,2)").to_pylist() == [Decimal("1.50")]
    assert arrow_values([b"\x00", None], "BINARY").to_pylist() == [b"\x00", None]
    assert arrow_values([True], "BOOLEAN").type == pa.bool_()
