"""What a deliver component does now and then: leases, lazily moved positions, pieces that are over.

A piece is over when its rows can bring nothing more: the watermark has passed their `until`, or
their input has passed their `cut`. Then the delivery needs its table no longer.

Promise    L4  a lease on every table keeps what some delivery has not read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shoal.dataplane.rows import RosterRow
from shoal.kernel.time import MINUTE, SECOND, Instant
from shoal.log.leases import Leases
from shoal.log.reader import Reader
from shoal.log.root import Root
from shoal.log.rosterlog import RosterLog
from shoal.log.writer import Commit
from shoal.spark.deliver.book import Book

__all__ = ["LEASE", "UPKEEP_EVERY", "Ending", "Kept", "UpkeepWork", "keep_up"]

#: Time between two runs.
UPKEEP_EVERY = 20 * SECOND
#: How long a table keeps what a delivery needs while nobody is heard of it.
LEASE = 10 * MINUTE


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """A piece that nothing new is added to: its rows, as (query, version)."""

    number: int
    table: str
    position: int
    rows: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepWork:
    """What is to be looked after; `lowest` are the positions needed, `moves` those not yet said."""

    instance: str
    book: Book
    now: Instant
    lowest: Mapping[str, int] = field(hash=False)
    moves: Mapping[tuple[str, int], Sequence[int]] = field(hash=False)
    endings: tuple[Ending, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The pieces that are over, and what went wrong, if anything did."""

    instance: str
    over: tuple[Ending, ...] = ()
    error: Exception | None = None


def keep_up(root: Root, work: UpkeepWork) -> Kept:
    """Do it. Never raises."""
    try:
        for (table, position), numbers in work.moves.items():
            work.book.done(table, position, numbers, {})
        for table, position in work.lowest.items():
            leases = Leases(root.folder("readers", table))
            leases.register(work.instance, position=position, expires=work.now + LEASE)
        return Kept(instance=work.instance, over=tuple(_over(root, work.endings)))
    except Exception as error:  # noqa: BLE001 - a worker hands every failure to the engine
        return Kept(instance=work.instance, error=error)


def _over(root: Root, endings: Sequence[Ending]) -> list[Ending]:
    found = []
    for table in dict.fromkeys(ending.table for ending in endings):
        # The head first: rows that end after it was read only make a piece last longer.
        head = Reader.head(root, table)
        if head is None:
            continue
        roster = RosterLog(root.folder("rosters", table)).load()
        rows = {row.identity: row for row in roster.rows}
        for ending in endings:
            if ending.table != table or ending.position < head.step:
                continue
            if all(_row_over(rows.get(identity), head) for identity in ending.rows):
                found.append(ending)
    return found


def _row_over(row: RosterRow | None, head: Commit) -> bool:
    """Whether a row brings nothing after this commit; a row that was pruned is over."""
    if row is None:
        return True
    facts = head.transactions
    consumed = max((at for key, at in facts.items() if key.startswith("in/")), default=0)
    if row.cut <= consumed:
        return True
    filled = facts.get(f"fill/{row.query}/{row.version}", 0) >= row.fill
    watermark = facts.get("wm")
    return filled and watermark is not None and row.until < watermark
