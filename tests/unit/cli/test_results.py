"""Results as a program reads them: in order O1, each version's columns, nobody else's rows."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from shoal.cli.results import read_rows
from shoal.log import housekeep
from shoal.log.housekeep import Upkeep
from shoal.log.reader import PastHorizon
from shoal.query.catalog import parse_schema
from tests.property.streams import READINGS
from tests.unit.spark.deliver.world import TABLE, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAM = replace(READINGS, columns=parse_schema("ts TIMESTAMP, meter INT, kwh DOUBLE"))
OTHER = "select-b"


@pytest.fixture
def world(root: Path) -> Iterator[World]:
    made = World(root)
    yield made
    made.close()


def piece(version: int, *columns: str, table: str = TABLE) -> dict[str, Any]:
    return {"instance": table, "version": version, "columns": columns}


def listed(version: int, *outputs: tuple[str, str, str], table: str = TABLE) -> dict[str, Any]:
    return {**piece(version, "meter", "kwh", table=table), "outputs": outputs}


def read(
    world: World, *pieces: dict[str, Any], after: int = 0, session: Any = None
) -> list[dict[str, Any]]:
    found = read_rows(world.root, "q", pieces, STREAM, after=after, session=session)
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def test_O1_rows_come_by_step_event_time_and_identity(world: World) -> None:
    for rows in (3, 0, 4):
        world.commit(["other", "q"], rows=rows)
    found = read(world, piece(1, "ts", "meter", "kwh"))
    assert found == world.expected("q")
    assert len(found) == 7
    assert read(world, piece(1, "ts", "meter", "kwh"), after=1) == found[3:]
    assert read(world, piece(1, "ts", "meter", "kwh"), after=3) == []


def test_the_event_time_orders_rows_that_do_not_show_it(world: World) -> None:
    world.commit(["q"], rows=4)
    found = read(world, piece(1, "meter"))
    assert [row["meter"] for row in found] == [3, 2, 1, 0]
    assert list(found[0]) == ["meter", "_version", "_step", "_id"]


def test_pieces_follow_one_another_with_their_own_columns(world: World) -> None:
    """A column that a version lacks is NULL, whatever the table holds for other queries (Q3)."""
    world.commit(["q"], rows=1, version=2, table=OTHER)
    world.commit(["q"], rows=2)
    world.commit(["q"], rows=1, version=3)
    found = read(world, piece(1, "meter"), piece(2, "meter", "kwh", table=OTHER), piece(3, "meter"))
    assert [row["_version"] for row in found] == [1, 1, 2, 3]
    assert [row["kwh"] for row in found] == [None, None, 0.0, None]
    assert [row["meter"] for row in found] == [1, 0, 0, 0]


def test_O1_results_that_were_merged_lie_by_query(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads one query skips the others, and finds the same rows in the same order."""
    monkeypatch.setattr(housekeep, "QUERY_GROUP_ROWS", 8)
    for _ in range(Upkeep().merge_from):
        world.commit(["b", "q", "a"], rows=2)
    expected = world.expected("q")
    assert world._writers[TABLE].housekeep(horizon=None).merged == Upkeep().merge_from
    assert read(world, piece(1, "ts", "meter", "kwh")) == expected
    (segment,) = world._writers[TABLE].live
    file = pq.ParquetFile(world.root.table(TABLE).path / segment)
    names = [file.read_row_group(n).column("_query") for n in range(file.num_row_groups)]
    groups = [pc.unique(some).to_pylist() for some in names]
    assert [group for group in groups if "q" in group] == [["q"]] * 8


def test_what_is_no_longer_kept_is_told_to_who_had_read_up_to_there(world: World) -> None:
    """All results are all that are kept; results after a step are all of them, or an error."""
    for _ in range(4):
        world.commit(["q"], rows=1)
    world._writers[TABLE].retain(below_step=3)
    found = read(world, piece(1, "ts", "meter", "kwh"))
    assert found == world.expected("q")[2:]
    assert read(world, piece(1, "ts", "meter", "kwh"), after=2) == found
    with pytest.raises(PastHorizon):
        read(world, piece(1, "ts", "meter", "kwh"), after=1)


def test_a_query_without_results_has_its_columns(world: World) -> None:
    pieces = [piece(1, "kwh", table="select-c")]
    table = read_rows(world.root, "q", pieces, STREAM, after=0, session=None)
    assert table.num_rows == 0
    assert table.schema.names == ["kwh", "_version", "_step", "_id"]
    world.commit([], rows=0)
    assert read(world, piece(1, "kwh")) == []


@pytest.mark.slow
def test_select_lists_are_computed_and_versions_have_the_union_of_their_columns(
    world: World, spark: "SparkSession"
) -> None:
    world.commit(["other", "q"], rows=3)
    world.commit(["q"], rows=2, version=2, table=OTHER)
    world.commit(["q"], rows=1, version=3)
    twice = ("twice", "try_multiply(s.`meter`, 2)", "INT")
    renamed = ("energy", "s.`kwh`", "DOUBLE")
    failing = ("inverse", "try_divide(1D, s.`kwh`)", "DOUBLE")
    pieces = [listed(1, renamed, twice), listed(2, failing, table=OTHER), piece(3, "meter")]
    found = read(world, *pieces, session=spark)
    names = ["energy", "twice", "inverse", "meter", "_version", "_step", "_id"]
    assert [list(row) for row in found] == [names] * 6
    assert [row["twice"] for row in found] == [4, 2, 0, None, None, None]
    assert [row["energy"] for row in found[:3]] == [0.25, 0.125, 0.0]
    assert [row["inverse"] for row in found] == [None, None, None, 8.0, None, None]
    assert [row["meter"] for row in found] == [None] * 5 + [0]
    assert [row["_version"] for row in found] == [1, 1, 1, 2, 2, 3]
    assert read(world, *pieces, after=1, session=spark) == found[5:]


def test_a_table_of_its_own_names_its_types_and_its_event_time(world: World) -> None:
    """As those of windows do: nothing of it is a column of the stream."""
    world.commit(["q"], rows=3)
    other = replace(STREAM, columns=parse_schema("at TIMESTAMP, zone INT"), timestamp="at")
    said = {**piece(1, "kwh", "meter"), "types": ["DOUBLE", "INT"], "time": "ts"}
    found = read_rows(world.root, "q", [said], other, after=0, session=None)
    assert found.column("meter").to_pylist() == [2, 1, 0]
    assert found.schema.names == ["kwh", "meter", "_version", "_step", "_id"]
