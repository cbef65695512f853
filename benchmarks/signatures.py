"""A thousand queries over a hundred signatures: ten key conditions by ten range conditions.

The forms differ in columns and expressions, never in constants alone, so each pair is one
signature. Like every set of the workload they match one tuple in 100 together.

Not here: the tuples (workload).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.workload import (
    MATCH_SHARE,
    METERS,
    STATUSES,
    ZONES,
    Columns,
    QuerySet,
    columns_of,
    tuples,
)

__all__ = ["SIGNATURES", "many_signatures"]

#: The tuples that thresholds are taken from: files no run is fed with.
_REFERENCE_FILES = range(900_000, 900_010)

_Mask = Callable[[Columns], np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True)
class _KeyForm:
    """A condition that few tuples meet: its text and its mask for the query's number."""

    text: Callable[[int], str]
    mask: Callable[[Columns, int], np.ndarray]
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _RangeForm:
    """A condition on one ordered expression; `upper`, `lower` or both ends are cut off."""

    text: str
    value: _Mask
    side: str


def _second(columns: Columns) -> np.ndarray:
    return np.asarray(columns["ts"] // 1_000_000 % 60)


def _minute(columns: Columns) -> np.ndarray:
    return np.asarray(columns["ts"] // 60_000_000 % 60)


def _zone(number: int) -> int:
    return number * 7 % ZONES


def _meter(number: int) -> int:
    return number * 7919 % METERS


_RARE = "estimated"
_KEYS = (
    _KeyForm(
        text=lambda n: f"meter = {_meter(n)}",
        mask=lambda c, n: c["meter"] == _meter(n),
        share=1 / METERS,
    ),
    _KeyForm(
        text=lambda n: f"zone = {_zone(n)}",
        mask=lambda c, n: c["zone"] == _zone(n),
        share=1 / ZONES,
    ),
    _KeyForm(
        text=lambda n: f"zone IN ({_zone(n)}, {_zone(n + 1)}, {_zone(n + 2)})",
        mask=lambda c, n: np.isin(c["zone"], [_zone(n + k) for k in range(3)]),
        share=3 / ZONES,
    ),
    _KeyForm(
        text=lambda n: f"meter IN ({_meter(n)}, {_meter(n + 1)})",
        mask=lambda c, n: np.isin(c["meter"], [_meter(n), _meter(n + 1)]),
        share=2 / METERS,
    ),
    _KeyForm(
        text=lambda n: f"zone = {_zone(n)} AND status = '{_RARE}'",
        mask=lambda c, n: (c["zone"] == _zone(n)) & (c["status"] == _RARE),
        share=STATUSES[_RARE] / ZONES,
    ),
    _KeyForm(
        text=lambda n: f"meter % 100 = {n % 100}",
        mask=lambda c, n: c["meter"] % 100 == n % 100,
        share=1 / 100,
    ),
    _KeyForm(
        text=lambda n: f"second(ts) = {n * 7 % 60}",
        mask=lambda c, n: _second(c) == n * 7 % 60,
        share=1 / 60,
    ),
    _KeyForm(
        text=lambda n: f"minute(ts) % 10 = {n % 10}",
        mask=lambda c, n: _minute(c) % 10 == n % 10,
        share=1 / 10,
    ),
    _KeyForm(
        text=lambda n: f"upper(status) = '{_RARE.upper()}' AND meter % 10 = {n % 10}",
        mask=lambda c, n: (c["status"] == _RARE) & (c["meter"] % 10 == n % 10),
        share=STATUSES[_RARE] / 10,
    ),
    _KeyForm(
        text=lambda n: f"status <> 'ok' AND zone = {_zone(n)}",
        mask=lambda c, n: (c["status"] != "ok") & (c["zone"] == _zone(n)),
        share=(1 - STATUSES["ok"]) / ZONES,
    ),
)

_RANGES = (
    _RangeForm(text="kwh", value=lambda c: c["kwh"], side="upper"),
    _RangeForm(text="kwh", value=lambda c: c["kwh"], side="lower"),
    _RangeForm(text="kwh", value=lambda c: c["kwh"], side="both"),
    _RangeForm(text="voltage", value=lambda c: c["voltage"], side="upper"),
    _RangeForm(text="voltage", value=lambda c: c["voltage"], side="lower"),
    _RangeForm(text="voltage", value=lambda c: c["voltage"], side="both"),
    _RangeForm(
        text="kwh * voltage", value=lambda c: np.asarray(c["kwh"] * c["voltage"]), side="upper"
    ),
    _RangeForm(
        text="kwh / voltage", value=lambda c: np.asarray(c["kwh"] / c["voltage"]), side="upper"
    ),
    _RangeForm(text="abs(voltage - 230)", value=lambda c: np.abs(c["voltage"] - 230), side="upper"),
    _RangeForm(text="sqrt(kwh)", value=lambda c: np.sqrt(c["kwh"]), side="lower"),
)

#: The columns that ranges are over.
_RANGED = ("kwh", "voltage")

SIGNATURES = len(_KEYS) * len(_RANGES)


def many_signatures(queries: int, *, stream: str = "readings") -> QuerySet:
    """`queries` spread evenly over all signatures."""
    reference = _reference()
    ordered = [np.sort(form.value(reference)) for form in _RANGES]
    texts, counters = [], []
    for number in range(queries):
        turn, place = divmod(number, SIGNATURES)
        key, range_index = _KEYS[place // len(_RANGES)], place % len(_RANGES)
        share = min(1.0, MATCH_SHARE / queries / key.share)
        text, mask = _condition(_RANGES[range_index], ordered[range_index], share, number, queries)
        texts.append(
            f"SELECT ts, meter, kwh FROM {stream} WHERE {key.text(place + turn)} AND {text}"
        )
        counters.append(_counter(key, place + turn, mask))

    def matches(columns: Columns) -> np.ndarray:
        return np.array([count(columns) for count in counters])

    return QuerySet(name="many_signatures", texts=tuple(texts), matches=matches)


def _counter(key: _KeyForm, number: int, mask: _Mask) -> Callable[[Columns], int]:
    """Counts the rows that meet both; the range is looked at only where the key is met."""

    def count(columns: Columns) -> int:
        rows = np.flatnonzero(key.mask(columns, number))
        return int(np.count_nonzero(mask({name: columns[name][rows] for name in _RANGED})))

    return count


def _condition(
    form: _RangeForm, ordered: np.ndarray, share: float, number: int, queries: int
) -> tuple[str, _Mask]:
    """The text and mask of a range that this share of the tuples falls into."""
    value = form.value
    if form.side == "upper":
        bound = _at(ordered, 1 - share)
        return f"{form.text} > {bound:.9f}", lambda c: value(c) > bound
    if form.side == "lower":
        bound = _at(ordered, share)
        return f"{form.text} < {bound:.9f}", lambda c: value(c) < bound
    start = (1 - share) * (number + 0.5) / queries
    low, high = _at(ordered, start), _at(ordered, start + share)
    text = f"{form.text} BETWEEN {low:.9f} AND {high:.9f}"
    return text, lambda c: (value(c) >= low) & (value(c) <= high)


def _at(ordered: np.ndarray, below: float) -> float:
    """The value that this share of the sorted values is below, to the digits of the text."""
    return round(float(ordered[round(below * (len(ordered) - 1))]), 9)


def _reference() -> Columns:
    tables = [columns_of(tuples(index)) for index in _REFERENCE_FILES]
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
