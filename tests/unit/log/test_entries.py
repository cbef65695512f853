"""Entries as files: which are whole, which are believed, and the state they add up to."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.kernel.errors import StorageError
from shoal.log.entries import (
    Mark,
    lowest_version,
    newest_version,
    parse_entry,
    read_entry,
    read_snapshot,
)
from shoal.log.housekeep import Upkeep
from shoal.log.root import Root, TableDir
from shoal.log.validate import validate
from shoal.log.writer import Writer
from tests.races.steps import INSTANCE, commit_step, create

OFTEN = Upkeep(checkpoint_every=4, log_entries_kept=2, merge_from=1000)


@pytest.fixture
def opened(root: Path) -> Iterator[Root]:
    opened = Root.open(root)
    create(opened)
    yield opened
    assert validate(opened, INSTANCE) == ()


@pytest.fixture
def writer(opened: Root) -> Writer:
    return Writer.take_over(opened, INSTANCE, owner="someone", upkeep=OFTEN)


def steps(writer: Writer, count: int) -> None:
    for _ in range(count):
        commit_step(writer, parts=1, rng=random.Random(writer.step), trace=str)
        writer.housekeep(horizon=None)


def test_a_mark_is_one_integer() -> None:
    mark = Mark(7, 123)
    assert Mark.unpack(mark.pack()) == mark
    assert Mark.unpack(None) == Mark(0, 0)
    assert Mark(1, 9) < Mark(2, 0)


@pytest.mark.parametrize("cut", [0, 1, 50, -2, -200])
def test_a_torn_entry_is_no_entry(writer: Writer, cut: int) -> None:
    """Cut in a line it does not parse; cut after a line its lines do not add up."""
    steps(writer, 1)
    data = writer.table.entry(2).read_bytes()
    assert parse_entry(2, data) is not None
    assert parse_entry(2, data[:cut]) is None
    whole_lines = data.splitlines(keepends=True)
    assert parse_entry(2, b"".join(whole_lines[:-1])) is None
    assert parse_entry(2, bytes(len(data))) is None


def test_an_entry_says_what_it_did(writer: Writer) -> None:
    steps(writer, 1)
    entry = read_entry(writer.table, 2)
    assert entry is not None
    assert (entry.mark, entry.kind) == (Mark(1, 1), "step")
    assert entry.transactions == {"shoal": Mark(1, 1).pack(), "in/source": 1}
    assert [segment.rows for segment in entry.new] == [4]
    assert list(entry.info) == ["attempt"]


def test_trimmed_entries_are_read_from_the_history(writer: Writer) -> None:
    steps(writer, 12)
    table = writer.table
    assert not table.entry(2).exists()
    entry = read_entry(table, 2)
    assert entry is not None
    assert entry.mark == Mark(1, 1)
    assert newest_version(table) == 13
    assert lowest_version(table) == 0


def test_the_history_is_believed_before_the_log(writer: Writer) -> None:
    steps(writer, 12)
    true = read_entry(writer.table, 3)
    stray = read_entry(writer.table, 5)
    assert stray is not None
    writer.table.entry(3).write_bytes(writer.table.entry_kept(5).read_bytes())
    assert read_entry(writer.table, 3) == true


@pytest.mark.parametrize("hint", ["as it is", "gone", "torn", "set back"])
def test_the_snapshot_does_not_depend_on_the_hint(writer: Writer, hint: str) -> None:
    steps(writer, 12)
    path = writer.table.log / "_last_checkpoint"
    match hint:
        case "gone":
            path.unlink()
        case "torn":
            path.write_bytes(path.read_bytes()[:7])
        case "set back":
            steps(writer, 4)
            oldest = min(writer.table.log.glob("*.checkpoint.parquet"))
            path.write_text(json.dumps({"version": int(oldest.name[:20]), "size": 1}))
    snapshot = read_snapshot(writer.table)
    assert snapshot.mark == Mark(1, writer.step)
    assert snapshot.version == newest_version(writer.table)
    assert snapshot.segments == dict(writer.live)
    assert snapshot.transactions == dict(writer.transactions)


def test_no_table_no_snapshot(root: Path) -> None:
    table: TableDir = Root.open(root).table("absent")
    assert newest_version(table) == -1
    with pytest.raises(StorageError, match="cannot read the table"):
        read_snapshot(table)


def test_an_entry_that_cannot_be_read_is_an_error_of_ours(opened: Root) -> None:
    """Not there is one thing; there and not to be read is another."""
    table = opened.table(INSTANCE)
    assert read_entry(table, 77) is None
    table.entry(77).mkdir()
    with pytest.raises(StorageError, match="cannot read"):
        read_entry(table, 77)
    table.entry(77).rmdir()
