"""Statements end to end: streams and queries come, change and go by SQL alone."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import shoal
from shoal.cli.local import Mesh
from shoal.cli.query import Query
from shoal.cli.statements.table import Table
from shoal.dataplane.reports import Failed, FencedOff
from shoal.kernel.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
STREAM = """
CREATE STREAM readings (ts TIMESTAMP, meter INT, kwh DOUBLE)
    TIMESTAMP BY ts LATENESS INTERVAL 10 SECONDS FROM push();
"""


@pytest.fixture
def mesh(root: Path, spark: "SparkSession") -> Iterator[Mesh]:
    with shoal.connect(root, spark=spark) as mesh:
        yield mesh


def push(mesh: Mesh, *meters: int, second: int = 0) -> None:
    """Tuples of these meters; each has ten times its number as kwh."""
    rows = [
        {"ts": NOON.replace(second=second), "meter": meter, "kwh": 10.0 * meter} for meter in meters
    ]
    mesh.append("readings", rows, client=f"test-{second}", sequence=0)
    mesh.drain()


def meters(query: object) -> list[int]:
    assert isinstance(query, Query)
    return sorted(row["meter"] for row in query.rows())


def facts(mesh: Mesh, text: str) -> dict[str, str]:
    found = mesh.sql(text)
    assert isinstance(found, Table)
    return {row[0]: row[1] for row in found.rows}


def test_a_script_from_the_first_tuple_to_the_last(mesh: Mesh, tmp_path: Path) -> None:
    hot = mesh.sql(
        f"{STREAM} CREATE QUERY hot WEIGHT 2 INTO jsonl(path => '{tmp_path}/hot.jsonl') "
        "AS SELECT meter, kwh FROM readings WHERE kwh > 25; "
    )
    every = mesh.sql("SELECT * FROM readings")
    push(mesh, 1, 2, 3, 4, second=1)
    assert (meters(hot), meters(every)) == ([3, 4], [1, 2, 3, 4])
    explained = facts(mesh, "EXPLAIN SELECT ts FROM readings WHERE 5 < kwh")
    assert explained["runs here"] == "yes, its roster has 1 rows"
    assert float(explained["step"].removesuffix(" ms")) > 0
    assert explained["component"] == facts(mesh, "DESCRIBE hot")["component"]
    mesh.sql(
        "ALTER QUERY hot SET WEIGHT 5 AS SELECT meter, kwh FROM readings WHERE kwh > 15;"
        "ALTER QUERY hot SET WITHIN INTERVAL 1 SECOND"
    )
    push(mesh, 1, 2, 3, second=2)
    assert meters(hot) == [2, 3, 3, 4]
    assert facts(mesh, "DESCRIBE hot")["weight"] == "5"
    lines = (tmp_path / "hot.jsonl").read_text(encoding="utf-8").splitlines()
    assert sorted(json.loads(line)["meter"] for line in lines) == [2, 3, 3, 4]
    mesh.sql("DROP QUERY hot NOW")
    push(mesh, 9, second=3)
    assert (meters(hot), meters(every)) == ([2, 3, 3, 4], [1, 1, 2, 2, 3, 3, 4, 9])
    assert not [r for r in mesh.reports() if isinstance(r, Failed | FencedOff)]


def test_a_past_that_is_asked_for_comes(mesh: Mesh) -> None:
    mesh.sql(STREAM)
    push(mesh, 1, 2, second=1)
    push(mesh, 3, second=2)
    past = mesh.sql(
        "CREATE QUERY past FROM '2026-03-01 12:00:01' AS SELECT meter FROM readings WHERE kwh > 5"
    )
    push(mesh, 4, second=3)
    assert meters(past) == [3, 4]


def test_what_spark_cannot_type_is_told_in_the_script(mesh: Mesh) -> None:
    mesh.sql(STREAM)
    with pytest.raises(UserError, match="no meaning to Spark") as raised:
        mesh.sql("SHOW STREAMS;\n  SELECT ts FROM readings WHERE ts > 5")
    assert (raised.value.line, raised.value.column) == (2, 3)
    assert "DATATYPE_MISMATCH" not in raised.value.detail


def test_a_stream_goes_and_its_name_comes_back(
    root: Path, spark: "SparkSession", tmp_path: Path
) -> None:
    """The same definition goes on where it was; another is another stream. So after a restart."""
    with shoal.connect(root, spark=spark) as mesh:
        mesh.sql(STREAM)
        first = mesh.sql("CREATE QUERY a AS SELECT meter FROM readings WHERE kwh > 5")
        push(mesh, 1, second=1)
        with pytest.raises(UserError, match="is read by queries"):
            mesh.sql("DROP STREAM readings")
        mesh.sql("DROP QUERY a; DROP STREAM readings")
        assert [view for view in mesh.status().components if view.kind != "deliver"] == []
        assert meters(first) == [1]
        mesh.sql(STREAM)
        again = mesh.sql("CREATE QUERY b AS SELECT meter FROM readings WHERE kwh > 5")
        push(mesh, 2, second=2)
        assert meters(again) == [2]
        assert meters(first) == [1], "it was dropped"
        mesh.sql("DROP QUERY b NOW; DROP STREAM readings")
        mesh.sql("CREATE STREAM readings (ts TIMESTAMP, meter INT, kwh DOUBLE) FROM push()")
    with shoal.connect(root, spark=spark) as mesh:
        third = mesh.sql("CREATE QUERY c AS SELECT meter FROM readings WHERE kwh > 5")
        push(mesh, 3, second=3)
        assert meters(third) == [3]
        assert mesh.results("b", after=0).column("meter").to_pylist() == [2]


def test_a_stream_that_is_never_idle_is_dropped(mesh: Mesh) -> None:
    """Its steps follow on one another; between two it stops."""
    for store in ("", "STORE NONE"):
        mesh.sql(
            f"CREATE STREAM made (meter BIGINT) {store} FROM rate(rows_per_second => 20000);"
            "CREATE QUERY some AS SELECT meter FROM made WHERE meter = 7"
        )
        seen = 0
        while not any(view.step > 3 for view in mesh.status().components if view.kind == "select"):
            seen = mesh._engine.wait(seen, timeout=0.1)
        mesh.sql("DROP QUERY some NOW; DROP STREAM made")
        assert mesh.status().components == ()
    assert not [r for r in mesh.reports() if isinstance(r, FencedOff)]
