"""A select component: its place in the input, and what its next step is; its rows: rostered.py."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from shoal.dataplane.commands import Select
from shoal.dataplane.rows import FOREVER, RosterRow
from shoal.kernel.errors import LocalError, UserError
from shoal.kernel.time import Instant, format_instant
from shoal.log.root import Root
from shoal.log.rosterlog import RosterLog
from shoal.log.types import arrow_type
from shoal.log.writer import EVENT_TIME_PROPERTY, Writer
from shoal.query.catalog import StreamDef
from shoal.spark.feed import Feed, Range
from shoal.spark.frames import all_columns
from shoal.spark.ingest.judge import event_time
from shoal.spark.select.rostered import FACTS, ROWS_PER_STEP, Fill, Rostered, begin_at_head
from shoal.spark.select.step import SelectWork

__all__ = ["SelectComponent", "open_select", "result_schema"]


class SelectComponent(Rostered):
    """One signature on this peer."""

    kind = "select"
    spec: Select

    def __init__(
        self, spec: Select, writer: Writer, log: RosterLog, feed: Feed, *, weight: float
    ) -> None:
        super().__init__(spec, writer, log, feed, weight=weight)
        self.rows_rate = 0.0
        self._rows_seen = 0
        self._fills = self._pending_fills()

    # What is there to do

    def next_range(self) -> Range | None:
        """The next range of the input, if there is one."""
        return self.feed.next_range(self.position, rows_max=ROWS_PER_STEP)

    def next_fill(self) -> tuple[RosterRow, Range]:
        """The next piece of history that a back-filled row still lacks."""
        fill = self._fills[0]
        found = self.feed.next_range(fill.position, rows_max=ROWS_PER_STEP, upto_most=fill.row.fill)
        if found is None:
            raise LocalError(
                f"history of {self.spec.input} after step {fill.position} is not there",
                detail=f"row {fill.row.identity} needs it up to step {fill.row.fill}",
            )
        return (fill.row, found)

    @property
    def ready(self) -> bool:
        """Whether there is something to do."""
        return self.position < self.feed.head or self.filling

    @property
    def lag(self) -> int:
        """Commits of the input that are still to be consumed, history included."""
        return self.feed.head - self.position + sum(f.row.fill - f.position for f in self._fills)

    @property
    def oldest_needed(self) -> int:
        """The lowest position of the input that is still to be read."""
        return min([self.position, *(fill.position for fill in self._fills)])

    def work(self, read: Range) -> SelectWork:
        """The step over a range, with the rows as they are now."""
        self.planned = max(self.planned, read.upto)
        transactions = {f"in/{self.spec.input}": read.upto, "roster": self.version}
        last = read.commits[-1].transactions
        self._facts |= {key: last[key] for key in FACTS if key in last}
        transactions |= self._facts
        return self._work(read, self._live_rows(), transactions, rows_history=0)

    def work_at_head(self) -> SelectWork:
        """The next step together with the ingest: where it ends is known when it is done."""
        return SelectWork(
            instance=self.instance,
            signature=self.spec.signature,
            rows=self._live_rows(),
            roster_version=self.version,
            writer=self.writer,
            transactions={"roster": self.version},
            source_committed=0,
            rows_expected=int(self.rows_rate * self._rows_seen),
        )

    def fill_work(self, row: RosterRow, read: Range) -> SelectWork:
        """The step over a piece of history, for one row alone."""
        alone = replace(row, since=0, cut=min(row.cut, row.fill))
        facts = self._fill_facts(row, read.upto)
        return self._work(read, (alone,), facts, rows_history=read.rows)

    def _work(
        self,
        read: Range,
        rows: tuple[RosterRow, ...],
        transactions: Mapping[str, int],
        *,
        rows_history: int,
    ) -> SelectWork:
        return SelectWork(
            instance=self.instance,
            signature=self.spec.signature,
            rows=rows,
            roster_version=self.version,
            writer=self.writer,
            transactions=transactions,
            source_committed=read.stamp,
            rows_expected=int(self.rows_rate * read.rows),
            rows_history=rows_history,
        )

    def done(self, *, upto: int, rows_in: int, rows_out: int) -> None:
        """A live step was committed."""
        self.position = self.planned = upto
        self._rows_seen = rows_in
        known = self.writer.transactions
        self._facts |= {key: known[key] for key in FACTS if key in known}
        if rows_in:
            rate = rows_out / rows_in
            self.rows_rate = max(rate, 0.5 * self.rows_rate + 0.5 * rate)
        self._expire()

    # Rows

    def _check_row(self, row: RosterRow) -> None:
        if row.shape is not None:
            raise LocalError(f"row {row.identity} is of windows, {self.instance} is a select")

    def _accepted(self, row: RosterRow, start: Instant) -> RosterRow:
        fill = self.planned if start < self.event_time else 0
        return replace(row, start=start, since=self.planned, fill=fill)

    def _to_fill(self, rows: Sequence[RosterRow]) -> list[Fill]:
        """What rows still lack of their history. Retention may have removed what is older yet."""
        lacking = [row for row in rows if self._filled(row, 0) < row.fill]
        if not lacking:
            return []
        lost = self.feed.lost()
        fills = [
            Fill(row, max(self._filled(row, 0), lost.step if row.start >= lost.time else 0))
            for row in lacking
        ]
        return [fill for fill in fills if fill.position < fill.row.fill]

    def _check_history(self, start: Instant) -> None:
        """Raise unless all tuples with a later event time are still there."""
        lost = self.feed.lost()
        if start < lost.time:
            since = "" if lost.time >= FOREVER else f"; it begins at {format_instant(lost.time)}"
            raise UserError(
                f"history of {self.spec.stream.name} no longer reaches back",
                detail=f"steps up to {lost.step} were removed by retention, "
                f"asked for {format_instant(start)}{since}",
                hint="start later or from now on, or keep the stream longer",
            )


def open_select(
    root: Root, spec: Select, feed: Feed, *, owner: str, weight: float
) -> SelectComponent:
    """Create the component's table where there is none, and become its owner."""
    properties = {EVENT_TIME_PROPERTY: event_time(spec.stream)}
    Writer.create(root, spec.instance, result_schema(spec.stream), properties=properties)
    writer = Writer.take_over(root, spec.instance, owner=owner)
    begin_at_head(root, writer, spec.input)
    log = RosterLog(root.folder("rosters", spec.instance))
    return SelectComponent(spec, writer, log, feed, weight=weight)


def result_schema(stream: StreamDef) -> pa.Schema:
    """The columns of a select's table: whose result, the input's columns, and the identity."""
    return pa.schema(
        [
            ("_query", pa.string()),
            ("_version", pa.int32()),
            *((column.name, arrow_type(column.type)) for column in all_columns(stream)),
            ("_step", pa.int64()),
            ("_id", pa.int64()),
        ]
    )
