"""The rate: as many tuples as time has passed, the same number always the same tuple."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from shoal.kernel.time import SECOND
from shoal.query.catalog import SourceDef, parse_schema
from shoal.spark.ingest import rate as module
from shoal.spark.ingest.rate import RateSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEGAN = 1_772_323_200 * SECOND
SCHEMA = (
    "ts TIMESTAMP, value BIGINT, meter INT, tiny TINYINT, kwh DOUBLE, price DECIMAL(10,2), "
    "name STRING, flag BOOLEAN, day DATE"
)


def source(**options: str) -> RateSource:
    given = {"rows_per_second": "10", **options}
    return RateSource(SourceDef(kind="rate", options=given), started=BEGAN)


def test_what_is_due_is_counted_and_never_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_PER_STEP", 20)
    made = source()
    made.discover(BEGAN)
    assert made.next_batch(0) is None
    made.discover(BEGAN + 2 * SECOND + SECOND // 2)
    made.discover(BEGAN + SECOND)
    first = made.next_batch(0)
    assert first is not None
    assert (first.after, first.upto, first.parts, first.bytes > 0) == (0, 20, 1, True)
    second = made.next_batch(20)
    assert second is not None
    assert (second.after, second.upto) == (20, 25)
    assert made.next_batch(25) is None
    assert made.describe(second) == "tuples 20 to 25"


def test_splits_wait_as_long_as_there_is_more() -> None:
    made = source(splits="2")
    made.discover(BEGAN + SECOND)
    assert made.waiting(9) == ("rate-0", "rate-1") == made.batch(0, 1).splits
    assert made.waiting(10) == ()


@pytest.mark.slow
def test_every_type_is_filled_and_the_count_decides_all(spark: "SparkSession") -> None:
    made = source()
    columns = parse_schema(SCHEMA)

    def rows(after: int, upto: int, of: RateSource = made) -> list[tuple[object, ...]]:
        frame = of.read(spark, of.batch(after, upto), columns).frame
        assert [f.name for f in frame.schema][: len(columns)] == [c.name for c in columns]
        return [tuple(row) for row in frame.collect()]

    whole = rows(0, 30)
    assert whole == rows(0, 13) + rows(13, 30)
    assert all(cell is not None for row in whole for cell in row)
    assert [row[1] for row in whole] == list(range(30))
    moments = [datetime.fromtimestamp(BEGAN / SECOND + n / 10, UTC) for n in range(30)]
    frame = made.read(spark, made.batch(0, 30), columns[:1]).frame
    instants = [row[0] for row in frame.selectExpr("unix_micros(ts)").collect()]
    assert instants == [BEGAN + n * SECOND // 10 for n in range(30)]
    assert [row[8] for row in whole] == [moment.date() for moment in moments]
    assert len(dict.fromkeys(row[2] for row in whole)) > 20
    other = rows(0, 30, source(seed="1"))
    assert [row[1] for row in other] == [row[1] for row in whole]
    assert [row[2] for row in other] != [row[2] for row in whole]
