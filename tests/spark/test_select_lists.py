"""Select lists end to end: what a query shows is what DuckDB computes, for readers and in sinks."""

import json
import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import IntegerType

import shoal
from shoal.cli.local import Mesh
from shoal.dataplane.reports import Failed
from shoal.kernel.errors import UserError
from shoal.log.types import arrow_type
from shoal.query.catalog import parse_schema
from shoal.spark.deliver import component

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

SCHEMA = (
    "ts TIMESTAMP, meter INT, zone INT, kwh DOUBLE, price DECIMAL(10,2), name STRING, "
    "flag BOOLEAN, day DATE, total BIGINT, `Größe-2` INT"
)
COLUMNS = parse_schema(SCHEMA)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
#: A select list as Spark has it, its text for DuckDB (the same where it is empty), and a predicate.
LISTS = {
    "plain": ("ts, kwh", "", "meter > 3"),
    "every": ("*", "* EXCLUDE (ts_)", "TRUE"),
    "renamed": ("kwh AS energy, ts AS at, zone AS meter", "", "meter > 3"),
    "swapped": ("zone AS meter, meter AS zone", "", "TRUE"),
    "own_name": ("ts, kwh + 1 AS kwh", "", "kwh < 5"),
    "arithmetic": ("kwh * 2 AS double_kwh, upper(name) AS n, meter + zone AS s", "", "TRUE"),
    "constants": ("1 AS one, 'é''s' AS t, NULL IS NULL AS yes, -0.5 AS half", "", "meter > 3"),
    "none_read": ("7 AS seven", "", "TRUE"),
    "quoted": ("`Größe-2` AS `ä-b`, `ts`", '"Größe-2" AS "ä-b", ts', "`Größe-2` > 0"),
    "case": (
        "CASE WHEN kwh > 5 THEN 'high' WHEN kwh IS NULL THEN name ELSE 'low' END AS level, "
        "if(flag, meter, zone) AS chosen, coalesce(zone, meter, -1) AS c",
        "CASE WHEN kwh > 5 THEN 'high' WHEN kwh IS NULL THEN name ELSE 'low' END AS level, "
        "CASE WHEN flag THEN meter ELSE zone END AS chosen, coalesce(zone, meter, -1) AS c",
        "TRUE",
    ),
    "casts": (
        "CAST(meter AS STRING) AS m, CAST(name AS INT) AS number, CAST(ts AS DATE) AS d, "
        "CAST(price AS DOUBLE) AS p",
        "CAST(meter AS VARCHAR) AS m, TRY_CAST(name AS INTEGER) AS number, CAST(ts AS DATE) AS d, "
        "CAST(price AS DOUBLE) AS p",
        "TRUE",
    ),
    "failing": (
        "meter / zone AS ratio, total + 1 AS t",
        "CASE WHEN zone <> 0 THEN meter / zone END AS ratio, "
        "CASE WHEN total < 9223372036854775807 THEN total + 1 END AS t",
        "TRUE",
    ),
    "text": (
        "lower(name) AS l, length(name) AS n, name || '!' AS bang, substring(name, 1, 1) AS first",
        "lower(name) AS l, CAST(length(name) AS INTEGER) AS n, name || '!' AS bang, "
        "substring(name, 1, 1) AS first",
        "TRUE",
    ),
    "time": ("year(day) AS y, hour(ts) AS h, day", "", "TRUE"),
    "conditions": ("kwh > 3 AS hot, name LIKE 'a%' AS a, meter IN (1, 2) AS low", "", "TRUE"),
    "collisions": ("meter AS s, zone AS p, kwh AS c0, ts AS `row`", "", "TRUE"),
    "nested": (
        "z * 2 AS zz FROM (SELECT zone + 1 AS z, kwh FROM readings)",
        "z * 2 AS zz, ts_ FROM (SELECT zone + 1 AS z, kwh, ts_ FROM readings)",
        "kwh > 2",
    ),
}


def tuples(count: int, rng: Random, *, hour: int = 0) -> pa.Table:
    """Later hours are later than all of those before."""

    def some(*values: Any) -> Any:
        return rng.choice(values)

    rows = [
        {
            "ts": NOON + timedelta(hours=hour, seconds=i, microseconds=rng.randrange(10**6)),
            "meter": some(i, i % 7, None),
            "zone": some(0, 1, 3, -2, None),
            "kwh": some(rng.uniform(0, 9), math.nan, math.inf, -0.0, None),
            "price": some(Decimal(rng.randint(-99999, 99999)) / 100, None),
            "name": some("a", "aB", "É", "17", "-4", "", " x ", None),
            "flag": some(True, False, None),
            "day": some(date(2024, 2, 29), date(1999, 12, 31), None),
            "total": some(i, 2**63 - 1, -(2**63), None),
            "Größe-2": some(1, -1, None),
        }
        for i in range(count)
    ]
    schema = pa.schema([(column.name, arrow_type(column.type)) for column in COLUMNS])
    return pa.Table.from_pylist(rows, schema=schema)


@pytest.fixture
def mesh(root: Path, spark: "SparkSession") -> Iterator[Mesh]:
    with shoal.connect(root, spark=spark) as mesh:
        create(mesh)
        yield mesh


def create(mesh: Mesh) -> None:
    mesh.create_stream("readings", SCHEMA, timestamp="ts", source=shoal.push())


def push(mesh: Mesh, rows: pa.Table, sequence: int) -> None:
    mesh.append("readings", rows, client="test", sequence=sequence)
    mesh.drain()


def text_of(name: str) -> str:
    listed, _, where = LISTS[name]
    source = "" if " FROM " in listed else " FROM readings"
    return f"SELECT {listed}{source} WHERE {where}"


def judged(name: str, readings: pa.Table) -> list[tuple[Any, ...]]:
    """DuckDB's rows, in the order of the event time; `ts_` is that under whatever list."""
    spark, duck, where = LISTS[name]
    listed = duck or spark
    source = "" if " FROM " in listed else ", ts_ FROM readings"
    query = f"SELECT {listed}{source} WHERE {where}".replace("`", '"')
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("readings", readings.append_column("ts_", readings.column("ts")))
        found = connection.sql(f"SELECT * EXCLUDE (ts_) FROM ({query}) ORDER BY ts_")
        rows = found.to_arrow_table()
    return [tuple(map(comparable, row.values())) for row in rows.to_pylist()]


def comparable(value: Any) -> Any:
    """NaN equals itself; numbers are compared by value, to the bit of a DOUBLE."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return float(value) if isinstance(value, Decimal) else value


def shown(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    hidden = ("_version", "_step", "_id")
    return [
        tuple(comparable(value) for name, value in row.items() if name not in hidden)
        for row in rows
    ]


def test_Q1_every_select_list_is_what_duckdb_computes(mesh: Mesh) -> None:
    """O1 too: one commit after the other, each in the order of event time."""
    queries = {q.name: q for q in mesh.select_many((name, text_of(name)) for name in LISTS)}
    parts = [tuples(40, Random(n), hour=n) for n in range(2)]
    for sequence, part in enumerate(parts):
        push(mesh, part, sequence)
    readings = pa.concat_tables(parts)
    for name, query in queries.items():
        assert shown(query.rows()) == judged(name, readings), text_of(name)
    selects = [view for view in mesh.status().components if view.kind == "select"]
    assert len(selects) < len(LISTS), "a select list is no part of a signature"
    assert not [report for report in mesh.reports() if isinstance(report, Failed)]


def test_names_and_types_are_those_of_the_select_list(mesh: Mesh) -> None:
    query = mesh.select("q", f"{text_of('casts')} AND meter > 1")
    push(mesh, tuples(9, Random(5)), 0)
    schema = query.to_arrow().schema
    assert schema.names == ["m", "number", "d", "p", "_version", "_step", "_id"]
    assert [field.type for field in schema][:4] == [
        pa.string(),
        pa.int32(),
        pa.date32(),
        pa.float64(),
    ]
    empty = mesh.select("empty", "SELECT kwh * 2 AS k FROM readings WHERE meter = -77").to_arrow()
    assert (empty.num_rows, empty.schema.field("k").type) == (0, pa.float64())


def test_Q1_sinks_get_what_readers_get(mesh: Mesh, tmp_path: Path) -> None:
    text = text_of("arithmetic")
    sinks = {
        "lines": shoal.to_jsonl(tmp_path / "lines.jsonl"),
        "table": shoal.to_delta(tmp_path / "table"),
        "files": shoal.to_files(tmp_path / "files", format="parquet", identity=False),
    }
    queries = mesh.select_many(((name, text) for name in sinks), into=sinks)
    for sequence in range(2):
        push(mesh, tuples(20, Random(sequence), hour=sequence), sequence)
    rows = queries[0].rows()
    assert len(rows) == 40
    lines = (tmp_path / "lines.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["n"] for line in lines] == [row["n"] for row in rows]
    files = sorted((tmp_path / "files").glob("*.parquet"))
    delivered = [row for file in files for row in pq.read_table(file).to_pylist()]
    assert shown(delivered) == shown(rows)
    assert list(delivered[0]) == ["double_kwh", "n", "s"]


def test_a_query_is_altered_and_keeps_its_columns(root: Path, spark: "SparkSession") -> None:
    """Versions have the union of their columns, also after a restart; types must agree."""
    with shoal.connect(root, spark=spark) as mesh:
        create(mesh)
        query = mesh.select("q", "SELECT meter * 2 AS twice FROM readings WHERE zone = 1")
        push(mesh, tuples(30, Random(1)), 0)
        with pytest.raises(UserError, match="cannot change the type of its column twice"):
            query.alter("SELECT kwh * 2 AS twice FROM readings WHERE zone = 1")
        with pytest.raises(UserError, match="cannot have columns twice and Twice"):
            query.alter("SELECT meter AS Twice FROM readings WHERE zone = 1")
        before = query.rows()
        query.alter("SELECT ts, meter * 4 - 2 * meter AS twice FROM readings WHERE zone = 3")
    with shoal.connect(root, spark=spark) as mesh:
        query = mesh.query("q")
        later = tuples(30, Random(2), hour=2)
        push(mesh, later, 1)
        rows = query.rows()
    assert [row["twice"] for row in rows[: len(before)]] == [row["twice"] for row in before]
    assert all(row["ts"] is None for row in rows if row["_version"] == 1)
    wanted = [row for row in later.to_pylist() if row["zone"] == 3]
    found = [(row["ts"], row["twice"]) for row in rows if row["_version"] == 2]
    assert found == [(row["ts"], row["meter"] and row["meter"] * 2) for row in wanted]


def test_Q3_a_function_that_raises_fails_its_own_query(
    root: Path, spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sink is suspended and says why; its neighbour has everything."""

    def guarded(meter: int | None) -> int | None:
        if meter == 13:
            raise ValueError("no thirteens")
        return meter

    monkeypatch.setattr(component, "ATTEMPTS_MAX", 2)
    spark.udf.register("guarded", guarded, IntegerType())
    sinks = {name: shoal.to_jsonl(tmp_path / f"{name}.jsonl") for name in ("good", "bad")}
    lists = {"good": "zone", "bad": "meter"}
    with shoal.connect(root, spark=spark, functions=["guarded"]) as mesh:
        create(mesh)
        good, bad = mesh.select_many(
            (
                (name, f"SELECT guarded({column}) AS g FROM readings WHERE zone = 3")
                for name, column in lists.items()
            ),
            into=sinks,
        )
        rows = [{"ts": NOON, "meter": meter, "zone": 3} for meter in (12, 13)]
        mesh.append("readings", rows, client="test", sequence=0)
        mesh.drain()
        assert [row["g"] for row in good.rows()] == [3, 3]
        with pytest.raises(UserError, match="select list of a query cannot be computed") as raised:
            bad.rows()
        assert "no thirteens" in raised.value.detail
        (view,) = [view for view in mesh.status().components if view.state == "suspended"]
        assert view.instance.endswith("/bad")
        assert "no thirteens" in view.reason
    lines = (tmp_path / "good.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["g"] for line in lines] == [3, 3]
    assert not (tmp_path / "bad.jsonl").read_text(encoding="utf-8")
