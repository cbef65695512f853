"""Taking the constants out: holes and parameters, keys and ranges, the name.

    conjuncts     meter = 7, kwh > 1.5           (typed, in the order of their canonical text)
    holes         ('DOUBLE', 'INT')
    parameters    (1.5, 7)

Promises   equal conjuncts in any order, with any constants of equal types, have one signature;
           two that differ in anything else do not. Nothing of a constant is in a signature.
Not here   the canonical form (`canonical.py`); the types themselves (`selection.py`).
"""

from dataclasses import dataclass, replace

from shoal.kernel.ids import key_of
from shoal.query.canonical import VERSION
from shoal.query.catalog import StreamDef
from shoal.query.selection import Key, Range, Signature, Value
from shoal.query.terms.safe import Safe
from shoal.query.terms.tree import (
    Call,
    ColumnRef,
    Convert,
    Hole,
    Literal,
    Term,
    children,
    show,
    walk,
    with_children,
)
from shoal.query.terms.types import INTEGRAL
from shoal.query.terms.typing import ARITHMETIC

__all__ = ["plan_of", "sign"]

#: Calls that are NULL as soon as one of their arguments is.
_STRICT = (*ARITHMETIC, "negative", "abs", "floor", "ceil", "pmod")

_BOUNDS = {
    ">": ("lower", True),
    ">=": ("lower", False),
    "<": ("upper", True),
    "<=": ("upper", False),
}


def sign(
    stream: StreamDef,
    conjuncts: tuple[Term, ...],
    extra_functions: tuple[str, ...],
    *,
    first: tuple[Term, ...] = (),
) -> tuple[Signature, tuple[Value, ...]]:
    """The signature of typed conjuncts, and their constants in the order of its holes.

    Those in `first` come before all others, in their own order.
    """
    safe = Safe(extra_functions)
    parts, holes, parameters = _emptied(conjuncts, safe, first)
    where = " AND ".join(show(part) for part in parts) or "TRUE"
    source = f"{stream.name}@{key_of(stream.canonical_name)[:12]}"
    signature = Signature(
        stream=stream.name,
        holes=tuple(hole.type for hole in holes),
        keys=tuple(key for part in parts if (key := _key(part, safe)) is not None),
        range=_range(parts, safe),
        condition=" AND ".join(safe.safe(part) for part in parts) or "TRUE",
        errors=_errors(parts, safe),
        may_throw=any(safe.may_throw(part) for part in parts),
        name=f"v{VERSION} select from {source} where {where}",
    )
    return signature, tuple(parameters)


def plan_of(conjuncts: tuple[Term, ...], extra_functions: tuple[str, ...]) -> tuple[str, ...]:
    """The canonical text of each conjunct, in the order of the signature, constants out."""
    parts, _, _ = _emptied(conjuncts, Safe(extra_functions))
    return tuple(show(part) for part in parts)


def _emptied(
    conjuncts: tuple[Term, ...], safe: Safe, first: tuple[Term, ...] = ()
) -> tuple[list[Term], list[Hole], list[Value]]:
    """The conjuncts in order and without constants, the holes, and what was in them."""
    # What may throw whatever is done comes last: what can spare it a tuple comes before.
    order = {part: (safe.may_throw(part), show(part), _constants(part)) for part in conjuncts}
    holes: list[Hole] = []
    parameters: list[Value] = []
    ranked = (*first, *sorted(order, key=lambda part: order[part]))
    parts = [_take_out(part, holes, parameters) for part in ranked]
    return parts, holes, parameters


def _constants(term: Term) -> str:
    """Orders conjuncts that differ in their constants only."""
    return repr([node.value for node in walk(term) if isinstance(node, Literal)])


def _take_out(term: Term, holes: list[Hole], parameters: list[Value]) -> Term:
    """The term with its constants, from left to right, in numbered holes."""
    if isinstance(term, Literal):
        holes.append(Hole(number=len(holes), type=term.type))
        parameters.append(term.value)
        return holes[-1]
    parts = tuple(_take_out(part, holes, parameters) for part in children(term))
    return with_children(term, parts)


def _reads_tuple_only(term: Term) -> bool:
    nodes = list(walk(term))
    reads = any(isinstance(node, ColumnRef) for node in nodes)
    return reads and not any(isinstance(node, Hole) for node in nodes)


def _may_fail(part: Term, safe: Safe) -> bool:
    """Whether some tuple is an error of this conjunct: it has to meet the row, to be counted."""
    return safe.may_throw(part) or bool(safe.raised(part))


def _key(part: Term, safe: Safe) -> Key | None:
    """The key that a conjunct is, if it is one.

    What fails for some tuples can be one where the failure shows as NULL: the index then looks
    for such tuples under NULL. Constants inside can, where they are few: whole numbers.
    """
    if not isinstance(part, Call) or part.op not in ("=", "in") or safe.may_throw(part):
        return None
    subject, hole = part.args
    if not isinstance(hole, Hole) or not _shows_failure(subject, safe):
        return None
    nodes = list(walk(subject))
    inner = {node.number: node.type for node in nodes if isinstance(node, Hole)}
    reads = any(isinstance(node, ColumnRef) for node in nodes)
    if not reads or not all(type_ in INTEGRAL for type_ in inner.values()):
        return None
    return Key(
        expression=safe.safe(subject),
        hole=hole.number,
        many=part.op == "in",
        inner=tuple(inner),
        fails=bool(safe.raised(part)),
    )


def _shows_failure(term: Term, safe: Safe) -> bool:
    """Whether the value is NULL for every tuple for which computing it would have thrown."""
    if not safe.raised(term):
        return True
    if isinstance(term, Convert):
        return _shows_failure(term.term, safe)
    strict = isinstance(term, Call) and term.op in _STRICT
    return strict and all(_shows_failure(part, safe) for part in children(term))


@dataclass(slots=True, kw_only=True)
class _Bounds:
    """What is known so far of the bounds on one expression."""

    range: Range
    is_column: bool


def _range(parts: list[Term], safe: Safe) -> Range | None:
    """Of the expressions with bounds, one with both; then a column; then the first."""
    found: dict[str, _Bounds] = {}
    for part in parts:
        if not isinstance(part, Call) or part.op not in _BOUNDS or _may_fail(part, safe):
            continue
        subject, hole = part.args
        if not isinstance(hole, Hole) or not _reads_tuple_only(subject):
            continue
        text = safe.safe(subject)
        bounds = found.setdefault(text, _empty(text, subject))
        side, strict = _BOUNDS[part.op]
        if side == "lower" and bounds.range.lower is None:
            bounds.range = replace(bounds.range, lower=hole.number, lower_strict=strict)
        elif side == "upper" and bounds.range.upper is None:
            bounds.range = replace(bounds.range, upper=hole.number, upper_strict=strict)
    ranked = sorted(found.values(), key=_usefulness)
    return ranked[0].range if ranked else None


def _empty(text: str, subject: Term) -> _Bounds:
    nothing = Range(expression=text, lower=None, lower_strict=False, upper=None, upper_strict=False)
    return _Bounds(range=nothing, is_column=isinstance(subject, ColumnRef))


def _usefulness(bounds: _Bounds) -> tuple[bool, bool]:
    both = bounds.range.lower is not None and bounds.range.upper is not None
    return not both, not bounds.is_column


def _errors(parts: list[Term], safe: Safe) -> str:
    """Some conjunct would have thrown, and no other has ruled the tuple out."""
    raised = [safe.raised(part) for part in parts]
    found = [text for text in raised if text]
    if not found:
        return ""
    terms = [found[0] if len(found) == 1 else "(" + " OR ".join(found) + ")"]
    for part, text in zip(parts, raised, strict=True):
        if not text:
            terms.append(safe.safe(part))
        elif len(found) > 1:
            terms.append(f"({safe.safe(part)} OR {text})")
    return " AND ".join(terms)
