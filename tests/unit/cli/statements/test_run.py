"""Statements are carried out in order; what is wrong is told with its place in the script."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.cli import local
from shoal.cli.local import Mesh
from shoal.cli.query import Query
from shoal.cli.statements.table import Table
from shoal.dataplane import commands as c
from shoal.kernel.errors import StorageError, UserError
from shoal.kernel.time import SECOND
from shoal.query.catalog import StreamDef
from tests.unit.cli.engine import HOT, HOTTER, SEVEN, Engine, again, engine

READINGS = (
    "CREATE STREAM readings (ts TIMESTAMP, meter INT, kwh DOUBLE) TIMESTAMP BY ts FROM push()"
)


@pytest.fixture
def mesh(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mesh]:
    monkeypatch.setattr(local, "SparkEngine", Engine)
    mesh = again(root)
    mesh.sql(READINGS)
    yield mesh
    mesh.close()


def body(mesh: Mesh, name: str) -> Any:
    definition = mesh.catalog.get("queries", name)
    assert definition is not None
    return definition.body


def test_each_statement_gives_what_it_made(mesh: Mesh) -> None:
    stream = mesh.sql(READINGS.replace("readings", "other"))
    assert isinstance(stream, StreamDef)
    assert (stream.name, stream.timestamp) == ("other", "ts")
    made = mesh.sql(f"SHOW STREAMS; CREATE QUERY Hot AS {HOT}")
    assert isinstance(made, Query)
    assert made.name == "hot"
    altered = mesh.sql(f"ALTER QUERY hot SET AS {HOTTER}")
    assert isinstance(altered, Query)
    assert isinstance(mesh.sql("SHOW QUERIES"), Table)
    assert isinstance(mesh.sql("DESCRIBE hot"), Table)
    assert isinstance(mesh.sql(f"EXPLAIN {HOT}"), Table)
    assert mesh.sql("DROP QUERY hot") is None
    assert mesh.sql("DROP STREAM other") is None
    assert mesh.queries() == []
    assert [known.name for known in mesh.streams()] == ["readings"]


def test_a_select_alone_is_a_query_with_a_name_of_its_own(mesh: Mesh) -> None:
    first, second = mesh.sql(HOT), mesh.sql(HOT)
    assert isinstance(first, Query)
    assert isinstance(second, Query)
    assert mesh.queries() == sorted([first.name, second.name])
    assert first.name.startswith("query_")
    assert body(mesh, first.name)["text"] == HOT


def test_what_a_query_asks_for_reaches_catalog_and_roster(mesh: Mesh, tmp_path: Path) -> None:
    mesh.sql(
        "CREATE QUERY hot WITHIN INTERVAL 2 SECONDS LOSS AT MOST 5 PERCENT WEIGHT 3 "
        f"FROM '1970-01-01T00:00:01' INTO jsonl(path => '{tmp_path}/x.jsonl') AS {HOT}"
    )
    kept = body(mesh, "hot")
    assert (kept["within"], kept["loss"], kept["weight"]) == (2 * SECOND, 0.05, 3.0)
    assert kept["into"]["options"] == {"path": f"{tmp_path}/x.jsonl", "identity": "true"}
    (add,) = engine(mesh).of(c.AddRows)
    assert (add.begin, add.rows[0].weight) == (SECOND, 3.0)


def test_paths_begin_where_the_process_stands(
    mesh: Mesh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stream = mesh.sql("CREATE STREAM f (a INT) FROM files(path => 'in', format => 'json')")
    assert isinstance(stream, StreamDef)
    assert stream.source.options["path"] == str(tmp_path / "in")
    mesh.sql(f"CREATE QUERY q INTO delta(path => 'out') AS {HOT}")
    assert body(mesh, "q")["into"]["options"]["path"] == str(tmp_path / "out")


def test_wishes_change_without_another_version(mesh: Mesh) -> None:
    mesh.sql(f"CREATE QUERY hot WEIGHT 2 AS {HOT}")
    mesh.sql("ALTER QUERY hot SET LOSS AT MOST 10 PERCENT; ALTER QUERY hot SET WEIGHT 5")
    kept = body(mesh, "hot")
    assert (kept["version"], kept["loss"], kept["weight"], kept["within"]) == (1, 0.1, 5.0, None)
    weights = [command.weight for command in engine(mesh).of(c.SetWeight)]
    assert weights == [5.0]
    mesh.sql(f"ALTER QUERY hot SET WITHIN INTERVAL 1 SECOND AS {HOTTER}")
    kept = body(mesh, "hot")
    assert (kept["loss"], kept["weight"], kept["within"]) == (0.1, 5.0, SECOND)
    (replaced,) = engine(mesh).of(c.ReplaceRow)
    assert (replaced.row.weight, replaced.row.version) == (5.0, kept["version"])
    assert [piece["version"] for piece in kept["pieces"]] == [1, kept["version"]]


def test_drop_says_whether_at_once(mesh: Mesh) -> None:
    mesh.sql(f"CREATE QUERY a AS {HOT}; CREATE QUERY b AS {SEVEN}; DROP QUERY a NOW; DROP QUERY b")
    assert [(d.query, d.now) for d in engine(mesh).of(c.DropRow)] == [("a", True), ("b", False)]


def test_nothing_is_done_before_all_is_read(mesh: Mesh) -> None:
    with pytest.raises(UserError, match="cannot begin with 'CRAETE'"):
        mesh.sql(f"CREATE QUERY hot AS {HOT}; CRAETE QUERY b AS {HOT}")
    assert mesh.queries() == []


@pytest.mark.parametrize(
    ("statement", "what", "line", "column"),
    [
        ("CREATE QUERY b AS\n  SELECT ts FROM readings WHERE mettr = 7", "column 'mettr'", 3, 33),
        ("CREATE QUERY b AS\n  SELECT ts FROM reading", "stream reading is not known", 2, 1),
        ("CREATE QUERY b AS SELECT ts FROM readings WHERE kwh > ts", "no meaning to Spark", 2, 1),
        ("EXPLAIN SELECT nothing FROM readings", "column 'nothing'", 2, 16),
        ("SELECT nothing FROM readings", "column 'nothing'", 2, 8),
        (f"CREATE QUERY a AS {HOT}", "query a exists already", 2, 1),
        (READINGS, "stream readings exists already", 2, 1),
        ("DROP STREAM nobody", "stream nobody is not known", 2, 1),
        ("DROP STREAM readings", "stream readings is read by queries", 2, 1),
        ("DROP QUERY nobody", "query nobody is not known", 2, 1),
        ("ALTER QUERY nobody SET WEIGHT 2", "query nobody is not known", 2, 1),
        ("DESCRIBE nobody", "stream or query nobody is not known", 2, 1),
        (f"CREATE QUERY b INTO kafka(x => 1) AS {HOT}", "sink kind 'kafka' is not known", 2, 21),
        (f"CREATE QUERY b INTO jsonl(pth => '/x') AS {HOT}", "option 'pth' of sink jsonl", 2, 21),
        (f"CREATE STREAM hot AS {HOT}", "cannot be derived from another yet", 2, 1),
    ],
)
def test_what_goes_wrong_is_told_where_it_stands(
    mesh: Mesh, statement: str, what: str, line: int, column: int
) -> None:
    """What came before it stays."""
    with pytest.raises(UserError, match=what) as raised:
        mesh.sql(f"CREATE QUERY a AS {HOT};\n{statement};\nDROP QUERY a")
    assert (raised.value.line, raised.value.column) == (line, column)
    assert raised.value.hint
    assert mesh.queries() == ["a"]


def test_a_derived_stream_is_refused_with_what_can_be_done(mesh: Mesh) -> None:
    with pytest.raises(UserError) as raised:
        mesh.sql(f"CREATE STREAM hot AS {HOT}")
    assert raised.value.hint.startswith("CREATE QUERY hot AS SELECT")


def test_what_is_nobody_s_mistake_keeps_its_kind(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> None:
        raise StorageError("the disk is gone")

    monkeypatch.setattr(mesh, "drop_stream", broken)
    with pytest.raises(StorageError, match="the disk is gone"):
        mesh.sql("DROP STREAM readings")
