"""A stand-in for Spark's type analysis, for tests that must run without Java.

It answers the questions of a draft for the operators that the tests use. That it answers as
Spark does is a test of its own (tests/spark/test_query_types.py).
"""

from dataclasses import replace

from shoal.kernel.errors import UserError
from shoal.query.draft import Draft
from shoal.query.selection import Selection
from shoal.query.terms.tree import (
    COMPARISONS,
    Call,
    ColumnRef,
    Convert,
    Literal,
    Term,
    bottom_up,
    walk,
)
from shoal.query.terms.types import FRACTIONAL, INTEGRAL, decimal_parts, is_decimal, is_numeric
from shoal.query.terms.typing import Typing
from shoal.query.windows.aggregates import Argument, measure
from shoal.query.windows.draft import QueryDraft
from shoal.query.windows.grouping import Aggregated
from shoal.query.windows.plan import Projected, Windowed

_ORDER = [*INTEGRAL]
_CONDITIONS = (*COMPARISONS, "and", "or", "not", "in", "like", "ilike", "rlike")
_CONDITIONS += ("is_null", "is_true", "is_false", "isnan", "startswith", "endswith", "contains")
_FIXED = {
    **dict.fromkeys(("upper", "lower", "trim", "substring", "concat", "||", "left"), "STRING"),
    **dict.fromkeys(("length", "year", "month", "hour", "minute", "dayofmonth"), "INT"),
    **dict.fromkeys(("sqrt", "exp", "ln", "pow", "sin"), "DOUBLE"),
    "div": "BIGINT",
    "date_trunc": "TIMESTAMP",
    "raise_error": "VOID",
    "unix_micros": "BIGINT",
}


def resolve(draft: Draft) -> Selection:
    """The selection of a draft, by the stand-in's types."""
    return draft.resolve(answers(draft))


def answers(draft: Draft) -> list[str]:
    """One type for each question of the draft's probe."""
    typing = Typing(draft.conjuncts)
    known = _known(draft.conjuncts, typing)
    return [known[question] for question in typing.questions]


def _known(terms: tuple[Term, ...], typing: Typing) -> dict[str, str]:
    known = {"NULL": "VOID"}
    for term in terms:
        for node in walk(term):
            known[typing.question(node)] = type_of(node)
            if isinstance(node, Call) and typing.is_joint(node):
                known[typing.joint_question(node)] = common([type_of(arg) for arg in node.args])
    return known


def type_of(term: Term) -> str:
    """The type Spark gives a node."""
    if isinstance(term, ColumnRef | Literal | Convert):
        return term.type
    assert isinstance(term, Call)
    if term.op in _CONDITIONS:
        return "BOOLEAN"
    if term.op in _FIXED:
        return _FIXED[term.op]
    types = [type_of(arg) for arg in term.args]
    if term.op in ("+", "-", "*", "/", "%"):
        if any(map(is_decimal, types)):
            types = [_digits(arg, type_) for arg, type_ in zip(term.args, types, strict=True)]
        return _arithmetic(term.op, types)
    if term.op == "case":
        values = [type_ for at, type_ in enumerate(types) if at % 2 or at == len(types) - 1]
        return common(values)
    if term.op in ("coalesce", "greatest", "least"):
        return common(types)
    return types[0]


def _digits(term: Term, type_: str) -> str:
    """A whole constant beside a DECIMAL counts by its digits."""
    if isinstance(term, Literal) and type_ in INTEGRAL and isinstance(term.value, int):
        return f"DECIMAL({len(str(abs(term.value)))},0)"
    return type_


def _arithmetic(op: str, types: list[str]) -> str:
    joint = common(types)
    if is_decimal(joint):
        # Only operands without the loss of scale that begins at 38 digits are used in tests.
        (p1, s1), (p2, s2) = map(decimal_parts, types)
        if op == "*":
            return f"DECIMAL({p1 + p2 + 1},{s1 + s2})"
        whole, scale = max(p1 - s1, p2 - s2), max(s1, s2)
        return f"DECIMAL({whole + scale + 1},{scale})"
    return "DOUBLE" if op == "/" else joint


def common(types: list[str]) -> str:
    """The type that Spark coerces operands of these types to."""
    found = [type_ for type_ in types if type_ != "VOID"]
    result = found[0] if found else "VOID"
    for type_ in found[1:]:
        result = _pair(result, type_)
    return result


def _pair(left: str, right: str) -> str:
    if left == right:
        return left
    if "STRING" in (left, right):
        other = right if left == "STRING" else left
        if other in INTEGRAL:
            return "BIGINT"
        return "DOUBLE" if is_numeric(other) else other
    if {left, right} == {"DATE", "TIMESTAMP"}:
        return "TIMESTAMP"
    assert is_numeric(left), (left, right)
    assert is_numeric(right), (left, right)
    if left in FRACTIONAL or right in FRACTIONAL:
        return "DOUBLE"
    if left in INTEGRAL and right in INTEGRAL:
        return max(left, right, key=_ORDER.index)
    (p1, s1), (p2, s2) = decimal_parts(left), decimal_parts(right)
    scale = max(s1, s2)
    return f"DECIMAL({max(p1 - s1, p2 - s2) + scale},{scale})"


def resolve_query(draft: QueryDraft) -> Windowed | Projected:
    """The query of a draft, by the stand-in's types."""
    return draft.resolve(query_answers(draft))


def query_answers(draft: QueryDraft) -> list[str]:
    """One type for each question of a query's probe."""
    inner = Typing(draft.inner)
    known = _known(draft.inner, inner)
    found = [known[question] for question in inner.questions]
    if draft.window is None:
        return found
    columns = {f"k{at}": type_of(key) for at, key in enumerate(draft.parts.keys)}
    columns |= {f"a{at}": _aggregate(call) for at, call in enumerate(draft.parts.calls)}
    columns |= {"window_start": "TIMESTAMP", "window_end": "TIMESTAMP"}
    terms = tuple(bottom_up(term, lambda node: _typed(node, columns)) for term in draft.outer)
    outer = Typing(terms, digits=True)
    known = _known(terms, outer)
    found += [columns[f"a{at}"] for at in range(len(draft.parts.calls))]
    return found + [known[question] for question in outer.questions]


def _typed(node: Term, columns: dict[str, str]) -> Term:
    return replace(node, type=columns[node.name]) if isinstance(node, ColumnRef) else node


def _aggregate(call: Aggregated) -> str:
    """The type of an aggregate, as `measure` has it: that this is Spark's is tested there."""
    types = [type_of(term) for term in call.arguments]
    try:
        made = measure(
            call.function,
            tuple(Argument(text="s.`x`", type=type_) for type_ in types),
            name="a0",
            fixed=tuple(constant.value for constant in call.fixed),
        )
    except UserError:
        return types[0]  # the draft refuses it too, with its place
    return made.type
