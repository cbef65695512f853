"""Casts as Spark makes them: what fits, what is cut, and what raises."""

import math
from decimal import Decimal

import pytest

from shoal.kernel.errors import UserError
from shoal.query.meaning.casts import Raised, cast, fit_decimal, fit_integer, to_single


@pytest.mark.parametrize(
    ("value", "source", "target", "result"),
    [
        (300, "INT", "BIGINT", 300),
        (2.9, "DOUBLE", "INT", 2),
        (-2.9, "DOUBLE", "INT", -2),
        (Decimal("2.55"), "DECIMAL(3,2)", "DECIMAL(3,1)", Decimal("2.6")),
        (0.1, "DOUBLE", "DECIMAL(3,2)", Decimal("0.10")),
        (to_single(0.1), "FLOAT", "DECIMAL(12,10)", Decimal("0.1000000000")),
        (True, "BOOLEAN", "INT", 1),
        (7, "INT", "BOOLEAN", True),
        (" 5 ", "STRING", "INT", 5),
        ("1.5d", "STRING", "DOUBLE", 1.5),
        ("-Infinity", "STRING", "DOUBLE", -math.inf),
        ("Yes", "STRING", "BOOLEAN", True),
        ("1970-01-02", "STRING", "DATE", 1),
        ("1970-01-02T00:00:01", "STRING", "DATE", 1),
        (86_400_000_001, "TIMESTAMP", "DATE", 1),
        (-1, "TIMESTAMP", "DATE", -1),
        (1, "DATE", "TIMESTAMP", 86_400_000_000),
        (-1_500_000, "TIMESTAMP", "BIGINT", -2),
        (2, "INT", "TIMESTAMP", 2_000_000),
        (None, "INT", "STRING", None),
        (5.0, "DOUBLE", "STRING", "5.0"),
        (1e7, "DOUBLE", "STRING", "1.0E7"),
        (0.0001234, "DOUBLE", "STRING", "1.234E-4"),
        (to_single(0.1), "FLOAT", "STRING", "0.1"),
        (Decimal("5.20"), "DECIMAL(3,2)", "STRING", "5.20"),
        (1_500_000, "TIMESTAMP", "STRING", "1970-01-01 00:00:01.5"),
        (0, "TIMESTAMP", "STRING", "1970-01-01 00:00:00"),
        (-1, "DATE", "STRING", "1969-12-31"),
        ("é", "STRING", "BINARY", b"\xc3\xa9"),
    ],
)
def test_cast(value: object, source: str, target: str, result: object) -> None:
    assert cast(value, source, target) == result  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "source", "target"),
    [
        (300, "INT", "TINYINT"),
        (math.nan, "DOUBLE", "INT"),
        (1e300, "DOUBLE", "DECIMAL(20,3)"),
        (Decimal("99.96"), "DECIMAL(4,2)", "DECIMAL(3,1)"),
        ("1.5", "STRING", "INT"),
        ("NaN", "STRING", "DECIMAL(5,1)"),
        ("maybe", "STRING", "BOOLEAN"),
        ("2024-02-30", "STRING", "DATE"),
        (math.inf, "DOUBLE", "TIMESTAMP"),
    ],
)
def test_what_spark_raises_on(value: object, source: str, target: str) -> None:
    with pytest.raises(Raised):
        cast(value, source, target)  # type: ignore[arg-type]


def test_what_has_no_meaning() -> None:
    with pytest.raises(UserError):
        cast(b"x", "BINARY", "INT")


def test_edges_of_types() -> None:
    assert fit_integer(-128, "TINYINT") == -128
    with pytest.raises(Raised):
        fit_integer(128, "TINYINT")
    assert fit_decimal(Decimal("0.05"), "DECIMAL(2,1)") == Decimal("0.1")
    assert to_single(1e300) == math.inf
