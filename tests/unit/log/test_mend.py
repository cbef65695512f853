"""What a power loss tears is set aside at the next take-over, and nothing else is."""

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.log.entries import newest_version, read_snapshot
from shoal.log.housekeep import Upkeep
from shoal.log.mend import mend
from shoal.log.root import Root
from shoal.log.validate import validate
from shoal.log.writer import Writer
from tests.races.steps import INSTANCE, commit_step, create

UPKEEP = Upkeep(checkpoint_every=1000)


@pytest.fixture
def opened(root: Path) -> Iterator[Root]:
    opened = Root.open(root)
    create(opened)
    yield opened
    assert validate(opened, INSTANCE) == ()


def owner(opened: Root) -> Writer:
    return Writer.take_over(opened, INSTANCE, owner="someone", upkeep=UPKEEP)


def steps(writer: Writer, count: int) -> None:
    for _ in range(count):
        commit_step(writer, parts=1, rng=random.Random(writer.step), trace=str)


def torn(data: bytes, how: str) -> bytes:
    lines = data.splitlines(keepends=True)
    return {
        "empty": b"",
        "cut after a line": b"".join(lines[:-1]),
        "cut in a line": data[:-20],
        "zeros": bytes(len(data)),
        "zeros at the end": data[:200] + bytes(len(data) - 200),
    }[how]


@pytest.mark.parametrize(
    "how", ["empty", "cut after a line", "cut in a line", "zeros", "zeros at the end"]
)
def test_L1_a_torn_last_entry_becomes_an_absent_one(opened: Root, how: str) -> None:
    writer = owner(opened)
    steps(writer, 3)
    path = writer.table.entry(newest_version(writer.table))
    path.write_bytes(torn(path.read_bytes(), how))
    again = owner(opened)
    assert (again.epoch, again.step) == (2, 2)
    assert [p.name[:20] for p in again.table.mended.iterdir()] == [path.stem]
    steps(again, 2)
    again.validate()


@pytest.mark.parametrize("how", ["empty", "cut in a line", "zeros"])
def test_a_torn_checkpoint_is_done_without(opened: Root, how: str) -> None:
    writer = owner(opened)
    steps(writer, 3)
    version = writer._fence.checkpoint()
    path = writer.table.checkpoint(version)
    path.write_bytes(torn(path.read_bytes(), how))
    again = owner(opened)
    assert (again.epoch, again.step) == (2, 3)
    assert not path.exists()
    assert read_snapshot(again.table).segments == dict(again.live)
    steps(again, 1)


def test_a_torn_creation_is_created_again(opened: Root) -> None:
    path = opened.table(INSTANCE).entry(0)
    path.write_bytes(path.read_bytes()[:30])
    create(opened)
    assert owner(opened).epoch == 1


def test_whole_files_stay(opened: Root) -> None:
    writer = owner(opened)
    steps(writer, 3)
    writer._fence.checkpoint()
    before = sorted(path.name for path in writer.table.log.iterdir())
    assert mend(writer.table) == ()
    assert sorted(path.name for path in writer.table.log.iterdir()) == before


def test_many_menders_mend_once(opened: Root) -> None:
    writer = owner(opened)
    steps(writer, 2)
    path = writer.table.entry(newest_version(writer.table))
    path.write_bytes(b"")
    done: list[tuple[str, ...]] = []
    threads = [threading.Thread(target=lambda: done.append(mend(writer.table))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [()] * 5 + [(path.name,)]
