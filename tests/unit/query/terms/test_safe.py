"""Safe forms are bounded; when they are right is shown on Spark (tests/spark)."""

import pytest

from shoal.kernel.errors import LocalError, UserError
from shoal.query.terms.safe import Safe
from shoal.query.terms.tree import Call, ColumnRef, Convert, Hole, Literal, Term

METER = ColumnRef(name="meter", type="INT")


def test_a_text_that_multiplies_is_refused() -> None:
    term: Term = METER
    for _ in range(20):
        term = Call(op="abs", args=(term,), type="INT")
    with pytest.raises(UserError, match="too large"):
        Safe(()).safe(term)


def test_braces_in_names_are_no_marks() -> None:
    odd = ColumnRef(name="{1}", type="INT")
    text = Safe(()).safe(Call(op="+", args=(odd, Hole(number=0, type="INT")), type="INT"))
    assert text == "try_add(s.`{1}`, p.p0)"


@pytest.mark.parametrize(
    ("source", "target", "throws"),
    [
        ("INT", "BIGINT", False),
        ("BIGINT", "INT", True),
        ("INT", "DECIMAL(12,2)", False),
        ("INT", "DECIMAL(10,2)", True),
        ("DECIMAL(10,2)", "DECIMAL(10,1)", True),
        ("INT", "STRING", False),
        ("STRING", "INT", True),
        ("DOUBLE", "INT", True),
        ("DECIMAL(10,2)", "DOUBLE", False),
        ("TIMESTAMP", "DATE", False),
        ("DATE", "TIMESTAMP", True),
        ("BOOLEAN", "INT", False),
    ],
)
def test_which_casts_throw(source: str, target: str, *, throws: bool) -> None:
    column = ColumnRef(name="x", type=source)
    cast = Convert(term=column, type=target, tried=False, implied=False)
    assert bool(Safe(()).raised(cast)) == throws
    assert Safe(()).safe(cast).startswith("TRY_CAST") == throws


def test_a_constant_in_a_signature_is_our_mistake() -> None:
    with pytest.raises(LocalError):
        Safe(()).safe(Literal(type="INT", value=1))


def test_constants_stay_in_the_text_only_where_that_is_wanted() -> None:
    term = Call(op="/", args=(METER, Literal(type="INT", value=-3)), type="DOUBLE")
    assert Safe((), inline=True).safe(term) == "try_divide(s.`meter`, (-3))"
    with pytest.raises(LocalError, match="constant was left"):
        Safe(()).safe(term)
