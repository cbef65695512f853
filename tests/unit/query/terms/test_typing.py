"""Questions have no constants; answers are used, or missed aloud."""

import pytest

from shoal.kernel.errors import LocalError, UserError
from shoal.query.draft import parse_selection
from shoal.query.terms.tree import Call, ColumnRef, Literal
from shoal.query.terms.typing import Typing
from tests.property.streams import READINGS


def _probe(predicate: str) -> str:
    return parse_selection(f"SELECT meter FROM readings WHERE {predicate}", READINGS).probe


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("kwh > 5 AND meter = 7", "meter = 12345 AND kwh > 99"),
        ("name = 'a'", "name = 'abc'"),
        ("meter IN (1, 2)", "meter IN (4, 5, 6)"),
        ("ts > TIMESTAMP '2024-01-01 00:00:00'", "ts > TIMESTAMP '1999-01-01 00:00:00'"),
        ("price > 15", "price > 99"),
    ],
)
def test_probes_are_shared(one: str, other: str) -> None:
    assert _probe(one) == _probe(other)


def test_beside_a_decimal_the_digits_count() -> None:
    assert _probe("price * 5 > 1") != _probe("price * 15 > 1")


def test_a_probe_names_only_what_is_used() -> None:
    assert _probe("meter = 7").endswith("FROM (SELECT CAST(NULL AS INT) AS `meter`) AS s")


def test_wrong_number_of_answers() -> None:
    draft = parse_selection("SELECT meter FROM readings WHERE meter = 7", READINGS)
    with pytest.raises(LocalError):
        draft.resolve([])


def test_types_that_no_column_has() -> None:
    draft = parse_selection("SELECT meter FROM readings WHERE meter = 7", READINGS)
    with pytest.raises(UserError):
        draft.resolve(["array<int>", "int"])


def test_values_may_have_any_type_and_conditions_only_one() -> None:
    meter = ColumnRef(name="meter", type="INT")
    term = Call(op="+", args=(meter, Literal(type="INT", value=1)), at=7)
    typing = Typing((term,), "SELECT meter + 1", digits=True)
    assert typing.questions == ("(s.`meter` + 1)", "coalesce(s.`meter`, 1)")
    answers = dict.fromkeys(typing.questions, "INT")
    assert [value.type for value in typing.values(answers)] == ["INT"]
    with pytest.raises(UserError, match="a condition has type INT") as raised:
        typing.typed(answers)
    assert raised.value.column == 8
