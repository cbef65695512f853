"""Sinks on a file system: whole or not there, the same place twice is once, errors that help."""

import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from shoal.kernel.errors import StorageError
from shoal.spark.deliver.sinks import local
from shoal.spark.deliver.sinks.local import ConsoleSink, FileSink, LinesSink
from tests.unit.spark.deliver.sinks.rows import To, batches

TO = To(upto=7)


def file_sink(folder: Path, form: str = "json", *, identity: bool = True) -> FileSink:
    sink = FileSink(folder, form=form, delivery="hot-0a0b", identity=identity)
    sink.prepare(None)
    return sink


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("form", ["parquet", "json", "csv"])
def test_a_step_is_one_file_of_all_its_batches(tmp_path: Path, form: str) -> None:
    sink = file_sink(tmp_path / "out", form)
    assert sink.place(None) == 0
    assert sink.write(batches(2, 3), place=4, target=TO) == 5
    (path,) = (tmp_path / "out").iterdir()
    assert path.name == f"part-00000004-0a0b.{form}"
    if form == "parquet":
        assert pq.read_table(path).column("a").to_pylist() == [0, 1, 2, 3, 4]
    elif form == "json":
        assert [json.loads(line)["a"] for line in path.read_text().splitlines()] == [*range(5)]
    else:
        lines = path.read_text().splitlines()
        assert (len(lines), lines[0], lines[1]) == (6, '"a","_version","_step","_id"', "0,1,1,0")


@pytest.mark.parametrize("form", ["parquet", "json"])
def test_identity_may_be_left_out(tmp_path: Path, form: str) -> None:
    file_sink(tmp_path, form, identity=False).write(batches(1), place=0, target=TO)
    (path,) = tmp_path.iterdir()
    found = pq.read_schema(path).names if form == "parquet" else list(json.loads(path.read_text()))
    assert found == ["a"]


def test_L2_a_place_that_is_taken_is_left_as_it_is(tmp_path: Path) -> None:
    sink = file_sink(tmp_path)
    sink.write(batches(2), place=0, target=TO)
    before = next(tmp_path.iterdir()).read_bytes()
    assert sink.write(batches(5), place=0, target=TO) == 1
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [before]


def test_L1_a_file_that_was_not_finished_is_never_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, os.strerror(28))

    sink = file_sink(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match="cannot write to sink") as raised:
            sink.write(batches(2), place=0, target=TO)
    assert "free space" in raised.value.hint
    assert names(tmp_path) == []


def test_what_an_owner_that_died_left_is_swept_and_nothing_else(tmp_path: Path) -> None:
    ours = tmp_path / f".part-00000003-0a0b.json{local.UNFINISHED}ff"
    others = tmp_path / f".part-00000003-0c0d.json{local.UNFINISHED}ff", tmp_path / "notes.txt"
    for path in (ours, *others):
        path.touch()
    file_sink(tmp_path)
    assert names(tmp_path) == sorted(path.name for path in others)


def test_without_hard_links_a_file_still_appears_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", refuse)
    assert file_sink(tmp_path).write(batches(2), place=0, target=TO) == 1
    assert names(tmp_path) == ["part-00000000-0a0b.json"]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(StorageError, match="cannot prepare sink"):
        file_sink(tmp_path / "out")


def lines_sink(path: Path) -> LinesSink:
    sink = LinesSink(path, identity=False)
    sink.prepare(None)
    return sink


def test_L2_lines_of_a_place_are_the_same_bytes_however_often(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "x.jsonl"
    sink = lines_sink(path)
    assert sink.place(None) == 0
    first = sink.write(batches(2), place=0, target=TO)
    end = sink.write(batches(1, 2, begin=2), place=first, target=TO)
    text = path.read_text()
    assert [json.loads(line) for line in text.splitlines()] == [{"a": n} for n in range(5)]
    assert end == len(text) == sink.place(end)
    assert sink.write(batches(2), place=0, target=TO) == first
    assert sink.write(batches(1, 2, begin=2), place=first, target=TO) == end
    assert path.read_text() == text


def test_torn_lines_are_written_over_from_their_place(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    sink = lines_sink(path)
    first = sink.write(batches(2), place=0, target=TO)
    with path.open("a") as file:
        file.write('{"a')
    sink.write(batches(1, begin=2), place=first, target=TO)
    assert [json.loads(line)["a"] for line in path.read_text().splitlines()] == [0, 1, 2]


def test_a_file_of_lines_begins_after_what_it_held(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("before\n")
    sink = lines_sink(path)
    assert sink.place(None) == 7
    with pytest.raises(StorageError, match="changed by somebody else"):
        sink.place(5)
    path.unlink()
    assert sink.place(5) == 0
    with pytest.raises(StorageError, match="cut or replaced"):
        sink.write(batches(1), place=5, target=TO)


def test_a_folder_where_a_file_of_lines_belongs(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot prepare") as raised:
        lines_sink(tmp_path)
    assert "a folder stands" in raised.value.hint


def test_the_console_shows_the_first_rows(capsys: pytest.CaptureFixture[str]) -> None:
    sink = ConsoleSink("hot", rows=3, identity=False)
    sink.prepare(None)
    assert sink.write(batches(2, 2, 5), place=sink.place(None), target=TO) == 1
    assert capsys.readouterr().out.splitlines() == [
        "-- hot: 9 rows up to step 7",
        "   a",
        "   0",
        "   1",
        "   2",
        "   and 6 more",
    ]
    sink.write(batches(1), place=1, target=TO)
    assert "more" not in capsys.readouterr().out
