"""Deliver on real Spark, through the way in: sinks equal `query.rows()`, come what may."""

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shoal
from shoal.kernel.errors import ShoalError, UserError
from shoal.spark.deliver import component, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from shoal.cli.local import Mesh

START = datetime(2026, 1, 1, tzinfo=UTC)
SQL = "SELECT ts, meter, kwh FROM readings WHERE kwh > 3.5"

pytestmark = pytest.mark.slow


class Site:
    """A mesh with one stream of readings, and a folder that files are dropped into."""

    def __init__(self, spark: "SparkSession", folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._inbox = folder / "in"
        self._inbox.mkdir()
        self._sent = 0
        self.mesh = self._open()
        self.mesh.create_stream(
            "readings",
            "ts TIMESTAMP, meter INT, kwh DOUBLE",
            timestamp="ts",
            lateness="5 seconds",
            source=shoal.files(self._inbox, format="json", pattern="*.json"),
        )

    def _open(self) -> "Mesh":
        mesh: Mesh = shoal.connect(self._folder / "root", spark=self._spark)
        return mesh

    def again(self) -> None:
        """Close the mesh and open it again."""
        self.mesh.close()
        self.mesh = self._open()

    def feed(self, tuples: int = 50) -> None:
        """One more file, later in event time; in the end everything is answered."""
        path = self._inbox / f"{self._sent:04d}"
        with path.with_suffix(".tmp").open("w") as file:
            for n in range(tuples):
                ts = START + timedelta(seconds=10 * self._sent, milliseconds=n)
                row = {"ts": ts.isoformat(), "meter": n, "kwh": n / 10}
                file.write(json.dumps(row) + "\n")
        path.with_suffix(".tmp").rename(path.with_suffix(".json"))
        self._sent += 1
        self.mesh.drain(timeout=120)

    def rows(self, query: str) -> list[dict[str, Any]]:
        return self.mesh.query(query).rows()


@pytest.fixture
def site(spark: "SparkSession", tmp_path: Path) -> Iterator[Site]:
    made = Site(spark, tmp_path)
    yield made
    made.mesh.close()


def by_time(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda row: (row["_step"], row["ts"], row["_id"]))


def by_version(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda row: (row["_version"], row["ts"]))


def parquet(folder: Path) -> list[dict[str, Any]]:
    return [row for file in sorted(folder.glob("*")) for row in pq.read_table(file).to_pylist()]


def delta(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = deltalake.DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return found


def by_polars(path: Path) -> list[dict[str, Any]]:
    """What Polars finds in a Delta table; in a process of its own, because its threads stay."""
    copy = path.with_suffix(".copy")
    code = "import polars, sys; polars.read_delta(sys.argv[1]).write_parquet(sys.argv[2])"
    subprocess.run([sys.executable, "-c", code, str(path), str(copy)], check=True, timeout=120)
    found: list[dict[str, Any]] = pq.read_table(copy).to_pylist()
    return found


def jsonl(*paths: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    return [{**row, "ts": datetime.fromisoformat(row["ts"])} for row in found]


def test_Q1_every_kind_of_sink_equals_the_rows(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site.feed()
    sinks = {
        "p": shoal.to_files(tmp_path / "p", format="parquet"),
        "j": shoal.to_files(tmp_path / "j", format="json"),
        "v": shoal.to_files(tmp_path / "v", format="csv", identity=False),
        "d": shoal.to_delta(tmp_path / "d"),
        "l": shoal.to_jsonl(tmp_path / "l.jsonl"),
        "o": shoal.to_console(rows=1),
    }
    site.mesh.select_many([(name, SQL) for name in sinks], into=sinks)
    site.feed()
    site.again()
    site.feed()
    wanted = site.rows("p")
    assert len(wanted) == 28
    assert parquet(tmp_path / "p") == wanted
    assert jsonl(*sorted((tmp_path / "j").iterdir())) == site.rows("j")
    assert jsonl(tmp_path / "l.jsonl") == site.rows("l")
    assert by_time(by_polars(tmp_path / "d")) == site.rows("d")
    csv = [file.read_text() for file in sorted((tmp_path / "v").iterdir())]
    assert [text.count("\n") for text in csv] == [15, 15]
    assert csv[0].splitlines()[1] == '"2026-01-01T00:00:10.036000Z",36,3.6'
    assert capsys.readouterr().out.count("-- o: 14 rows") == 2


def test_O1_an_altered_query_goes_on_without_gap_or_repeat(site: Site, tmp_path: Path) -> None:
    """The same signature, then another one with other columns, and the first again."""
    query = site.mesh.select("q", SQL, into=shoal.to_jsonl(tmp_path / "q.jsonl"))
    table = site.mesh.select("t", SQL, into=shoal.to_delta(tmp_path / "t"))
    texts = (
        "SELECT ts, meter, kwh FROM readings WHERE kwh > 4.0",
        "SELECT ts, kwh FROM readings WHERE meter < 3",
        "SELECT ts, meter, kwh FROM readings WHERE kwh > 4.5",
    )
    site.feed()
    for number, text in enumerate(texts):
        query.alter(text)
        table.alter(text)
        if number == 1:
            site.again()
            query, table = site.mesh.query("q"), site.mesh.query("t")
        site.feed()
    site.feed()
    wanted = site.rows("q")
    assert [row["_version"] for row in wanted] == [1] * 14 + [2] * 9 + [3] * 3 + [4] * 8
    found = [{**dict.fromkeys(wanted[0]), **row} for row in jsonl(tmp_path / "q.jsonl")]
    assert found == wanted
    assert by_version(delta(tmp_path / "t")) == by_version(site.rows("t"))


def test_a_table_of_the_user_keeps_its_shape(site: Site, tmp_path: Path) -> None:
    path = str(tmp_path / "mine")
    mine = pa.schema(
        [("kwh", pa.float64()), ("ts", pa.timestamp("us", "UTC")), ("note", pa.string())]
    )
    deltalake.DeltaTable.create(path, mine)
    with pytest.raises(ShoalError, match="has no column meter"):
        site.mesh.select("q", SQL, into=shoal.to_delta(path))
    sql = "SELECT ts, kwh FROM readings WHERE kwh > 3.5"
    site.mesh.select("q", sql, into=shoal.to_delta(path))
    site.feed()
    deltalake.write_deltalake(
        path, pa.table({"kwh": [0.0], "ts": [START], "note": ["x"]}).cast(mine), mode="append"
    )
    site.feed()
    found = deltalake.DeltaTable(path).to_pyarrow_table()
    assert found.schema.names == ["kwh", "ts", "note"]
    ours = [row for row in found.to_pylist() if row["note"] is None]
    assert sorted(row["ts"] for row in ours) == [row["ts"] for row in site.rows("q")]


def test_large_ranges_go_through_spark(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "ARROW_ROWS_MAX", 5)
    monkeypatch.setattr(rows, "BATCH_ROWS", 4)
    site.mesh.select("p", SQL, into=shoal.to_files(tmp_path / "p", format="parquet"))
    site.mesh.select("l", SQL, into=shoal.to_jsonl(tmp_path / "l.jsonl"))
    site.mesh.select("d", SQL, into=shoal.to_delta(tmp_path / "d"))
    site.mesh.select("none", "SELECT ts FROM readings WHERE kwh > 99", into=shoal.to_console())
    site.feed()
    site.feed()
    assert parquet(tmp_path / "p") == site.rows("p")
    assert jsonl(tmp_path / "l.jsonl") == site.rows("l")
    assert by_time(delta(tmp_path / "d")) == site.rows("d")
    assert not list((tmp_path / "root" / "tables").glob("*/_staging/deliver-*"))


def test_Q3_a_sink_that_fails_is_said_and_resumed(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(component, "ATTEMPTS_MAX", 2)
    bad = site.mesh.select("bad", SQL, into=shoal.to_files(tmp_path / "bad", format="parquet"))
    site.mesh.select("good", SQL, into=shoal.to_files(tmp_path / "good", format="parquet"))
    (tmp_path / "bad").rmdir()
    site.feed()
    assert parquet(tmp_path / "good") == site.rows("good")
    (view,) = [v for v in site.mesh.status().components if v.state == "suspended"]
    assert view.instance.endswith("/bad")
    assert "folder is gone" in view.reason
    bad.resume()
    site.feed()
    assert parquet(tmp_path / "bad") == site.rows("bad")


def test_a_dropped_query_delivers_what_is_due_and_its_name_is_free(
    site: Site, tmp_path: Path
) -> None:
    query = site.mesh.select("q", SQL, into=shoal.to_jsonl(tmp_path / "a.jsonl"))
    site.feed()
    query.drop()
    site.feed()
    assert jsonl(tmp_path / "a.jsonl") == site.mesh.results("q", after=0).to_pylist()
    site.mesh.select("q", SQL, into=shoal.to_jsonl(tmp_path / "b.jsonl"))
    site.feed()
    assert len(jsonl(tmp_path / "a.jsonl")) == 14
    assert len(jsonl(tmp_path / "b.jsonl")) == 14


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: shoal.to_files("/tmp/x", format="parket"), "did you mean parquet"),
        (lambda: shoal.to_files("s3://bucket/x", format="csv"), "sinks are files"),
        (lambda: "/tmp/x", "cannot go into"),
    ],
)
def test_a_wrong_sink_is_refused_before_anything_is_made(site: Site, make: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        site.mesh.select("q", SQL, into=make())
    assert site.mesh.queries() == []


def test_a_sink_in_the_root_is_refused(site: Site, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the root of the mesh"):
        site.mesh.select("q", SQL, into=shoal.to_jsonl(tmp_path / "root" / "tables" / "x"))
    assert site.mesh.queries() == []
