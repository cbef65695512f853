"""The workload matches what it says, by an engine that knows nothing of NumPy masks."""

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.signatures import SIGNATURES, many_signatures
from benchmarks.workload import (
    MATCH_SHARE,
    METERS,
    TUPLES_PER_FILE,
    ZONES,
    QuerySet,
    columns_of,
    equality_and_range,
    narrow_ranges,
    one_sided_ranges,
    source_file,
    tuples,
    zone_and_range,
)

_SETS = {
    "one": equality_and_range(1),
    "twenty": equality_and_range(20),
    "meters": equality_and_range(200),
    "zones": zone_and_range(200),
    "narrow": narrow_ranges(200),
    "one-sided": one_sided_ranges(200),
    "signatures": many_signatures(2 * SIGNATURES),
}


def _duckdb_counts(table: pa.Table, queries: QuerySet) -> list[int]:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("readings", table)
    counts = (f"SELECT count(*) FROM ({text})" for text in queries.texts)
    return [row[0] for text in counts for row in connection.execute(text).fetchall()]


@pytest.mark.slow
@pytest.mark.parametrize("name", _SETS)
def test_matches_are_what_duckdb_counts(name: str) -> None:
    table = tuples(3, rows=5_000)
    expected = _SETS[name].matches(columns_of(table)).tolist()
    assert _duckdb_counts(table, _SETS[name]) == expected
    assert sum(expected) > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "queries",
    [
        equality_and_range(1),
        equality_and_range(20),
        equality_and_range(1_000),
        equality_and_range(10_000),
        zone_and_range(10_000),
        narrow_ranges(1),
        narrow_ranges(10_000),
        one_sided_ranges(1),
    ],
    ids=lambda queries: f"{queries.name}-{len(queries.texts)}",
)
def test_one_tuple_in_a_hundred_matches_whatever_the_number(queries: QuerySet) -> None:
    matched = queries.matches(columns_of(tuples(0))).sum()
    assert matched == pytest.approx(MATCH_SHARE * TUPLES_PER_FILE, rel=0.15)


@pytest.mark.slow
def test_queries_over_many_signatures_match_as_many() -> None:
    matched = many_signatures(1_000).matches(columns_of(tuples(0))).sum()
    assert matched == pytest.approx(MATCH_SHARE * TUPLES_PER_FILE, rel=0.2)


@pytest.mark.parametrize("queries", _SETS.values(), ids=_SETS)
def test_no_query_is_there_twice(queries: QuerySet) -> None:
    assert len(dict.fromkeys(queries.texts)) == len(queries.texts)


def test_too_few_queries_over_meters_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot match enough"):
        equality_and_range(ZONES + 1)


def test_files_are_the_same_each_time_and_go_on_in_event_time() -> None:
    first, again, second = tuples(0, rows=10), tuples(0, rows=10), tuples(1, rows=10)
    assert first.equals(again)
    assert not first.equals(second)
    span = 10 * 12_000
    for index, table in enumerate((first, second)):
        ts = columns_of(table)["ts"] - columns_of(first)["ts"].min()
        assert np.all(np.abs(ts - index * span) <= span + 2_000_000)


def test_each_meter_reads_as_often_as_every_other() -> None:
    meters = columns_of(tuples(0))["meter"]
    assert np.bincount(meters).tolist() == [TUPLES_PER_FILE // METERS] * METERS


def test_a_file_is_made_once_and_whole(tmp_path) -> None:
    path = source_file(7, rows=10, cache=tmp_path)
    stamp = path.stat().st_mtime_ns
    assert source_file(7, rows=10, cache=tmp_path) == path
    assert path.stat().st_mtime_ns == stamp
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    assert pq.read_table(path).equals(tuples(7, rows=10))
