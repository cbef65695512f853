"""The index of a roster: which rows a tuple has to be compared with.

A signature's equality conjuncts, and one range where that pays, make a *probe*: a value that a
tuple computes from its columns and a row from its constants. Components with the same probe
expressions share one *class*, so a group of a hundred signatures needs a handful of probes a
tuple. Each row becomes one or more *entries*: one per value of an IN list and per bin of its
range. A row whose key is NULL has no entry, because it matches nothing.

A key may read constants of its own, as in `meter % 100 = 7`. A tuple then probes once per *slot*,
which is one combination of such constants among the rows: worth it where they are few. A key
that fails for some tuples is NULL for them, and its rows are found under NULL, too: the failure
has to be counted.

    rows        meter % 100 = 7, meter % 100 = 9, meter % 10 = 3
    slots       (100,), (10,)
    entries     slot 0: 7 and NULL, 9 and NULL; slot 1: 3 and NULL

Not here   the predicate itself, which decides; this only proposes (select/plan.py).
"""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from shoal.dataplane.rows import RosterRow
from shoal.query.selection import Key, Signature, Value
from shoal.spark.select.bins import Bins, Bounds, build, order_key

__all__ = [
    "ROWS_PER_KEY",
    "ROWS_PER_SLOT",
    "SLOTS_MAX",
    "Entry",
    "Member",
    "ProbeClass",
    "classify",
    "probe_of",
]

#: Rows that share one key before their range is worth a search: comparing a row costs some
#: 20 ns, the search some 100 ns a tuple (see docs/spark.md).
ROWS_PER_KEY = 16
#: Rows for each combination of inner constants before it is worth a probe of every tuple.
ROWS_PER_SLOT = 4
#: Probes of one class at most: each is a row more for every tuple on its way to the join.
SLOTS_MAX = 16

_HOLE = re.compile(r"`[^`]*`|\bp\.p(\d+)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One component of a step group: its signature and the rows that it serves now."""

    instance: str
    signature: Signature
    rows: tuple[RosterRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One way for a tuple to meet a row: member and row by number, slot, key values, bin."""

    member: int
    row: int
    slot: int
    key: tuple[Value, ...]
    bin: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Probe:
    """What makes two members one class: expressions with inner constants as `i.<place>`."""

    expressions: tuple[str, ...]
    types: tuple[str, ...]
    #: Whether a tuple that fails is found under NULL, for each expression.
    fails: tuple[bool, ...]
    inner_types: tuple[str, ...]
    range_expression: str | None
    range_type: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeClass:
    """What a tuple computes to find its rows, and the entries that wait there."""

    expressions: tuple[str, ...]
    types: tuple[str, ...]
    fails: tuple[bool, ...]
    inner_types: tuple[str, ...]
    range_expression: str | None
    range_type: str | None
    #: The combinations of inner constants; one empty one where there are none.
    slots: tuple[tuple[Value, ...], ...]
    bins: Bins
    entries: tuple[Entry, ...]


_NO_BINS = Bins(edges=())


def probe_of(signature: Signature) -> tuple[str, ...]:
    """What tells whether two signatures probe alike, after whether they can fail at all."""
    ranged = "" if signature.range is None else signature.range.expression
    fails = "fails" if signature.errors else ""
    return (fails, *_placed(signature.keys), ranged)


def classify(members: Sequence[Member]) -> tuple[ProbeClass, ...]:
    """The probe classes of a group, in a fixed order, with all entries of all rows."""
    groups: dict[_Probe, list[int]] = {}
    for number, member in enumerate(members):
        groups.setdefault(_probe(member, member.signature.keys), []).append(number)
    settled: dict[_Probe, list[int]] = {}
    for probe, numbers in groups.items():
        pays = not probe.inner_types or _slots_pay([members[number] for number in numbers])
        for number in numbers:
            plain = _keys_of(members[number], inner=pays)
            settled.setdefault(_probe(members[number], plain), []).append(number)
    return tuple(_probe_class(members, probe, numbers) for probe, numbers in settled.items())


def _keys_of(member: Member, *, inner: bool) -> tuple[Key, ...]:
    """The keys to probe with: all, or those without inner constants."""
    return tuple(key for key in member.signature.keys if inner or not key.inner)


def _slots_pay(members: Sequence[Member]) -> bool:
    """Whether the inner constants of all rows are few enough to probe for each."""
    combinations = dict.fromkeys(
        tuple(row.parameters[hole] for hole in _inner_holes(member.signature.keys))
        for member in members
        for row in member.rows
    )
    rows = sum(len(member.rows) for member in members)
    return len(combinations) <= min(SLOTS_MAX, rows // ROWS_PER_SLOT)


def _inner_holes(keys: Sequence[Key]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(hole for key in keys for hole in key.inner))


def _placed(keys: Sequence[Key]) -> tuple[str, ...]:
    """The expressions with their inner holes named by their place among all of them."""
    places = {str(hole): place for place, hole in enumerate(_inner_holes(keys))}

    def named(match: re.Match[str]) -> str:
        return match.group(0) if match.group(1) is None else f"i.{places[match.group(1)]}"

    return tuple(_HOLE.sub(named, key.expression) for key in keys)


def _probe(member: Member, keys: Sequence[Key]) -> _Probe:
    holes = member.signature.holes
    ranged = member.signature.range if _range_pays(member, keys) else None
    bound = None if ranged is None else ranged.lower if ranged.lower is not None else ranged.upper
    return _Probe(
        expressions=_placed(keys),
        types=tuple(_scalar(holes[key.hole]) for key in keys),
        fails=tuple(key.fails for key in keys),
        inner_types=tuple(holes[hole] for hole in _inner_holes(keys)),
        range_expression=None if ranged is None else ranged.expression,
        range_type=None if bound is None else holes[bound],
    )


def _range_pays(member: Member, keys: Sequence[Key]) -> bool:
    holes = (*(key.hole for key in keys), *_inner_holes(keys))
    found = dict.fromkeys(tuple(row.parameters[hole] for hole in holes) for row in member.rows)
    return len(member.rows) > ROWS_PER_KEY * max(1, len(found))


def _probe_class(members: Sequence[Member], probe: _Probe, numbers: Sequence[int]) -> ProbeClass:
    keys = {n: _keys_of(members[n], inner=bool(probe.inner_types)) for n in numbers}
    inner = {n: _inner_holes(keys[n]) for n in numbers}
    served = [(n, index, row) for n in numbers for index, row in enumerate(members[n].rows)]
    combinations = [tuple(row.parameters[hole] for hole in inner[n]) for n, _, row in served]
    slots = {values: place for place, values in enumerate(dict.fromkeys(combinations))}
    spans: Sequence[Sequence[int]] = [(0,)] * len(served)
    bins = _NO_BINS
    if probe.range_expression is not None:
        bounds = [_bounds(members[number].signature, row) for number, _, row in served]
        known = [pair for pair in bounds if pair is not None]
        bins = build(known)
        found = iter(bins.spans(known))
        spans = [() if pair is None else next(found) for pair in bounds]
    entries = tuple(
        Entry(member=number, row=index, slot=slots[values], key=key, bin=place)
        for (number, index, row), values, span in zip(served, combinations, spans, strict=True)
        for key in _values(keys[number], row)
        for place in span
    )
    return ProbeClass(
        expressions=probe.expressions,
        types=probe.types,
        fails=probe.fails,
        inner_types=probe.inner_types,
        range_expression=probe.range_expression,
        range_type=probe.range_type,
        slots=tuple(slots),
        bins=bins,
        entries=entries,
    )


def _values(keys: Sequence[Key], row: RosterRow) -> list[tuple[Value, ...]]:
    """The key values under which a row is found: several for an IN list, none for a NULL.

    Where a tuple's failure is a NULL, the row is found under NULL as well.
    """
    choices: list[tuple[Value, ...]] = []
    for key in keys:
        value = row.parameters[key.hole]
        several = value if isinstance(value, tuple) else (value,)
        distinct = {order_key(v): v for v in several if v is not None}
        choices.append((*distinct.values(), *((None,) if key.fails else ())))
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
