"""Calls that only read the tuple, taken out of predicates."""

import pytest

from shoal.spark.select.hoist import Hoisted


@pytest.mark.parametrize(
    ("text", "left", "taken"),
    [
        ("(s.`kwh` > p.p0)", "(s.`kwh` > p.p0)", []),
        ("(sqrt(s.`kwh`) < p.p0)", "(s.`_x0` < p.p0)", ["sqrt(s.`kwh`)"]),
        (
            "(try_mod(minute(s.`ts`), p.p1) = p.p2)",
            "(try_mod(s.`_x0`, p.p1) = p.p2)",
            ["minute(s.`ts`)"],
        ),
        ("(abs((s.`a` - s.`b`)) > p.p0)", "(s.`_x0` > p.p0)", ["abs((s.`a` - s.`b`))"]),
        ("(upper('s.`a`') = p.p0)", "(upper('s.`a`') = p.p0)", []),
        ("(f(s.`odd (name`) = p.p0)", "(s.`_x0` = p.p0)", ["f(s.`odd (name`)"]),
        ("(f(s.`p.p0`) = p.p0)", "(s.`_x0` = p.p0)", ["f(s.`p.p0`)"]),
        (
            "(f(s.`a`, ')', 'it\\'s (') = p.p0)",
            "(s.`_x0` = p.p0)",
            ["f(s.`a`, ')', 'it\\'s (')"],
        ),
        ("(f(s.`a`) + f(s.`a`) > g(p.p0))", "(s.`_x0` + s.`_x0` > g(p.p0))", ["f(s.`a`)"]),
        ("(get(i.0, 3) = f(s.`a`, i.0))", "(get(i.0, 3) = f(s.`a`, i.0))", []),
    ],
)
def test_what_is_taken(text: str, left: str, taken: list[str]) -> None:
    """The outermost calls that read the tuple and nothing else, each once."""
    hoisted = Hoisted()
    assert hoisted.take(text) == left
    names = hoisted.columns_of([left])
    assert list(names) == [f"{call} AS `_x{at}`" for at, call in enumerate(taken)]


def test_equal_calls_have_one_name_in_all_texts() -> None:
    """And a part computes only what its own texts name."""
    hoisted = Hoisted()
    assert hoisted.take("(f(s.`a`) > p.p0)") == "(s.`_x0` > p.p0)"
    second = hoisted.take("(g(s.`a`) > p.p0) AND (f(s.`a`) < p.p1)")
    assert second == "(s.`_x1` > p.p0) AND (s.`_x0` < p.p1)"
    assert hoisted.columns_of(["(s.`_x1` > p.p0)"]) == ("g(s.`a`) AS `_x1`",)
    assert hoisted.columns_of(["TRUE", ""]) == ()
