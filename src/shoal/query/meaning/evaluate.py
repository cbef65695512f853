"""Conditions as Python functions of a tuple and a row's constants.

    run = condition(signature, {"meter": "INT", "kwh": "DOUBLE"})
    run({"meter": 7, "kwh": 2.5}, (1.5, 7))        True, False or None

Values are those of `selection.Value`. A safe form (`try_add`, TRY_CAST) is NULL where its plain
form raises; what is left to raise is a user's function, or a plain form outside of a signature.

Promises   what is evaluated gives Spark's value (tests/spark/test_meaning.py and DuckDB judge);
           an operator or function that is not known here is a UserError when it is compiled, and
           never a guess.
Not here   what operators and functions do (`operators.py`, `functions.py`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.kernel.errors import UserError
from shoal.query.meaning import operators
from shoal.query.meaning.casts import cast
from shoal.query.meaning.functions import FUNCTIONS, Function
from shoal.query.meaning.kinds import common_type
from shoal.query.meaning.operators import Expression, Run
from shoal.query.meaning.read import read_condition, read_probe
from shoal.query.selection import Signature, Value
from shoal.query.terms.tree import COMPARISONS, Call, ColumnRef, Convert, Hole, Literal, Term

__all__ = ["Installed", "analyze", "condition", "errors", "expression"]

_ARITHMETIC = ("+", "-", "*", "/", "%", "div", *operators.TRIED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """A user's function: what it does, and the type of what it gives."""

    run: Callable[..., Any]
    type: str


Functions = Mapping[str, Installed]
_NONE: Functions = {}


def condition(
    signature: Signature, columns: Mapping[str, str], functions: Functions = _NONE
) -> Run:
    """Whether a tuple matches, by the constants of a row: TRUE, FALSE or NULL."""
    return expression(signature.condition, columns, signature.holes, functions).run


def errors(
    signature: Signature, columns: Mapping[str, str], functions: Functions = _NONE
) -> Run | None:
    """Whether the predicate as written would have raised; None where it never does."""
    if not signature.errors:
        return None
    return expression(signature.errors, columns, signature.holes, functions).run


def expression(
    text: str,
    columns: Mapping[str, str],
    holes: tuple[str, ...] = (),
    functions: Functions = _NONE,
) -> Expression:
    """The compiled expression of a text over these columns and holes."""
    return _compiled(read_condition(text, columns, holes), functions)


def analyze(probe: str, functions: Functions = _NONE) -> tuple[str, ...]:
    """The answers to a probe (`Draft.probe`), spelled as Spark spells types.

    >>> analyze("SELECT typeof((s.`a` > 1)) AS t0 FROM (SELECT CAST(NULL AS INT) AS `a`) AS s")
    ('boolean',)
    """
    questions = read_probe(probe).questions
    return tuple(_compiled(term, functions).type.lower() for term in questions)


def _compiled(term: Term, functions: Functions) -> Expression:
    match term:
        case ColumnRef(name=name, type=type_):
            return Expression(type=type_, run=lambda s, p: s[name])
        case Hole(number=number, type=type_):
            return Expression(type=type_, run=lambda s, p: p[number])
        case Literal(type=type_, value=value):
            return Expression(type=type_, run=lambda s, p: value)
        case Convert():
            return _converted(term, _compiled(term.term, functions))
        case Call():
            args = [_compiled(arg, functions) for arg in term.args]
            return _called(term, args, functions)


def _converted(term: Convert, inner: Expression) -> Expression:
    run, source, target = inner.run, inner.type, term.type
    if source == "VOID":
        return Expression(type=target, run=run)
    change = operators.tried(cast) if term.tried else cast
    return Expression(type=target, run=lambda s, p: change(run(s, p), source, target))


def _called(term: Call, args: list[Expression], functions: Functions) -> Expression:
    """An operator by its name, else a user's function, else one that is listed."""
    op = term.op
    if op in COMPARISONS:
        return operators.comparison(op, *args)
    if op in _ARITHMETIC:
        return operators.arithmetic(op, args, term.args)
    if op in _BY_NAME:
        return _BY_NAME[op](term, args)
    if op in functions:
        return Expression(type=functions[op].type, run=_spread(functions[op].run, args))
    if op in FUNCTIONS:
        return _function(op, FUNCTIONS[op], args)
    raise UserError(
        f"{op} cannot be evaluated here", hint="this engine knows fewer functions than Spark"
    )


_Make = Callable[[Call, list[Expression]], Expression]

_BY_NAME: Mapping[str, _Make] = {
    **dict.fromkeys(("and", "or"), lambda term, args: operators.logic(term.op, args)),
    **dict.fromkeys(("case", "if"), lambda _, args: operators.case(args)),
    "in": lambda _, args: operators.contains(args),
    "array_contains": lambda _, args: operators.contains(args[::-1]),
    **dict.fromkeys(
        ("coalesce", "greatest", "least", "nullif", "nanvl"),
        lambda term, args: operators.choice(term.op, args),
    ),
    **dict.fromkeys(
        ("like", "ilike", "rlike"),
        lambda term, args: operators.pattern(term.op, args, term.fixed),
    ),
    **dict.fromkeys(operators.UNARY, lambda term, args: operators.UNARY[term.op](args[0])),
}


def _spread(run: Callable[..., Any], args: Sequence[Expression]) -> Run:
    """A user's function is given NULL as it is given anything else."""
    runs = [arg.run for arg in args]

    def spread(s: Mapping[str, Any], p: Sequence[Value]) -> Any:
        return run(*(part(s, p) for part in runs))

    return spread


def _function(op: str, function: Function, args: list[Expression]) -> Expression:
    types = [arg.type for arg in args]
    wanted = _wanted(op, function, types)
    if op in ("round", "bround"):
        # The scale is a constant, and decides the type of a DECIMAL.
        types = [types[0], *(str(arg.run({}, ())) for arg in args[1:])]
    sides = [operators.changed(arg, type_) for arg, type_ in zip(args, wanted, strict=True)]
    run = operators.strict(function.run, [side.run for side in sides])
    return Expression(type=function.given(types), run=run)


def _wanted(op: str, function: Function, types: Sequence[str]) -> Sequence[str]:
    """What the arguments are cast to before."""
    if op == "pmod":
        return [common_type(types)] * len(types)
    if not function.as_types:
        return types
    last = len(function.as_types) - 1
    wanted = [function.as_types[min(at, last)] for at in range(len(types))]
    if types[0] == "BINARY" and wanted[0] == "STRING":
        raise UserError(f"{op} of BINARY cannot be evaluated here", hint="cast it to STRING")
    return wanted
