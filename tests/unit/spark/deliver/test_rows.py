"""Rows of a range by delivery: the same through Arrow and through Spark, in order O1."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from shoal.dataplane.projection import Projection
from shoal.kernel.errors import UserError
from shoal.log.reader import Reader
from shoal.query.catalog import Column
from shoal.query.windows.plan import Output
from shoal.spark.deliver import rows as module
from shoal.spark.deliver.rows import Wanted, WantedRows, read_rows, schema_of
from tests.unit.spark.deliver.world import COLUMNS, TABLE, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def plain(*columns: int) -> Projection:
    return Projection(columns=tuple(COLUMNS[at] for at in columns))


WANTED = (
    Wanted(query="both", versions={1: plain(0, 1), 2: plain(0, 2)}),
    Wanted(query="new", versions={2: plain(1)}),
    Wanted(query="none", versions={1: plain(0, 1, 2)}),
    Wanted(query="odd_name_7", versions={1: plain(0, 1, 2)}),
)


@pytest.fixture
def world(root: Path) -> Iterator[World]:
    made = World(root)
    made.commit(["both", "new", "odd_name_7"], rows=3)
    made.commit(["both", "foreign"], rows=4)
    made.commit(["both", "new"], rows=2, version=2)
    made.commit(["both"], rows=9)
    yield made
    made.close()


def read(world: World, session: Any, *, after: int = 0, upto: int = 3) -> dict[str, WantedRows]:
    segments = Reader(world.root, TABLE, after=0).segments_between(0, 99)
    table = world.root.table(TABLE)
    return read_rows(session, table, segments, WANTED, after=after, upto=upto, timestamp="ts")


def whole(found: dict[str, WantedRows]) -> dict[str, list[dict[str, Any]]]:
    return {
        query: pa.concat_tables(list(rows.batches())).to_pylist() for query, rows in found.items()
    }


def test_O1_each_gets_its_rows_of_its_versions_in_order(world: World) -> None:
    """A version has its own columns only, and an earlier namesake's rows are nobody's."""
    found = read(world, None)
    assert sorted(found) == ["both", "new", "odd_name_7"]
    both = whole(found)["both"]
    keys = [(row["_step"], row["ts"], row["_id"]) for row in both]
    assert keys == sorted(keys)
    assert [(row["_version"], row["meter"] is None, row["kwh"] is None) for row in both] == [
        (1, False, True)
    ] * 7 + [(2, True, False)] * 2
    new = whole(found)["new"]
    assert [(row["_version"], row["_step"]) for row in new] == [(2, 3), (2, 3)]
    assert [row["meter"] for row in new] == [1, 0]
    assert found["new"].schema == schema_of(COLUMNS[1:2])
    assert found["both"].count == 9


def test_only_the_steps_that_were_asked_for(world: World) -> None:
    assert read(world, None, upto=1).keys() == {"both", "odd_name_7"}
    found = whole(read(world, None, after=1, upto=2))
    assert list(found) == ["both"]
    assert [row["_step"] for row in found["both"]] == [2] * 4
    assert read(world, None, after=4, upto=9) == {}
    assert (
        read_rows(
            None,  # type: ignore[arg-type]
            world.root.table(TABLE),
            [],
            WANTED,
            after=0,
            upto=9,
            timestamp="ts",
        )
        == {}
    )


@pytest.mark.slow
def test_a_large_range_goes_through_spark_with_the_same_result(
    world: World, spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    """In batches, which may be asked for again; the files are gone with the last of them."""
    expected = read(world, None)
    monkeypatch.setattr(module, "ARROW_ROWS_MAX", 0)
    monkeypatch.setattr(module, "BATCH_ROWS", 4)
    found = read(world, spark)
    assert whole(found) == whole(expected)
    assert whole(found) == whole(expected)
    assert {q: rows.schema for q, rows in found.items()} == {
        q: rows.schema for q, rows in expected.items()
    }
    assert len(list(found["both"].batches())) == 3
    staging = world.root.table(TABLE).staging
    for rows in found.values():
        assert len(list(staging.iterdir())) == 1
        rows.release()
    assert list(staging.iterdir()) == []
    assert whole(read(world, spark, upto=1)).keys() == {"both", "odd_name_7"}
    assert read(world, spark, after=4, upto=9) == {}


def listed(*outputs: tuple[str, str, str]) -> Projection:
    made = [Output(name=name, expression=text, type=kind) for name, text, kind in outputs]
    return Projection.of(COLUMNS, made)


LISTS = (
    Wanted(
        query="both",
        versions={
            1: listed(("ts", "s.`ts`", "TIMESTAMP"), ("m", "try_add(s.`meter`, 100)", "INT")),
            2: listed(("ts", "s.`ts`", "TIMESTAMP"), ("up", "(s.`kwh` + 1D)", "DOUBLE")),
        },
    ),
    Wanted(query="new", versions={2: listed(("up", "(s.`kwh` + 1D)", "DOUBLE"))}),
)
RAISING = ("x", "CASE WHEN s.`meter` = 1 THEN raise_error('no') ELSE s.`meter` END", "INT")


@pytest.mark.slow
@pytest.mark.parametrize("arrow_rows_max", [module.ARROW_ROWS_MAX, 0])
def test_Q3_each_version_shows_its_select_list_and_who_raises_fails_alone(
    world: World, spark: "SparkSession", monkeypatch: pytest.MonkeyPatch, arrow_rows_max: int
) -> None:
    """However the range is read; a version has no column of the other one."""
    monkeypatch.setattr(module, "ARROW_ROWS_MAX", arrow_rows_max)
    monkeypatch.setattr(module, "BATCH_ROWS", 4)
    segments = Reader(world.root, TABLE, after=0).segments_between(0, 99)
    table = world.root.table(TABLE)
    wanted = [*LISTS, Wanted(query="odd_name_7", versions={1: listed(RAISING)})]
    found = read_rows(spark, table, segments, wanted, after=0, upto=3, timestamp="ts")
    assert found["both"].schema.names == ["ts", "m", "up", "_version", "_step", "_id"]
    assert found["both"].count == 9
    with pytest.raises(UserError, match="select list"):
        list(found["odd_name_7"].batches())
    both = pa.concat_tables(list(found["both"].batches()))
    assert both.schema == found["both"].schema
    keys = [(row["_step"], row["ts"], row["_id"]) for row in both.to_pylist()]
    assert keys == sorted(keys)
    assert both.column("m").to_pylist() == [102, 101, 100, 103, 102, 101, 100, None, None]
    assert both.column("up").to_pylist() == [None] * 7 + [1.125, 1.0]
    new = pa.concat_tables(list(found["new"].batches()))
    assert new.column("up").to_pylist() == [1.125, 1.0]
    for rows in found.values():
        rows.release()


def test_what_a_sink_gets() -> None:
    schema = schema_of((Column(name="größe", type="DECIMAL(10,2)"),))
    assert schema.names == ["größe", "_version", "_step", "_id"]
    assert schema.field(0).type == pa.decimal128(10, 2)
