"""What is shown of streams, queries, and queries that might be."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from shoal.cli import local
from shoal.cli.local import Mesh, stream_instance
from shoal.cli.statements.table import Table
from shoal.dataplane import commands as c
from shoal.kernel.errors import UserError
from shoal.kernel.time import SECOND
from shoal.query.windows.draft import parse_query
from tests.property.spark_types import query_answers
from tests.unit.cli.engine import CELLS, HOT, TWICE, Engine, again, engine, view


@pytest.fixture
def mesh(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mesh]:
    monkeypatch.setattr(local, "SparkEngine", Engine)
    mesh = again(root)
    mesh.sql(
        "CREATE STREAM readings (ts TIMESTAMP, meter INT, kwh DOUBLE) TIMESTAMP BY ts "
        "LATENESS INTERVAL 10 SECONDS RETAIN INTERVAL 7 DAYS FROM push();"
        "CREATE STREAM other (a INT) STORE NONE IDLE ADVANCES "
        "FROM rate(rows_per_second => 5)"
    )
    yield mesh
    mesh.close()


def looked(mesh: Mesh, text: str) -> Table:
    found = mesh.sql(text)
    assert isinstance(found, Table)
    return found


def facts(mesh: Mesh, text: str) -> dict[str, str]:
    found = looked(mesh, text)
    assert found.columns == ("fact", "value")
    return {row[0]: row[1] for row in found.rows}


def test_streams(mesh: Mesh) -> None:
    mesh.sql(f"CREATE QUERY hot AS {HOT}")
    readings = stream_instance(mesh.streams()[1])
    running = replace(view("ingest", lag=0, looked=0), instance=readings)
    engine(mesh).components = [replace(running, watermark=7 * SECOND)]
    found = looked(mesh, "SHOW STREAMS")
    assert found.columns[:3] == ("name", "columns", "event time")
    assert found.rows == (
        ("other", "1", "at ingest", "0 s", "rate", "0", "does not run here"),
        ("readings", "3", "ts", "10 s", "push", "1", "1970-01-01T00:00:07Z"),
    )
    engine(mesh).components = [running]
    assert looked(mesh, "SHOW STREAMS").rows[1][-1] == "none yet"


def test_queries(mesh: Mesh) -> None:
    assert looked(mesh, "SHOW QUERIES").rows == ()
    mesh.sql(f"CREATE QUERY hot WITHIN INTERVAL 2 SECONDS LOSS AT MOST 7 PERCENT AS {HOT}")
    mesh.sql(f"CREATE QUERY cold AS {HOT}")
    cold, hot = looked(mesh, "SHOW QUERIES").rows
    assert (hot[0], hot[1], hot[3:]) == ("hot", "readings", ("1", "2 s", "7 percent", HOT))
    assert hot[2].startswith("select-")
    assert cold[3:] == ("1", "", "", HOT)


def test_a_stream(mesh: Mesh) -> None:
    found = facts(mesh, "DESCRIBE Readings")
    assert found["column ts"] == "TIMESTAMP, event time"
    assert found["column meter"] == "INT"
    assert (found["lateness"], found["retained"]) == ("10 s", "604800 s")
    assert (found["stored"], found["source"], found["queries"]) == ("yes", "push()", "none")
    found = facts(mesh, "DESCRIBE STREAM other")
    assert found["source"] == "rate(rows_per_second => '5')"
    assert found["event time"] == "given at ingest"
    assert found["stored"].startswith("no")
    assert (found["without data"], found["retained"]) == ("the watermark advances", "for good")
    for number in range(11):
        mesh.sql(f"CREATE QUERY q{number} AS {HOT}")
    assert facts(mesh, "DESCRIBE readings")["queries"].startswith("11: q0, q1, q10, ")
    instance = stream_instance(mesh.streams()[1])
    counted = replace(view("ingest", lag=0, looked=0), instance=instance, counters={"in": 4})
    engine(mesh).components = [counted]
    assert facts(mesh, "DESCRIBE readings")["tuples"] == "4 in"


def test_a_query(mesh: Mesh, tmp_path: Path) -> None:
    """What is recorded and does not act yet is called so."""
    mesh.sql(
        "CREATE QUERY hot WITHIN INTERVAL 500 MILLISECONDS LOSS AT MOST 5 PERCENT WEIGHT 2 "
        f"INTO jsonl(path => '{tmp_path}/x') AS {HOT}; CREATE QUERY plain AS {HOT}"
    )
    found = facts(mesh, "DESCRIBE hot")
    assert (found["text"], found["version"], found["stream"]) == (HOT, "1", "readings")
    assert found["within"] == "0.5 s (recorded, not yet enforced)"
    assert found["loss"] == "at most 5 percent (recorded, not yet enforced)"
    assert found["weight"] == "2"
    assert found["into"] == f"jsonl(identity => 'true', path => '{tmp_path}/x')"
    plain = facts(mesh, "DESCRIBE QUERY plain")
    assert plain["into"] == "its own table only"
    assert "within" not in plain
    assert "loss" not in plain


def test_a_name_of_both_is_asked_back(mesh: Mesh) -> None:
    mesh.sql(f"CREATE QUERY other AS {HOT}")
    with pytest.raises(UserError, match="other is a stream and a query") as raised:
        mesh.sql("DESCRIBE other")
    assert "DESCRIBE STREAM other" in raised.value.hint
    assert facts(mesh, "DESCRIBE QUERY other")["query"] == "other"
    assert facts(mesh, "DESCRIBE STREAM other")["stream"] == "other"


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("DESCRIBE reading", "stream or query reading", "did you mean readings?"),
        ("DESCRIBE QUERY readings", "query readings", "SHOW STREAMS and SHOW QUERIES"),
        ("DESCRIBE STREAM hott", "stream hott", "SHOW STREAMS and SHOW QUERIES"),
        ("DESCRIBE hott", "stream or query hott", "did you mean hot?"),
    ],
)
def test_what_is_not_known_is_told_with_the_nearest(
    mesh: Mesh, text: str, what: str, hint: str
) -> None:
    mesh.sql(f"CREATE QUERY hot AS {HOT}")
    with pytest.raises(UserError, match=f"{what} is not known") as raised:
        mesh.sql(text)
    assert raised.value.hint.startswith(hint)


def test_a_query_that_might_be(mesh: Mesh) -> None:
    before = len(engine(mesh).of(c.Start))
    found = facts(mesh, f"EXPLAIN {HOT}")
    assert (found["stream"], found["columns"]) == ("readings", "ts, kwh")
    assert found["where"] == "(`kwh` > ?0:DOUBLE)"
    assert found["signature"].startswith("v1 select from readings@")
    assert len(found["key"]) == 40
    assert found["parameter 0"] == "DOUBLE 3.5"
    assert found["component"].startswith("select-")
    assert found["runs here"] == "no, it starts with its first query"
    assert found["step"] == "not known yet: it has made none"
    assert found["cycle of this peer"] == "250 ms"
    assert found["within, loss"].endswith("recorded, not yet enforced")
    assert len(engine(mesh).of(c.Start)) == before, "looking starts nothing"
    assert mesh.queries() == []


def test_what_a_select_list_computes_is_shown(mesh: Mesh) -> None:
    found = facts(mesh, f"EXPLAIN {TWICE}")
    assert found["columns"] == "ts, twice"
    assert found["column ts"] == "s.`ts`"
    assert "s.`kwh`" in found["column twice"]
    assert found["component"] == facts(mesh, f"EXPLAIN {HOT}")["component"]


def test_a_query_that_would_be_a_row_more(mesh: Mesh) -> None:
    instance = facts(mesh, f"EXPLAIN {HOT}")["component"]
    cost = {"step": 0.0123, "tuple_in": 3e-7, "tuple_out": 0, "history": 0, "roster": 2e-6}
    running = replace(view("select", lag=0, looked=0), instance=instance, roster_rows=12)
    engine(mesh).components = [replace(running, cost=cost)]
    found = facts(mesh, f"EXPLAIN {HOT}")
    assert found["runs here"] == "yes, its roster has 12 rows"
    assert found["step"] == "12.3 ms"
    assert found["step, per million tuples in"] == "300 ms"
    assert found["step, per thousand rows"] == "2.0 ms"


@pytest.mark.parametrize(
    ("where", "shown"),
    [
        ("meter IN (1, 2)", "ARRAY<INT> (1, 2)"),
        (
            "meter IN (" + ", ".join(map(str, range(10, 22))) + ")",
            "ARRAY<INT> (10, 11, 12, 13, 14, 15, 16, 17, 18, 19, ... (12 values))",
        ),
        ("meter = NULL", "INT NULL"),
        ("ts > TIMESTAMP '2026-03-01 12:00:00'", "TIMESTAMP 2026-03-01T12:00:00Z"),
        ("CAST(ts AS DATE) = DATE '2026-03-01'", "DATE 2026-03-01"),
        ("CAST(meter AS STRING) = 'größe'", 'STRING "größe"'),
        ("CAST(meter AS BINARY) = X'0F'", "BINARY X'0f'"),
    ],
)
def test_constants_are_shown_as_they_are_written(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch, where: str, shown: str
) -> None:
    text = f"SELECT ts FROM readings WHERE {where}"
    draft = parse_query(text, mesh.streams()[1])
    monkeypatch.setitem(CELLS, draft.probe, query_answers(draft))
    assert facts(mesh, f"EXPLAIN {text}")["parameter 0"] == shown


def test_every_tuple_needs_no_parameter(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "SELECT * FROM readings"
    draft = parse_query(text, mesh.streams()[1])
    monkeypatch.setitem(CELLS, draft.probe, query_answers(draft))
    found = facts(mesh, f"EXPLAIN {text}")
    assert found["where"] == "every tuple"
    assert "parameter 0" not in found
