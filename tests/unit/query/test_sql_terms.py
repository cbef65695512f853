"""Expressions: constants as Spark types them, and operators that could be read in two ways."""

import pytest

from shoal.kernel.errors import UserError
from shoal.query.terms.tree import Call, Literal
from tests.property.canonical_text import read


@pytest.mark.parametrize(
    ("text", "type_", "value"),
    [
        ("5", "INT", 5),
        ("-2147483648", "INT", -2147483648),
        ("2147483648", "BIGINT", 2147483648),
        ("5L", "BIGINT", 5),
        ("-128Y", "TINYINT", -128),
        ("1e3", "DOUBLE", 1000.0),
        ("5D", "DOUBLE", 5.0),
        ("0.1F", "FLOAT", 0.10000000149011612),
        ("'it''s'", "STRING", "it's"),
        ("'a' 'b'", "STRING", "ab"),
        ("'\\t\\u0041\\%'", "STRING", "\tA\\%"),
        ("r'a\\n'", "STRING", "a\\n"),
        ("NULL", "VOID", None),
        ("X'0f0'", "BINARY", b"\x00\xf0"),
        ("DATE '1970-01-02'", "DATE", 1),
        ("TIMESTAMP '1970-01-01 00:00:01'", "TIMESTAMP", 1_000_000),
    ],
)
def test_constants(text: str, type_: str, value: object) -> None:
    term = read(f"name = {text}")
    assert isinstance(term, Call)
    assert term.args[1] == Literal(type=type_, value=value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "meter = 1 = flag",
        "meter = zone IN (1)",
        "meter < zone < 3",
        "name || meter + 1 = 'a'",
        "meter BETWEEN 1 AND 2 = flag",
        "flag = NOT flag",
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"two ways|cannot be read"):
        read(text)


def test_parentheses_say_what_is_meant() -> None:
    assert isinstance(read("(meter = 1) = flag"), Call)
    assert isinstance(read("meter = (zone IS NULL)"), Call)


def test_is_binds_more_loosely_than_a_comparison_as_in_spark() -> None:
    assert read("meter = zone IS NULL") == read("(meter = zone) IS NULL")


@pytest.mark.parametrize(
    "text",
    [
        "abs(DISTINCT meter) = 1",
        "abs(meter) OVER () = 1",
        "upper(name, name) = 'a'",
        "meter[0] = 1",
    ],
)
def test_parts_that_are_not_understood_are_refused(text: str) -> None:
    with pytest.raises(UserError):
        read(text)
