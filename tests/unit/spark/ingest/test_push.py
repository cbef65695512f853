"""Pushed batches: bounded steps, a client is a split, and its last number is known."""

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from shoal.kernel.errors import StorageError
from shoal.kernel.time import SECOND
from shoal.log.spool import Spool
from shoal.query.catalog import parse_schema
from shoal.spark.ingest import push as module
from shoal.spark.ingest.push import PushSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = parse_schema("a INT, b STRING")


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool", bytes_max=1 << 20)


def push(spool: Spool, client: str, sequence: int, *values: int) -> None:
    rows = {"b": [str(value) for value in values], "a": pa.array(values, pa.int64())}
    spool.append(client, sequence, pa.table(rows))


def test_a_step_is_bounded_by_batches_and_bytes(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = PushSource(spool)
    assert source.next_batch(0) is None
    for sequence in range(5):
        push(spool, "c", sequence, *range(1_000 if sequence == 3 else 1))
    small, large = (spool.entries(0, 5)[n].bytes for n in (0, 3))
    assert large > 3 * small

    def sizes() -> list[int]:
        ends = [0]
        while batch := source.next_batch(ends[-1]):
            ends.append(batch.upto)
        return ends[1:]

    assert sizes() == [5]
    monkeypatch.setattr(module, "BYTES_PER_STEP", 2 * small)
    assert sizes() == [2, 3, 4, 5]
    monkeypatch.setattr(module, "BATCHES_PER_STEP", 1)
    assert sizes() == [1, 2, 3, 4, 5]


def test_clients_are_splits_with_their_last_number(spool: Spool) -> None:
    source = PushSource(spool)
    for client, sequence in (("x", 0), ("y", 0), ("x", 1), ("z", 0)):
        push(spool, client, sequence, 1)
    batch = source.batch(0, 3)
    assert (batch.splits, batch.parts) == (("x", "y"), 3)
    assert batch.bytes == sum(entry.bytes for entry in spool.entries(0, 3))
    assert source.clients(batch) == {"x": 1, "y": 0}
    assert source.describe(batch) == "x 0, y 0, x 1"
    assert source.waiting(2) == ("x", "z")


def test_what_is_released_is_gone_and_its_clients_are_remembered(spool: Spool) -> None:
    source = PushSource(spool)
    push(spool, "x", 0, 1)
    push(spool, "x", 1, 2)
    source.release(1, SECOND)
    with pytest.raises(StorageError, match="released"):
        source.batch(0, 1)
    assert source.waiting(1) == ("x",)
    source.release(2, SECOND + module.FORGET_AFTER - 1)
    assert spool.last("x") == 1


@pytest.mark.slow
def test_tuples_have_the_streams_types_and_their_places(
    spool: Spool, spark: "SparkSession"
) -> None:
    source = PushSource(spool)
    push(spool, "x", 0, 7, 8)
    push(spool, "y", 0, 9)
    raw = source.read(spark, source.batch(0, 2), COLUMNS)
    frame = raw.frame.selectExpr(
        "a", "b", f"{raw.part} AS p", f"{raw.row} AS r", f"{raw.split} AS s"
    )
    assert frame.schema["a"].dataType.simpleString() == "int"
    assert sorted(tuple(row) for row in frame.collect()) == [
        (7, "7", 0, 0, 0),
        (8, "8", 0, 1, 0),
        (9, "9", 1, 0, 1),
    ]
