"""The check itself: silent on a sound table, and it names the promise that is broken."""

import random
from pathlib import Path

import pytest

from shoal.log.entries import Mark
from shoal.log.housekeep import Upkeep
from shoal.log.root import Root
from shoal.log.validate import validate
from shoal.log.writer import Writer
from tests.races.steps import INSTANCE, commit_step, create


@pytest.fixture
def opened(root: Path) -> Root:
    opened = Root.open(root)
    create(opened)
    return opened


@pytest.fixture
def writer(opened: Root) -> Writer:
    upkeep = Upkeep(checkpoint_every=1000)
    writer = Writer.take_over(opened, INSTANCE, owner="someone", upkeep=upkeep)
    for _ in range(3):
        commit_step(writer, parts=1, rng=random.Random(writer.step), trace=str)
    return writer


def found(opened: Root) -> list[str]:
    return sorted({violation.promise: True for violation in validate(opened, INSTANCE)})


def test_a_sound_table(opened: Root, writer: Writer) -> None:
    assert validate(opened, INSTANCE) == ()


def test_L1_a_missing_and_a_torn_file(opened: Root, writer: Writer) -> None:
    first, second, _ = (writer.table.path / path for path in sorted(writer.live))
    first.unlink()
    assert "L1" in found(opened)
    second.write_bytes(second.read_bytes()[:50])
    details = [v.detail for v in validate(opened, INSTANCE) if v.promise == "L1"]
    assert len(details) == 2


@pytest.mark.parametrize(
    ("version", "mark", "promise"),
    [
        (4, Mark(1, 2), "L2"),
        (3, Mark(1, 3), "L2"),
        (3, Mark(0, 2), "L3"),
        (3, Mark(2, 2), "L3"),
    ],
)
def test_a_mark_that_does_not_run_on(
    opened: Root, writer: Writer, version: int, mark: Mark, promise: str
) -> None:
    path = writer.table.entry(version)
    was = Mark(1, version - 1)
    path.write_text(path.read_text().replace(str(was.pack()), str(mark.pack())))
    assert promise in found(opened)


def test_L4_rows_that_a_file_has_twice(opened: Root, writer: Writer) -> None:
    first, second, _ = sorted(writer.live)
    (writer.table.path / first).write_bytes((writer.table.path / second).read_bytes())
    assert "L4" in found(opened)
