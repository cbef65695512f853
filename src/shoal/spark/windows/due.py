"""What has fallen due: the windows whose end the watermark of the panes' commits has passed.

    commits of the panes     step 7: watermark 0:58    step 8: 1:03    step 9: 1:03    step 10: 2:01
    done up to 0:59          due: ends in (0:59, 2:01]; 1:00 to 1:03 in step 8, the rest in step 10
    in pieces                (0:59, 1:30], then (1:30, 2:01]: position 9 after the first

The event time that is done is the watermark of the roll-up's own commit, so that the newest commit
alone is enough to go on. While a piece is missing, `begun` is the commit that it belongs to.

What is read of the panes' table need not end with the commits: a tuple is `ok` only at or above
the watermark before its commit, so nothing is added to a window whose end the watermark passed.

Promises   Q1  every end is due once: pieces do not overlap and leave nothing out.
           Q2  the step of a window is the first commit whose watermark is at or past its end.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shoal.dataplane.rows import ALWAYS, RosterRow
from shoal.kernel.time import Instant
from shoal.log.writer import Commit
from shoal.query.windows.plan import Shape
from shoal.query.windows.shape import Window
from shoal.spark.feed import Range

__all__ = [
    "BEGUN",
    "REACHED",
    "Due",
    "Extent",
    "Wanted",
    "cut",
    "due_in",
    "source_stamp",
    "span_of",
    "wanted_of",
]

#: Transactions of a commit that is not the last piece: what it is a piece of, by commit and time.
BEGUN, REACHED = "begun", "reached"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Ends that somebody asks for: those of the window in (after, upto]."""

    window: Window
    after: Instant
    upto: Instant

    def ends(self, after: Instant, upto: Instant) -> range:
        """The ends among those in (after, upto]."""
        return self.window.ends(max(after, self.after), min(upto, self.upto))


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """Ends in (done, reached] are due; `marks` are the steps and the watermark after each.

    Due(instance='panes-1', after=6, upto=10, done=59, evmax=130, source_committed=1700000000,
        marks=((7, 59), (8, 63), (9, 63), (10, 121)))
    """

    instance: str
    after: int
    upto: int
    done: Instant
    evmax: Instant
    source_committed: int
    marks: tuple[tuple[int, Instant], ...]

    @classmethod
    def of(cls, read: Range, *, done: Instant, evmax: Instant) -> "Due":
        """What the first commits of a range bring."""
        marks: list[tuple[int, Instant]] = []
        for commit in read.commits:
            before = marks[-1][1] if marks else done
            marks.append((commit.step, max(before, commit.transactions.get("wm", ALWAYS))))
            evmax = max(evmax, commit.transactions.get("evmax", ALWAYS))
        return cls(
            instance=read.instance,
            after=read.after,
            upto=read.upto,
            done=done,
            evmax=evmax,
            source_committed=source_stamp(read.commits),
            marks=tuple(marks),
        )

    @property
    def reached(self) -> Instant:
        """The watermark at the end; ALWAYS where there is none yet."""
        return self.marks[-1][1]

    def position(self, upto: Instant) -> int:
        """The last commit of which nothing is left once all ends up to this instant are done."""
        return max((step for step, mark in self.marks if mark <= upto), default=self.after)

    def mark(self, step: int) -> Instant:
        """The watermark after this commit: what ends at or before it was due in no later one."""
        return max((mark for known, mark in self.marks if known <= step), default=self.done)

    def facts(self, upto: Instant) -> dict[str, int]:
        """The transactions of a commit that does all ends up to this instant."""
        found = {
            f"in/{self.instance}": self.position(upto),
            BEGUN: self.upto,
            REACHED: self.reached,
            "wm": upto,
            "evmax": self.evmax,
        }
        return {key: value for key, value in found.items() if value != ALWAYS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Rows of a segment of panes, and when their panes begin: from low to high, where known."""

    rows: int
    low: Instant | None
    high: Instant | None

    def touches(self, start: Instant, end: Instant) -> bool:
        """Whether a pane may begin in [start, end)."""
        above = self.high is None or self.high >= start
        return above and (self.low is None or self.low < end)


def source_stamp(commits: Iterable[Commit]) -> int:
    """The wall time of the newest source commit behind these; 0 where it is not known."""
    stamps = (commit.info.get("source", commit.info.get("wall", 0)) for commit in commits)
    return max((int(stamp) for stamp in stamps), default=0)


def wanted_of(rows: Iterable[RosterRow]) -> dict[Shape, Wanted]:
    """What rows of a roll-up ask for, by shape; rows of one shape ask together."""
    found: dict[Shape, Wanted] = {}
    for row in rows:
        assert row.shape is not None
        known = found.get(row.shape)
        found[row.shape] = Wanted(
            window=row.shape.window,
            after=row.start if known is None else min(known.after, row.start),
            upto=row.until if known is None else max(known.upto, row.until),
        )
    return found


def due_in(wanted: Iterable[Wanted], after: Instant, upto: Instant) -> bool:
    """Whether any end is due in (after, upto]."""
    return any(one.ends(after, upto) for one in wanted)


def span_of(
    wanted: Iterable[Wanted], after: Instant, upto: Instant
) -> tuple[Instant, Instant] | None:
    """The event time [start, end) that the windows due in (after, upto] cover, None for none."""
    found = [(one.window.length, ends) for one in wanted if (ends := one.ends(after, upto))]
    if not found:
        return None
    return min(ends[0] - length for length, ends in found), max(ends[-1] for _, ends in found)


def cut(
    wanted: Sequence[Wanted],
    due: Due,
    extents: Sequence[Extent],
    *,
    copies: int,
    rows_max: int,
) -> Instant:
    """Up to where a step goes, so that it combines about `rows_max` rows, and one end at least.

    `copies`: how many shapes a pane meets for each different window.
    """
    after, upto = due.done, due.reached
    lows = [extent.low for extent in extents]
    if after == ALWAYS and lows and None not in lows:
        # No window ends before the first pane, however long ago the first one wanted would have.
        after = max(after, min(low for low in lows if low is not None))
    ends = (one.ends(after, upto) for one in wanted)
    first = min((some[0] for some in ends if some), default=upto)
    while upto > first and _rows(wanted, after, upto, extents) * copies > rows_max:
        upto = max(first, after + (upto - after) // 2)
    return upto


def _rows(
    wanted: Sequence[Wanted], after: Instant, upto: Instant, extents: Sequence[Extent]
) -> int:
    """Rows to combine: each pane counts once for each window that it is part of."""
    span = span_of(wanted, after, upto)
    if span is None:
        return 0
    rows = sum(extent.rows for extent in extents if extent.touches(*span))
    return rows * _fan_out(wanted, after, upto)


def _fan_out(wanted: Sequence[Wanted], after: Instant, upto: Instant) -> int:
    counts: dict[Window, int] = {}
    for one in wanted:
        counts[one.window] = max(counts.get(one.window, 0), len(one.ends(after, upto)))
    return sum(min(-(-w.length // w.slide), count) for w, count in counts.items())
