"""The index of a roster: which rows a tuple has to be compared with.

A signature's equality conjuncts, and one range where that pays, make a *probe*: a value that a
tuple computes from its columns and a row from its constants. Components with the same probe
expressions share one *class*, so a group of a hundred signatures needs a handful of probes a
tuple. Each row becomes one or more *entries*: one per value of an IN list and per bin of its
range. A row whose key is NULL has no entry, because it matches nothing.

Not here   the predicate itself, which decides; this only proposes (select/plan.py).
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from shoal.dataplane.rows import RosterRow
from shoal.query.selection import Signature, Value
from shoal.spark.select.bins import Bins, Bounds, build, order_key

__all__ = ["ROWS_PER_KEY", "Entry", "Member", "ProbeClass", "classify", "probe_of"]

#: Rows that share one key before their range is worth a search: comparing a row costs some
#: 20 ns, the search some 100 ns a tuple (see docs/spark.md).
ROWS_PER_KEY = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One component of a step group: its signature and the rows that it serves now."""

    instance: str
    signature: Signature
    rows: tuple[RosterRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One way for a tuple to meet a row: member and row by number, key values, bin."""

    member: int
    row: int
    key: tuple[Value, ...]
    bin: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeClass:
    """What a tuple computes to find its rows, and the entries that wait there."""

    expressions: tuple[str, ...]
    types: tuple[str, ...]
    range_expression: str | None
    range_type: str | None
    bins: Bins
    entries: tuple[Entry, ...]


_NO_BINS = Bins(edges=())


def probe_of(signature: Signature) -> tuple[str, ...]:
    """What tells whether two signatures probe alike, after whether they can fail at all."""
    ranged = "" if signature.range is None else signature.range.expression
    fails = "fails" if signature.errors else ""
    return (fails, *(key.expression for key in signature.keys), ranged)


def classify(members: Sequence[Member]) -> tuple[ProbeClass, ...]:
    """The probe classes of a group, in a fixed order, with all entries of all rows."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for number, member in enumerate(members):
        groups.setdefault(_class_of(member), []).append(number)
    return tuple(_probe_class(members, numbers) for numbers in groups.values())


def _class_of(member: Member) -> tuple[object, ...]:
    signature = member.signature
    keys = tuple((key.expression, _scalar(signature.holes[key.hole])) for key in signature.keys)
    ranged = signature.range
    if ranged is None or not _range_pays(member):
        return (keys, None)
    hole = ranged.lower if ranged.lower is not None else ranged.upper
    assert hole is not None
    return (keys, (ranged.expression, signature.holes[hole]))


def _range_pays(member: Member) -> bool:
    keys = dict.fromkeys(
        tuple(row.parameters[key.hole] for key in member.signature.keys) for row in member.rows
    )
    return len(member.rows) > ROWS_PER_KEY * max(1, len(keys))


def _probe_class(members: Sequence[Member], numbers: Sequence[int]) -> ProbeClass:
    first = members[numbers[0]]
    keys, ranged = _class_of(first)
    assert isinstance(keys, tuple)
    served = [
        (number, index, row) for number in numbers for index, row in enumerate(members[number].rows)
    ]
    spans: Sequence[Sequence[int]] = [(0,)] * len(served)
    bins = _NO_BINS
    if isinstance(ranged, tuple):
        bounds = [_bounds(members[number].signature, row) for number, _, row in served]
        known = [pair for pair in bounds if pair is not None]
        bins = build(known)
        found = iter(bins.spans(known))
        spans = [() if pair is None else next(found) for pair in bounds]
    entries = tuple(
        Entry(member=number, row=index, key=key, bin=place)
        for (number, index, row), span in zip(served, spans, strict=True)
        for key in _keys(members[number].signature, row)
        for place in span
    )
    return ProbeClass(
        expressions=tuple(expression for expression, _ in keys),
        types=tuple(kind for _, kind in keys),
        range_expression=ranged[0] if isinstance(ranged, tuple) else None,
        range_type=ranged[1] if isinstance(ranged, tuple) else None,
        bins=bins,
        entries=entries,
    )


def _keys(signature: Signature, row: RosterRow) -> list[tuple[Value, ...]]:
    """The key values under which a row is found: several for an IN list, none with a NULL."""
    choices: list[tuple[Value, ...]] = []
    for key in signature.keys:
        value = row.parameters[key.hole]
        several = value if isinstance(value, tuple) else (value,)
        distinct = {order_key(v): v for v in several if v is not None}
        choices.append(tuple(distinct.values()))
    return list(itertools.product(*choices))


def _bounds(signature: Signature, row: RosterRow) -> Bounds | None:
    """A row's bounds on the range expression; None where a NULL bound matches nothing."""
    ranged = signature.range
    assert ranged is not None
    holes = [hole for hole in (ranged.lower, ranged.upper) if hole is not None]
    if any(row.parameters[hole] is None for hole in holes):
        return None
    low = None if ranged.lower is None else row.parameters[ranged.lower]
    high = None if ranged.upper is None else row.parameters[ranged.upper]
    return (low, high)


def _scalar(hole_type: str) -> str:
    return hole_type[len("ARRAY<") : -1] if hole_type.startswith("ARRAY<") else hole_type
