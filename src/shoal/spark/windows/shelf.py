"""The panes table as it lies there: which segments hold the panes of a time, and what is whole.

A step looks at the newest snapshot, so compaction makes no difference: whatever was merged, each
pane row is in exactly one live segment. Segments say when their panes begin, so a step reads the
time that its windows cover and little else.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from shoal.dataplane.rows import ALWAYS, FOREVER
from shoal.kernel.time import Instant
from shoal.log.entries import RETAINED, RETAINED_TIME, read_snapshot
from shoal.log.housekeep import ended_below
from shoal.log.root import Root, TableDir
from shoal.log.segment import Segment
from shoal.query.catalog import format_schema
from shoal.query.windows.plan import PANE, Panes
from shoal.spark.windows.due import Extent

__all__ = ["ROWS_PER_TASK", "WHOLE", "Shelf", "held_at", "look", "tasks_for", "whole_from"]

#: Transaction of a panes table: the event time from which panes are whole.
WHOLE = "whole"
#: Rows that one task groups; below it there is no exchange, which costs as much (docs/spark.md).
ROWS_PER_TASK = 200_000
_SYSTEM = "`_step` BIGINT, `_id` BIGINT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """A panes table at one version."""

    table: TableDir
    segments: tuple[tuple[Segment, Extent], ...]
    whole: Instant

    @property
    def extents(self) -> tuple[Extent, ...]:
        """Of all segments."""
        return tuple(extent for _, extent in self.segments)

    def rows(self, start: Instant, end: Instant) -> int:
        """Rows of the segments that may hold panes that begin in [start, end)."""
        return sum(extent.rows for extent in self.extents if extent.touches(start, end))

    def frame(
        self, session: SparkSession, panes: Panes, start: Instant, end: Instant
    ) -> DataFrame | None:
        """Panes that begin in [start, end), and maybe others; None if there are none."""
        chosen = [segment for segment, extent in self.segments if extent.touches(start, end)]
        if not chosen:
            return None
        schema = f"{format_schema(panes.columns())}, {_SYSTEM}"
        paths = (str(self.table.path / segment.path) for segment in chosen)
        frame = session.read.schema(schema).parquet(*paths)
        return frame.coalesce(tasks_for(session, self.rows(start, end)))


def look(root: Root, instance: str) -> Shelf:
    """The table as it stands."""
    snapshot = read_snapshot(root.table(instance))
    segments = []
    for segment in snapshot.segments.values():
        low, high = segment.span(PANE)
        segments.append((segment, Extent(rows=segment.rows, low=low, high=high)))
    return Shelf(
        table=root.table(instance),
        segments=tuple(segments),
        whole=whole_from(snapshot.transactions),
    )


def held_at(root: Root, instance: str, needed: Instant) -> int:
    """The position below which no pane of a needed time was committed, for a reader's lease."""
    segments = read_snapshot(root.table(instance)).segments.values()
    return max(0, ended_below(segments, column=PANE, before=needed) - 1)


def whole_from(transactions: Mapping[str, int]) -> Instant:
    """Windows that begin at or after this are whole: what was there first, and what is kept."""
    lost = ALWAYS
    if RETAINED in transactions:
        lost = transactions.get(RETAINED_TIME, FOREVER) + 1
    return max(transactions.get(WHOLE, ALWAYS), lost)


def tasks_for(session: SparkSession, rows: int) -> int:
    """How many tasks group so many rows."""
    most = session.sparkContext.defaultParallelism
    return max(1, min(most, -(-rows // ROWS_PER_TASK)))
