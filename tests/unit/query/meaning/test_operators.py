"""Logic of three values, the order of DOUBLE, and arithmetic that raises or is NULL."""

import math
from decimal import Decimal
from typing import Any

import pytest

from shoal.query.meaning import operators
from shoal.query.meaning.casts import Raised
from shoal.query.meaning.operators import Expression
from shoal.query.terms.tree import ColumnRef


def const(value: Any, type_: str) -> Expression:
    return Expression(type=type_, run=lambda s, p: value)


def value(expression: Expression) -> Any:
    return expression.run({}, ())


@pytest.mark.parametrize("left", [True, False, None])
@pytest.mark.parametrize("right", [True, False, None])
def test_logic_of_three_values(left: bool | None, right: bool | None) -> None:
    args = [const(left, "BOOLEAN"), const(right, "BOOLEAN")]
    both = False if False in (left, right) else None if None in (left, right) else True
    either = True if True in (left, right) else None if None in (left, right) else False
    assert value(operators.logic("and", args)) is both
    assert value(operators.logic("or", args)) is either


def test_logic_stops_where_it_is_decided() -> None:
    def bad(*_: object) -> None:
        raise AssertionError

    never = Expression(type="BOOLEAN", run=bad)
    assert value(operators.logic("and", [const(False, "BOOLEAN"), never])) is False
    assert value(operators.logic("or", [const(True, "BOOLEAN"), never])) is True


def test_nan_is_above_all_and_equals_itself() -> None:
    nan, most = const(math.nan, "DOUBLE"), const(math.inf, "DOUBLE")
    assert value(operators.comparison("=", nan, nan)) is True
    assert value(operators.comparison(">", nan, most)) is True
    assert value(operators.comparison("<=", most, nan)) is True
    assert value(operators.comparison("=", const(0.0, "DOUBLE"), const(-0.0, "DOUBLE"))) is True
    assert math.isnan(value(operators.choice("greatest", [nan, most])))


def test_null_in_comparisons() -> None:
    null, one = const(None, "INT"), const(1, "INT")
    assert value(operators.comparison("=", null, one)) is None
    assert value(operators.comparison("<=>", null, one)) is False
    assert value(operators.comparison("<=>", null, null)) is True


def test_lists() -> None:
    one, four = const(1, "INT"), const(4, "INT")
    values = const((1, None), "ARRAY<INT>")
    assert value(operators.contains([one, values])) is True
    assert value(operators.contains([four, values])) is None
    assert value(operators.contains([four, const((1, 2), "ARRAY<INT>")])) is False
    assert value(operators.contains([four, one, const(4, "BIGINT")])) is True


@pytest.mark.parametrize(
    ("op", "left", "right", "type_", "result"),
    [
        ("+", 1, 2, "INT", 3),
        ("%", -7, 3, "INT", -1),
        ("div", -7, 2, "INT", -3),
        ("/", 1.0, 4.0, "DOUBLE", 0.25),
        ("%", -7.5, 2.0, "DOUBLE", -1.5),
        ("*", Decimal("1.5"), Decimal("1.5"), "DECIMAL(2,1)", Decimal("2.25")),
        ("/", Decimal("1.0"), Decimal("3.0"), "DECIMAL(2,1)", Decimal("0.333333")),
    ],
)
def test_arithmetic(op: str, left: Any, right: Any, type_: str, result: Any) -> None:
    terms = [ColumnRef(name="a", type=type_), ColumnRef(name="b", type=type_)]
    args = [const(left, type_), const(right, type_)]
    assert value(operators.arithmetic(op, args, terms)) == result


@pytest.mark.parametrize(
    ("op", "left", "right"),
    [("+", 2147483647, 1), ("/", 1, 0), ("%", 1, 0), ("*", 65536, 65536)],
)
def test_what_raises_is_null_if_tried(op: str, left: int, right: int) -> None:
    terms = [ColumnRef(name="a", type="INT"), ColumnRef(name="b", type="INT")]
    args = [const(left, "INT"), const(right, "INT")]
    with pytest.raises(Raised):
        value(operators.arithmetic(op, args, terms))
    names = {plain: tried for tried, plain in operators.TRIED.items()}
    assert value(operators.arithmetic(names[op], args, terms)) is None


def test_choices() -> None:
    null, one = const(None, "INT"), const(1, "INT")
    assert value(operators.choice("coalesce", [null, one])) == 1
    assert value(operators.choice("nullif", [one, one])) is None
    assert value(operators.choice("least", [null, one])) == 1
    nan = const(math.nan, "DOUBLE")
    assert value(operators.choice("nanvl", [nan, const(2.0, "DOUBLE")])) == 2.0
    branches = [const(None, "BOOLEAN"), one, const(True, "BOOLEAN"), const(2, "BIGINT")]
    assert value(operators.case(branches)) == 2
    assert operators.case(branches).type == "BIGINT"
    assert value(operators.case(branches[:2])) is None


@pytest.mark.parametrize(
    ("op", "text", "pattern", "escape", "result"),
    [
        ("like", "a.c\n", "a.%", (), True),
        ("like", "abc", "a.c", (), False),
        ("like", "5%", "5/%", ("'/'",), True),
        ("like", "x_y", "x\\_y", (), True),
        ("ilike", "ABC", "a_c", (), True),
        ("rlike", "xaby", "ab", (), True),
    ],
)
def test_patterns(op: str, text: str, pattern: str, escape: tuple[str, ...], result: bool) -> None:
    args = [const(text, "STRING"), const(pattern, "STRING")]
    assert value(operators.pattern(op, args, escape)) is result
