"""Frames of committed tuples: what a step reads of a stream.

A stored stream is read from its own segments, only the `ok` ones, and only the rows of the steps
asked for: after a compaction a segment also holds rows of other steps. A stream that is not
stored is read from its source, and judged as its commits recorded.
"""

import functools
from collections.abc import Sequence

from pyspark.sql import DataFrame, Observation, SparkSession

from shoal.kernel.errors import StorageError
from shoal.log.root import Root
from shoal.log.segment import Segment
from shoal.log.writer import Commit
from shoal.query.catalog import Column, StreamDef, format_schema, quote
from shoal.spark.feed import Range
from shoal.spark.ingest.judge import INGEST_TIME, KIND, OK, Verdict, judged
from shoal.spark.ingest.source import Batch, Source
from shoal.spark.ingest.take import aggregates, parsed

__all__ = ["all_columns", "ok_of", "ok_only", "stored", "unstored"]

_SYSTEM = "`_step` BIGINT, `_id` BIGINT"


def stored(session: SparkSession, root: Root, columns: Sequence[Column], read: Range) -> DataFrame:
    """The `ok` tuples of a range of a stored stream, with `_step` and `_id`."""
    schema = f"{format_schema(tuple(columns))}, {_SYSTEM}"
    folder = root.table(read.instance).path
    segments = [s for commit in read.commits for s in _ok(commit)]
    if not segments:
        return session.createDataFrame([], schema)
    frame = session.read.schema(schema).parquet(*(str(folder / s.path) for s in segments))
    if any(s.min_step <= read.after or s.max_step > read.upto for s in segments):
        frame = frame.where(f"_step > {read.after} AND _step <= {read.upto}")
    return frame


def _ok(commit: Commit) -> list[Segment]:
    return [s for s in commit.segments if s.partition.get("_kind", "ok") == "ok"]


def unstored(session: SparkSession, source: Source, stream: StreamDef, read: Range) -> DataFrame:
    """The `ok` tuples of a range of a stream that is not stored: from its source, judged again."""
    parts = []
    for commit in read.commits:
        facts = commit.transactions
        if commit.first_step < commit.step:
            raise StorageError(
                f"how steps {commit.first_step} to {commit.step} of {read.instance} were judged "
                "is no longer known",
                detail="the entries of its log are gone, and the stream is not stored",
                hint="start the query from now on; a stream to look back on must be stored",
            )
        if not facts.get("rows"):
            continue
        batch = source.batch(facts["in/from"], facts["in/source"])
        verdict = Verdict.recorded(commit.step, facts)
        raw = source.read(session, batch, stream.columns)
        parts.append(ok_only(judged(raw, stream, batch, verdict), stream, batch))
    if not parts:
        return session.createDataFrame([], f"{format_schema(all_columns(stream))}, {_SYSTEM}")
    return functools.reduce(DataFrame.unionAll, parts)


def ok_of(judged_frame: DataFrame) -> DataFrame:
    """The `ok` tuples of a judged frame; its further columns cost nothing unless somebody asks."""
    return judged_frame.where(f"{KIND} = {OK}")


def ok_only(frame: DataFrame, stream: StreamDef, batch: Batch) -> DataFrame:
    """The `ok` tuples of a judged batch; every column is read, so that the verdict is the same."""
    watched = frame.observe(Observation(), *aggregates(stream, batch)) if parsed(stream) else frame
    names = [*(quote(column.name) for column in all_columns(stream)), "_step", "_id"]
    return ok_of(watched).select(names)


def all_columns(stream: StreamDef) -> tuple[Column, ...]:
    """The user's columns and the event time that ingest gives where there is none."""
    given = () if stream.timestamp else (Column(name=INGEST_TIME, type="TIMESTAMP"),)
    return (*stream.columns, *given)
