"""What operators do with compiled operands: logic, comparison, choice, arithmetic, patterns.

    compare("<", left, right)    an Expression of BOOLEAN over two others

Promises   three-valued logic; of DOUBLE, NaN equals itself and is above all numbers, and the two
           zeros are equal; arithmetic that Spark would refuse is `Raised`, and NULL if tried.
Not here   which operator a tree names (`evaluate.py`); functions of values (`functions.py`).
"""

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from shoal.query.meaning.casts import EXACT, Raised, cast, fit_decimal, fit_integer, to_single
from shoal.query.meaning.kinds import arithmetic_type, common_type
from shoal.query.selection import Value
from shoal.query.terms.literals import unescape
from shoal.query.terms.tree import Term
from shoal.query.terms.types import FRACTIONAL, INTEGRAL, element_of, is_decimal

__all__ = [
    "TRIED",
    "UNARY",
    "Expression",
    "Run",
    "Tuple",
    "arithmetic",
    "case",
    "changed",
    "choice",
    "comparison",
    "contains",
    "logic",
    "pattern",
    "strict",
    "tried",
]

#: A tuple of the stream, by the names of its columns.
Tuple = Mapping[str, Any]
#: The value of an expression for a tuple and a row's constants.
Run = Callable[[Tuple, Sequence[Value]], Any]

#: Patterns kept compiled by one expression; a roster has few different ones.
PATTERNS_MAX = 512
#: Operators that are NULL where the plain one raises.
TRIED = {
    "try_add": "+",
    "try_subtract": "-",
    "try_multiply": "*",
    "try_divide": "/",
    "try_mod": "%",
}
_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<=>": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """A compiled expression: its type, and its value for a tuple and constants."""

    type: str
    run: Run


def case(args: Sequence[Expression]) -> Expression:
    """Condition, value, condition, value ..., and the rest or nothing."""
    values = [arg for at, arg in enumerate(args) if at % 2 or at == len(args) - 1]
    type_ = common_type([value.type for value in values])
    pairs = [(args[at].run, changed(args[at + 1], type_).run) for at in range(0, len(args) - 1, 2)]
    rest = changed(args[-1], type_).run if len(args) % 2 else _null

    def run(s: Tuple, p: Sequence[Value]) -> Any:
        for test, value in pairs:
            if test(s, p) is True:
                return value(s, p)
        return rest(s, p)

    return Expression(type=type_, run=run)


def _null(_s: Tuple, _p: Sequence[Value]) -> None:
    return None


def logic(op: str, args: Sequence[Expression]) -> Expression:
    """AND stops at FALSE and OR at TRUE, from left to right."""
    decides = op == "or"
    runs = [arg.run for arg in args]

    def run(s: Tuple, p: Sequence[Value]) -> bool | None:
        unknown = False
        for part in runs:
            value = part(s, p)
            if value is decides:
                return bool(value)
            if value is None:
                unknown = True
        return None if unknown else op == "and"

    return Expression(type="BOOLEAN", run=run)


def _test(arg: Expression, test: Callable[[Any], bool | None]) -> Expression:
    inner = arg.run
    return Expression(type="BOOLEAN", run=lambda s, p: test(inner(s, p)))


def _negative(arg: Expression) -> Expression:
    zero = Expression(type=arg.type, run=lambda s, p: 0)
    if arg.type in FRACTIONAL or is_decimal(arg.type):
        inner = arg.run
        return Expression(type=arg.type, run=strict(lambda v: -v, [inner]))
    return _computed("-", [zero, arg], arg.type)


def changed(arg: Expression, type_: str) -> Expression:
    """The expression in a type that Spark coerces it to."""
    run, source = arg.run, arg.type
    if source in (type_, "VOID"):
        return Expression(type=type_, run=run)
    return Expression(type=type_, run=lambda s, p: cast(run(s, p), source, type_))


def _ordered(value: Any) -> Any:
    """A number as something that compares as Spark compares it: NaN above infinity."""
    return (1, 0.0) if math.isnan(value) else (0, value)


def comparison(op: str, left: Expression, right: Expression) -> Expression:
    """= <> <=> < <= > >=, in the type that both are coerced to."""
    type_ = common_type([left.type, right.type])
    first, second = changed(left, type_).run, changed(right, type_).run
    key = _ordered if type_ in FRACTIONAL else None
    compare = _COMPARE[op]

    def run(s: Tuple, p: Sequence[Value]) -> bool | None:
        a = first(s, p)
        b = second(s, p)
        if a is None or b is None:
            return (a is None and b is None) if op == "<=>" else None
        return bool(compare(key(a), key(b)) if key else compare(a, b))

    return Expression(type="BOOLEAN", run=run)


def contains(args: Sequence[Expression]) -> Expression:
    """x IN array, or x IN (a, b, ...)."""
    subject = args[0]
    types = [subject.type, *(element_of(arg.type) for arg in args[1:])]
    type_ = common_type(types)
    key = _ordered if type_ in FRACTIONAL else None
    value_of = changed(subject, type_).run
    is_array = args[1].type.startswith("ARRAY<")
    runs = [args[1].run] if is_array else [changed(arg, type_).run for arg in args[1:]]

    def run(s: Tuple, p: Sequence[Value]) -> bool | None:
        values = runs[0](s, p) if is_array else [part(s, p) for part in runs]
        value = value_of(s, p)
        if value is None or values is None:
            return None
        wanted = key(value) if key else value
        for other in values:
            if other is not None and (key(other) if key else other) == wanted:
                return True
        return None if None in values else False

    return Expression(type="BOOLEAN", run=run)


def choice(op: str, args: Sequence[Expression]) -> Expression:
    """coalesce, greatest, least, nullif and nanvl, which look at NULL themselves."""
    type_ = common_type([arg.type for arg in args])
    if op == "nullif":
        same = comparison("=", args[0], args[1]).run
        kept = args[0].run
        run: Run = lambda s, p: None if same(s, p) is True else kept(s, p)  # noqa: E731
        return Expression(type=args[0].type, run=run)
    runs = [changed(arg, type_).run for arg in args]
    if op == "nanvl":
        first, second = runs

        def instead(s: Tuple, p: Sequence[Value]) -> Any:
            value = first(s, p)
            return second(s, p) if value is not None and math.isnan(value) else value

        return Expression(type=type_, run=instead)
    if op == "coalesce":
        found: Run = lambda s, p: next(  # noqa: E731
            (value for part in runs if (value := part(s, p)) is not None), None
        )
        return Expression(type=type_, run=found)
    key = _ordered if type_ in FRACTIONAL else None
    choose: Callable[..., Any] = max if op == "greatest" else min

    def best(s: Tuple, p: Sequence[Value]) -> Any:
        values = [value for part in runs if (value := part(s, p)) is not None]
        return choose(values, key=key) if values else None

    return Expression(type=type_, run=best)


def strict(run: Callable[..., Any], runs: Sequence[Run]) -> Run:
    """NULL in, NULL out."""

    def whole(s: Tuple, p: Sequence[Value]) -> Any:
        values = [part(s, p) for part in runs]
        return None if any(value is None for value in values) else run(*values)

    return whole


def tried(run: Callable[..., Any]) -> Callable[..., Any]:
    """The same, but NULL where it raises."""

    def attempt(*args: Any) -> Any:
        try:
            return run(*args)
        except Raised:
            return None

    return attempt


def arithmetic(op: str, args: Sequence[Expression], terms: Sequence[Term]) -> Expression:
    """+ - * / % div and their tried forms; `terms` are what the operands were made of."""
    plain = TRIED.get(op, op)
    type_ = arithmetic_type(plain, terms, [arg.type for arg in args])
    return _computed(op, args, type_)


def _computed(op: str, args: Sequence[Expression], type_: str) -> Expression:
    plain = TRIED.get(op, op)
    if type_ == "VOID":
        return Expression(type=type_, run=_null)
    if is_decimal(type_):
        compute = partial(_decimals, plain, type_)
        sides = list(args)
    elif plain == "div" or type_ in INTEGRAL:
        compute = partial(_integers, plain, type_)
        sides = list(args)
    else:
        compute = partial(_reals, plain, type_)
        sides = [changed(arg, type_) for arg in args]
    whole = tried(compute) if op in TRIED else compute
    return Expression(type=type_, run=strict(whole, [side.run for side in sides]))


def _integers(op: str, type_: str, left: int, right: int) -> int:
    if op in ("%", "div"):
        if right == 0:
            raise Raised("division by zero")
        quotient = abs(left) // abs(right)
        quotient = quotient if (left < 0) == (right < 0) else -quotient
        return fit_integer(quotient if op == "div" else left - right * quotient, type_)
    values = {"+": operator.add, "-": operator.sub, "*": operator.mul}
    return fit_integer(values[op](left, right), type_)


def _decimals(op: str, type_: str, left: Any, right: Any) -> Any:
    a, b = EXACT.create_decimal(left), EXACT.create_decimal(right)
    if op in ("/", "%") and b == 0:
        raise Raised("division by zero")
    compute = {
        "+": EXACT.add,
        "-": EXACT.subtract,
        "*": EXACT.multiply,
        "/": EXACT.divide,
        "%": EXACT.remainder,
    }
    return fit_decimal(compute[op](a, b), type_)


def _reals(op: str, type_: str, left: float, right: float) -> float:
    if op in ("/", "%") and right == 0:
        raise Raised("division by zero")
    if op == "%":
        value = math.nan if math.isinf(left) or math.isnan(right) else math.fmod(left, right)
    else:
        values = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
        value = values[op](left, right)
    return to_single(value) if type_ == "FLOAT" else value


def pattern(op: str, args: Sequence[Expression], fixed: Sequence[str]) -> Expression:
    """LIKE, ILIKE and RLIKE; `fixed` is the quoted escape, if it is not a backslash."""
    escape = unescape(fixed[0][1:-1]) if fixed else "\\"
    kept: dict[str, re.Pattern[str]] = {}

    def matches(text: str, pattern: str) -> bool:
        compiled = kept.get(pattern)
        if compiled is None:
            if len(kept) >= PATTERNS_MAX:
                kept.clear()
            source = pattern if op == "rlike" else _like(pattern, escape)
            flags = re.DOTALL | (re.IGNORECASE if op == "ilike" else 0)
            compiled = kept[pattern] = re.compile(source, 0 if op == "rlike" else flags)
        if op == "rlike":
            return compiled.search(text) is not None
        return compiled.fullmatch(text) is not None

    sides = [changed(arg, "STRING").run for arg in args]
    return Expression(type="BOOLEAN", run=strict(matches, sides))


def _like(pattern: str, escape: str) -> str:
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character == escape and at + 1 < len(pattern):
            at += 1
            parts.append(re.escape(pattern[at]))
        else:
            parts.append({"%": ".*", "_": "."}.get(character, re.escape(character)))
        at += 1
    return "".join(parts)


UNARY: Mapping[str, Callable[[Expression], Expression]] = {
    "not": lambda arg: _test(arg, lambda value: None if value is None else not value),
    "is_null": lambda arg: _test(arg, lambda value: value is None),
    "is_true": lambda arg: _test(arg, lambda value: value is True),
    "is_false": lambda arg: _test(arg, lambda value: value is False),
    "negative": _negative,
}
