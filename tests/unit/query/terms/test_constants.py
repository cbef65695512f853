"""Constants as text: exact, typed, and nothing that Spark would replace."""

import math
from decimal import Decimal

import pytest

from shoal.kernel.errors import LocalError, UserError
from shoal.query.meaning.evaluate import expression
from shoal.query.selection import Value
from shoal.query.terms.constants import constant_text


@pytest.mark.parametrize(
    ("value", "type_", "text"),
    [
        (5, "INT", "5"),
        (-5, "INT", "(-5)"),
        (-(2**63), "BIGINT", "(-9223372036854775808L)"),
        (7, "TINYINT", "7Y"),
        (7, "SMALLINT", "7S"),
        (1.5, "DOUBLE", "1.5D"),
        (-0.0, "DOUBLE", "(-0.0D)"),
        (1e300, "DOUBLE", "1e+300D"),
        (math.nan, "DOUBLE", "CAST('NaN' AS DOUBLE)"),
        (-math.inf, "FLOAT", "CAST('-Infinity' AS FLOAT)"),
        (0.5, "FLOAT", "CAST(0.5D AS FLOAT)"),
        (Decimal("5.00"), "DECIMAL(12,2)", "CAST(5.00BD AS DECIMAL(12,2))"),
        ("it's \\ this", "STRING", r"'it\'s \\ this'"),
        ("${env:HOME}", "STRING", r"'\u0024{env:HOME}'"),
        (b"\x00\xff", "BINARY", "X'00ff'"),
        (True, "BOOLEAN", "TRUE"),
        (None, "INT", "CAST(NULL AS INT)"),
        (None, "VOID", "NULL"),
        (19782, "DATE", "CAST('2024-02-29' AS DATE)"),
        (-1, "TIMESTAMP", "CAST('1969-12-31 23:59:59.999999Z' AS TIMESTAMP)"),
        ((1, None), "ARRAY<INT>", "array(1, CAST(NULL AS INT))"),
    ],
)
def test_texts(value: Value, type_: str, text: str) -> None:
    assert constant_text(value, type_) == text


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (-(2**63), "BIGINT"),
        (0.1, "DOUBLE"),
        (math.inf, "DOUBLE"),
        ("a'b\\%_\n$", "STRING"),
        (Decimal("-0.50"), "DECIMAL(4,2)"),
        (19782, "DATE"),
        (1_500_000, "TIMESTAMP"),
        (None, "DOUBLE"),
    ],
)
def test_what_is_read_back_is_the_same(value: Value, type_: str) -> None:
    found = expression(constant_text(value, type_), {})
    assert (found.type, repr(found.run({}, ()))) == (type_, repr(value))


def test_what_has_no_text_is_refused() -> None:
    with pytest.raises(UserError, match="before year 1"):
        constant_text(10**9, "DATE")
    with pytest.raises(LocalError, match="is not of type"):
        constant_text(5, "STRING")
