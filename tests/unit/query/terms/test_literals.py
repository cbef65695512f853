"""Conversions of constants are exact or refused."""

from decimal import Decimal
from fractions import Fraction

import pytest

from shoal.kernel.errors import UserError
from shoal.query.selection import Value
from shoal.query.terms.literals import convert, decimal_type, single, unescape


@pytest.mark.parametrize(
    ("value", "source", "target", "expected"),
    [
        (5, "INT", "BIGINT", 5),
        (5, "INT", "DOUBLE", 5.0),
        (2**63 - 1, "BIGINT", "DOUBLE", 9.223372036854775807e18),
        (Decimal("0.1"), "DECIMAL(1,1)", "DOUBLE", 0.1),
        (Decimal("5.25"), "DECIMAL(3,2)", "DECIMAL(12,4)", Decimal("5.2500")),
        (Decimal("5.00"), "DECIMAL(3,2)", "INT", 5),
        (" 5 ", "STRING", "BIGINT", 5),
        ("-Infinity", "STRING", "DOUBLE", float("-inf")),
        ("1e3", "STRING", "DOUBLE", 1000.0),
        ("Yes", "STRING", "BOOLEAN", True),
        ("é", "STRING", "BINARY", "é".encode()),
        ("2024-2-9", "STRING", "DATE", 19762),
        ("2024", "STRING", "DATE", 19723),
        ("1970-01-01T01:00:00.5+01:00", "STRING", "TIMESTAMP", 500_000),
        ("1970-01-02", "STRING", "TIMESTAMP", 86_400_000_000),
        ("0001-01-01 00:00:00Z", "STRING", "TIMESTAMP", -62_135_596_800_000_000),
        (1, "DATE", "TIMESTAMP", 86_400_000_000),
        (None, "VOID", "INT", None),
    ],
)
def test_convert(value: Value, source: str, target: str, expected: Value) -> None:
    assert repr(convert(value, source, target)) == repr(expected)


@pytest.mark.parametrize(
    ("value", "source", "target"),
    [
        (128, "INT", "TINYINT"),
        (Decimal("5.255"), "DECIMAL(4,3)", "DECIMAL(10,2)"),
        (Decimal("123"), "DECIMAL(3,0)", "DECIMAL(3,1)"),
        (1.5, "DOUBLE", "INT"),
        ("5.5", "STRING", "BIGINT"),
        ("9" * 50, "STRING", "BIGINT"),
        ("abc", "STRING", "DOUBLE"),
        ("0x1p3", "STRING", "DOUBLE"),
        ("maybe", "STRING", "BOOLEAN"),
        ("2023-02-29", "STRING", "DATE"),
        ("2024-02-29 10:00:00", "STRING", "DATE"),
        ("2024-02-29 25:00:00", "STRING", "TIMESTAMP"),
        ("2024-02-29 10:00:00.1234567", "STRING", "TIMESTAMP"),
        ("2024-02-29 10:00:00 Europe/Berlin", "STRING", "TIMESTAMP"),
        ("2024-02-29 10:00:00+19:00", "STRING", "TIMESTAMP"),
        (True, "BOOLEAN", "INT"),
    ],
)
def test_what_is_not_exact_is_refused(value: Value, source: str, target: str) -> None:
    with pytest.raises(UserError):
        convert(value, source, target)


def test_a_float_is_rounded_once() -> None:
    # Just above the middle of two FLOATs, by less than a DOUBLE can tell.
    middle = Fraction(1) + Fraction(1, 2**24)
    assert single(middle) == 1.0
    assert single(middle + Fraction(1, 2**80)) == 1.0 + 2.0**-23


def test_escapes_and_decimal_types() -> None:
    assert unescape(r"\\ \' \x \101 \U0001f41f") == "\\ ' x A 🐟"
    assert decimal_type(Decimal("-12.50")) == "DECIMAL(4,2)"
