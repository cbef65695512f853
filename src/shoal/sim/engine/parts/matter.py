"""What a select step computes: tuples that meet rows, or only how many there would be.

    Tuples     evaluates each row's condition on each tuple (query/meaning)
    Volumes    counts: a row lets through a share of the tuples in its interval

Both are functions of the range and the rows, so that step boundaries and crashes change nothing:
which tuples a row that sheds looks at is drawn from their identity, and fractions of a tuple are
rounded by the commit they belong to.

Promises   Q1 Q2  a result is a tuple that satisfies its row's predicate inside its row's
                  intervals, and nothing else enters.
           S3     what `keep` drops is counted, per query.
           O1     results of a step are ordered by (event time, `_id`, query).
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from shoal.dataplane.commands import Select
from shoal.dataplane.rows import RosterRow
from shoal.query.meaning import evaluate
from shoal.query.meaning.evaluate import Installed
from shoal.query.selection import Value
from shoal.sim.engine.memory import Commit, Item, Result, Volume
from shoal.sim.engine.parts.sources import mixed

__all__ = ["KEEP_ONE", "Matter", "Outcome", "Trouble", "Tuples", "Volumes", "kept"]

#: `keep` as a share of this, compared with a number drawn from the tuple's identity.
KEEP_ONE = 1 << 16
#: Compiled conditions kept, by the signature's name.
_CONDITIONS_MAX = 4096

Run = Callable[[Mapping[str, Any], Sequence[Value]], Any]


@dataclass(slots=True)
class Outcome:
    """What a member's step gave, not yet committed."""

    rows: int
    results: tuple[Result, ...]
    #: shed/<query>, error/<query>: only those that are not 0.
    counters: dict[str, int] = field(default_factory=dict)


class Trouble(Exception):
    """A step cannot be computed: a function that a user brought has raised."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Matter(Protocol):
    """How a member's part of a step is computed."""

    def check(self, spec: Select) -> None:
        """Raise UserError if this cannot be computed here."""
        ...

    def select(
        self,
        spec: Select,
        rows: Sequence[RosterRow],
        commits: Sequence[Commit],
    ) -> Outcome:
        """What the rows get of these commits; Trouble if a user's function raises."""
        ...


def kept(identity: int, keep: float) -> bool:
    """Whether a row that keeps this share looks at this tuple."""
    return mixed(identity) % KEEP_ONE < int(keep * KEEP_ONE)


class Tuples:
    """Selections as they are written, on tuples."""

    def __init__(
        self,
        functions: Mapping[str, Installed],
        reread: Callable[[Select, Commit], tuple[Item, ...]],
    ) -> None:
        self._functions = {name: _guarded(one) for name, one in functions.items()}
        self._reread = reread
        self._compiled: dict[str, tuple[Run, Run | None]] = {}

    def select(
        self,
        spec: Select,
        rows: Sequence[RosterRow],
        commits: Sequence[Commit],
    ) -> Outcome:
        match, fails = self._runs(spec)
        found: list[Result] = []
        counted: dict[str, int] = {}
        for commit in commits:
            items = commit.items if commit.items is not None else self._reread(spec, commit)
            assert not isinstance(items, Volume)
            for item in items:
                assert not isinstance(item, Result)
                for row in rows:
                    _meet(item, commit.step, row, match, fails, found, counted)
        found.sort(key=lambda result: (result.at, result.id, result.query, result.version))
        return Outcome(rows=len(found), results=tuple(found), counters=counted)

    def check(self, spec: Select) -> None:
        self._runs(spec)

    def _runs(self, spec: Select) -> tuple[Run, Run | None]:
        signature, stream = spec.signature, spec.stream
        known = self._compiled.get(signature.name)
        if known is None:
            columns = {column.name: column.type for column in stream.columns}
            if len(self._compiled) >= _CONDITIONS_MAX:
                self._compiled.clear()
            known = self._compiled[signature.name] = (
                evaluate.condition(signature, columns, self._functions),
                evaluate.errors(signature, columns, self._functions),
            )
        return known


def _meet(
    item: Item,
    step: int,
    row: RosterRow,
    match: Run,
    fails: Run | None,
    found: list[Result],
    counted: dict[str, int],
) -> None:
    """One tuple and one row."""
    at, identity, values = item
    if row.keep < 1.0 and not kept(identity, row.keep):
        name = f"shed/{row.query}"
        counted[name] = counted.get(name, 0) + 1
        return
    if not (row.start < at <= row.until and row.since < step <= row.cut):
        return
    if match(values, row.parameters) is True:
        found.append(Result(row.query, row.version, at, identity, values))
    if fails is not None and fails(values, row.parameters) is True:
        name = f"error/{row.query}"
        counted[name] = counted.get(name, 0) + 1


def _guarded(function: Installed) -> Installed:
    """The same; what it raises is Trouble."""

    def run(*args: Any) -> Any:
        try:
            return function.run(*args)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            raise Trouble(reason[:500]) from error

    return Installed(run=run, type=function.type)


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Between these all rows are live, and nothing but their selectivity counts."""

    start: int
    until: int
    since: int
    cut: int
    share: float


class Volumes:
    """Only counts. Rows that are live throughout and keep everything are one sum."""

    def __init__(self, selectivity: Mapping[str, float], otherwise: float) -> None:
        self._selectivity = selectivity
        self._otherwise = otherwise
        self._bounds: dict[str, tuple[Sequence[RosterRow], _Bounds | None]] = {}

    def select(
        self,
        spec: Select,
        rows: Sequence[RosterRow],
        commits: Sequence[Commit],
    ) -> Outcome:
        out = Outcome(rows=0, results=())
        name = spec.instance
        bounds = self._bounds_of(name, rows)
        for commit in commits:
            volume = commit.items
            if not isinstance(volume, Volume) or not volume.rows:
                continue
            if bounds is not None and _within(bounds, volume, commit.step):
                expected = volume.rows * bounds.share
                out.rows += _rounded(expected, name, commit.step)
                continue
            for row in rows:
                self._count(out, row, volume, commit.step)
        return out

    def check(self, spec: Select) -> None:
        """Whatever it is, it is only counted."""

    def share_of(self, row: RosterRow) -> float:
        """Of the tuples that a row looks at, the share that it lets through."""
        return self._selectivity.get(row.query, self._otherwise)

    def _bounds_of(self, name: str, rows: Sequence[RosterRow]) -> _Bounds | None:
        known = self._bounds.get(name)
        if known is not None and known[0] is rows:
            return known[1]
        found = None
        if rows and all(row.keep >= 1.0 for row in rows):
            found = _Bounds(
                start=max(row.start for row in rows),
                until=min(row.until for row in rows),
                since=max(row.since for row in rows),
                cut=min(row.cut for row in rows),
                share=sum(map(self.share_of, rows)),
            )
        self._bounds[name] = (rows, found)
        return found

    def _count(self, out: Outcome, row: RosterRow, volume: Volume, step: int) -> None:
        if row.keep < 1.0:
            shed = _rounded(volume.rows * (1.0 - row.keep), f"shed/{row.query}", step)
            name = f"shed/{row.query}"
            out.counters[name] = out.counters.get(name, 0) + shed
        if not row.since < step <= row.cut:
            return
        inside = _overlap(volume, row.start, row.until)
        expected = volume.rows * inside * row.keep * self.share_of(row)
        out.rows += _rounded(expected, f"{row.query}/{row.version}", step)


def _within(bounds: _Bounds, volume: Volume, step: int) -> bool:
    live = bounds.since < step <= bounds.cut
    return live and bounds.start < volume.earliest and volume.latest <= bounds.until


def _overlap(volume: Volume, start: int, until: int) -> float:
    """The share of a volume's tuples with start < event time <= until."""
    length = volume.latest - volume.earliest + 1
    low, high = max(volume.earliest, start + 1), min(volume.latest, until)
    return max(0, high - low + 1) / length


def _rounded(expected: float, name: str, step: int) -> int:
    """A whole number with this mean, always the same for one name and step."""
    drawn = mixed(zlib.crc32(name.encode()) << 32 ^ step) / (1 << 64)
    return int(expected + drawn)
