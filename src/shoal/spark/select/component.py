"""A select component: its rows, its place in the input, and what its next step is.

Owned by the engine's thread alone. A step in flight has fixed its range and its rows; `planned`
is the end of that range, and whoever is accepted meanwhile is served from there on.

Promises   Q1  a row counts from the greatest event time already consumed, exclusive, so that no
               tuple that could match has gone by; the interval rules are DESIGN.md section 7's.
           Q3  a change to one row changes nothing for another.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from shoal.dataplane.commands import Select
from shoal.dataplane.rows import ALWAYS, FOREVER, RosterRow
from shoal.kernel.errors import LocalError, UserError
from shoal.kernel.time import Instant, format_instant
from shoal.log.reader import Reader
from shoal.log.root import Root
from shoal.log.rosterlog import RosterLog
from shoal.log.types import arrow_type
from shoal.log.writer import EVENT_TIME_PROPERTY, Writer
from shoal.query.catalog import StreamDef
from shoal.spark.feed import Feed, Range
from shoal.spark.frames import all_columns
from shoal.spark.ingest.judge import event_time
from shoal.spark.select.step import SelectWork

__all__ = ["FACTS", "ROWS_PER_STEP", "SelectComponent", "open_select", "result_schema"]

#: Tuples of one step at most, unless one commit alone has more.
ROWS_PER_STEP = 1_000_000
#: Rows that are over, before it is worth an entry in the roster log to forget them.
PRUNE_AT = 256
#: What a derived commit passes on from the input's newest commit.
FACTS = ("wm", "evmax")


@dataclass(slots=True)
class _Fill:
    """A row's back-fill: history up to `position` of `row.fill` is served."""

    row: RosterRow
    position: int


class SelectComponent:
    """One signature on this peer."""

    kind = "select"

    def __init__(
        self, spec: Select, writer: Writer, log: RosterLog, feed: Feed, *, weight: float
    ) -> None:
        self.spec = spec
        self.instance = spec.instance
        self.writer = writer
        self.feed = feed
        self._weight = weight
        self.running = False
        self.rows_rate = 0.0
        self._fill_turn = False
        #: Steps of the back-fill that failed in a row; live steps between them go well maybe.
        self.fill_failures = 0
        self._rows_seen = 0
        self._log = log
        loaded = log.claim(writer.epoch)
        self.version = loaded.version
        self._rows = {row.identity: row for row in loaded.rows}
        self._live: tuple[RosterRow, ...] | None = None
        self.position = writer.transactions[f"in/{spec.input}"]
        self.planned = self.position
        #: What the input's commits said up to `planned`: its watermark, its greatest event time.
        self._facts = {k: writer.transactions[k] for k in FACTS if k in writer.transactions}
        self._fills = self._to_fill(
            [row for row in loaded.rows if not row.suspended and row.cut == FOREVER]
        )

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
    def fill_row(self) -> RosterRow:
        """The row whose history comes next."""
        return self._fills[0].row

    @property
    def filling(self) -> bool:
        """Whether a row still lacks history."""
        return bool(self._fills)

    @property
    def lag(self) -> int:
        """Commits of the input that are still to be consumed, history included."""
        return self.feed.head - self.position + sum(f.row.fill - f.position for f in self._fills)

    def fill_is_next(self) -> bool:
        """Live steps and back-fill take turns, so that neither waits for the other."""
        self._fill_turn = not self._fill_turn
        return self._fill_turn

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
        key = _fill_key(row)
        return self._work(read, (alone,), {key: read.upto}, rows_history=read.rows)

    def _work(
        self,
        read: Range,
        rows: tuple[RosterRow, ...],
        transactions: dict[str, int],
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

    def undone(self) -> None:
        """The step in flight came to nothing; it will be repeated."""
        self._live = None

    def filled(self, row: RosterRow, upto: int) -> None:
        """A piece of history was committed for a row."""
        self.fill_failures = 0
        for fill in self._fills:
            if fill.row.identity == row.identity:
                fill.position = upto
        self._fills = [fill for fill in self._fills if fill.position < fill.row.fill]

    # What is asked of it

    @property
    def event_time(self) -> Instant:
        """The greatest event time consumed, counting the step in flight."""
        return self._facts.get("evmax", ALWAYS)

    def check(self, rows: Sequence[RosterRow]) -> None:
        """Raise unless these rows may be added."""
        taken = {row.query for row in self._rows.values() if row.until == FOREVER}
        for row in rows:
            row.validate()
            if row.query in taken and row.version <= self._newest(row.query).version:
                raise LocalError(
                    f"query {row.query} is in the roster of {self.instance} already",
                    detail=f"version {self._newest(row.query).version}",
                )

    def add(self, rows: Sequence[RosterRow], begin: Instant | None) -> tuple[RosterRow, ...]:
        """Accept rows; durable when this returns. They count from `begin` or from now on."""
        self.check(rows)
        now = self.event_time
        start = now if begin is None else begin
        fill = self.planned if start < now else 0
        if fill:
            self._check_history(start)
        accepted = tuple(replace(row, start=start, since=self.planned, fill=fill) for row in rows)
        self._put(accepted)
        if fill:
            self._fills += self._to_fill(accepted)
        return accepted

    def end(self, query: str, *, at: Instant, now: bool) -> RosterRow:
        """End a query's newest row at an event time; `now` cuts all its rows at the next step.

        Earlier versions may still be served up to their own `until`, which lies in the past of
        event time but not yet behind the watermark.
        """
        row = self._newest(query)
        ended = replace(row, until=min(row.until, at))
        if now:
            ended = replace(ended, cut=min(row.cut, self.planned))
            mine = [one for one in self._rows.values() if one.query == query and one is not row]
            older = [replace(one, cut=min(one.cut, self.planned)) for one in mine]
            self._put([*older, ended])
            self._fills = [fill for fill in self._fills if fill.row.query != query]
            return ended
        self._put([ended])
        for fill in self._fills:
            if fill.row.identity == row.identity:
                fill.row = ended
        return ended

    def share(self, query: str) -> float:
        """The share of the tuples that a query's newest row looks at."""
        return self._newest(query).keep

    def keep(self, query: str, share: float) -> RosterRow:
        """Let a query look at a share of the tuples."""
        row = replace(self._newest(query), keep=share)
        self._put([row])
        return row

    def weigh(self, query: str, weight: float) -> RosterRow:
        """Let a query have another share of the peer's time."""
        row = replace(self._newest(query), weight=weight)
        self._put([row])
        return row

    def suspend(self, rows: Sequence[RosterRow], reasons: Sequence[str]) -> None:
        """Stop serving rows that make the step fail; what they had is kept.

        They come as the step had them: a back-fill's without its live part, and a row that was
        changed meanwhile without the change.
        """
        self.fill_failures = 0
        names = [row.identity for row in rows]
        known = [self._rows[name] for name in names]
        self._put(
            [
                replace(row, suspended=reason or "failed", cut=min(row.cut, self.position))
                for row, reason in zip(known, reasons, strict=True)
            ]
        )
        self._fills = [fill for fill in self._fills if fill.row.identity not in names]

    @property
    def weight(self) -> float:
        """Its own, times the greatest of its queries': they are all served by one step."""
        served = (row.weight for row in self._rows.values() if row.until == FOREVER)
        return self._weight * max(served, default=1.0)

    def rows(self) -> tuple[RosterRow, ...]:
        """All rows that still matter."""
        return tuple(self._rows.values())

    @property
    def row_count(self) -> int:
        """How many rows still matter."""
        return len(self._rows)

    def validate(self) -> None:
        """Raise if a row contradicts itself or the component's place."""
        for row in self._rows.values():
            row.validate()
            if row.since > self.planned:
                raise LocalError(
                    f"row {row.identity} of {self.instance} is live since {row.since}",
                    detail=f"the component has planned up to {self.planned} only",
                )

    def _live_rows(self) -> tuple[RosterRow, ...]:
        if self._live is None:
            self._live = tuple(
                row
                for row in self._rows.values()
                if row.cut > self.position and not row.suspended and not self._over(row)
            )
        return self._live

    def _over(self, row: RosterRow) -> bool:
        """No tuple at or before `until` can come any more: the watermark has passed it."""
        watermark = self.writer.transactions.get("wm")
        return watermark is not None and row.until < watermark

    def _expire(self) -> None:
        if self._live and any(self._over(row) or row.cut <= self.position for row in self._live):
            self._live = None
            self._prune()

    def _prune(self) -> None:
        """Forget rows that are over, when there are many; suspended ones stay to be seen."""
        over = [row for row in self._rows.values() if self._over(row)]
        if len(over) < PRUNE_AT or self._fills:
            return
        self._log.prune(before=self.writer.transactions["wm"], step=0)
        for row in over:
            del self._rows[row.identity]

    def _put(self, rows: Sequence[RosterRow]) -> None:
        self.version = self._log.put(rows)
        self._rows.update((row.identity, row) for row in rows)
        self._live = None

    def _newest(self, query: str) -> RosterRow:
        versions = [row for row in self._rows.values() if row.query == query]
        if not versions:
            raise LocalError(
                f"query {query} is not in the roster of {self.instance}",
                hint="look at the catalog for the component that serves it",
            )
        return max(versions, key=lambda row: row.version)

    def _filled(self, row: RosterRow) -> int:
        return self.writer.transactions.get(_fill_key(row), 0)

    def _to_fill(self, rows: Sequence[RosterRow]) -> list[_Fill]:
        """What rows still lack of their history. Retention may have removed what is older yet."""
        lacking = [row for row in rows if self._filled(row) < row.fill]
        if not lacking:
            return []
        lost = self.feed.lost()
        fills = [
            _Fill(row, max(self._filled(row), lost.step if row.start >= lost.time else 0))
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


def _fill_key(row: RosterRow) -> str:
    return f"fill/{row.query}/{row.version}"


def open_select(
    root: Root, spec: Select, feed: Feed, *, owner: str, weight: float
) -> SelectComponent:
    """Create the component's table where there is none, and become its owner.

    A new component starts at the present head of its input, and says so in its first commit: a
    restart before its first step must not start later, or tuples in between would be lost.
    """
    properties = {EVENT_TIME_PROPERTY: event_time(spec.stream)}
    Writer.create(root, spec.instance, result_schema(spec.stream), properties=properties)
    writer = Writer.take_over(root, spec.instance, owner=owner)
    if f"in/{spec.input}" not in writer.transactions:
        head = Reader.head(root, spec.input)
        facts = {} if head is None else head.transactions
        first = {key: facts[key] for key in FACTS if key in facts}
        first[f"in/{spec.input}"] = 0 if head is None else head.step
        writer.commit(step=writer.step + 1, segments=[], transactions=first)
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
