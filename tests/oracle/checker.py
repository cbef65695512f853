"""The judge of queries: DuckDB's answer over the ok tuples, and the order that is promised.

Promises judged   Q1     a query's rows are those of its SQL over the ok tuples of its interval,
                         each once: as a bag of (source step, columns, version)
                  Q2     two plays of one world with other steps and a crash give the same bags
                  Q3     so do two plays with other changes around; a row is as it was added
                  O1     rows come in the order (step, event time, `_id`), and the step of a row
                         is the one that consumed its tuple's commit
                  S3     what was shed is counted: all tuples less those looked at

The intervals are read from the roster log, and judged by intervals.py; nothing else of Shoal
decides here. `_id` >> 35 is the source step of a tuple.
"""

import bisect
import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from shoal.dataplane.rows import ALWAYS, FOREVER, RosterRow
from tests.oracle.model import Judged, entries, micros
from tests.oracle.world import COLUMNS, arrow_of

__all__ = [
    "Oracle",
    "Text",
    "Wrong",
    "check_order",
    "check_query",
    "check_same",
    "check_shed",
    "check_untouched",
    "plain_rows",
    "text_of",
]

_ORDINAL_BITS = 35


class Wrong(AssertionError):
    """A promise is broken; the text begins with its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """One version of a query: what it selects, and its predicate for DuckDB."""

    columns: tuple[str, ...]
    where: str


class Oracle:
    """Knows the ok tuples of one stream; says what a query must have given."""

    def __init__(self, judged: Sequence[Judged]) -> None:
        self.ok = [j for j in judged if j.kind == "ok" and j.values is not None]
        table = arrow_of([j.values for j in self.ok if j.values is not None])
        table = table.append_column("_source", pa.array([j.step for j in self.ok], pa.int64()))
        instants = [micros(j.values["ts"]) for j in self.ok if j.values is not None]
        self._steps = [j.step for j in self.ok]
        self._most = list(itertools.accumulate(instants, max))
        table = table.append_column("_at", pa.array(instants, pa.int64()))
        self._duck = duckdb.connect()
        self._duck.execute("SET TimeZone = 'UTC'")
        self._duck.register("given", table)
        self._duck.execute("CREATE TABLE ok AS SELECT * FROM given")

    def close(self) -> None:
        self._duck.close()

    def greatest(self, step: int) -> int:
        """The greatest event time of the ok tuples up to a source step."""
        place = bisect.bisect_right(self._steps, step)
        return self._most[place - 1] if place else ALWAYS

    @property
    def reached(self) -> frozenset[int]:
        """The greatest event times that the source's commits have reached."""
        return frozenset([ALWAYS, *self._most])

    def expected(self, rows: Iterable[RosterRow], texts: Mapping[int, Text]) -> "Counter[Any]":
        """The bag of rows that these versions of a query must have given (Q1)."""
        bag: Counter[Any] = Counter()
        for row in rows:
            for values in self._matches(row, texts[row.version]):
                bag[(row.version, *values)] += 1
        return bag

    @functools.cache  # noqa: B019 - an oracle lives as long as its test
    def _answer(self, text: Text) -> list[tuple[int, int, tuple[Any, ...]]]:
        shown = ", ".join(text.columns)
        found = self._duck.sql(f"SELECT _at, _source, {shown} FROM ok WHERE {text.where}")
        table = found.to_arrow_table()
        cells = [map(_plain, column.to_pylist()) for column in table.columns]
        return [(at, step, tuple(rest)) for at, step, *rest in zip(*cells, strict=True)]

    def _matches(self, row: RosterRow, text: Text) -> Iterable[tuple[Any, ...]]:
        for at, step, values in self._answer(text):
            if row.start < at <= row.until and step <= row.cut:
                yield (step, *values)

    def check(self, got: pa.Table, rows: Iterable[RosterRow], texts: Mapping[int, Text]) -> None:
        """Raise Wrong unless a query's result is right (Q1): nothing missing, nothing more."""
        columns = {text.columns for text in texts.values()}
        assert len(columns) == 1, "one query, one projection"
        names = ["_version", "_id", *columns.pop()]
        bag = Counter(
            (version, identity >> _ORDINAL_BITS, *map(_plain, rest))
            for version, identity, *rest in zip(
                *(_column(got, name) for name in names), strict=True
            )
        )
        rows = list(rows)
        expected = self.expected(rows, texts)
        missing, more = expected - bag, bag - expected
        missing = Counter({key: n for key, n in missing.items() if not _given_up(rows, key)})
        if missing or more:
            raise Wrong(
                f"Q1: {sum(missing.values())} of {sum(expected.values())} rows missing, such as "
                f"{_some(missing)}; {sum(more.values())} too many, such as {_some(more)}"
            )


def _given_up(rows: Iterable[RosterRow], key: tuple[Any, ...]) -> bool:
    """Whether a row of the result is of history that a drop NOW left unread."""
    version, step = key[:2]
    return any(row.version == version and row.cut < FOREVER and step <= row.fill for row in rows)


def check_order(got: pa.Table, *, source: Path, select: Path, name: str = "") -> None:
    """Raise Wrong unless rows are in the order of commits, then (event time, `_id`) (O1).

    `source` and `select` are the tables; a row's step must be the one that consumed its commit,
    unless it was filled in from history.
    """
    keys = list(zip(_column(got, "_step"), _column(got, "ts"), _column(got, "_id"), strict=True))
    if keys != sorted(keys):
        at = next(i for i in range(1, len(keys)) if keys[i - 1] > keys[i])
        raise Wrong(f"O1: {name} row {at} comes too late: {keys[at - 1]} before {keys[at]}")
    if len({identity for _, _, identity in keys}) != len(keys):
        raise Wrong(f"Q1: {name} has a tuple twice")
    consumed = _consumed(select, source.name)
    for step, _, identity in keys:
        if identity >> _ORDINAL_BITS not in consumed.get(step, range(0)):
            raise Wrong(f"O1: {name} step {step} has tuple {identity}, of another range")


def check_shed(*, rows: int, lost: int, ok: int) -> None:
    """Raise Wrong unless what a query that wants all did not get was counted, to the tuple (S3)."""
    if rows + lost != ok:
        raise Wrong(f"S3: {rows} rows and {lost} counted as shed make {rows + lost}, not {ok}")


def check_untouched(before: Sequence[RosterRow], after: Sequence[RosterRow]) -> None:
    """Raise Wrong unless the row of a query that nobody touched is as it was added (Q3)."""
    if len(before) != 1 or list(before) != list(after):
        raise Wrong(f"Q3: a change to another query made {after} of {before}")


def check_same(
    one: Mapping[str, "Counter[Any]"], other: Mapping[str, "Counter[Any]"], *, promise: str
) -> None:
    """Raise Wrong unless two plays of one world gave each query the same rows (Q2, Q3)."""
    assert list(one) == list(other), "the same queries"
    for name, bag in one.items():
        missing, more = bag - other[name], other[name] - bag
        if missing or more:
            raise Wrong(
                f"{promise}: {name} has {sum(missing.values())} rows in one play only, such as "
                f"{_some(missing)}, and {sum(more.values())} in the other, such as {_some(more)}"
            )


def plain_rows(got: pa.Table, columns: Sequence[str]) -> "Counter[Any]":
    """A result as a bag of what its user sees."""
    names = ["_version", *columns]
    cells = (map(_plain, _column(got, name)) for name in names)
    return Counter(zip(*cells, strict=True))


def _consumed(select: Path, source: str) -> dict[int, range]:
    """The source steps that each step of a select consumed, live or from history."""
    found: dict[int, range] = {}
    before: dict[str, int] = {}
    for entry in entries(select):
        for key, upto in entry.changed.items():
            if key == f"in/{source}" or key.startswith("fill/"):
                found[entry.step] = range(before.get(key, 0) + 1, upto + 1)
                before[key] = upto
    return found


def text_of(where: str, columns: Sequence[str] = COLUMNS) -> Text:
    """A version of a query."""
    return Text(columns=tuple(columns), where=where)


def check_query(
    oracle: Oracle,
    name: str,
    got: pa.Table,
    rows: Sequence[RosterRow],
    texts: Mapping[int, Text],
) -> None:
    """A query's result against what its rows and its texts ask for (Q1)."""
    if not rows:
        raise Wrong(f"Q1: {name} has no row in any roster")
    if sorted(texts) != [row.version for row in rows]:
        raise Wrong(f"Q1: {name} has versions {[row.version for row in rows]}")
    try:
        oracle.check(got, rows, texts)
    except Wrong as wrong:
        raise Wrong(f"{name} {texts}: {wrong}") from None


def _column(table: pa.Table, name: str) -> list[Any]:
    return table.column(name).to_pylist()  # type: ignore[no-any-return]


def _plain(value: Any) -> Any:
    """A value that equals itself and is told apart by what SQL shows of it."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, Decimal):
        return value.normalize()
    return value.timestamp() if hasattr(value, "timestamp") else value


def _some(bag: "Counter[Any]") -> str:
    return repr(next(iter(bag), None))
