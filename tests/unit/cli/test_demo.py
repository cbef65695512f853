"""The demo: its check finds a wrong result, its inputs are whole, and nothing is left behind."""

import io
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from shoal.cli import demo
from shoal.kernel.errors import UserError

TEXTS = {"hot_1": "SELECT ts, meter, kwh FROM readings WHERE zone = 1 AND kwh > 1.0"}


class Answers:
    """A mesh that answers from a table, with the columns in any order and more of them."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows
        self.asked: list[str] = []

    def query(self, name: str) -> "Answers":
        self.asked.append(name)
        return self

    def to_arrow(self) -> pa.Table:
        return self._rows


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What the demo prints, in one piece."""
    out = io.StringIO()
    monkeypatch.setattr(demo, "say", Console(file=out, width=200, highlight=False))
    return out


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(demo, "TUPLES_PER_FILE", 2_000)
    return demo._write(tmp_path, 3)


def right(file: Path) -> pa.Table:
    rows = pq.read_table(file)
    chosen = pc.and_(pc.equal(rows.column("zone"), 1), pc.greater(rows.column("kwh"), 1.0))
    return rows.filter(chosen)


def test_right_results_are_accepted_in_any_order(file: Path, said: io.StringIO) -> None:
    rows = right(file).sort_by([("kwh", "descending")])
    assert rows.num_rows > 10
    mesh: Any = Answers(rows.select(["status", "kwh", "meter", "ts"]))
    assert demo._check(mesh, TEXTS, [file])
    assert mesh.asked == ["hot_1"]
    assert f"1 queries, {rows.num_rows} result rows: all equal" in said.getvalue()


@pytest.mark.parametrize("wrong", ["lost", "doubled", "changed"])
def test_a_wrong_result_is_named(file: Path, said: io.StringIO, wrong: str) -> None:
    rows = right(file)
    spoilt = {
        "lost": rows.slice(1),
        "doubled": pa.concat_tables([rows, rows.slice(0, 1)]),
        "changed": pa.concat_tables(
            [rows.slice(1), rows.slice(0, 1).set_column(1, "meter", pa.array([-1], pa.int32()))]
        ),
    }
    mesh: Any = Answers(spoilt[wrong])
    assert not demo._check(mesh, TEXTS, [file])
    assert "1 queries differ: hot_1" in said.getvalue()


def test_a_file_appears_whole_and_a_number_gives_one_file(file: Path, tmp_path: Path) -> None:
    assert [path.name for path in tmp_path.iterdir()] == ["003.parquet"]
    again = demo._write(tmp_path, 3)
    other = demo._write(tmp_path, 4)
    assert pq.read_table(again).equals(pq.read_table(file))
    first, second = (pq.read_table(path).column("ts") for path in (file, other))
    assert pc.max(first).as_py() < pc.min(second).as_py()


def test_the_queries_are_as_many_as_it_says() -> None:
    texts = demo._queries()
    assert len(texts) == demo.QUERIES
    assert {"hot_7", "hot_8", "night_3"} <= texts.keys()


def test_it_stops_with_the_reason_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: io.StringIO
) -> None:
    def refuse(root: Path) -> None:
        raise UserError("Spark could not be started", hint="install Java 17")

    def make(prefix: str) -> str:
        folder = tmp_path / f"{prefix}x"
        folder.mkdir()
        return str(folder)

    monkeypatch.setattr(demo, "connect", refuse)
    monkeypatch.setattr(tempfile, "mkdtemp", make)
    monkeypatch.delenv("SHOAL_DEMO_KEEP", raising=False)
    assert demo.main() == 2
    assert "install Java 17" in said.getvalue()
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("SHOAL_DEMO_KEEP", "1")
    assert demo.main() == 2
    assert [path.name for path in tmp_path.iterdir()] == ["shoal-demo-x"]
