"""The judge of intervals: the table of DESIGN.md section 7, held to the tuple (Q1).

    add     a row counts from the greatest event time consumed by then, exclusive, or from where
            the user said; what lies before it in the log is filled in
    alter   the old version until x, the new one from x; x as for a drop
    drop    until the greatest event time consumed by then
    now     the same, and every version of the query is cut where its component stands

What "by then" is, no row is asked: a witness writes down what the tables say of every component
when a change is asked for, and where the source stands when it is acknowledged. The rows must be
between the two. A change that was never acknowledged may have happened, later, or not at all.

    witness.asks("alter", ["hot"])
    mesh.query("hot").alter(...)
    witness.has_answer(["hot"])

Not here   what a query gives inside its intervals (checker.py).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from shoal.dataplane.rows import FOREVER, RosterRow
from shoal.log.rosterlog import RosterLog
from tests.oracle.checker import Oracle, Wrong
from tests.oracle.model import newest, place_of

__all__ = ["Change", "Placed", "Witness", "check_intervals", "placed_rows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A row and the component whose roster it is in."""

    instance: str
    row: RosterRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change to a query: what was true when it was asked for, and when it was acknowledged."""

    #: "add", "alter", "drop" or "now".
    kind: str
    #: Source steps that were committed when it was asked for.
    source: int
    #: Source steps that each component had consumed when it was asked for.
    consumed: Mapping[str, int]
    #: Source steps that were committed when it was acknowledged; FOREVER if it never was.
    most: int = FOREVER
    #: Where the user wants the query to begin.
    begin: int | None = None

    @property
    def sure(self) -> bool:
        """Whether it happened for certain."""
        return self.most < FOREVER

    def least(self, instance: str) -> int:
        """What a component had consumed at least; one that is new begins at the source's head."""
        return self.consumed.get(instance, self.source)


class Witness:
    """Writes down what stands in the tables of a root while changes are asked for."""

    def __init__(self, root: Path, source: str) -> None:
        self._tables = root / "tables"
        self._source = source
        self.changes: dict[str, list[Change]] = {}

    def asks(self, kind: str, names: Iterable[str], *, begin: int | None = None) -> None:
        """A change of these queries is asked for next."""
        consumed = {}
        for table in self._tables.iterdir() if self._tables.is_dir() else ():
            found = newest(table, f"in/{self._source}")
            if found:
                consumed[table.name] = found[f"in/{self._source}"]
        change = Change(kind=kind, source=self.head, consumed=consumed, begin=begin)
        for name in names:
            self.changes.setdefault(name, []).append(change)

    def has_answer(self, names: Iterable[str]) -> None:
        """The change of these queries that was asked for last is acknowledged."""
        head = self.head
        for name in names:
            self.changes[name][-1] = replace(self.changes[name][-1], most=head)

    @property
    def head(self) -> int:
        """Steps that the source has committed."""
        return place_of(self._tables / self._source)[1]


def placed_rows(root: Path) -> dict[str, list[Placed]]:
    """All rows of all rosters of a root: query to rows, in the order of versions."""
    found: dict[str, list[Placed]] = {}
    folder = root / "rosters"
    for roster in sorted(folder.iterdir()) if folder.is_dir() else ():
        for row in RosterLog(roster).load().rows:
            found.setdefault(row.query, []).append(Placed(instance=roster.name, row=row))
    for rows in found.values():
        rows.sort(key=lambda placed: placed.row.version)
    return found


def check_intervals(
    oracle: Oracle, name: str, rows: Sequence[Placed], changes: Sequence[Change]
) -> None:
    """Raise Wrong unless the rows of a query are what its changes ask for, and no others."""
    left = list(rows)
    life: list[Placed] = []
    over = True
    for change in changes:
        if change.kind in ("drop", "now"):
            over = change.sure or life[-1].row.until < FOREVER
            if over:
                _check_end(oracle, life, change)
            continue
        if not left and not change.sure:
            continue
        _must(bool(left), f"{name} has no row for its {change.kind}")
        _must(over == (change.kind == "add"), f"{name}: {change.kind} of {life}")
        life = [left.pop(0)] if over else [*life, left.pop(0)]
        _check_begin(oracle, life, change)
        over = False
    _must(not left, f"{name} has rows that nobody asked for: {left}")
    if not over:
        last = life[-1].row
        _must(last.until == FOREVER, f"{name} has ended, which nobody asked for: {last}")
        _check_whole(life)


def _check_begin(oracle: Oracle, life: Sequence[Placed], change: Change) -> None:
    """The newest of these rows begins where the change says, and is live where it was added."""
    placed, row = life[-1], life[-1].row
    if change.kind == "alter":
        before = life[-2].row
        # A version that was cut later may end where it was cut: there is nothing between.
        ends = [row.start] if before.cut == FOREVER else [row.start, oracle.greatest(before.cut)]
        _must(before.until in ends, f"a gap between versions: {before}, {row}")
        _must(before.until <= row.start, f"two versions at once: {before}, {row}")
        _check_instant(oracle, row.start, change, life[-2:])
    elif change.begin is not None:
        _must(row.start == change.begin, f"asked to begin at {change.begin}: {row}")
    else:
        _must(row.start == oracle.greatest(row.since), f"not from what was consumed: {row}")
    _must(
        change.least(placed.instance) <= row.since <= change.most,
        f"live since a step that was not the component's then: {row}, {change}",
    )
    fill = row.since if row.start < oracle.greatest(row.since) else 0
    _must(row.fill == fill, f"history is filled in up to {row.fill}, not {fill}: {row}")


def _check_end(oracle: Oracle, life: Sequence[Placed], change: Change) -> None:
    """The newest version ends at what was consumed; `now` cuts them all."""
    last = life[-1]
    _check_instant(oracle, last.row.until, change, [last])
    if change.kind == "drop":
        _check_whole(life)
        return
    for placed in life:
        row = placed.row
        if change.sure or row.cut < FOREVER:
            _must(row.cut < FOREVER, f"not cut, though it was dropped at once: {row}")
            _must(
                change.least(placed.instance) <= row.cut <= change.most,
                f"cut at a step that was not the component's then: {row}, {change}",
            )
    if last.row.cut < FOREVER:
        _must(
            last.row.until == oracle.greatest(last.row.cut),
            f"dropped at once, but it does not end where it is cut: {last.row}",
        )


def _check_instant(oracle: Oracle, at: int, change: Change, rows: Sequence[Placed]) -> None:
    """A change counts from the greatest event time that the components of its rows had consumed."""
    _must(at in oracle.reached, f"at {at}, which no commit of the source reached: {rows}")
    least = max(change.least(placed.instance) for placed in rows)
    _must(
        oracle.greatest(least) <= at <= oracle.greatest(change.most),
        f"at {at}, which was not the greatest event time consumed then: {rows}, {change}",
    )


def _check_whole(life: Sequence[Placed]) -> None:
    for placed in life:
        _must(placed.row.cut == FOREVER, f"cut, which nobody asked for: {placed.row}")


def _must(holds: bool, text: str) -> None:
    if not holds:
        raise Wrong(f"Q1: {text}")
