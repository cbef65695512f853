"""A query flattened: one stream, its filters, at most one grouping, and a select list.

    SELECT zone, m * 2 AS twice FROM (SELECT zone, avg(kwh) AS m FROM readings
        GROUP BY zone, window(ts, '10 minutes')) WHERE m > 3

    items      zone: zone                twice: avg(kwh) * 2
    grouping   keys (zone), windows of 10 minutes
    having     avg(kwh) > 3

Expressions read the stream's columns. An aggregate is a call of its own name, inside
`filter(aggregate, condition)` if it has a FILTER; a window's bounds are calls without arguments.

Not here   how text becomes this (`sql_select/`); what becomes of it (`grouping.py`, `draft.py`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from shoal.query.terms.tree import Call, Term, children
from shoal.query.windows.aggregates import AGGREGATES
from shoal.query.windows.plan import WINDOW_END, WINDOW_START
from shoal.query.windows.shape import Window

__all__ = [
    "BOUNDS",
    "FILTER",
    "Flat",
    "Grouping",
    "Item",
    "aggregates_of",
    "extent",
    "is_aggregate",
    "is_bound",
]

#: The call that stands above an aggregate with a FILTER clause.
FILTER = "filter"
#: Calls without arguments that are the bounds of the window.
BOUNDS = (WINDOW_START, WINDOW_END)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A column of a result: its name as written, and what it is."""

    name: str
    term: Term


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """Windows, and the keys of groups in them.

    `instant` names the event time where that is one of the keys and so the window, else "".
    """

    window: Window
    keys: tuple[Term, ...]
    instant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Flat:
    """What a SELECT says of its stream.

    `window` is a [RANGE] that nothing has used yet; `having` is empty unless there is a grouping.
    """

    items: tuple[Item, ...]
    where: tuple[Term, ...]
    window: Window | None
    grouping: Grouping | None
    having: tuple[Term, ...]


def is_aggregate(term: Term) -> bool:
    """Whether this node is an aggregate, with or without a FILTER."""
    return isinstance(term, Call) and (term.op == FILTER or term.op in AGGREGATES)


def is_bound(term: Term) -> bool:
    """Whether this is the start or the end of the window."""
    return isinstance(term, Call) and term.op in BOUNDS


def aggregates_of(term: Term) -> Iterator[Call]:
    """The aggregates of an expression, each with its FILTER."""
    if isinstance(term, Call) and is_aggregate(term):
        yield term
        return
    for part in children(term):
        yield from aggregates_of(part)


def extent(term: Term) -> tuple[int, int]:
    """How many nodes an expression has, and how many levels."""
    below = [extent(part) for part in children(term)]
    nodes = 1 + sum(count for count, _ in below)
    return nodes, 1 + max((levels for _, levels in below), default=0)
