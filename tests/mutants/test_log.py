"""Each mutant of the log is caught by the checker, and what it mutates passes it."""

import random
import shutil
from pathlib import Path

import pytest

import shoal.log.reader
import shoal.log.writer
from shoal.kernel.errors import StorageError
from shoal.log.entries import Mark
from shoal.log.fence import Change, Fence
from shoal.log.housekeep import Upkeep
from shoal.log.reader import Reader
from shoal.log.root import Root
from shoal.log.validate import validate
from shoal.log.writer import Writer
from tests.mutants.log_table import (
    CarelessReader,
    HastyWriter,
    RepeatingWriter,
    SharingWriter,
    UncheckedFence,
    merge_and_keep,
    read_without_history,
)
from tests.races.checker import check
from tests.races.steps import INSTANCE, commit_step, create, read_all, write_parts

#: Merges at four files, and nothing else.
MERGING = Upkeep(merge_from=4)


@pytest.fixture
def opened(root: Path) -> Root:
    """A root with the table of a race."""
    opened = Root.open(root)
    create(opened)
    return opened


def owner(opened: Root, kind: type[Writer] = Writer, upkeep: Upkeep = MERGING) -> Writer:
    return kind.take_over(opened, INSTANCE, owner="someone", upkeep=upkeep)


def steps(writer: Writer, count: int) -> None:
    for _ in range(count):
        commit_step(writer, parts=1, rng=random.Random(writer.step), trace=str)


def broken(opened: Root) -> list[str]:
    """The promises that either checker finds broken."""
    outside = check(opened.table(INSTANCE).path).violations
    inside = {violation.promise: True for violation in validate(opened, INSTANCE)}
    return sorted({**dict.fromkeys(outside), **inside})


def test_the_real_ones_pass(opened: Root) -> None:
    """Without a mutant nothing is found."""
    first = owner(opened)
    steps(first, 3)
    second = owner(opened)
    steps(second, 3)
    second.housekeep(horizon=None)
    assert broken(opened) == []


def test_L3_a_fence_that_does_not_compare_is_caught(
    opened: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old owner commits after the new one."""
    monkeypatch.setattr(shoal.log.writer, "Fence", UncheckedFence)
    old = owner(opened)
    monkeypatch.setattr(shoal.log.writer, "Fence", Fence)
    steps(owner(opened), 2)
    steps(old, 1)
    assert "L3" in broken(opened)


def test_M1_an_owner_without_an_epoch_of_its_own_is_caught(opened: Root) -> None:
    """Two owners of one epoch could not tell each other's commits apart."""
    steps(owner(opened), 2)
    steps(owner(opened, SharingWriter), 1)
    assert "M1" in broken(opened)


def test_L2_a_repeated_step_is_caught(opened: Root) -> None:
    """One step is committed twice by one owner."""
    writer = owner(opened, RepeatingWriter)
    for _ in range(2):
        attempt, segments = write_parts(writer, parts=1, rng=random.Random(1), trace=str)
        info = {"attempt": str(attempt)}
        writer.commit(step=1, segments=segments, transactions={}, info=info)
        writer._fence.mark = Mark(writer.epoch, 0)
    assert "L2" in broken(opened)


def test_L1_a_commit_of_a_torn_file_is_caught(opened: Root) -> None:
    """A file lost its end between being written and being committed."""
    writer = owner(opened, HastyWriter)
    attempt, segments = write_parts(writer, parts=1, rng=random.Random(1), trace=str)
    path = writer.table.path / segments[0].path
    path.write_bytes(path.read_bytes()[:-100])
    info = {"attempt": str(attempt)}
    writer.commit(step=1, segments=segments, transactions={}, info=info)
    assert "L1" in broken(opened)


def test_L4_a_merge_that_removes_nothing_is_caught(
    opened: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are there twice."""
    writer = owner(opened)
    steps(writer, 4)
    apply = writer._apply

    def mutant(change: Change, *, mark: Mark) -> object:
        return apply(merge_and_keep(change), mark=mark)

    monkeypatch.setattr(writer, "_apply", mutant)
    writer.housekeep(horizon=None)
    assert "L4" in broken(opened)


@pytest.mark.parametrize(("kind", "caught"), [(Reader, False), (CarelessReader, True)])
def test_L4_a_reader_that_takes_moved_rows_for_new_is_caught(
    opened: Root, kind: type[Reader], caught: bool
) -> None:
    """A compaction lies between two polls."""
    reader = kind(opened, INSTANCE, after=0)
    writer = owner(opened)
    steps(writer, 4)
    rows = read_all(opened, reader)
    writer.housekeep(horizon=None)
    for step, again in read_all(opened, reader).items():
        rows.setdefault(step, []).extend(again)
    found = check(opened.table(INSTANCE).path, read=[rows])
    assert ("L4" in found.violations) == caught


def test_L4_a_reader_that_believes_a_stray_is_caught(
    opened: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer slept, its number was trimmed, and it put its own entry there."""
    upkeep = Upkeep(checkpoint_every=2, log_entries_kept=0)
    steps(owner(opened, upkeep=upkeep), 1)
    readers = [Reader(opened, INSTANCE, after=0) for _ in range(2)]
    for reader in readers:
        reader.poll(commits_max=1)
    path, content = _stray(opened)
    writer = owner(opened, upkeep=upkeep)
    steps(writer, 4)
    writer.housekeep(horizon=None)
    assert not path.exists(), "the number has been trimmed"
    path.write_bytes(content)
    read = [read_all(opened, readers[0])]
    assert sorted(read[0]) == [2, 3, 4, 5]
    assert check(opened.table(INSTANCE).path, read=read).violations == {}
    monkeypatch.setattr(shoal.log.reader, "read_entry", read_without_history)
    with pytest.raises(StorageError, match="does not run on"):
        read_all(opened, readers[1])


def _stray(opened: Root) -> tuple[Path, bytes]:
    """The entry of a step 2 that its owner could have committed, had it not been passed."""
    table = opened.table(INSTANCE)
    copy = Root.open(opened.path.parent / "copy")
    shutil.copytree(table.path, copy.table(INSTANCE).path)
    slept = owner(copy)
    mark = slept.epoch
    steps(slept, 1)
    entry = copy.table(INSTANCE).entry(slept._fence.version).read_text()
    # In the copy the owner had to take over first; the sleeper was the owner of epoch 1.
    entry = entry.replace(str(Mark(mark, 2).pack()), str(Mark(1, 2).pack()))
    for segment in slept.live.values():
        source, target = copy.table(INSTANCE).path / segment.path, table.path / segment.path
        target.exists() or shutil.copy(source, target)
    return table.entry(slept._fence.version - 1), entry.encode()
