"""One deliver step: a range of a result table, read once, goes to the sinks that stand there.

    read and split ─▶ places ─▶ plan (durable) ─▶ writes, side by side ─▶ done (durable)

A step without rows for anybody writes nothing. Sinks that are left when no write has ended for
`SLOW_S` are left to themselves: the others go on, and they catch up when they are through.

Promises   L2  a plan that was begun is repeated as it was, never widened.
           Q3  a sink that fails or stalls changes nothing for the others.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field, replace

from pyspark.sql import SparkSession

from shoal.dataplane.projection import Projection
from shoal.log.reader import Reader
from shoal.log.root import Root
from shoal.log.segment import Segment
from shoal.spark.deliver.book import Book, Plan
from shoal.spark.deliver.rows import Wanted, WantedRows, read_rows
from shoal.spark.deliver.sinks.contract import OpenSink
from shoal.spark.outcome import Laps

__all__ = ["DeliverMember", "DeliverWork", "Delivered", "Reach", "run"]

#: Seconds without any write that ends, after which a step no longer waits for the rest.
SLOW_S = 2.0
#: Seconds that a step waits for its writes at most.
STEP_S_MAX = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What a write reaches: a step of a table, under the epoch of its owner."""

    table: str
    upto: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverMember:
    """A delivery that takes part in a step. `place` is where its last write ended."""

    number: int
    query: str
    versions: Mapping[int, Projection] = field(hash=False)
    sink: OpenSink
    place: int | None
    plan: Plan | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverWork:
    """A step; `segments` None means that the table's snapshot knows them."""

    instance: str
    book: Book
    table: str
    after: int
    upto: int
    timestamp: str
    segments: tuple[Segment, ...] | None
    #: Newest wall time of a commit in the range; 0 where the entries are not at hand.
    source_committed: int
    members: tuple[DeliverMember, ...]
    pool: Executor


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """What became of each member; who is in neither `failed` nor `slow` stands at `upto`."""

    instance: str
    #: Rows read for all of them, and rows that arrived.
    rows_in: int = 0
    rows: int = 0
    failed: Mapping[int, Exception] = field(default_factory=dict, hash=False)
    slow: Mapping[int, "Future[int]"] = field(default_factory=dict, hash=False)
    seconds: Mapping[str, float] = field(default_factory=dict, hash=False)


def run(session: SparkSession, root: Root, work: DeliverWork) -> Delivered:
    """Run one step. Never raises: what stops the whole step is every member's failure."""
    clock = Laps()
    try:
        clock.enter("job")
        segments = _segments(root, work)
        found = _read(session, root, work, segments)
        clock.enter("write")
        done = _write(work, found)
        clock.leave()
        rows_in = sum(max(segment.rows, 0) for segment in segments)
        return replace(done, rows_in=rows_in, seconds=clock.seconds)
    except Exception as error:  # noqa: BLE001 - a worker hands every failure to the engine
        clock.leave()
        failed = {member.number: error for member in work.members}
        return Delivered(instance=work.instance, failed=failed, seconds=clock.seconds)


def _segments(root: Root, work: DeliverWork) -> Sequence[Segment]:
    if work.segments is not None:
        return work.segments
    reader = Reader(root, work.table, after=work.after)
    return reader.segments_between(work.after, work.upto)


def _read(
    session: SparkSession, root: Root, work: DeliverWork, segments: Sequence[Segment]
) -> dict[str, WantedRows]:
    return read_rows(
        session,
        root.table(work.table),
        segments,
        [Wanted(query=m.query, versions=m.versions) for m in work.members],
        after=work.after,
        upto=work.upto,
        timestamp=work.timestamp,
    )


def _write(work: DeliverWork, found: Mapping[str, WantedRows]) -> Delivered:
    members = [member for member in work.members if member.query in found]
    places, failed = _places(members, found)
    fresh = {m.number: places[m.number] for m in members if m.plan is None and m.number in places}
    if fresh:
        work.book.plan(work.table, work.upto, fresh)
    reach = Reach(table=work.table, upto=work.upto, epoch=work.book.epoch)
    writes = {
        member.number: work.pool.submit(
            _one, member.sink, found[member.query], places[member.number], reach
        )
        for member in members
        if member.number in places
    }
    stalled = _wait(writes.values())
    slow = {number: write for number, write in writes.items() if write in stalled}
    through = {number: write for number, write in writes.items() if number not in slow}
    errors = {number: write.exception() for number, write in through.items()}
    failed |= {number: e for number, e in errors.items() if isinstance(e, Exception)}
    ends = {number: write.result() for number, write in through.items() if number not in failed}
    done = [m for m in work.members if m.number not in failed and m.number not in slow]
    if ends or any(member.plan is not None for member in done):
        work.book.done(work.table, work.upto, [member.number for member in done], ends)
    rows = sum(found[m.query].count for m in members if m.number in ends)
    return Delivered(instance=work.instance, rows=rows, failed=failed, slow=slow)


def _wait(writes: Iterable["Future[int]"]) -> dict["Future[int]", None]:
    """Wait as long as some write ends now and then; those that are left are slow."""
    left = dict.fromkeys(writes)
    deadline = time.monotonic() + STEP_S_MAX
    while left and time.monotonic() < deadline:
        done, _ = wait(left, timeout=SLOW_S, return_when=FIRST_COMPLETED)
        if not done:
            break
        left = {write: None for write in left if write not in done}
    return left


def _places(
    members: Sequence[DeliverMember], found: Mapping[str, WantedRows]
) -> tuple[dict[int, int], dict[int, Exception]]:
    """Where each write goes: where it was planned, or where the sink says."""
    places: dict[int, int] = {}
    failed: dict[int, Exception] = {}
    for member in members:
        try:
            plan = member.plan
            places[member.number] = member.sink.place(member.place) if plan is None else plan.place
        except Exception as error:  # noqa: BLE001 - any failure is this sink's alone
            failed[member.number] = error
            found[member.query].release()
    return places, failed


def _one(sink: OpenSink, rows: WantedRows, place: int, reach: Reach) -> int:
    try:
        return sink.write(rows, place=place, target=reach)
    finally:
        rows.release()
