"""A deliver component: its deliveries, where each stands, and what its next step is.

Owned by the engine's thread alone. Deliveries that stand at the same step of one table are a *lane*
and go together; one that fails, stalls or catches up has a lane of its own until it stands where
the others stand. Steps without rows for anybody only move positions in memory; the book hears of it
with the next write or upkeep.

    at work ──failure──▶ backs off ──ATTEMPTS_MAX failures──▶ suspended ──resume, restart──▶ at work
       └──slower than SLOW_S──▶ slow ──its write ends──▶ at work

Promises   O1  pieces of a query in the order of its versions, each in the order of commits: an
               older piece is taken to the head of its table before a newer one moves.
           Q3  a delivery that fails keeps its own position and nobody else's.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace

from shoal.dataplane.commands import Delivery
from shoal.dataplane.reports import ComponentView, Failed, Report, Suspended
from shoal.kernel.errors import LocalError, ShoalError, StorageError, UserError
from shoal.kernel.time import MILLISECOND, Instant
from shoal.log.root import Root
from shoal.log.segment import Segment
from shoal.spark.deliver.book import Account, Book
from shoal.spark.deliver.rows import schema_of
from shoal.spark.deliver.sinks.contract import OpenSink, check_sink
from shoal.spark.deliver.sinks.opened import open_sink
from shoal.spark.deliver.step import Delivered, DeliverMember, DeliverWork
from shoal.spark.deliver.upkeep import UPKEEP_EVERY, Ending, UpkeepWork
from shoal.spark.feed import Feed, Range

__all__ = ["ATTEMPTS_MAX", "ROWS_PER_STEP", "DeliverComponent"]

#: Rows of a table that one step reads at most, unless one commit alone has more.
ROWS_PER_STEP = 200_000
#: First wait after a failure; doubles with each one more.
BACKOFF_FIRST = 100 * MILLISECOND
#: Failures in a row after which a delivery is suspended: some 13 seconds.
ATTEMPTS_MAX = 8

#: (table, position, step that a plan reaches or 0): whoever shares it takes the same step.
_Lane = tuple[str, int, int]


@dataclass(slots=True, kw_only=True)
class _Standing:
    """What is known of a delivery in this process alone."""

    sink: OpenSink
    #: Positions ahead of the book's: there was nothing to deliver up to there.
    ahead: dict[str, int] = field(default_factory=dict)
    failures: int = 0
    retry_at: Instant = 0
    reason: str = ""
    suspended: bool = False
    busy: "Future[int] | None" = None
    reach: tuple[str, int] = ("", 0)
    #: The turn in which it was served last.
    served: int = 0


class DeliverComponent:
    """All deliveries of one book on this peer."""

    kind = "deliver"

    def __init__(
        self,
        instance: str,
        root: Root,
        *,
        feed_of: Callable[[str], Feed],
        report: Callable[[Report], None],
        pool: Executor,
    ) -> None:
        self.instance = instance
        self.running = False
        self._root = root
        self._feed_of = feed_of
        self._report = report
        self._pool = pool
        self._feeds: dict[str, Feed] = {}
        self._standing: dict[int, _Standing] = {}
        self._lanes: dict[_Lane, list[int]] = {}
        self._seen: dict[str, int] = {}
        self._stale = True
        self._turn = 0
        self._upkeep_at: Instant = 0
        self.book = Book(root.folder("deliveries", instance))
        self.book.claim()
        for account in self.book.accounts.values():
            self._open(account)

    # Commands

    def add(self, deliveries: Sequence[Delivery]) -> None:
        """Accept deliveries; durable when this returns. All are checked before the first."""
        fresh = [one for one in deliveries if not self.book.knows(one)]
        taken = {
            account.sink.options["path"]: account
            for account in self.book.accounts.values()
            if account.sink.kind == "jsonl" and not account.ending
        }
        for one in fresh:
            check_sink(one.sink, root=self._root.path)
            other = (
                taken.get(one.sink.options.get("path", "")) if one.sink.kind == "jsonl" else None
            )
            if other is not None and other.delivery != one.delivery:
                raise UserError(
                    f"sink {one.sink.options['path']} is taken by query {other.query}",
                    detail="two queries cannot write to one file of JSON lines",
                    hint="choose another file, or a folder: to_files(..., format='json')",
                )
            open_sink(one.sink, one.delivery, one.query).prepare(schema_of(one.projection.shown))
        self._give_way(fresh)
        self.book.add(fresh, heads={one.input: self._feed(one.input).head for one in fresh})
        for account in self.book.accounts.values():
            if account.number not in self._standing:
                self._open(account)
        self._stale = True
        self._upkeep_at = 0

    def _give_way(self, fresh: Sequence[Delivery]) -> None:
        """A query that takes the name of a dropped one ends what was still due to that one."""
        names = {one.query: one.delivery for one in fresh}
        accounts = self.book.accounts.values()
        self._close([a.number for a in accounts if names.get(a.query, a.delivery) != a.delivery])

    def end(self, delivery: str) -> None:
        """No version follows: what is due still comes, then the delivery is closed."""
        self.book.end([self._account(delivery).number])
        self._upkeep_at = 0

    def resume(self, delivery: str) -> int:
        """Try a suspended delivery again; the step where it goes on."""
        account = self._account(delivery)
        standing = self._standing[account.number]
        standing.sink.prepare(None)
        standing.failures, standing.retry_at, standing.suspended = 0, 0, False
        standing.reason = ""
        self._stale = True
        return account.pieces[account.newest].position

    # What is there to do

    def ready(self, now: Instant) -> bool:
        """Whether there is a step to take, or upkeep is due."""
        if self.running:
            return False
        self._settle(now)
        return bool(self._lanes_now(now)) or (bool(self._standing) and now >= self._upkeep_at)

    def next_due(self, now: Instant) -> Instant | None:
        """When something is to be done without any event."""
        retries = [s.retry_at for s in self._standing.values() if s.retry_at > now]
        upkeep = [self._upkeep_at] if self._standing else []
        return min([*retries, *upkeep], default=None)

    def next_work(self, now: Instant) -> DeliverWork | UpkeepWork | None:
        """The next piece of work; None if there is none after all."""
        if now >= self._upkeep_at:
            self._upkeep_at = now + UPKEEP_EVERY
            return self._upkeep(now)
        while lanes := self._lanes_now(now):
            lane = min(lanes, key=lambda one: min(self._standing[n].served for n in lanes[one]))
            work = self._step(lane, lanes[lane], now)
            if work is not None:
                return work
        return None

    def horizon(self, instance: str) -> int | None:
        """The lowest position of this table that a delivery still needs."""
        positions = [
            self._position(account, instance)
            for account in self.book.accounts.values()
            if instance in account.pieces
        ]
        return min(positions, default=None)

    def _lanes_now(self, now: Instant) -> dict[_Lane, list[int]]:
        heads = {table: feed.head for table, feed in self._feeds.items()}
        if not self._stale and heads == self._seen:
            return self._lanes
        self._stale, self._seen = False, heads
        self._lanes = {}
        for number, standing in self._standing.items():
            if standing.busy is not None or standing.suspended or standing.retry_at > now:
                continue
            lane = self._lane(self.book.accounts[number], heads)
            if lane is not None:
                self._lanes.setdefault(lane, []).append(number)
        return self._lanes

    def _lane(self, account: Account, heads: dict[str, int]) -> _Lane | None:
        """Where a delivery goes on: its plan first, then its oldest piece that is behind."""
        if account.plan is not None:
            table = account.plan.table
            return (table, account.pieces[table].position, account.plan.upto)
        for table in sorted(account.pieces, key=lambda t: min(account.pieces[t].versions)):
            position = self._position(account, table)
            if position < heads[table]:
                return (table, position, 0)
        return None

    def _step(self, lane: _Lane, numbers: Sequence[int], now: Instant) -> DeliverWork | None:
        """The step of a lane; None if there was nothing to write, or no way to read it."""
        table, after, planned = lane
        self._turn += 1
        for number in numbers:
            self._standing[number].served = self._turn
        segments: tuple[Segment, ...] | None = None
        upto, stamp = planned, 0
        if not planned:
            read = self._range(table, after, numbers, now)
            if read is None:
                return None
            upto, stamp = read.upto, read.stamp
            segments = tuple(segment for commit in read.commits for segment in commit.segments)
            if not segments:
                self._moved(table, upto, numbers)
                return None
        accounts = [self.book.accounts[number] for number in numbers]
        return DeliverWork(
            instance=self.instance,
            book=self.book,
            table=table,
            after=after,
            upto=upto,
            timestamp=accounts[0].pieces[table].timestamp,
            segments=segments,
            source_committed=stamp,
            members=tuple(self._member(account, table) for account in accounts),
            pool=self._pool,
        )

    def _range(self, table: str, after: int, numbers: Sequence[int], now: Instant) -> Range | None:
        try:
            read = self._feeds[table].next_range(after, rows_max=ROWS_PER_STEP)
            if read is None:
                raise StorageError(f"commits of {table} after step {after} are not there")
        except ShoalError as error:
            for number in numbers:
                self._failed(number, self._standing[number], error, now)
            return None
        return read

    def _member(self, account: Account, table: str) -> DeliverMember:
        return DeliverMember(
            number=account.number,
            query=account.query,
            versions=dict(account.pieces[table].versions),
            sink=self._standing[account.number].sink,
            place=account.place,
            plan=account.plan,
        )

    def _upkeep(self, now: Instant) -> UpkeepWork:
        lowest: dict[str, int] = {}
        moves: dict[tuple[str, int], list[int]] = {}
        endings: list[Ending] = []
        for number, account in self.book.accounts.items():
            for table, piece in account.pieces.items():
                position = self._position(account, table)
                lowest[table] = min(position, lowest.get(table, position))
                if position > piece.position and account.plan is None:
                    moves.setdefault((table, position), []).append(number)
                if account.ending or table != account.newest:
                    versions = tuple((account.query, version) for version in piece.versions)
                    endings.append(
                        Ending(number=number, table=table, position=position, rows=versions)
                    )
        return UpkeepWork(
            instance=self.instance,
            book=self.book,
            now=now,
            lowest=lowest,
            moves=moves,
            endings=tuple(endings),
        )

    # What came of it

    def stepped(self, work: DeliverWork, done: Delivered, now: Instant) -> None:
        """Take in what a step gave."""
        self._stale = True
        moved = []
        for member in work.members:
            standing = self._standing.get(member.number)
            if standing is None:
                continue
            if member.number in done.failed:
                self._failed(member.number, standing, done.failed[member.number], now)
            elif member.number in done.slow:
                standing.busy = done.slow[member.number]
                standing.reach = (work.table, work.upto)
            else:
                standing.failures, standing.reason = 0, ""
                moved.append(member.number)
        self._moved(work.table, work.upto, moved)

    def kept(self, over: Sequence[Ending]) -> None:
        """After upkeep: these pieces had had everything when it began.

        Meanwhile the query may have come back to the table with a new version: then it stays.
        """
        for ending in over:
            number, table = ending.number, ending.table
            account = self.book.accounts.get(number)
            if account is None or account.plan is not None or table not in account.pieces:
                continue
            if not account.ending and table == account.newest:
                continue
            versions = account.pieces[table].versions
            if tuple((account.query, version) for version in versions) != ending.rows:
                continue
            if len(account.pieces) > 1:
                self.book.leave(number, table)
            elif account.ending:
                self._close([number])
        self._stale = True

    def _moved(self, table: str, upto: int, numbers: Sequence[int]) -> None:
        for number in numbers:
            ahead = self._standing[number].ahead
            ahead[table] = max(upto, ahead.get(table, 0))
        self._stale = True
        lowest = self.horizon(table)
        if lowest is not None:
            self._feeds[table].release(lowest)

    def _settle(self, now: Instant) -> None:
        """Take back whoever was slow and is through, or whose back-off is over."""
        through: dict[tuple[str, int], dict[int, int]] = {}
        for number, standing in self._standing.items():
            if standing.busy is not None and standing.busy.done():
                error = standing.busy.exception()
                if error is None:
                    through.setdefault(standing.reach, {})[number] = standing.busy.result()
                else:
                    self._failed(number, standing, error, now)
                standing.busy = None
            elif 0 < standing.retry_at <= now:
                standing.retry_at = 0
                self._stale = True
        for (table, upto), places in through.items():
            self._through(table, upto, places, now)

    def _through(self, table: str, upto: int, places: dict[int, int], now: Instant) -> None:
        try:
            self.book.done(table, upto, list(places), places)
        except ShoalError as error:
            # The writes are repeated in their places, which does no harm.
            for number in places:
                self._failed(number, self._standing[number], error, now)
            return
        for number in places:
            self._standing[number].failures, self._standing[number].reason = 0, ""
        self._moved(table, upto, list(places))

    def _failed(self, number: int, standing: _Standing, error: BaseException, now: Instant) -> None:
        account = self.book.accounts[number]
        standing.failures += 1
        standing.reason = f"query {account.query}: {_reason(error)}"
        self._stale = True
        if standing.failures < ATTEMPTS_MAX:
            standing.retry_at = now + (BACKOFF_FIRST << (standing.failures - 1))
            self._report(
                Failed(
                    instance=self.instance,
                    attempts=standing.failures,
                    reason=standing.reason,
                    retry_at=standing.retry_at,
                )
            )
            return
        self._suspend(account, standing)

    def _suspend(self, account: Account, standing: _Standing) -> None:
        standing.suspended, standing.retry_at = True, 0
        table = account.newest if account.plan is None else account.plan.table
        self._report(
            Suspended(
                instance=self.instance,
                query=account.query,
                version=max(account.pieces[table].versions),
                step=self._position(account, table),
                reason=standing.reason,
            )
        )

    # What there is to see

    @property
    def lag(self) -> int:
        """Commits that the delivery furthest behind still has to look at."""
        return max((behind for _, behind in self._behind()), default=0)

    def _behind(self) -> Iterator[tuple[int, int]]:
        for number, account in self.book.accounts.items():
            if self._standing[number].suspended:
                continue
            steps = (
                self._feeds[table].head - self._position(account, table) for table in account.pieces
            )
            yield number, max(steps, default=0)

    def views(self) -> list[ComponentView]:
        """One picture of the component, and one of every delivery that is not well."""
        sick = [n for n, s in self._standing.items() if s.suspended or s.failures or s.busy]
        whole = ComponentView(
            instance=self.instance,
            kind=self.kind,
            state="running" if self.running else "waiting",
            epoch=self.book.epoch,
            step=0,
            positions={table: self.horizon(table) or 0 for table in self._feeds},
            lag=self.lag,
            watermark=None,
            roster_rows=len(self.book.accounts),
            roster_version=0,
            failures=sum(1 for number in sick if self._standing[number].failures),
            reason=self._standing[sick[0]].reason if sick else "",
            looked=0,
            retained=0,
            rates={},
            cost={},
            counters={"suspended": sum(1 for n in sick if self._standing[n].suspended)},
        )
        lags = dict(self._behind()) if sick else {}
        return [whole, *(self._sick_view(whole, number, lags.get(number, 0)) for number in sick)]

    def _sick_view(self, whole: ComponentView, number: int, lag: int) -> ComponentView:
        account, standing = self.book.accounts[number], self._standing[number]
        state = "suspended" if standing.suspended else "failing" if standing.failures else "slow"
        return replace(
            whole,
            instance=f"{self.instance}/{account.query}",
            state=state,
            positions={table: self._position(account, table) for table in account.pieces},
            lag=lag,
            roster_rows=1,
            failures=standing.failures,
            reason=standing.reason,
            counters={},
        )

    # Inside

    def _open(self, account: Account) -> None:
        for table in account.pieces:
            self._feed(table)
        standing = _Standing(sink=open_sink(account.sink, account.delivery, account.query))
        self._standing[account.number] = standing
        try:
            standing.sink.prepare(None)
        except Exception as error:  # noqa: BLE001 - one sink that is gone stops no other
            standing.reason = f"query {account.query}: {_reason(error)}"
            standing.failures = ATTEMPTS_MAX
            self._suspend(account, standing)

    def _close(self, numbers: Sequence[int]) -> None:
        if numbers:
            self.book.close(numbers)
        for number in numbers:
            del self._standing[number]
        self._stale = True

    def _account(self, delivery: str) -> Account:
        for account in self.book.accounts.values():
            if account.delivery == delivery:
                return account
        raise LocalError(f"delivery {delivery} is not known to {self.instance}")

    def _feed(self, table: str) -> Feed:
        if table not in self._feeds:
            self._feeds[table] = self._feed_of(table)
        self._feeds[table].poll()
        return self._feeds[table]

    def _position(self, account: Account, table: str) -> int:
        ahead = self._standing[account.number].ahead.get(table, 0)
        return max(account.pieces[table].position, ahead)


def _reason(error: BaseException) -> str:
    """All three parts of an error of ours; of any other the first line that says something."""
    if isinstance(error, ShoalError):
        return str(error)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:500] if lines else repr(error)
