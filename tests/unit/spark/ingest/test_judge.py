"""The judgement: on both sides of every limit, and identities that never meet."""

from typing import TYPE_CHECKING, Any

import pytest

from shoal.dataplane.rows import ALWAYS
from shoal.kernel.ids import ORDINAL_BITS, tuple_id
from shoal.spark.ingest.judge import (
    CORRUPT,
    DEAD,
    INGEST_TIME,
    KIND,
    LATE,
    OK,
    REASON,
    SPLIT,
    Verdict,
    event_time,
    judged,
)
from tests.unit.spark.ingest.world import SECOND, Shelf, Tuple, ok, stream_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from shoal.query.catalog import StreamDef

VERDICT = Verdict(step=7, watermark=100 * SECOND, ahead_limit=200 * SECOND, stamp=150 * SECOND)


def rows(
    spark: "SparkSession", shelf: Shelf, stream: "StreamDef", verdict: Verdict = VERDICT
) -> list[dict[str, Any]]:
    batch = shelf.batch(0, len(shelf.lists))
    frame = judged(shelf.read(spark, batch, stream.columns), stream, batch, verdict)
    return [row.asDict() for row in frame.collect()]


@pytest.mark.slow
def test_both_sides_of_every_limit(spark: "SparkSession") -> None:
    tuples: list[Tuple] = [
        *ok(100 * SECOND, 100 * SECOND - 1, 200 * SECOND, 200 * SECOND + 1, -5),
        (None, 1, None),
        (150 * SECOND, None, "{torn"),
        (None, None, "{torn"),
    ]
    found = rows(spark, Shelf(("n", tuples)), stream_of())
    assert [(row[KIND], row[REASON]) for row in found] == [
        (OK, None),
        (LATE, None),
        (OK, None),
        (DEAD, "ahead of the clock"),
        (LATE, None),
        (DEAD, "without event time"),
        (DEAD, "malformed"),
        (DEAD, "malformed"),
    ]
    assert [row[CORRUPT] for row in found] == [None] * 6 + ["{torn"] * 2


@pytest.mark.slow
def test_before_the_first_watermark_nothing_is_late(spark: "SparkSession") -> None:
    verdict = Verdict(step=1, watermark=ALWAYS, ahead_limit=200 * SECOND, stamp=0)
    found = rows(spark, Shelf(("n", ok(-(10**15), 0))), stream_of(), verdict)
    assert [row[KIND] for row in found] == [OK, OK]


@pytest.mark.slow
@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_identities_hold_step_part_and_row(spark: "SparkSession", parts: int) -> None:
    shelf = Shelf(*((f"n{n % 2}", ok(150 * SECOND, 151 * SECOND)) for n in range(parts)))
    found = rows(spark, shelf, stream_of())
    assert all(row["_step"] == 7 for row in found)
    ids = sorted(row["_id"] for row in found)
    bits = {1: 0, 2: 1, 3: 2, 5: 3}[parts]
    assert ids == [
        tuple_id(step=7, ordinal=(part << (ORDINAL_BITS - bits)) + row)
        for part in range(parts)
        for row in (0, 1)
    ]
    assert sorted({row[SPLIT] for row in found}) == list(range(min(parts, 2)))


@pytest.mark.slow
def test_a_stream_without_event_time_is_given_the_stamp(spark: "SparkSession") -> None:
    """Whatever its columns hold: none of its tuples is late, ahead or without time."""
    stream = stream_of(timestamp="")
    assert (event_time(stream), event_time(stream_of())) == (INGEST_TIME, "ts")
    found = rows(spark, Shelf(("n", [(None, 1, None), (10**15, 2, None)])), stream)
    assert [row[KIND] for row in found] == [OK, OK]
    assert {row[INGEST_TIME].timestamp() for row in found} == {150.0}


def test_a_verdict_is_read_back_from_what_its_commit_recorded() -> None:
    assert Verdict.recorded(7, VERDICT.transactions()) == VERDICT
    facts = {**VERDICT.transactions(), "clock": 3}
    del facts["judge/watermark"]
    assert Verdict.recorded(7, facts).watermark == ALWAYS
