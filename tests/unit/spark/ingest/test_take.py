"""What a job yields: three ways to take a batch, one result."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from shoal.query.catalog import SourceDef
from shoal.spark.ingest import take
from shoal.spark.ingest.footers import Footer
from shoal.spark.ingest.judge import Verdict, judged
from shoal.spark.ingest.source import Batch
from tests.unit.spark.ingest.world import (
    SECOND,
    Shelf,
    Tuple,
    ingest_of,
    ok,
    rows_of,
    stream_of,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VERDICT = Verdict(step=2, watermark=100 * SECOND, ahead_limit=200 * SECOND, stamp=0)
TORN: Tuple = (None, None, "{torn")
MIXED = {
    "north": [*ok(120 * SECOND, 90 * SECOND), TORN],
    "south": [*ok(99 * SECOND, 300 * SECOND), (None, 5, None)],
    "west": [TORN],
}


def frame_of(spark: "SparkSession", lists: Mapping[str, Sequence[Tuple]]) -> tuple[Any, Batch]:
    shelf = Shelf(*lists.items())
    batch = shelf.batch(0, len(lists))
    stream = stream_of()
    frame: DataFrame = judged(shelf.read(spark, batch, stream.columns), stream, batch, VERDICT)
    return frame, batch


def letters(dead: pa.Table) -> list[tuple[Any, ...]]:
    assert dead.schema.names == take.NO_DEAD.schema.names
    return sorted((row["split"], row["reason"], row["content"]) for row in dead.to_pylist())


def written(ingest: Any, taken: take.Taken) -> list[tuple[Any, ...]]:
    ingest.writer.commit(step=ingest.writer.step + 1, segments=taken.segments, transactions={})
    return [(row["_kind"], row["ts"].timestamp(), row["a"]) for row in rows_of(ingest.writer)]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["through_arrow", "through_spark", "indexed"])
def test_a_batch_of_all_kinds(root: Path, spark: "SparkSession", way: str) -> None:
    stream = stream_of()
    frame, batch = frame_of(spark, MIXED)
    ingest = ingest_of(root, Shelf(), stream)
    ingest.writer.commit(step=1, segments=[], transactions={})
    ends = {} if way == "indexed" else {"writer": ingest.writer}
    taken: take.Taken = getattr(take, way)(frame, stream, batch, **ends)
    assert taken.counts == take.Counts(
        highest={"north": 120 * SECOND, "south": 99 * SECOND},
        highest_ok=120 * SECOND,
        ok=1,
        late=2,
        dead=4,
    )
    assert taken.counts.total == 7
    assert letters(taken.dead) == [
        ("north", "malformed", "{torn"),
        ("south", "ahead of the clock", '{"ts":"1970-01-01T00:05:00.000Z","a":300}'),
        ("south", "without event time", '{"a":5}'),
        ("west", "malformed", "{torn"),
    ]
    ids = taken.dead.column("_id").to_pylist()
    assert len(dict.fromkeys(ids)) == 4
    if way != "indexed":
        assert written(ingest, taken) == [
            ("ok", 120.0, 120),
            ("late", 90.0, 90),
            ("late", 99.0, 99),
        ]
    else:
        assert taken.segments == ()
    assert not list(ingest.writer.table.staging.glob("*"))


@pytest.mark.slow
def test_three_ways_count_alike(root: Path, spark: "SparkSession") -> None:
    rng = random.Random(5)
    lists = {
        f"n{number}": [
            TORN if rng.random() < 0.1 else ok(rng.randrange(80, 220) * SECOND)[0]
            for _ in range(rng.randrange(1, 40))
        ]
        for number in range(4)
    }
    stream = stream_of()
    frame, batch = frame_of(spark, lists)
    ingest = ingest_of(root, Shelf(), stream)
    ingest.writer.commit(step=1, segments=[], transactions={})
    arrow = take.through_arrow(frame, stream, batch, ingest.writer)
    spark_wrote = take.through_spark(frame, stream, batch, ingest.writer)
    index = take.indexed(frame, stream, batch)
    assert arrow.counts == spark_wrote.counts == index.counts
    assert letters(arrow.dead) == letters(spark_wrote.dead) == letters(index.dead)
    first = written(ingest, arrow)
    second = ingest_of(root, Shelf(), stream)
    assert sum(segment.rows for segment in arrow.segments) == len(first)
    assert sum(segment.rows for segment in spark_wrote.segments) == len(first)
    assert second.writer.step == 2


@pytest.mark.slow
@pytest.mark.parametrize("way", ["through_arrow", "through_spark"])
def test_only_dead_ones_make_no_file(root: Path, spark: "SparkSession", way: str) -> None:
    stream = stream_of()
    frame, batch = frame_of(spark, {"n": [TORN, (None, 1, None)]})
    ingest = ingest_of(root, Shelf(), stream)
    taken: take.Taken = getattr(take, way)(frame, stream, batch, ingest.writer)
    assert taken.segments == ()
    assert taken.counts == take.Counts(highest={}, highest_ok=None, ok=0, late=0, dead=2)
    assert [row[0] for row in letters(taken.dead)] == ["n", "n"]


def test_what_footers_show_need_not_be_counted() -> None:
    stream, source = stream_of(), Shelf(("n", []), ("s", []), ("n", []))
    batch = source.batch(0, 3)

    def seen(*footers: tuple[str, Footer]) -> take.Counts | None:
        source.footed = list(footers) or None
        return take.foreseen(stream, batch, source, earliest=10, latest=20)

    assert seen() is None
    inside = Footer(rows=3, earliest=10, latest=20)
    other = Footer(rows=4, earliest=11, latest=12)
    assert seen(("n", inside), ("s", other), ("n", other)) == take.Counts(
        highest={"n": 20, "s": 12}, highest_ok=20, ok=11, late=0, dead=0
    )
    for doubtful in (
        Footer(rows=1, earliest=9, latest=12),
        Footer(rows=1, earliest=12, latest=21),
    ):
        assert seen(("n", inside), ("s", doubtful)) is None


def test_a_part_that_is_given_up_is_one_letter() -> None:
    source = Shelf(("n", []), ("s", []))
    taken = take.given_up(source.batch(1, 2), source, "no such codec")
    assert (taken.counts.dead, taken.counts.total, taken.segments) == (1, 1, ())
    assert letters(taken.dead) == [("s", "unreadable: no such codec", "list 2 to 2")]


@pytest.mark.parametrize(
    ("form", "expected"), [("json", True), ("csv", True), ("parquet", False), ("", False)]
)
def test_where_reading_less_would_see_less(
    spark: "SparkSession", form: str, expected: bool
) -> None:
    """There every column is counted, so that Spark reads them all."""
    source = SourceDef(kind="files", options={"path": "/x", "format": form})
    stream = replace(stream_of(), source=source)
    assert take.parsed(stream) is expected
    asked = take.aggregates(stream, Shelf(("n", [])).batch(0, 1))
    assert any("read_1" in str(column) for column in asked) is expected
