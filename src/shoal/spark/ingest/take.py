"""What one ingest job yields: segments, dead letters, and what was counted on the way.

Three ways, one result: small batches come back as Arrow and are written here; large ones are
written by Spark and adopted; of a stream that is not stored only the counts are taken.
"""

import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from shoal.kernel.time import Instant
from shoal.log.segment import Segment, adopt_segment, write_segment
from shoal.log.writer import Writer
from shoal.query.catalog import StreamDef, quote
from shoal.spark.ingest.judge import CORRUPT, DEAD, KIND, LATE, OK, REASON, SPLIT, event_time
from shoal.spark.ingest.source import Batch, Source

__all__ = [
    "NO_DEAD",
    "Counts",
    "Taken",
    "aggregates",
    "counts_of",
    "dead_letters",
    "foreseen",
    "given_up",
    "indexed",
    "parsed",
    "through_arrow",
    "through_spark",
]

_KIND_NAMES = {OK: "ok", LATE: "late"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What a job saw: the highest event time per split, and how many tuples of each kind."""

    highest: Mapping[str, Instant] = field(hash=False)
    highest_ok: Instant | None
    ok: int
    late: int
    dead: int

    @property
    def total(self) -> int:
        return self.ok + self.late + self.dead


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Everything a commit of the step needs."""

    counts: Counts
    segments: tuple[Segment, ...]
    #: reason, content, split, `_id`
    dead: pa.Table


def through_arrow(frame: DataFrame, stream: StreamDef, batch: Batch, writer: Writer) -> Taken:
    """Collect the batch and write it from here."""
    several = len(batch.splits) > 1
    columns = _columns(stream)
    content = f"CASE WHEN {KIND} = {DEAD} THEN {_content(stream)} END AS content"
    rows = frame.selectExpr(
        *columns, KIND, REASON, content, *([SPLIT] if several else [])
    ).toArrow()
    kinds = {
        pair["values"]: pair["counts"]
        for pair in pc.value_counts(rows.column(KIND).combine_chunks()).to_pylist()
    }
    segments = []
    for kind, name in _KIND_NAMES.items():
        if kinds.get(kind):
            chosen = rows if len(kinds) == 1 else rows.filter(pc.equal(rows.column(KIND), kind))
            chosen = chosen.drop_columns([KIND, REASON, "content", *([SPLIT] if several else [])])
            segments.append(
                write_segment(
                    writer.table,
                    chosen,
                    epoch=writer.epoch,
                    step=writer.step + 1,
                    part=name,
                    partition={"_kind": name},
                )
            )
    return Taken(
        counts=_counted(rows, kinds, stream, batch),
        segments=tuple(segments),
        dead=_dead_of(rows, batch, several=several) if kinds.get(DEAD) else NO_DEAD,
    )


def through_spark(frame: DataFrame, stream: StreamDef, batch: Batch, writer: Writer) -> Taken:
    """Let Spark write the batch, one folder per kind, and adopt its files."""
    seen = Observation()
    folder = writer.table.staging / uuid.uuid4().hex
    watched = frame.observe(seen, *aggregates(stream, batch))
    kinds = f"CASE {KIND} WHEN {OK} THEN 'ok' ELSE 'late' END AS _kind"
    rows = watched.where(f"{KIND} <> {DEAD}").selectExpr(*_columns(stream), kinds)
    try:
        rows.write.partitionBy("_kind").parquet(str(folder))
        counts = counts_of(seen.get, batch)
        segments = tuple(
            adopt_segment(
                writer.table,
                file,
                epoch=writer.epoch,
                step=writer.step + 1,
                part=f"{kind}{number}",
                partition={"_kind": kind},
            )
            for kind in _KIND_NAMES.values()
            for number, file in enumerate(sorted((folder / f"_kind={kind}").glob("*.parquet")))
            if pq.read_metadata(file).num_rows
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    dead = dead_letters(frame, stream, batch) if counts.dead else NO_DEAD
    return Taken(counts=counts, segments=segments, dead=dead)


def indexed(frame: DataFrame, stream: StreamDef, batch: Batch) -> Taken:
    """Only count; readers go to the source."""
    row = frame.agg(*aggregates(stream, batch)).collect()[0].asDict()
    counts = counts_of(row, batch)
    dead = dead_letters(frame, stream, batch) if counts.dead else NO_DEAD
    return Taken(counts=counts, segments=(), dead=dead)


def foreseen(
    stream: StreamDef, batch: Batch, source: Source, *, earliest: Instant, latest: Instant
) -> Counts | None:
    """The counts, where footers alone show that every tuple is between these event times."""
    footers = source.footers(batch, stream)
    if not footers:
        return None
    if any(footer.earliest < earliest or footer.latest > latest for _, footer in footers):
        return None
    highest: dict[str, Instant] = {}
    for split, footer in footers:
        highest[split] = max(footer.latest, highest.get(split, footer.latest))
    rows = sum(footer.rows for _, footer in footers)
    return Counts(highest=highest, highest_ok=max(highest.values()), ok=rows, late=0, dead=0)


def given_up(batch: Batch, source: Source, reason: str) -> Taken:
    """A part that cannot be read at all, as one dead letter that names it."""
    counts = Counts(highest={}, highest_ok=None, ok=0, late=0, dead=1)
    dead = pa.table(
        {
            "reason": [f"unreadable: {reason}"],
            "content": [source.describe(batch)],
            "split": [batch.splits[0]],
            "_id": pa.array([None], pa.int64()),
        }
    )
    return Taken(counts=counts, segments=(), dead=dead)


def aggregates(stream: StreamDef, batch: Batch) -> list[Column]:
    """Counts per kind and the highest event time per split, as columns of one aggregate.

    The counts of every column make Spark read them all: a malformed value must be seen also in a
    column that nobody reads, or one tuple would be judged in two ways.
    """
    instant = f"unix_micros({quote(event_time(stream))})"
    width = 1 << max(len(batch.splits) - 1, 0).bit_length()
    maxima = [
        F.expr(f"max(if({KIND} <> {DEAD} AND {SPLIT} = {n}, {instant}, NULL))").alias(f"most_{n}")
        for n in range(width)
    ]
    kinds = [
        F.expr(f"count_if({KIND} = {kind})").alias(f"kind_{kind}") for kind in (OK, LATE, DEAD)
    ]
    read = [F.count(quote(c.name)).alias(f"read_{n}") for n, c in enumerate(stream.columns)]
    ok = F.expr(f"max(if({KIND} = {OK}, {instant}, NULL))").alias("most_ok")
    return [*kinds, *maxima, ok, *(read if parsed(stream) else [])]


def counts_of(values: Mapping[str, Any], batch: Batch) -> Counts:
    """The counts that `aggregates` gave."""
    maxima = {name: values[f"most_{n}"] for n, name in enumerate(batch.splits)}
    return Counts(
        highest={name: most for name, most in maxima.items() if most is not None},
        highest_ok=values["most_ok"],
        ok=values[f"kind_{OK}"],
        late=values[f"kind_{LATE}"],
        dead=values[f"kind_{DEAD}"],
    )


def dead_letters(frame: DataFrame, stream: StreamDef, batch: Batch) -> pa.Table:
    """The dead tuples of a batch, by a job of their own: they are few, and rare."""
    rows = (
        frame.where(f"{KIND} = {DEAD}")
        .selectExpr("_id", KIND, REASON, f"{_content(stream)} AS content", SPLIT)
        .toArrow()
    )
    return _dead_of(rows, batch, several=True)


def parsed(stream: StreamDef) -> bool:
    """Whether reading fewer columns of the source would see fewer malformed tuples."""
    return stream.source.options.get("format") in ("json", "csv")


def _columns(stream: StreamDef) -> list[str]:
    given = [] if stream.timestamp else [event_time(stream)]
    return [*(quote(c.name) for c in stream.columns), *given, "_step", "_id"]


def _content(stream: StreamDef) -> str:
    """The text of a dead tuple: as it came, or as it was read."""
    fields = ", ".join(quote(column.name) for column in stream.columns)
    return f"coalesce({CORRUPT}, to_json(struct({fields})))"


def _counted(rows: pa.Table, kinds: Mapping[int, int], stream: StreamDef, batch: Batch) -> Counts:
    times = rows.column(event_time(stream)).cast(pa.int64())
    kind = rows.column(KIND)
    alive = pc.not_equal(kind, DEAD)
    highest: dict[str, Instant] = {}
    for number, name in enumerate(batch.splits):
        chosen = alive
        if len(batch.splits) > 1:
            chosen = pc.and_(alive, pc.equal(rows.column(SPLIT), number))
        most = pc.max(times if not kinds.get(DEAD) and chosen is alive else times.filter(chosen))
        if most.is_valid:
            highest[name] = most.as_py()
    ok = times if len(kinds) == 1 and OK in kinds else times.filter(pc.equal(kind, OK))
    return Counts(
        highest=highest,
        highest_ok=pc.max(ok).as_py(),
        ok=kinds.get(OK, 0),
        late=kinds.get(LATE, 0),
        dead=kinds.get(DEAD, 0),
    )


def _dead_of(rows: pa.Table, batch: Batch, *, several: bool) -> pa.Table:
    dead = rows.filter(pc.equal(rows.column(KIND), DEAD))
    names = pa.array(batch.splits)
    if several:
        split = names.take(dead.column(SPLIT).combine_chunks())
    else:
        split = pa.repeat(pa.scalar(batch.splits[0]), dead.num_rows)
    return pa.table(
        {
            "reason": dead.column(REASON),
            "content": dead.column("content"),
            "split": split,
            "_id": dead.column("_id"),
        }
    )


NO_DEAD = pa.table(
    {
        "reason": pa.array([], pa.string()),
        "content": pa.array([], pa.string()),
        "split": pa.array([], pa.string()),
        "_id": pa.array([], pa.int64()),
    }
)
