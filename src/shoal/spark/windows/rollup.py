"""A roll-up component: its place in the commits of its panes, and what its next step is.

Owned by the engine's thread alone. Its rows are rostered.py's; they stand for windows. What a row's
`since` says of commits its `start` and `fill` say of event time: a row starts no earlier than the
watermark, so the windows that end after that are all due in later commits.

Promises   Q1  a window belongs to a row iff it ends in (start, until], and is shown if it is whole.
           Q2  pieces, restarts and the order of steps change neither windows nor their rows.
"""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from shoal.dataplane.commands import RollUp
from shoal.dataplane.rows import ALWAYS, FOREVER, RosterRow
from shoal.kernel.errors import LocalError, UserError
from shoal.kernel.time import Instant, format_instant
from shoal.log.reader import Reader
from shoal.log.root import Root
from shoal.log.rosterlog import RosterLog
from shoal.log.types import arrow_type
from shoal.log.writer import EVENT_TIME_PROPERTY, Writer
from shoal.query.windows.plan import TIME, Shape
from shoal.query.windows.plan import RollUp as Signature
from shoal.spark.feed import Feed
from shoal.spark.outcome import StepOutcome
from shoal.spark.select.rostered import Fill, Rostered, begin_at_head
from shoal.spark.select.step import SelectWork
from shoal.spark.windows.due import Due, Wanted, wanted_of
from shoal.spark.windows.follow import Follower
from shoal.spark.windows.shelf import WHOLE, whole_from
from shoal.spark.windows.step import RollUpWork

__all__ = ["RollUpComponent", "open_roll_up", "windows_schema"]


class RollUpComponent(Rostered):
    """One roll-up on this peer."""

    kind = "roll-up"
    spec: RollUp

    def __init__(
        self,
        spec: RollUp,
        root: Root,
        writer: Writer,
        log: RosterLog,
        feed: Feed,
        *,
        weight: float,
    ) -> None:
        self._follower = Follower(feed, writer)
        super().__init__(spec, writer, log, feed, weight=weight)
        self._root = root
        self._columns = tuple(column.name for column in spec.roll_up.columns())
        #: What the live rows want, and of which rows that was found.
        self._wanted: tuple[tuple[RosterRow, ...], tuple[Wanted, ...]] = ((), ())
        self._numbers: dict[int, Shape] = {}
        # A row may have joined past commits that were passed over in memory only.
        joined = [row.since for row in self._rows.values()]
        self.planned = self._follower.planned = max([self._follower.planned, *joined])
        for one in self._rows.values():
            self._check_number(one)
        self._fills = self._pending_fills()

    # What is there to do

    @property
    def ready(self) -> bool:
        """Whether there is something to do."""
        return self._next() is not None or self.filling

    @property
    def lag(self) -> int:
        """Commits of the input that are still to be consumed, and rows that lack history."""
        return self._follower.lag + len(self._fills)

    @property
    def oldest_needed(self) -> int:
        """The lowest position of the input that is still to be read."""
        return self._follower.durable

    @property
    def needs_from(self) -> Instant:
        """Panes that begin earlier are needed no more."""
        done = self._follower.done
        live = (max(done, one.after) - one.window.length for one in self._asked())
        fills = (f.position - _shape(f.row).window.length for f in self._fills)
        return min([done, *live, *fills])

    @property
    def watermark(self) -> Instant | None:
        """All windows that end up to here are there."""
        return None if self._follower.done == ALWAYS else self._follower.done

    @property
    def event_time(self) -> Instant:
        """The greatest event time consumed; the watermark where time passes without tuples."""
        return max(self._follower.evmax, self._follower.reached)

    @property
    def whole(self) -> Instant:
        """Windows that begin earlier are not shown, as of the last step."""
        return self.writer.transactions.get(WHOLE, ALWAYS)

    @property
    def fill_is_due(self) -> bool:
        """Whether the next step is one of history."""
        return self.filling and (self._next() is None or self.fill_is_next())

    def work(self) -> RollUpWork:
        """The step over what is due, with the rows as they are now."""
        due = self._next()
        assert due is not None, self.instance
        self._follower.plan(due)
        self._came()
        return self._work(due, _in_time(self._live_rows(), due), fill="")

    def fill_work(self) -> RollUpWork:
        """The next piece of history of the first row that lacks any."""
        fill = self._fills[0]
        due = Due(
            instance=self.spec.input,
            after=0,
            upto=1,
            done=fill.position,
            evmax=ALWAYS,
            source_committed=0,
            marks=((1, fill.row.fill),),
        )
        alone = replace(fill.row, since=0, cut=FOREVER, fill=0)
        (key,) = self._fill_facts(fill.row, 0)
        return self._work(due, (alone,), fill=key)

    def _work(self, due: Due, rows: tuple[RosterRow, ...], *, fill: str) -> RollUpWork:
        select = SelectWork(
            instance=self.instance,
            signature=self.spec.roll_up.having,
            rows=rows,
            roster_version=self.version,
            writer=self.writer,
            transactions={} if fill else {"roster": self.version},
            source_committed=due.source_committed,
            # Always as Arrow: a step combines a bounded number of rows.
            rows_expected=0,
        )
        return RollUpWork(spec=self.spec, select=select, due=due, fill=fill)

    def done(self, outcome: StepOutcome) -> None:
        """A live step was committed."""
        self._follower.committed(outcome.commit.transactions)
        self._came()

    def filled_by(self, row: RosterRow, work: RollUpWork, outcome: StepOutcome) -> None:
        """A piece of history was committed for a row."""
        self.filled(row, outcome.commit.transactions[work.fill])

    def _next(self) -> Due | None:
        due = self._follower.next(self._asked())
        self._came()
        return due

    def _came(self) -> None:
        """The follower may have moved; rows go by where it stands."""
        moved = self.position != self._follower.position
        self.position, self.planned = self._follower.position, self._follower.planned
        if moved:
            self._expire()

    def _asked(self) -> tuple[Wanted, ...]:
        live = self._live_rows()
        if self._wanted[0] is not live:
            self._wanted = (live, tuple(wanted_of(live).values()))
        return self._wanted[1]

    # Rows

    def _check_row(self, row: RosterRow) -> None:
        if row.keep < 1.0:
            raise UserError(
                f"query {row.query} cannot look at a share of the tuples",
                detail="a window is computed from all of its tuples",
                hint="make the window tumble, or its slide longer",
            )
        if row.shape is None or row.parameters[:1] != (row.shape.number,):
            raise LocalError(f"row {row.identity} does not say which windows it wants")
        row.shape.window.validate()
        panes = self.spec.roll_up.panes.pane
        if row.shape.window.pane % panes:
            raise LocalError(
                f"windows of row {row.identity} are not made of whole panes",
                detail=f"{row.shape.window}, panes of {panes} microseconds",
            )
        self._check_number(row)

    def _check_number(self, row: RosterRow) -> None:
        """Raise if another shape has the number of this row's."""
        shape = _shape(row)
        known = self._numbers.setdefault(shape.number, shape)
        if known != shape:
            raise LocalError(
                f"windows of row {row.identity} cannot be told from others",
                detail=f"{shape} and {known} have the number {shape.number}",
                hint="write another constant, or another slide",
            )

    def _accepted(self, row: RosterRow, start: Instant) -> RosterRow:
        reached = self._follower.reached
        fill = reached if start < reached else 0
        return replace(row, columns=self._columns, start=start, since=self.planned, fill=fill)

    def _to_fill(self, rows: Sequence[RosterRow]) -> list[Fill]:
        fills = [Fill(row, self._filled(row, row.start)) for row in rows if row.fill]
        return [fill for fill in fills if fill.position < fill.row.fill]

    def _check_history(self, start: Instant) -> None:
        head = Reader.head(self._root, self.spec.input)
        whole = ALWAYS if head is None else whole_from(head.transactions)
        if start < whole:
            raise UserError(
                f"windows over {self.spec.stream.name} are not whole so far back",
                detail=f"asked for {format_instant(start)}; "
                f"panes are whole from {format_instant(whole)} on",
                hint=f"start at {format_instant(whole)}, later, or from now on",
            )


def _in_time(rows: tuple[RosterRow, ...], due: Due) -> tuple[RosterRow, ...]:
    """The same rows, where one begins or ends amid these commits by the watermark there.

    So it is where a step is repeated. Otherwise it is the same tuple, and its frames are kept.
    """
    if all(row.since <= due.after and row.cut == FOREVER for row in rows):
        return rows
    joined = (
        replace(row, start=max(row.start, due.mark(row.since))) if row.since > due.after else row
        for row in rows
    )
    return tuple(
        row
        if row.cut == FOREVER
        else replace(row, until=min(row.until, due.mark(row.cut)), cut=FOREVER)
        for row in joined
    )


def _shape(row: RosterRow) -> Shape:
    assert row.shape is not None
    return row.shape


def open_roll_up(
    root: Root, spec: RollUp, feed: Feed, *, owner: str, weight: float
) -> RollUpComponent:
    """Create the component's table where there is none, and become its owner."""
    properties = {EVENT_TIME_PROPERTY: TIME}
    Writer.create(root, spec.instance, windows_schema(spec.roll_up), properties=properties)
    writer = Writer.take_over(root, spec.instance, owner=owner)
    begin_at_head(root, writer, spec.input)
    log = RosterLog(root.folder("rosters", spec.instance))
    return RollUpComponent(spec, root, writer, log, feed, weight=weight)


def windows_schema(roll_up: Signature) -> pa.Schema:
    """The columns of a roll-up's table."""
    return pa.schema(
        [
            ("_query", pa.string()),
            ("_version", pa.int32()),
            *((column.name, arrow_type(column.type)) for column in roll_up.columns()),
            ("_step", pa.int64()),
            ("_id", pa.int64()),
        ]
    )
