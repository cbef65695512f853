"""A select component: its rows, its place in the input, and what its next step is.

The rules of intervals are those of spark/select/component.py, written again: the conformance
suite holds both to them.

Promises   Q1  a row counts from the greatest event time already consumed, exclusive, so that no
               tuple that could match has gone by.
           Q3  a change to one row changes nothing for another.
Not here   which tuples a row lets through (`matter.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from shoal.dataplane.commands import Select
from shoal.dataplane.rows import ALWAYS, FOREVER, RosterRow
from shoal.kernel.errors import LocalError, UserError
from shoal.kernel.time import Instant, format_instant
from shoal.sim.engine.memory import Commit, Memory, RosterBook, Table
from shoal.sim.engine.parts.matter import Outcome

__all__ = ["Range", "SelectComponent", "SelectWork", "open_select"]

#: Rows that are over, before they are forgotten together.
PRUNE_AT = 256
#: What a derived commit passes on from the input's newest commit.
FACTS = ("wm", "evmax")


@dataclass(frozen=True, slots=True)
class Range:
    """Committed steps (after, upto] of the input."""

    after: int
    upto: int
    commits: tuple[Commit, ...]

    @property
    def rows(self) -> int:
        return sum(commit.rows for commit in self.commits)


@dataclass(frozen=True, slots=True)
class SelectWork:
    """A component's part in a step, as it was fixed when the step began."""

    component: "SelectComponent"
    rows: tuple[RosterRow, ...]
    roster_version: int
    transactions: Mapping[str, int]
    source_committed: Instant
    #: The row whose history this step serves; None for a live step.
    fill: RosterRow | None


@dataclass(slots=True)
class _Fill:
    """A row's back-fill: history up to `position` of `row.fill` is served."""

    row: RosterRow
    position: int


class SelectComponent:
    """One signature on one peer."""

    kind = "select"

    def __init__(
        self,
        spec: Select,
        table: Table,
        source: Table,
        book: RosterBook,
        *,
        epoch: int,
        weight: float,
    ) -> None:
        self.spec = spec
        self.instance = spec.instance
        self.table = table
        self.source = source
        self.epoch = epoch
        self.weight = weight
        self.running = False
        #: Steps of the back-fill that failed in a row.
        self.fill_failures = 0
        #: What this owner has committed; the table may have another owner by now.
        self.transactions = dict(table.transactions)
        self.step = table.step
        #: Commits of the input that this peer knows of.
        self.head = source.step
        self._fill_turn = False
        self._book = book
        rows = book.claim(epoch)
        self.version = book.version
        self._rows = {row.identity: row for row in rows}
        self._live: tuple[RosterRow, ...] | None = None
        #: Of the live rows: the first end of an interval, in event time and in input steps.
        self._first_end = (FOREVER, FOREVER)
        self.position = self.transactions[f"in/{spec.input}"]
        self.planned = self.position
        #: What the input's commits said up to `planned`.
        self._facts = {key: self.transactions[key] for key in FACTS if key in self.transactions}
        self._fills = [
            _Fill(row, self._filled(row))
            for row in rows
            if self._filled(row) < row.fill and not row.suspended and row.cut == FOREVER
        ]
        self._hold()

    # What is there to do

    @property
    def ready(self) -> bool:
        """Whether there is anything to read."""
        return self.position < self.head or bool(self._fills)

    @property
    def filling(self) -> bool:
        """Whether a row still lacks history."""
        return bool(self._fills)

    @property
    def lag(self) -> int:
        """Commits of the input that are still to be consumed, history included."""
        missing = sum(fill.row.fill - fill.position for fill in self._fills)
        return self.head - self.position + missing

    def fill_is_next(self) -> bool:
        """Live steps and back-fill take turns, so that neither waits for the other."""
        self._fill_turn = not self._fill_turn
        return self._fill_turn

    def next_range(self, rows_max: int) -> Range | None:
        """The next range of the input, if there is one."""
        return self._range(self.position, self.head, rows_max)

    def next_fill(self, rows_max: int) -> tuple[RosterRow, Range]:
        """The next piece of history that a back-filled row still lacks."""
        fill = self._fills[0]
        found = self._range(fill.position, fill.row.fill, rows_max)
        if found is None:
            raise LocalError(f"history of {self.spec.input} up to {fill.row.fill} is not there")
        return fill.row, found

    def _range(self, after: int, last: int, rows_max: int) -> Range | None:
        if after >= last:
            return None
        chosen: list[Commit] = []
        rows = 0
        for commit in self.source.between(after, last):
            rows += commit.rows
            if chosen and rows > rows_max:
                break
            chosen.append(commit)
        return Range(after, chosen[-1].step, tuple(chosen))

    def work(self, read: Range) -> SelectWork:
        """The live step over a range, with the rows as they are now."""
        self.planned = max(self.planned, read.upto)
        last = read.commits[-1].transactions
        self._facts |= {key: last[key] for key in FACTS if key in last}
        changes = {f"in/{self.spec.input}": read.upto, "roster": self.version, **self._facts}
        return self._work(read, self._live_rows(), changes, None)

    def fill_work(self, row: RosterRow, read: Range) -> SelectWork:
        """The step over a piece of history, for one row alone."""
        alone = replace(row, since=0, cut=min(row.cut, row.fill))
        return self._work(read, (alone,), {_fill_key(row): read.upto}, row)

    def _work(
        self,
        read: Range,
        rows: tuple[RosterRow, ...],
        changes: Mapping[str, int],
        fill: RosterRow | None,
    ) -> SelectWork:
        stamp = max(commit.wall for commit in read.commits)
        return SelectWork(self, rows, self.version, changes, stamp, fill)

    def commit(self, work: SelectWork, outcome: Outcome, now: Instant) -> Commit:
        """Make a step durable, with what it lost and could not evaluate."""
        counted = outcome.counters
        totals = {
            f"n/{key}": self.transactions.get(f"n/{key}", 0) + n for key, n in counted.items()
        }
        done = Commit(
            epoch=self.epoch,
            step=self.step + 1,
            transactions={**work.transactions, **totals},
            rows=outcome.rows,
            items=outcome.results,
            wall=now,
        )
        self.table.append(done)
        self.step = done.step
        self.transactions.update(done.transactions)
        return done

    def done(self, upto: int) -> None:
        """A live step was committed."""
        self.position = self.planned = upto
        self._hold()
        until, cut = self._first_end
        if self._live and (cut <= upto or until < self.transactions.get("wm", ALWAYS)):
            self._live = None
            self._prune()

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
        self._hold()

    def release(self) -> None:
        """It no longer runs here, so it reads nothing."""
        self.source.read_by(self.instance, None)

    def _hold(self) -> None:
        self.source.read_by(
            self.instance, min([self.position, *(fill.position for fill in self._fills)])
        )

    # What is asked of it

    @property
    def event_time(self) -> Instant:
        """The greatest event time consumed, counting the step in flight."""
        return self._facts.get("evmax", ALWAYS)

    def check(self, rows: Sequence[RosterRow]) -> None:
        """Raise unless these rows may be added."""
        taken = [row.query for row in self._rows.values() if row.until == FOREVER]
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
        back = begin is not None and begin < now
        if back and begin is not None and self.source.forgotten:
            raise UserError(
                f"history of {self.spec.stream.name} no longer reaches back",
                detail=f"steps up to {self.source.forgotten} were removed by retention; "
                f"asked for {format_instant(begin)}",
                hint="start from now on, or keep the stream longer",
            )
        start = now if begin is None else begin
        fill = self.planned if back else 0
        accepted = tuple(replace(row, start=start, since=self.planned, fill=fill) for row in rows)
        self._put(accepted)
        if fill:
            self._fills += [_Fill(row, 0) for row in accepted]
            self._hold()
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
        """Stop serving rows that make the step fail; what they had is kept."""
        self.fill_failures = 0
        names = [row.identity for row in rows]
        self._put(
            [
                replace(
                    self._rows[name],
                    suspended=reason or "failed",
                    cut=min(self._rows[name].cut, self.position),
                )
                for name, reason in zip(names, reasons, strict=True)
            ]
        )
        self._fills = [fill for fill in self._fills if fill.row.identity not in names]

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
                raise LocalError(f"row {row.identity} of {self.instance} is live since later")

    def _live_rows(self) -> tuple[RosterRow, ...]:
        if self._live is None:
            self._live = tuple(
                row
                for row in self._rows.values()
                if row.cut > self.position and not row.suspended and not self._over(row)
            )
            self._first_end = (
                min((row.until for row in self._live), default=FOREVER),
                min((row.cut for row in self._live), default=FOREVER),
            )
        return self._live

    def _over(self, row: RosterRow) -> bool:
        """No tuple at or before `until` can come any more: the watermark has passed it."""
        watermark = self.transactions.get("wm")
        return watermark is not None and row.until < watermark

    def _prune(self) -> None:
        over = [row for row in self._rows.values() if self._over(row)]
        if len(over) < PRUNE_AT or self._fills:
            return
        self._book.prune(self.epoch, self.transactions["wm"])
        for row in over:
            del self._rows[row.identity]

    def _put(self, rows: Sequence[RosterRow]) -> None:
        self.version = self._book.put(self.epoch, rows)
        self._rows.update((row.identity, row) for row in rows)
        self._live = None

    def _newest(self, query: str) -> RosterRow:
        versions = [row for row in self._rows.values() if row.query == query]
        if not versions:
            raise LocalError(f"query {query} is not in the roster of {self.instance}")
        return max(versions, key=lambda row: row.version)

    def _filled(self, row: RosterRow) -> int:
        return self.transactions.get(_fill_key(row), 0)


def _fill_key(row: RosterRow) -> str:
    return f"fill/{row.query}/{row.version}"


def open_select(memory: Memory, spec: Select, *, weight: float) -> SelectComponent:
    """Become the owner of the component's table; it is created where there is none.

    A new component starts at the present head of its input, and says so in its first commit: a
    restart before its first step must not start later.
    """
    table, source = memory.table(spec.instance), memory.table(spec.input)
    epoch = table.take_over()
    if f"in/{spec.input}" not in table.transactions:
        head = source.head()
        known = {} if head is None else head.transactions
        first = {key: known[key] for key in FACTS if key in known}
        first[f"in/{spec.input}"] = source.step
        table.append(Commit(epoch=epoch, step=table.step + 1, transactions=first, rows=0, items=()))
    book = memory.roster(spec.instance)
    return SelectComponent(spec, table, source, book, epoch=epoch, weight=weight)
