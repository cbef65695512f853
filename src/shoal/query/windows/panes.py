"""The canonical form of a windowed query: panes and roll-up with their names, and what is its own.

    WHERE meter < 100 AND kwh / zone > 5 AND flag

    always     flag
    filters    f0 = meter, f1 = kwh / zone
    where      f0 < ? AND f1 > ?

A conjunct without constants is applied before tuples are grouped. Of the others, what a constant
is compared with is a filter, if it has no constants itself; else every column that it reads is
one. A conversion that Spark implies depends on the constant, and stays in `where`.

Promises   no constant of WHERE or HAVING is in panes or roll-up; equal names mean equal panes,
           and equal roll-ups; what is in panes never throws, and `errors` says when it would have.
Not here   types (`draft.py`); keys and aggregates in order (`grouping.py`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from shoal.kernel.errors import UserError
from shoal.kernel.ids import key_of
from shoal.query.canonical import VERSION
from shoal.query.catalog import Column, SourceDef, StreamDef
from shoal.query.selection import Signature, Value
from shoal.query.signature import sign
from shoal.query.terms.safe import SAFE_MAX, Safe
from shoal.query.terms.tree import (
    COMPARISONS,
    Call,
    ColumnRef,
    Convert,
    Literal,
    Term,
    children,
    show,
    walk,
    with_children,
)
from shoal.query.windows.plan import (
    SHAPE,
    WINDOW_END,
    WINDOW_START,
    Grouped,
    Measure,
    Output,
    Panes,
    RollUp,
    Shape,
    Windowed,
)
from shoal.query.windows.shape import Window

__all__ = ["FILTERS_MAX", "Typed", "TypedCall", "windowed"]

#: Filters of one query: panes are grouped by each. A guess.
FILTERS_MAX = 16

_TESTS = (*COMPARISONS, "in", "like", "ilike", "rlike")


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedCall:
    """An aggregate whose arguments and FILTER are typed, and the measure that it is."""

    arguments: tuple[Term, ...]
    filter: Term | None
    #: The call as text, which names the measure.
    text: str
    measure: Measure


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """The typed halves of a query: over tuples where, keys and calls; over groups the rest."""

    where: tuple[Term, ...]
    keys: tuple[Term, ...]
    calls: tuple[TypedCall, ...]
    having: tuple[Term, ...]
    outputs: tuple[Output, ...]


def windowed(
    stream: StreamDef, window: Window, typed: Typed, extra_functions: tuple[str, ...]
) -> Windowed:
    """Panes, roll-up, shape and parameters of a query."""
    safe = Safe(extra_functions, inline=True)
    always = {show(part): part for part in typed.where if _is_constant_free(part, safe)}
    compared = [part for part in typed.where if not _is_constant_free(part, safe)]
    filters = _filters(compared, safe)
    ordered = tuple(always[key] for key in sorted(always))
    panes = _panes(stream, window, typed, ordered, filters, safe)
    named = [(f"f{at}", term.type) for at, term in enumerate(filters)]
    columns = {
        term: ColumnRef(name=name, type=type_)
        for term, (name, type_) in zip(filters, named, strict=True)
    }
    over_filters = tuple(_put(part, _subjects(part, safe), columns) for part in compared)
    where, constants = sign(_pseudo("panes", named), over_filters, extra_functions)
    shape = Shape(window=window, parameters=constants)
    having, parameters = _having(panes, shape, typed.having, extra_functions)
    conditions = f"where {_condition(where)} having {_condition(having)}"
    roll_up = RollUp(
        panes=panes,
        where=where,
        having=having,
        name=f"v{VERSION} rollup of {panes.key} {conditions}",
    )
    return Windowed(roll_up=roll_up, shape=shape, parameters=parameters[1:], outputs=typed.outputs)


def _is_constant_free(part: Term, safe: Safe) -> bool:
    """Whether a conjunct can be applied before grouping, for every query alike."""
    return not _has_constant(part) and not safe.may_throw(part)


def _has_constant(term: Term) -> bool:
    return any(isinstance(node, Literal) for node in walk(term))


def _subjects(part: Term, safe: Safe) -> tuple[Term, ...]:
    """What of a conjunct the panes are grouped by."""
    test = part
    while isinstance(test, Call) and test.op == "not":
        test = test.args[0]
    if isinstance(test, Call) and test.op in _TESTS:
        subject = test.args[0]
        while isinstance(subject, Convert) and subject.implied:
            subject = subject.term
        constants = all(isinstance(other, Literal) for other in test.args[1:])
        if constants and _is_constant_free(subject, safe):
            return (subject,)
    return tuple(node for node in walk(part) if isinstance(node, ColumnRef))


def _filters(compared: list[Term], safe: Safe) -> list[Term]:
    """The filters of all conjuncts, in the order of their text."""
    found = {show(term): term for part in compared for term in _subjects(part, safe)}
    if len(found) > FILTERS_MAX:
        raise UserError(
            f"WHERE compares more than {FILTERS_MAX} columns and expressions with constants",
            detail=f"here {len(found)}: panes would be grouped by each",
            hint="make a stream of the tuples that count, CREATE STREAM ... AS SELECT",
        )
    return [found[key] for key in sorted(found)]


def _put(part: Term, subjects: tuple[Term, ...], columns: Mapping[Term, ColumnRef]) -> Term:
    """A conjunct over panes: each of its subjects is a column there."""
    if part in subjects:
        return columns[part]
    below = tuple(_put(node, subjects, columns) for node in children(part))
    return with_children(part, below) if below else part


def _panes(
    stream: StreamDef,
    window: Window,
    typed: Typed,
    always: tuple[Term, ...],
    filters: list[Term],
    safe: Safe,
) -> Panes:
    for term in (*typed.keys, *_parts(typed.calls)):
        if safe.may_throw(term):
            raise UserError(
                "an installed operator cannot be used in keys and aggregates",
                detail="a tuple for which it fails would stop the windows of all queries",
                hint="make a stream of its values, CREATE STREAM ... AS SELECT, and aggregate that",
            )
    keys = _grouped("k", typed.keys, safe)
    filtered = _grouped("f", filters, safe)
    condition = " AND ".join(safe.safe(part) for part in always)
    errors = _errors(typed, safe)
    texts = [f"{part.name} {part.expression} {part.type}" for part in (*keys, *filtered)]
    # What is kept of an aggregate is in the name too: another version may keep something else.
    texts += [
        f"{call.measure.name} {call.text} #{key_of(repr(call.measure))[:8]}" for call in typed.calls
    ]
    source = f"{stream.name}@{key_of(stream.canonical_name)[:12]}"
    said = f"[{', '.join(texts)}] where [{condition}] errors [{errors}]"
    if len(said) > SAFE_MAX:
        raise UserError(
            "query is too large",
            detail=f"in safe form it has more than {SAFE_MAX} characters",
            hint="nest fewer divisions and the like, or make several queries of it",
        )
    return Panes(
        stream=stream.name,
        reads=stream.canonical_name,
        pane=window.pane,
        keys=keys,
        filters=filtered,
        always=condition,
        errors=errors,
        measures=tuple(call.measure for call in typed.calls),
        name=f"v{VERSION} panes of {source} each {window.pane} {said}",
    )


def _grouped(letter: str, terms: Sequence[Term], safe: Safe) -> tuple[Grouped, ...]:
    return tuple(
        Grouped(name=f"{letter}{at}", expression=safe.safe(term), type=term.type)
        for at, term in enumerate(terms)
    )


def _parts(calls: Iterable[TypedCall]) -> Iterator[Term]:
    for call in calls:
        yield from call.arguments
        if call.filter is not None:
            yield call.filter


def _errors(typed: Typed, safe: Safe) -> str:
    """The condition that a key or an argument could not be computed.

    Where WHERE could not, the tuple is in no window, so in none of them it could be counted.
    """
    found = [safe.raised(term) for term in typed.keys]
    for call in typed.calls:
        raised = [safe.raised(term) for term in call.arguments]
        if call.filter is not None:
            wanted = f"({safe.safe(call.filter)} IS TRUE)"
            raised = [f"({wanted} AND {text})" for text in raised if text]
            raised.append(safe.raised(call.filter))
        found += raised
    return " OR ".join(dict.fromkeys(text for text in found if text))


def _having(
    panes: Panes, shape: Shape, conjuncts: tuple[Term, ...], extra_functions: tuple[str, ...]
) -> tuple[Signature, tuple[Value, ...]]:
    """HAVING behind the shape, which is the first hole of every roll-up."""
    number = ColumnRef(name=SHAPE, type="BIGINT")
    same = Call(op="=", args=(number, Literal(type="BIGINT", value=shape.number)), type="BOOLEAN")
    columns = [(SHAPE, "BIGINT"), (WINDOW_START, "TIMESTAMP"), (WINDOW_END, "TIMESTAMP")]
    columns += [(key.name, key.type) for key in panes.keys]
    columns += [(measure.name, measure.type) for measure in panes.measures]
    return sign(_pseudo("windows", columns), conjuncts, extra_functions, first=(same,))


def _pseudo(name: str, columns: list[tuple[str, str]]) -> StreamDef:
    """A stream to sign conditions over: its name is in theirs, with its columns' types."""
    return StreamDef(
        name=name,
        columns=tuple(Column(name=column, type=type_) for column, type_ in columns),
        timestamp="",
        lateness=0,
        store=True,
        idle_advances=False,
        source=SourceDef(kind="push", options={}),
    )


def _condition(signature: Signature) -> str:
    return signature.name.partition(" where ")[2]
