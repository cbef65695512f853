"""The type of an operator's result, as Spark gives it in ANSI mode.

Promises   a type that is told is Spark's (tests/spark/test_meaning.py asks it); an operator or a
           combination that is not known here is a UserError.
Not here   the types of functions, which stand beside what they do (`functions.py`).
"""

from collections.abc import Sequence

from shoal.kernel.errors import UserError
from shoal.query.terms.tree import Call, Literal, Term
from shoal.query.terms.types import (
    DIGITS_MAX,
    FRACTIONAL,
    INTEGRAL,
    decimal_parts,
    is_decimal,
    is_numeric,
)

__all__ = ["arithmetic_type", "common_type", "widest"]

#: Digits after the point that Spark keeps where a DECIMAL would need more than it can hold.
SCALE_KEPT = 6
_ORDER = [*INTEGRAL]


def common_type(types: Sequence[str]) -> str:
    """The one type that operands of these types are coerced to.

    >>> common_type(["INT", "VOID", "DOUBLE"]), common_type(["STRING", "INT"])
    ('DOUBLE', 'BIGINT')
    """
    found = [type_ for type_ in types if type_ != "VOID"]
    result = found[0] if found else "VOID"
    for type_ in found[1:]:
        result = _pair(result, type_)
    return result


def widest(types: Sequence[str]) -> str:
    """The DECIMAL that holds all of these exactly."""
    parts = [decimal_parts(type_) for type_ in types]
    scale = max(scale for _, scale in parts)
    whole = max(precision - scale for precision, scale in parts)
    return f"DECIMAL({min(whole + scale, DIGITS_MAX)},{min(scale, DIGITS_MAX)})"


def arithmetic_type(op: str, terms: Sequence[Term], types: Sequence[str]) -> str:
    """The type of `left op right`, where op is + - * / % or div."""
    exact = all(is_decimal(type_) or type_ in INTEGRAL for type_ in types)
    if op == "div":
        return "BIGINT"
    if exact and any(map(is_decimal, types)):
        sized = [_digits(term, type_) for term, type_ in zip(terms, types, strict=True)]
        return _decimal(op, *(decimal_parts(type_) for type_ in sized))
    joint = common_type(types)
    if joint != "VOID" and not is_numeric(joint):
        raise UserError(f"{op} cannot take {' and '.join(types)}", hint="use numbers")
    return "DOUBLE" if op == "/" else joint


def _digits(term: Term, type_: str) -> str:
    """A whole constant beside a DECIMAL counts by its own digits."""
    if isinstance(term, Literal) and type_ in INTEGRAL and isinstance(term.value, int):
        return f"DECIMAL({len(str(abs(term.value)))},0)"
    if isinstance(term, Call) and term.op == "negative":
        return _digits(term.args[0], type_)
    return type_


def _decimal(op: str, left: tuple[int, int], right: tuple[int, int]) -> str:
    (p1, s1), (p2, s2) = left, right
    scale = max(s1, s2)
    if op == "*":
        return _bounded(p1 + p2 + 1, s1 + s2)
    if op == "/":
        kept = max(SCALE_KEPT, s1 + p2 + 1)
        return _bounded(p1 - s1 + s2 + kept, kept)
    if op == "%":
        return _bounded(min(p1 - s1, p2 - s2) + scale, scale)
    return _bounded(max(p1 - s1, p2 - s2) + scale + 1, scale)


def _bounded(precision: int, scale: int) -> str:
    """Digits before the point come first where all of them do not fit."""
    if precision <= DIGITS_MAX:
        return f"DECIMAL({precision},{scale})"
    kept = max(DIGITS_MAX - (precision - scale), min(scale, SCALE_KEPT))
    return f"DECIMAL({DIGITS_MAX},{kept})"


def _pair(left: str, right: str) -> str:
    if left == right:
        return left
    both = (left, right)
    if "STRING" in both:
        return _with_text(right if left == "STRING" else left)
    if both in (("DATE", "TIMESTAMP"), ("TIMESTAMP", "DATE")):
        return "TIMESTAMP"
    if not is_numeric(left) or not is_numeric(right):
        raise UserError(f"{left} and {right} have no type in common", hint="write CAST")
    if left in FRACTIONAL or right in FRACTIONAL:
        return "DOUBLE"
    if left in INTEGRAL and right in INTEGRAL:
        return max(both, key=_ORDER.index)
    return widest(both)


def _with_text(other: str) -> str:
    if other in INTEGRAL:
        return "BIGINT"
    return "DOUBLE" if is_numeric(other) else other
