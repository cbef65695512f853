"""Ingest and select as one job: the step of a stream that is not stored.

    source ─▶ judged ─▶ counted ─▶ ok ─▶ meets the rosters ─▶ results
                           │
                           └─▶ index commit, then the results' commits

Counting costs as much as the rest (Spark's observation takes rows out of compiled code), so it is
left out where the footers of Parquet files answer (ingest/footers.py).

A stream with STORE NONE leaves only an index: positions, watermarks, counts. Its selects would
have to read the source again, so where they stand at its head they take part in its step. The
index is committed first: if the peer dies in between, the selects find a committed range whose
tuples they read from the source, and judge as recorded.

The time of the job is shared by what each had in hand: the ingest the tuples that it read and
judged, a select its rows and its results.

Promises   L1 L2 (each table by itself), Q2 (the results are those of two separate steps).
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame, Observation

from shoal.kernel.errors import Fenced
from shoal.kernel.time import Instant
from shoal.spark import frames
from shoal.spark.bench import Bench
from shoal.spark.ingest import step as ingest_step
from shoal.spark.ingest import take
from shoal.spark.ingest.judge import event_time
from shoal.spark.ingest.step import Ingest, Planned
from shoal.spark.ingest.take import Counts, Taken
from shoal.spark.outcome import Laps, StepFailed, StepOutcome
from shoal.spark.select import step as select_step
from shoal.spark.select.rostered import FACTS
from shoal.spark.select.step import SelectWork

__all__ = ["run"]


def run(
    bench: Bench, instance: str, ingest: Ingest, works: Sequence[SelectWork], now: Instant
) -> list[StepOutcome | StepFailed]:
    """One step of the ingest and of the selects at its head; empty if there was nothing."""
    clock = Laps()
    try:
        planned = ingest_step.plan(ingest, now)
        if planned is None:
            moved = ingest_step.let_time_pass(instance, ingest, now)
            clock.leave()
            return [] if moved is None else [_rest(moved, [], clock)]
        counts = ingest_step.foreseen(ingest, planned)
        seen = None if counts is not None else Observation()
        frame = ingest_step.frame_of(bench.session, ingest, planned)
        computed = select_step.compute(
            bench.session,
            bench.rosters,
            works,
            partial(_ok, frame, seen, ingest, planned),
            timestamp=event_time(ingest.stream),
            clock=clock,
        )
        clock.enter("commit")
        if computed.ran:
            taken = _taken(ingest, planned, frame, counts, seen)
        else:
            taken = ingest_step.take_all(frame, ingest, planned)
        indexed = ingest_step.commit(instance, ingest, planned, taken)
    except Fenced as error:
        return [StepFailed(instance=instance, phase=clock.phase, cause=error, fenced=True)]
    except Exception as error:  # noqa: BLE001 - a worker hands every failure to the engine
        names = [instance, *(work.instance for work in works)]
        return [StepFailed(instance=name, phase=clock.phase, cause=error) for name in names]
    placed = [_placed(work, instance, indexed) for work in works]
    rows = indexed.rows_out
    done = select_step.commit_all(
        placed,
        computed,
        rows_in=rows,
        commits=bench.commits,
        clock=clock,
        beside=1 + indexed.rows_in,
    )
    return [_rest(indexed, done, clock), *done]


def _rest(
    indexed: StepOutcome, done: Sequence[StepOutcome | StepFailed], clock: Laps
) -> StepOutcome:
    """The ingest's part of the time: what the selects have left."""
    told = [outcome.seconds for outcome in done if isinstance(outcome, StepOutcome)]
    seconds = {
        phase: spent - sum(theirs.get(phase, 0.0) for theirs in told)
        for phase, spent in clock.seconds.items()
    }
    return replace(indexed, busy=sum(seconds.values()), seconds=seconds, group=1 + len(done))


def _ok(frame: DataFrame, seen: Observation | None, ingest: Ingest, planned: Planned) -> DataFrame:
    """The `ok` tuples, counted on the way where their counts are not foreseen."""
    if seen is None:
        return frame
    watched = frame.observe(seen, *take.aggregates(ingest.stream, planned.batch))
    return frames.ok_of(watched)


def _taken(
    ingest: Ingest,
    planned: Planned,
    frame: DataFrame,
    counts: Counts | None,
    seen: Observation | None,
) -> Taken:
    if seen is not None:
        counts = take.counts_of(seen.get, planned.batch)
    assert counts is not None
    dead = take.NO_DEAD
    if counts.dead:
        dead = take.dead_letters(frame, ingest.stream, planned.batch)
    return Taken(counts=counts, segments=(), dead=dead)


def _placed(work: SelectWork, instance: str, indexed: StepOutcome) -> SelectWork:
    """The work with the positions that are known only now."""
    commit = indexed.commit
    facts = {key: commit.transactions[key] for key in FACTS if key in commit.transactions}
    return replace(
        work,
        transactions={**work.transactions, **facts, f"in/{instance}": commit.step},
        source_committed=int(commit.info["wall"]),
    )
