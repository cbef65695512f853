"""Keys, ranges and what may throw; the rest is golden (test_draft.py)."""

from dataclasses import replace

from shoal.query.draft import parse_selection
from shoal.query.selection import Signature
from shoal.query.signature import sign
from shoal.query.terms.tree import Call, ColumnRef, Literal
from tests.property.spark_types import resolve
from tests.property.streams import READINGS


def _sign(text: str, *extra: str) -> Signature:
    query = f"SELECT meter FROM readings WHERE {text}"
    return resolve(parse_selection(query, READINGS, extra_functions=extra)).signature


def test_an_expression_with_both_bounds_is_preferred() -> None:
    found = _sign("meter > 1 AND kwh > 2 AND kwh <= 3").range
    assert found is not None
    assert (found.expression, found.lower_strict, found.upper_strict) == ("s.`kwh`", True, False)


def test_a_column_is_preferred_to_an_expression() -> None:
    found = _sign("length(name) > 1 AND zone < 3").range
    assert found is not None
    assert found.expression == "s.`zone`"


def test_what_may_throw_comes_last_and_is_no_key() -> None:
    signature = _sign("raise_error(name) IS NULL AND meter = 1", "raise_error")
    assert signature.may_throw
    assert signature.condition.startswith("(s.`meter` = p.p0) AND ")
    assert [key.expression for key in signature.keys] == ["s.`meter`"]
    assert not _sign("meter = 1").may_throw


def test_what_fails_is_a_key_where_the_failure_shows() -> None:
    """`coalesce` hides the NULL that stands for a failure, so nobody could look under NULL."""
    keys = {text: _sign(f"{text} = 3").keys for text in (
        "meter % 10", "abs(meter % zone)", "minute(ts) % 10", "CAST(name AS INT)",
        "coalesce(meter % zone, 1)", "if(meter % zone > 1, 1, 2)", "kwh % 2.5",
    )}  # fmt: skip
    found = {text: [(key.inner, key.fails) for key in some] for text, some in keys.items()}
    assert found == {
        "meter % 10": [((0,), True)],
        "abs(meter % zone)": [((), True)],
        "minute(ts) % 10": [((0,), True)],
        "CAST(name AS INT)": [((), True)],
        "coalesce(meter % zone, 1)": [],
        "if(meter % zone > 1, 1, 2)": [],
        "kwh % 2.5": [],
    }


def test_a_disjunction_has_no_keys() -> None:
    assert _sign("meter = 1 OR zone = 2").keys == ()


def test_another_definition_of_the_stream_is_another_signature() -> None:
    other = replace(READINGS, lateness=1)
    query = "SELECT meter FROM readings WHERE meter = 1"
    assert resolve(parse_selection(query, other)).signature.name != _sign("meter = 1").name


def test_without_where_everything_matches() -> None:
    signature = resolve(parse_selection("SELECT * FROM readings", READINGS)).signature
    assert (signature.condition, signature.errors, signature.holes) == ("TRUE", "", ())


def test_what_is_to_come_first_does() -> None:
    """Although its text is greater than that of the other."""
    same = [
        Call(op="=", args=(ColumnRef(name=name, type="INT"), Literal(type="INT", value=at)))
        for at, name in enumerate(("zone", "meter"))
    ]
    signature, parameters = sign(READINGS, (same[1],), (), first=(same[0],))
    assert signature.condition == "(s.`zone` = p.p0) AND (s.`meter` = p.p1)"
    assert parameters == (0, 1)
