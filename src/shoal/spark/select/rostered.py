"""What a component with a roster does about its rows: they join, change, end and are suspended.

Owned by the engine's thread alone. A step in flight has fixed its range and its rows; `planned`
is the end of that range, and whoever is accepted meanwhile is served from there on.

Promises   Q1  a row counts from the greatest event time already consumed, exclusive, so that no
               tuple that could match has gone by; the interval rules are DESIGN.md section 7's.
           Q3  a change to one row changes nothing for another.
Not here   what a step reads and how far it comes: selects (component.py), roll-ups (windows/).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from shoal.dataplane.commands import RollUp, Select
from shoal.dataplane.rows import ALWAYS, FOREVER, RosterRow
from shoal.kernel.errors import LocalError
from shoal.kernel.time import Instant
from shoal.log.reader import Reader
from shoal.log.root import Root
from shoal.log.rosterlog import RosterLog
from shoal.log.writer import Writer
from shoal.spark.feed import Feed

__all__ = ["FACTS", "ROWS_PER_STEP", "Fill", "Rostered", "begin_at_head"]

#: Tuples of one step at most, unless one commit alone has more.
ROWS_PER_STEP = 1_000_000
#: Rows that are over, before it is worth an entry in the roster log to forget them.
PRUNE_AT = 256
#: What a derived commit passes on from the input's newest commit.
FACTS = ("wm", "evmax")


@dataclass(slots=True)
class Fill:
    """A row's back-fill: history up to `position` of `row.fill` is served."""

    row: RosterRow
    position: int


class Rostered:
    """A component whose rows are queries."""

    kind = ""

    def __init__(
        self,
        spec: Select | RollUp,
        writer: Writer,
        log: RosterLog,
        feed: Feed,
        *,
        weight: float,
    ) -> None:
        self.spec = spec
        self.instance = spec.instance
        self.writer = writer
        self.feed = feed
        self._weight = weight
        self.running = False
        self._fill_turn = False
        #: Steps of the back-fill that failed in a row; live steps between them go well maybe.
        self.fill_failures = 0
        self._log = log
        loaded = log.claim(writer.epoch)
        self.version = loaded.version
        self._rows = {row.identity: row for row in loaded.rows}
        self._live: tuple[RosterRow, ...] | None = None
        self.position = writer.transactions[f"in/{spec.input}"]
        self.planned = self.position
        #: What the input's commits said up to `planned`: its watermark, its greatest event time.
        self._facts = {k: writer.transactions[k] for k in FACTS if k in writer.transactions}
        self._fills: list[Fill] = []

    # What kinds of components differ in

    def _check_row(self, row: RosterRow) -> None:
        """Raise if this component cannot serve such a row."""

    def _accepted(self, row: RosterRow, start: Instant) -> RosterRow:
        """The row as it is served from `start` on, its history still to come where it needs any."""
        raise NotImplementedError

    def _check_history(self, start: Instant) -> None:
        """Raise unless everything with a later event time is still there."""
        raise NotImplementedError

    def _to_fill(self, rows: Sequence[RosterRow]) -> list[Fill]:
        """What rows still lack of their history."""
        raise NotImplementedError

    @property
    def watermark(self) -> Instant | None:
        """The event time up to which everything is answered."""
        return self.writer.transactions.get("wm")

    # What is there to do

    @property
    def fill_row(self) -> RosterRow:
        """The row whose history comes next."""
        return self._fills[0].row

    @property
    def filling(self) -> bool:
        """Whether a row still lacks history."""
        return bool(self._fills)

    @property
    def oldest_needed(self) -> int:
        """The lowest position of the input that is still to be read."""
        return self.position

    def fill_is_next(self) -> bool:
        """Live steps and back-fill take turns, so that neither waits for the other."""
        self._fill_turn = not self._fill_turn
        return self._fill_turn

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
            self._check_row(row)
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
        if start < now:
            self._check_history(start)
        accepted = tuple(self._accepted(row, start) for row in rows)
        self._put(accepted)
        self._fills += self._to_fill([row for row in accepted if row.fill])
        return accepted

    def end(self, query: str, *, at: Instant, now: bool) -> RosterRow:
        """End a query's newest row at an event time; `now` cuts all its rows at the next step.

        Earlier versions may still be served up to their own `until`, which lies in the past of
        event time but not yet behind the watermark.
        """
        row = self._newest(query)
        # What has ended already keeps its end: a component that lags knows an earlier event time.
        ended = replace(row, until=at) if row.until == FOREVER else row
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
        self._check_row(row)
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

    # Rows

    def _pending_fills(self) -> list[Fill]:
        """What a component that begins again still has to fill."""
        rows = [row for row in self._rows.values() if not row.suspended and row.cut == FOREVER]
        return self._to_fill(rows)

    def _live_rows(self) -> tuple[RosterRow, ...]:
        if self._live is None:
            self._live = tuple(
                row
                for row in self._rows.values()
                if row.cut > self.position and not row.suspended and not self._over(row)
            )
        return self._live

    def _over(self, row: RosterRow) -> bool:
        """Nothing at or before `until` can come any more: the watermark has passed it."""
        watermark = self.watermark
        return watermark is not None and row.until < watermark

    def _expire(self) -> None:
        if self._live and any(self._over(row) or row.cut <= self.position for row in self._live):
            self._live = None
            self._prune()

    def _prune(self) -> None:
        """Forget rows that are over, when there are many; suspended ones stay to be seen."""
        watermark = self.watermark
        over = [row for row in self._rows.values() if self._over(row)]
        if watermark is None or len(over) < PRUNE_AT or self._fills:
            return
        self._log.prune(before=watermark, step=0)
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

    def _filled(self, row: RosterRow, otherwise: int) -> int:
        """How far a row's history is served."""
        return self.writer.transactions.get(_fill_key(row), otherwise)

    def _fill_facts(self, row: RosterRow, upto: int) -> Mapping[str, int]:
        """The transaction that says how far a row's history is served."""
        return {_fill_key(row): upto}


def begin_at_head(root: Root, writer: Writer, instance: str) -> None:
    """Let a new component begin at the present head of its input, and say so in its first commit.

    A restart before its first step must not start later, or what came in between would be lost.
    """
    if f"in/{instance}" in writer.transactions:
        return
    head = Reader.head(root, instance)
    facts = {} if head is None else head.transactions
    first = {key: facts[key] for key in FACTS if key in facts}
    first[f"in/{instance}"] = 0 if head is None else head.step
    writer.commit(step=writer.step + 1, segments=[], transactions=first)


def _fill_key(row: RosterRow) -> str:
    return f"fill/{row.query}/{row.version}"
