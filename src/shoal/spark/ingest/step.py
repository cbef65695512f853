"""One ingest step: a batch of the source is judged, written, and committed under one number.

    source ─▶ judged (one Spark job) ─▶ dead letters, committed first ─▶ ok and late, committed

The dead letters' commit pins the step: it records the batch and the ingest clock, and a step that
was interrupted after it is repeated with the same, so no dead letter is written twice and none is
forgotten. Small batches come back as Arrow; large ones are written by Spark and adopted.

Promises   L1 L2  one commit per step; a repeated step finds its number taken.
           S3     late and dead tuples are counted in the commit, and kept.
"""

from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from shoal.dataplane.rows import ALWAYS
from shoal.kernel.errors import Fenced
from shoal.kernel.time import Instant
from shoal.log.segment import write_segment
from shoal.log.types import INSTANT, arrow_type
from shoal.log.watermark import SplitClocks, WatermarkRule
from shoal.log.writer import Writer
from shoal.query.catalog import StreamDef
from shoal.spark.ingest import judge, take
from shoal.spark.ingest.push import PushSource
from shoal.spark.ingest.source import Batch, Source
from shoal.spark.ingest.take import Taken
from shoal.spark.outcome import Laps, StepFailed, StepOutcome, wall_stamp

__all__ = [
    "DEAD_SCHEMA",
    "DEAD_TIME",
    "Ingest",
    "Planned",
    "commit",
    "foreseen",
    "frame_of",
    "let_time_pass",
    "plan",
    "run",
    "table_schema",
]

#: The column that says when a dead letter was met: it has no event time that could be trusted.
DEAD_TIME = "ingested"
#: Dead letters of any stream: which step met them, where, why, and what they were.
DEAD_SCHEMA = pa.schema(
    [
        ("reason", pa.string()),
        ("content", pa.string()),
        ("split", pa.string()),
        ("ingest_step", pa.int64()),
        (DEAD_TIME, INSTANT),
        ("_step", pa.int64()),
        ("_id", pa.int64()),
    ]
)
#: Bytes of a batch up to which its tuples come back as Arrow (docs/spark.md).
ARROW_BYTES_MAX = 20 << 20


def table_schema(stream: StreamDef) -> pa.Schema:
    """The columns of a source stream's table."""
    fields = [(column.name, arrow_type(column.type)) for column in stream.columns]
    if not stream.timestamp:
        fields.append((judge.INGEST_TIME, INSTANT))
    fields += [("_step", pa.int64()), ("_id", pa.int64()), ("_kind", pa.string())]
    return pa.schema(fields)


class Ingest:
    """What an ingest component keeps between steps."""

    def __init__(
        self, stream: StreamDef, source: Source, writer: Writer, dead: Writer, rule: WatermarkRule
    ) -> None:
        self.stream = stream
        self.source = source
        self.writer = writer
        self.dead = dead
        self.rule = rule
        self.clocks = SplitClocks.restored(writer.transactions, rule)
        #: After a failure one part at a time, so that a part that cannot be read stands alone.
        self.cautious = False
        #: Why the next part is given up; empty while it is to be read.
        self.unreadable = ""

    @property
    def position(self) -> int:
        return self.writer.transactions.get("in/source", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A step about to run. `dead_done`: its dead letters are committed already."""

    batch: Batch
    verdict: judge.Verdict
    clock: Instant
    dead_done: bool


def plan(ingest: Ingest, now: Instant) -> Planned | None:
    """The next step, or None if the source has nothing."""
    step = ingest.writer.step + 1
    pinned = ingest.dead.transactions
    if pinned.get("of") == step:
        batch = ingest.source.batch(pinned["in/from"], pinned["in/source"])
        clock, done = pinned["clock"], True
    else:
        ingest.source.discover(now)
        found = ingest.source.next_batch(ingest.position)
        if found is None:
            return None
        if ingest.cautious and ingest.source.parts_are_positions:
            found = ingest.source.batch(ingest.position, ingest.position + 1)
        batch, done = found, False
        clock = max(now, ingest.clocks.clock or now)
    before = ingest.clocks.watermark
    known = ingest.writer.transactions.get("evmax", ALWAYS)
    verdict = judge.Verdict(
        step=step,
        watermark=ALWAYS if before is None else before,
        ahead_limit=ingest.clocks.ahead_limit(ingest.rule, clock),
        stamp=max(clock, known + 1),
    )
    return Planned(batch=batch, verdict=verdict, clock=clock, dead_done=done)


def run(
    session: SparkSession, instance: str, ingest: Ingest, now: Instant
) -> StepOutcome | StepFailed | None:
    """Run one step; None if there was nothing to do."""
    clock = Laps()
    try:
        planned = plan(ingest, now)
        if planned is None:
            moved = let_time_pass(instance, ingest, now)
            clock.leave()
            return None if moved is None else _timed(moved, clock)
        if ingest.unreadable:
            session.range(1).collect()
            taken = take.given_up(planned.batch, ingest.source, ingest.unreadable)
        else:
            frame = frame_of(session, ingest, planned)
            clock.enter("job")
            taken = _taken(frame, ingest, planned)
        clock.enter("commit")
        outcome = commit(instance, ingest, planned, taken)
        clock.leave()
    except Fenced as error:
        return StepFailed(instance=instance, phase=clock.phase, cause=error, fenced=True)
    except Exception as error:  # noqa: BLE001 - a worker hands every failure to the engine
        return StepFailed(instance=instance, phase=clock.phase, cause=error)
    return _timed(outcome, clock)


def _timed(outcome: StepOutcome, clock: Laps) -> StepOutcome:
    return replace(outcome, busy=sum(clock.seconds.values()), seconds=clock.seconds)


def let_time_pass(instance: str, ingest: Ingest, now: Instant) -> StepOutcome | None:
    """Without data the watermark may still move: a split falls idle, or IDLE ADVANCES."""
    waiting = ingest.source.waiting(ingest.position)
    clocks = ingest.clocks.after_silence(ingest.rule, waiting=waiting, now=now)
    if clocks is None or clocks.watermark is None:
        return None
    known = ingest.writer.transactions
    facts = {"wm": clocks.watermark, "rows": 0, "in/from": ingest.position}
    facts |= {key: known[key] for key in ("in/source", "evmax") if key in known}
    done = ingest.writer.commit(
        step=ingest.writer.step + 1,
        segments=[],
        transactions={**clocks.changes(ingest.clocks), **facts},
        info=wall_stamp(),
    )
    ingest.clocks = clocks
    return StepOutcome(instance=instance, commit=done, rows_in=0, rows_out=0)


def frame_of(session: SparkSession, ingest: Ingest, planned: Planned) -> DataFrame:
    """The judged tuples of a planned step."""
    raw = ingest.source.read(session, planned.batch, ingest.stream.columns)
    return judge.judged(raw, ingest.stream, planned.batch, planned.verdict)


def foreseen(ingest: Ingest, planned: Planned) -> take.Counts | None:
    """The counts of a step whose tuples are all `ok` for certain, without reading them."""
    verdict = planned.verdict
    return take.foreseen(
        ingest.stream,
        planned.batch,
        ingest.source,
        earliest=verdict.watermark,
        latest=verdict.ahead_limit,
    )


def _taken(frame: DataFrame, ingest: Ingest, planned: Planned) -> Taken:
    if not ingest.stream.store:
        counts = foreseen(ingest, planned)
        if counts is not None:
            return Taken(counts=counts, segments=(), dead=take.NO_DEAD)
        return take.indexed(frame, ingest.stream, planned.batch)
    if planned.batch.bytes <= ARROW_BYTES_MAX:
        return take.through_arrow(frame, ingest.stream, planned.batch, ingest.writer)
    return take.through_spark(frame, ingest.stream, planned.batch, ingest.writer)


def commit(instance: str, ingest: Ingest, planned: Planned, taken: Taken) -> StepOutcome:
    """Dead letters first, then the step; afterwards the source may forget what is committed."""
    if taken.dead.num_rows and not planned.dead_done:
        _bury(taken.dead, ingest, planned)
    counts = taken.counts
    source, batch = ingest.source, planned.batch
    clocks = ingest.clocks.advanced(
        ingest.rule, counts.highest, waiting=source.waiting(batch.upto), now=planned.clock
    )
    before = ingest.writer.transactions
    totals = {"in": counts.total, "late": counts.late, "dead": counts.dead}
    transactions = {
        **clocks.changes(ingest.clocks),
        **planned.verdict.transactions(),
        **{f"n/{key}": before.get(f"n/{key}", 0) + n for key, n in totals.items()},
        "in/from": batch.after,
        "in/source": batch.upto,
        "rows": counts.ok,
    }
    if clocks.watermark is not None:
        transactions["wm"] = clocks.watermark
    known = [t for t in (before.get("evmax"), counts.highest_ok) if t is not None]
    if known:
        transactions["evmax"] = max(known)
    if isinstance(source, PushSource):
        clients = source.clients(batch)
        transactions |= {f"client/{client}": last for client, last in clients.items()}
    done = ingest.writer.commit(
        step=planned.verdict.step,
        segments=taken.segments,
        transactions=transactions,
        info=wall_stamp(),
    )
    ingest.clocks = clocks
    ingest.cautious, ingest.unreadable = False, ""
    source.release(batch.upto, planned.clock)
    return StepOutcome(
        instance=instance,
        commit=done,
        rows_in=counts.total,
        rows_out=counts.ok,
        counters={key: n for key, n in totals.items() if n},
    )


def _bury(dead: pa.Table, ingest: Ingest, planned: Planned) -> None:
    """Commit the dead letters, and with them what the step will be if it has to be repeated."""
    step = ingest.dead.step + 1
    size = dead.num_rows
    fixed = {
        "ingest_step": pa.repeat(pa.scalar(planned.verdict.step, pa.int64()), size),
        DEAD_TIME: pa.repeat(pa.scalar(planned.clock, pa.int64()), size).cast(INSTANT),
        "_step": pa.repeat(pa.scalar(step, pa.int64()), size),
    }
    for name, column in fixed.items():
        dead = dead.append_column(name, column)
    letters = dead.select(DEAD_SCHEMA.names).cast(DEAD_SCHEMA)
    writer = ingest.dead
    segment = write_segment(
        writer.table, letters, epoch=writer.epoch, step=step, part=0, partition={}
    )
    writer.commit(
        step=step,
        segments=[segment],
        transactions={
            "of": planned.verdict.step,
            "in/from": planned.batch.after,
            "in/source": planned.batch.upto,
            "clock": planned.clock,
        },
    )
