"""One select step: a range of tuples meets the rosters of a group, then one commit each.

    frame of the range ─▶ results (one Spark job) ─▶ one segment per member ─▶ one commit per member

Small results come back as Arrow and are written here; large ones are written by Spark into a
staging folder, and their files are adopted. Which of the two is decided from what the last steps
gave (docs/spark.md).

Promises   L1 L2  the segments of a step become visible in one commit, under its number.
           Q2     the result is a function of the range and the rows; nothing else enters.
           O1     inside a commit results are ordered by (event time, `_id`, query).
"""

import operator
import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from shoal.dataplane.rows import RosterRow
from shoal.kernel.errors import Fenced
from shoal.log.segment import Segment, adopt_segment, write_segment
from shoal.log.writer import Writer
from shoal.query.selection import Signature
from shoal.query.windows.plan import ERRORS
from shoal.spark.constants import constants
from shoal.spark.outcome import Laps, StepFailed, StepOutcome, wall_stamp
from shoal.spark.select import plan
from shoal.spark.select.index import Member
from shoal.spark.select.plan import Meeting
from shoal.spark.select.roster import KEEP_LEVELS, KEEP_ONE, Roster, keep_threshold
from shoal.spark.select.roster import build as build_roster

__all__ = [
    "ARROW_ROWS_MAX",
    "Computed",
    "Rosters",
    "SelectWork",
    "Shedding",
    "commit_all",
    "compute",
    "nothing",
    "run",
    "survives",
]

#: Groups whose roster is kept as a frame; a group changes when a component starts or fails.
ROSTERS_KEPT = 64
#: Expected result rows up to which Arrow is quicker than Spark's writer (docs/spark.md).
ARROW_ROWS_MAX = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectWork:
    """A member of a step group: what to serve, from where to where, and who commits it."""

    instance: str
    signature: Signature
    rows: tuple[RosterRow, ...]
    roster_version: int
    writer: Writer
    #: Transactions of the commit besides the counters: positions, watermark, roster version.
    transactions: Mapping[str, int] = field(hash=False)
    #: Newest wall time of a source commit in the range, for the latency of the step.
    source_committed: int
    rows_expected: int
    rows_history: int = 0


class Rosters:
    """Rosters as frames, kept until one of their members' rows change.

    A component hands over the same tuple of rows until one of them changes.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._built: dict[tuple[str, ...], tuple[tuple[tuple[RosterRow, ...], ...], Meeting]] = {}

    def of(self, works: Sequence[SelectWork], *, timestamp: str) -> Meeting:
        names = tuple(work.instance for work in works)
        rows = tuple(work.rows for work in works)
        known = self._built.get(names)
        if known is not None and all(map(operator.is_, known[0], rows)):
            return known[1]
        members = [
            Member(instance=work.instance, signature=work.signature, rows=work.rows)
            for work in works
        ]
        meeting = Meeting(build_roster(self._session, members), timestamp=timestamp)
        if len(self._built) >= ROSTERS_KEPT:
            self._built.pop(next(iter(self._built)))
        self._built[names] = (rows, meeting)
        return meeting


@dataclass(frozen=True, slots=True)
class _Result:
    """What one member's step gave: the rows to commit and what was counted."""

    segments: tuple[Segment, ...]
    rows: int
    errors: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Computed:
    """A group's results, written but not committed, and what was shed, per member."""

    results: Sequence[_Result]
    shed: Sequence[Mapping[str, int]]
    #: Whether there was a job: what it was to observe is known only then.
    ran: bool


def run(
    session: SparkSession,
    rosters: Rosters,
    works: Sequence[SelectWork],
    tuples: Callable[[], DataFrame],
    *,
    timestamp: str,
    rows_in: int,
    commits: Executor,
) -> list[StepOutcome | StepFailed]:
    """Run one step for every member of a group; each ends in an outcome of its own."""
    clock = Laps()
    try:
        computed = compute(session, rosters, works, tuples, timestamp=timestamp, clock=clock)
    except Exception as error:  # noqa: BLE001 - a worker hands every failure to the engine
        return [StepFailed(instance=w.instance, phase=clock.phase, cause=error) for w in works]
    return commit_all(works, computed, rows_in=rows_in, commits=commits, clock=clock)


def compute(
    session: SparkSession,
    rosters: Rosters,
    works: Sequence[SelectWork],
    tuples: Callable[[], DataFrame],
    *,
    timestamp: str,
    clock: Laps,
) -> Computed:
    """The group's one Spark job, and its files; no job where no row can match anything."""
    clock.enter("plan")
    meeting = rosters.of(works, timestamp=timestamp)
    if not meeting.roster.entries:
        return nothing(works)
    watched = Shedding(meeting.roster)
    frame = meeting.results(tuples(), watch=watched.watch)
    clock.enter("job")
    if sum(work.rows_expected for work in works) <= ARROW_ROWS_MAX:
        arrow = frame.toArrow()
        clock.enter("write")
        results = _from_arrow(arrow, works, timestamp)
    else:
        results = _through_spark(session, frame, works, timestamp)
    return Computed(results=results, shed=watched.by_query(works), ran=True)


def nothing(works: Sequence[SelectWork]) -> Computed:
    """Results without a row: the step only moves on, and needs no job."""
    empty = _Result(segments=(), rows=0, errors={})
    return Computed(results=[empty] * len(works), shed=[{}] * len(works), ran=False)


def commit_all(
    works: Sequence[SelectWork],
    computed: Computed,
    *,
    rows_in: int,
    commits: Executor,
    clock: Laps,
    beside: int = 0,
) -> list[StepOutcome | StepFailed]:
    """One commit for each member; they share no table, so several run at a time.

    `beside` is the weight of what else was in the job, whose part of its time is not theirs.
    """
    clock.enter("commit")
    done = list(commits.map(_commit, works, computed.results, computed.shed))
    clock.leave()
    return _priced(done, works, clock, rows_in, beside)


def survives(
    session: SparkSession,
    work: SelectWork,
    rows: Sequence[RosterRow],
    tuples: Callable[[], DataFrame],
    *,
    timestamp: str,
) -> Exception | None:
    """Run the step for some of the rows and throw the result away; None if it went well."""
    member = Member(instance=work.instance, signature=work.signature, rows=tuple(rows))
    try:
        meeting = Meeting(build_roster(session, [member]), timestamp=timestamp)
        frame = meeting.results(tuples())
        frame.write.format("noop").mode("overwrite").save()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
        return error
    return None


class Shedding:
    """Counts, in the step's own job, the tuples that each level of `keep` did not look at (S3)."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._seen: Observation | None = None

    def watch(self, hashed: DataFrame) -> DataFrame:
        """Count on the way; `_h` is the tuple's hash, `_l` the levels, padded with the greatest."""
        self._seen = Observation()
        counts = [F.expr(f"count_if(_h >= _l[{i}])").alias(f"l{i}") for i in range(KEEP_LEVELS)]
        return hashed.observe(self._seen, *counts)

    def by_query(self, works: Sequence[SelectWork]) -> list[dict[str, int]]:
        """Tuples not looked at, per member and query; empty where everything was kept."""
        if self._seen is None:
            return [{} for _ in works]
        counts = self._seen.get
        levels = self._roster.keep_levels
        lost = {level: int(counts[f"l{i}"]) for i, level in enumerate(levels)}
        return [
            {
                row.query: lost[keep_threshold(row, levels)]
                for row in work.rows
                if keep_threshold(row, levels) < KEEP_ONE
            }
            for work in works
        ]


def _from_arrow(arrow: pa.Table, works: Sequence[SelectWork], timestamp: str) -> list[_Result]:
    """Split a group's results by member and write a segment for each that has any."""
    order = [("_m", "ascending"), (timestamp, "ascending"), ("_id", "ascending")]
    present = [key for key in order if key[0] in arrow.column_names]
    arrow = arrow.sort_by(present) if arrow.num_rows else arrow
    counts = {
        pair["values"]: pair["counts"]
        for pair in pc.value_counts(arrow.column("_m").combine_chunks()).to_pylist()
    }
    results: list[_Result] = []
    at = 0
    for number, work in enumerate(works):
        size = counts.get(number, 0)
        results.append(_member_result(arrow.slice(at, size).drop_columns(["_m"]), work))
        at += size
    return results


def _member_result(rows: pa.Table, work: SelectWork) -> _Result:
    rows, errors = _without_errors(rows)
    if not rows.num_rows:
        return _Result(segments=(), rows=0, errors=errors)
    step = work.writer.step + 1
    rows = rows.append_column("_step", pa.repeat(pa.scalar(step, pa.int64()), rows.num_rows))
    segment = write_segment(
        work.writer.table, rows, epoch=work.writer.epoch, step=step, part=0, partition={}
    )
    return _Result(segments=(segment,), rows=rows.num_rows, errors=errors)


def _without_errors(rows: pa.Table) -> tuple[pa.Table, dict[str, int]]:
    """The matches alone, and how many tuples failed to evaluate for each query.

    A window says by itself how many tuples failed in it.
    """
    errors: dict[str, int] = {}
    if plan.ERROR in rows.column_names:
        failed = rows.filter(pc.field(plan.ERROR)).column("_query").combine_chunks()
        errors = {pair["values"]: pair["counts"] for pair in pc.value_counts(failed).to_pylist()}
        rows = rows.filter(pc.field(plan.MATCH)).drop_columns([plan.ERROR, plan.MATCH])
    if ERRORS in rows.column_names:
        told = rows.filter(pc.field(ERRORS) > 0).group_by("_query").aggregate([(ERRORS, "sum")])
        for query, count in zip(*(column.to_pylist() for column in told.columns), strict=True):
            errors[query] = errors.get(query, 0) + count
    return rows, errors


def _through_spark(
    session: SparkSession, frame: DataFrame, works: Sequence[SelectWork], timestamp: str
) -> list[_Result]:
    """Let Spark write the results, one folder per member, and adopt the files.

    They are staged in the first member's table: what a crash leaves there its owner sweeps.
    """
    folder = works[0].writer.table.staging / uuid.uuid4().hex
    steps = constants(session, [work.writer.step + 1 for work in works])
    numbered = frame.select("*", steps.scalar().alias("_c")).selectExpr("*", "_c[_m] AS _step")
    ordered = [key for key in (timestamp, "_id") if key in frame.columns]
    rows = numbered.drop("_c").sortWithinPartitions("_m", *ordered)
    try:
        rows.write.partitionBy("_m").parquet(str(folder))
        return [_adopted(folder / f"_m={n}", work, ordered) for n, work in enumerate(works)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _adopted(folder: Path, work: SelectWork, ordered: Sequence[str]) -> _Result:
    files = sorted(folder.glob("*.parquet"))
    if not files:
        return _Result(segments=(), rows=0, errors={})
    if plan.ERROR in pq.read_schema(files[0]).names:
        rows = pq.read_table(folder, partitioning=None).drop_columns("_step")
        return _member_result(rows.sort_by([(key, "ascending") for key in ordered]), work)
    writer = work.writer
    segments = tuple(
        adopt_segment(
            writer.table, file, epoch=writer.epoch, step=writer.step + 1, part=n, partition={}
        )
        for n, file in enumerate(files)
    )
    return _Result(segments=segments, rows=sum(s.rows for s in segments), errors={})


def _commit(work: SelectWork, result: _Result, shed: Mapping[str, int]) -> StepOutcome | StepFailed:
    """Make one member's step durable, with what it lost and could not evaluate."""
    counted = {f"n/shed/{query}": n for query, n in shed.items() if n}
    counted |= {f"n/error/{query}": n for query, n in result.errors.items() if n}
    before = work.writer.transactions
    totals = {key: before.get(key, 0) + n for key, n in counted.items()}
    try:
        commit = work.writer.commit(
            step=work.writer.step + 1,
            segments=result.segments,
            transactions={**work.transactions, **totals},
            info=wall_stamp(),
        )
    except Fenced as error:
        return StepFailed(instance=work.instance, phase="commit", cause=error, fenced=True)
    except Exception as error:  # noqa: BLE001 - a worker hands every failure to the engine
        return StepFailed(instance=work.instance, phase="commit", cause=error)
    return StepOutcome(
        instance=work.instance,
        commit=commit,
        rows_in=0,
        rows_out=result.rows,
        rows_history=work.rows_history,
        roster_rows=len(work.rows),
        roster_version=work.roster_version,
        source_committed=work.source_committed,
        counters=counted,
    )


def _priced(
    outcomes: Sequence[StepOutcome | StepFailed],
    works: Sequence[SelectWork],
    clock: Laps,
    rows_in: int,
    beside: int,
) -> list[StepOutcome | StepFailed]:
    """Share the group's time among its members: by results, and by rows where there are none."""
    total = sum(clock.seconds.values())
    weights = [
        1 + len(work.rows) + (outcome.rows_out if isinstance(outcome, StepOutcome) else 0)
        for work, outcome in zip(works, outcomes, strict=True)
    ]
    share = [weight / (sum(weights) + beside) for weight in weights]
    return [
        replace(
            outcome,
            rows_in=0 if work.rows_history else rows_in,
            busy=total * part,
            seconds={phase: spent * part for phase, spent in clock.seconds.items()},
            group=len(works) + (beside > 0),
        )
        if isinstance(outcome, StepOutcome)
        else outcome
        for work, outcome, part in zip(works, outcomes, share, strict=True)
    ]
