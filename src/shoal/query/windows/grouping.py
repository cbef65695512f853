"""A flat query over groups, cut in two: what is computed of tuples, and what of groups.

    keys      k0 = zone             calls     a0 = avg(kwh)
    having    s.a0 > 3              outputs   twice: s.a0 * 2

Keys and aggregates are numbered in the order of their canonical text, so that the order in which
a query names them does not count; what is said twice is one. A key that reads no column groups
nothing, and is none.

Promises   a column outside of keys and aggregates is refused, with its place; equal queries are
           equal here.
Not here   types (`draft.py`); what becomes a component's (`panes.py`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from shoal.kernel.errors import UserError
from shoal.query.canonical import conjuncts, normalise
from shoal.query.terms.tree import (
    Call,
    ColumnRef,
    Convert,
    Hole,
    Literal,
    Term,
    bottom_up,
    children,
    place,
    show,
    walk,
    with_children,
)
from shoal.query.windows.aggregates import AGGREGATES
from shoal.query.windows.flat import (
    BOUNDS,
    FILTER,
    Flat,
    Grouping,
    Item,
    aggregates_of,
    is_aggregate,
    is_bound,
)
from shoal.query.windows.plan import WINDOW_START

__all__ = ["CALLS_MAX", "KEYS_MAX", "Aggregated", "Grouped", "all_of", "check_grouped", "cut"]

#: Keys of one query: each makes groups smaller. A guess.
KEYS_MAX = 16
#: Aggregates of one query; each is a column or more of every pane. A guess.
CALLS_MAX = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregated:
    """A call of an aggregate: arguments over tuples, constants after them, and its FILTER."""

    function: str
    arguments: tuple[Term, ...]
    fixed: tuple[Literal, ...]
    filter: Term | None
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouped:
    """`where`, keys and calls read tuples; having and items read groups: k0.., a0.., bounds."""

    where: tuple[Term, ...]
    keys: tuple[Term, ...]
    calls: tuple[Aggregated, ...]
    having: tuple[Term, ...]
    items: tuple[Item, ...]


def all_of(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    """The canonical conjuncts of conditions that must all be TRUE."""
    if not terms:
        return ()
    whole = terms[0] if len(terms) == 1 else Call(op="and", args=terms, at=terms[0].at)
    return conjuncts(normalise(whole))


def check_grouped(term: Term, grouping: Grouping, text: str) -> None:
    """UserError if an expression reads a column that is neither grouped nor aggregated."""
    for found in walk(_Groups(grouping.keys, lambda _: 0).over(term)):
        if isinstance(found, ColumnRef):
            line, column = place(text, found.at)
            raise UserError(
                f"column {found.name!r} is neither grouped nor aggregated",
                detail="a group has many tuples, each with its own value",
                hint=f"write GROUP BY {found.name}, or max({found.name}) or another aggregate",
                line=line,
                column=column,
            )


def cut(flat: Flat, text: str) -> Grouped:
    """The two halves of a flat query with a grouping."""
    grouping = flat.grouping
    assert grouping is not None
    keys = _keys(grouping, text)
    listed = [*(item.term for item in flat.items), *flat.having]
    over = [*listed, *map(normalise, listed)]
    found = [normalise(call) for term in over for call in aggregates_of(term)]
    calls = sorted(dict.fromkeys(found), key=_order)
    if len(calls) > CALLS_MAX:
        raise _too_many("aggregates", calls, CALLS_MAX, text)
    columns = {key: _column(f"k{at}", _guess(key)) for at, key in enumerate(keys)}
    columns |= {call: _column(f"a{at}", _guess(call)) for at, call in enumerate(calls)}
    columns |= {Call(op=name, args=()): _column(name, "TIMESTAMP") for name in BOUNDS}
    if grouping.instant:
        instants = [key for key in grouping.keys if _is_instant(key, grouping)]
        columns |= dict.fromkeys(instants, _column(WINDOW_START, "TIMESTAMP"))
    numbers = {term: at for at, term in enumerate(columns)}
    groups = _Groups(grouping.keys, lambda term: numbers[term])
    ordered = list(columns.values())

    def over_groups(term: Term) -> Term:
        return normalise(bottom_up(groups.over(term), lambda node: _filled(node, ordered)))

    return Grouped(
        where=all_of(flat.where),
        keys=keys,
        calls=tuple(_call(call) for call in calls),
        having=all_of(tuple(map(over_groups, flat.having))),
        items=tuple(Item(name=item.name, term=over_groups(item.term)) for item in flat.items),
    )


class _Groups:
    """Puts a numbered hole in the place of each key, aggregate and bound.

    Keys are found in canonical form; where that leaves a column over, first as they are written:
    making an expression canonical can take apart what in it is a key.
    """

    def __init__(self, keys: tuple[Term, ...], number: Callable[[Term], int]) -> None:
        canonical = list(map(normalise, keys))
        self._keys = dict(zip([*canonical, *keys], [*canonical, *canonical], strict=True))
        self._number = number

    def over(self, term: Term) -> Term:
        """The expression over groups; a column that is none of them is left as it is."""
        found = self._replaced(normalise(term))
        return self._replaced(normalise(self._replaced(term))) if _reads(found) else found

    def _replaced(self, term: Term) -> Term:
        if is_aggregate(term) or is_bound(term):
            return Hole(number=self._number(normalise(term)), type="", at=term.at)
        if term in self._keys and _reads(term):
            return Hole(number=self._number(self._keys[term]), type="", at=term.at)
        parts = tuple(self._replaced(part) for part in children(term))
        return with_children(term, parts) if parts else term


def _filled(node: Term, columns: list[ColumnRef]) -> Term:
    return replace(columns[node.number], at=node.at) if isinstance(node, Hole) else node


def _keys(grouping: Grouping, text: str) -> tuple[Term, ...]:
    """The canonical keys, in order."""
    found: dict[Term, None] = {}
    for key in grouping.keys:
        if not _reads(key) or _is_instant(key, grouping):
            continue
        if any(map(is_bound, walk(key))):
            line, column = place(text, key.at)
            raise UserError(
                "a key cannot read both tuples and the window",
                detail="tuples are grouped before it is known in which windows they are",
                hint="group by the columns; the window's bounds are the same for the whole group",
                line=line,
                column=column,
            )
        found[normalise(key)] = None
    if len(found) > KEYS_MAX:
        raise _too_many("keys", list(found), KEYS_MAX, text)
    return tuple(sorted(found, key=_order))


def _is_instant(key: Term, grouping: Grouping) -> bool:
    return isinstance(key, ColumnRef) and key.name == grouping.instant


def _reads(term: Term) -> bool:
    return any(isinstance(node, ColumnRef) for node in walk(term))


def _order(term: Term) -> tuple[str, str]:
    constants = [node.value for node in walk(term) if isinstance(node, Literal)]
    return show(term), repr(constants)


def _column(name: str, type_: str) -> ColumnRef:
    return ColumnRef(name=name, type=type_)


def _guess(term: Term) -> str:
    """A type by which the rules see whether a comparison can throw: STRING if it is not known."""
    if isinstance(term, ColumnRef | Convert):
        return term.type
    if isinstance(term, Call) and term.op == FILTER:
        return _guess(term.args[0])
    if not isinstance(term, Call) or term.op not in AGGREGATES:
        return "STRING"
    same = term.op in ("min", "max", "min_by", "max_by")
    return _guess(term.args[0]) if same else "DOUBLE"


def _call(term: Term) -> Aggregated:
    call, condition = term, None
    if isinstance(term, Call) and term.op == FILTER:
        call, condition = term.args
    assert isinstance(call, Call)
    width = len(AGGREGATES[call.op].kinds)
    return Aggregated(
        function=call.op,
        arguments=call.args[:width],
        fixed=tuple(part for part in call.args[width:] if isinstance(part, Literal)),
        filter=condition,
        at=call.at,
    )


def _too_many(what: str, terms: Sequence[Term], most: int, text: str) -> UserError:
    line, column = place(text, max(term.at for term in terms))
    return UserError(
        f"a query has at most {most} {what}",
        detail=f"here {len(terms)}",
        hint="make several queries of it; they share what they have in common",
        line=line,
        column=column,
    )
