"""What a step reads of a stream: the `ok` tuples of its range, and no others."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from shoal.log.housekeep import Upkeep
from shoal.log.root import Root
from shoal.log.writer import Writer
from shoal.query.catalog import StreamDef
from shoal.spark.feed import Feed, Range
from shoal.spark.frames import all_columns, stored
from tests.unit.spark.small import INPUT, STREAM, Stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def untimed() -> StreamDef:
    return StreamDef(
        name="bare",
        columns=STREAM.columns[1:],
        timestamp="",
        lateness=0,
        store=True,
        idle_advances=False,
        source=STREAM.source,
    )


def test_a_stream_without_event_time_has_the_one_that_ingest_gives() -> None:
    assert all_columns(STREAM) == STREAM.columns
    names = [(column.name, column.type) for column in all_columns(untimed())]
    assert names == [("meter", "INT"), ("kwh", "DOUBLE"), ("_ts", "TIMESTAMP")]


def read(spark: "SparkSession", root: Root, found: Range) -> list[tuple[int, int]]:
    """Step and meter of each tuple."""
    frame = stored(spark, root, STREAM.columns, found)
    assert frame.columns == ["ts", "meter", "kwh", "_step", "_id"]
    return sorted((row["_step"], row["meter"]) for row in frame.collect())


@pytest.mark.slow
def test_late_tuples_are_left_out(root: Path, spark: "SparkSession") -> None:
    stream = Stream(Root.open(root))
    stream.commit([(1, 10, 1.0), (2, 11, 1.0)], late=[(0, 99, 1.0)])
    stream.commit([], late=[(0, 98, 1.0)])
    stream.commit([(3, 30, 1.0)])
    feed = stream.feed()
    whole = feed.next_range(0, rows_max=100)
    assert whole is not None
    assert read(spark, stream.root, whole) == [(1, 10), (1, 11), (3, 30)]
    only_late = feed.next_range(1, rows_max=100, upto_most=2)
    assert only_late is not None
    assert read(spark, stream.root, only_late) == []


@pytest.mark.slow
def test_merged_segments_are_read_by_step(root: Path, spark: "SparkSession") -> None:
    """A reader far behind finds what its range has, and not what else lies in the file (L4)."""
    stream = Stream(Root.open(root))
    upkeep = Upkeep(merge_from=2, checkpoint_every=1, log_entries_kept=0, history_hours=0.0)
    stream.writer = Writer.take_over(stream.root, INPUT, owner="ingest", upkeep=upkeep)
    for step in range(1, 7):
        stream.commit([(step, 10 * step, 1.0)])
    stream.writer.housekeep(horizon=None)
    feed = Feed(stream.root, INPUT, after=stream.writer.step)
    assert feed.poll() is False
    found = Range(
        instance=INPUT,
        after=2,
        upto=4,
        commits=tuple(feed.next_range(2, rows_max=100).commits),  # type: ignore[union-attr]
    )
    assert len([s for c in found.commits for s in c.segments]) == 1, "they are one file now"
    assert read(spark, stream.root, found) == [(3, 30), (4, 40)]
