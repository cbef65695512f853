"""Types of results, by the rules that Spark documents for ANSI mode."""

import pytest

from shoal.kernel.errors import UserError
from shoal.query.meaning.kinds import arithmetic_type, common_type, widest
from shoal.query.terms.tree import ColumnRef, Literal


@pytest.mark.parametrize(
    ("types", "common"),
    [
        (["TINYINT", "BIGINT"], "BIGINT"),
        (["BIGINT", "FLOAT"], "DOUBLE"),
        (["FLOAT", "FLOAT"], "FLOAT"),
        (["DECIMAL(10,2)", "INT"], "DECIMAL(12,2)"),
        (["DECIMAL(10,2)", "DOUBLE"], "DOUBLE"),
        (["STRING", "TINYINT"], "BIGINT"),
        (["STRING", "DATE"], "DATE"),
        (["DATE", "TIMESTAMP"], "TIMESTAMP"),
        (["VOID", "VOID"], "VOID"),
    ],
)
def test_common(types: list[str], common: str) -> None:
    assert common_type(types) == common
    assert common_type(types[::-1]) == common


def test_nothing_in_common() -> None:
    with pytest.raises(UserError):
        common_type(["BOOLEAN", "INT"])


@pytest.mark.parametrize(
    ("left", "op", "right", "result"),
    [
        ("INT", "+", "SMALLINT", "INT"),
        ("INT", "/", "INT", "DOUBLE"),
        ("FLOAT", "/", "FLOAT", "DOUBLE"),
        ("INT", "div", "INT", "BIGINT"),
        ("DECIMAL(10,2)", "+", "DECIMAL(5,3)", "DECIMAL(12,3)"),
        ("DECIMAL(10,2)", "*", "DECIMAL(5,3)", "DECIMAL(16,5)"),
        ("DECIMAL(10,2)", "/", "DECIMAL(5,3)", "DECIMAL(19,8)"),
        ("DECIMAL(10,2)", "%", "DECIMAL(5,3)", "DECIMAL(5,3)"),
        ("DECIMAL(38,10)", "*", "DECIMAL(38,10)", "DECIMAL(38,6)"),
        ("DECIMAL(10,2)", "*", "DOUBLE", "DOUBLE"),
    ],
)
def test_arithmetic(left: str, op: str, right: str, result: str) -> None:
    terms = [ColumnRef(name=name, type=type_) for name, type_ in (("a", left), ("b", right))]
    assert arithmetic_type(op, terms, [left, right]) == result


def test_a_whole_constant_beside_a_decimal_counts_by_its_digits() -> None:
    terms = [ColumnRef(name="a", type="DECIMAL(10,2)"), Literal(type="INT", value=100)]
    assert arithmetic_type("+", terms, ["DECIMAL(10,2)", "INT"]) == "DECIMAL(11,2)"


def test_widest_has_room_for_all() -> None:
    assert widest(["DECIMAL(5,4)", "BIGINT"]) == "DECIMAL(24,4)"
