"""The numbered log: durable, gapless, fenced, short, and safe from writers that wake up late."""

import os
import random
from pathlib import Path
from typing import Any

import pytest

from shoal.kernel.errors import Fenced, LocalError, StorageError
from shoal.log import numbered
from shoal.log.durable import TEMPORARY_MARK, create_if_absent
from shoal.log.numbered import SNAPSHOT_AFTER, NumberedLog
from shoal.log.objects import read_object
from tests.unit.log import crash


def test_append_and_read(tmp_path: Path) -> None:
    log = NumberedLog(tmp_path / "log")
    assert log.claim(1).entries == ()
    assert log.append(["a", {"b": 1}]) == 2
    assert log.append([]) == 3
    assert log.append(["c"]) == 4
    other = NumberedLog(tmp_path / "log")
    reading = other.read(0)
    assert reading.entries == ("a", {"b": 1}, "c")
    assert (reading.number, reading.epoch, reading.whole) == (4, 1, True)
    assert other.read(2).entries == ("c",)
    assert not other.read(2).whole
    assert other.read(4).entries == ()
    assert other.read(4).number == 4


def test_nothing_there(tmp_path: Path) -> None:
    reading = NumberedLog(tmp_path / "none").read(0)
    assert (reading.number, reading.epoch, reading.entries) == (0, 0, ())


def test_only_a_claim_may_append(tmp_path: Path) -> None:
    log = NumberedLog(tmp_path)
    with pytest.raises(LocalError, match="without a claim"):
        log.append([1])
    with pytest.raises(LocalError, match="without a claim"):
        log.snapshot([1])
    with pytest.raises(LocalError, match="epoch 0"):
        log.claim(0)


def test_L3_a_claim_fences_earlier_owners(tmp_path: Path) -> None:
    old, new = NumberedLog(tmp_path), NumberedLog(tmp_path)
    old.claim(1)
    old.append(["old"])
    assert new.claim(2).entries == ("old",)
    with pytest.raises(Fenced) as caught:
        old.append(["late"])
    assert "epoch 2" in caught.value.detail
    with pytest.raises(Fenced):
        old.claim(1)
    with pytest.raises(Fenced):
        NumberedLog(tmp_path).claim(1)
    new.append(["new"])
    assert NumberedLog(tmp_path).read(0).entries == ("old", "new")


def test_L3_the_later_claim_of_one_epoch_wins(tmp_path: Path) -> None:
    first, second = NumberedLog(tmp_path), NumberedLog(tmp_path)
    first.claim(1)
    second.claim(1)
    with pytest.raises(Fenced):
        first.append(["late"])
    with pytest.raises(Fenced):
        first.claim(1)
    second.append(["on"])
    first.claim(2)
    with pytest.raises(Fenced):
        second.append(["late"])


def test_a_claim_meets_appends_of_a_lower_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = NumberedLog(tmp_path), NumberedLog(tmp_path)
    old.claim(1)
    appended: list[int] = []

    def interrupted(path: Path, data: bytes) -> bool:
        if len(appended) < 3:
            monkeypatch.setattr(numbered, "create_if_absent", create_if_absent)
            appended.append(old.append([len(appended)]))
            monkeypatch.setattr(numbered, "create_if_absent", interrupted)
        return create_if_absent(path, data)

    monkeypatch.setattr(numbered, "create_if_absent", interrupted)
    assert new.claim(2).entries == (0, 1, 2)
    with pytest.raises(Fenced):
        old.append(["late"])


def test_snapshots_bound_files_and_reading(tmp_path: Path) -> None:
    log = NumberedLog(tmp_path)
    log.claim(1)
    for value in range(3 * SNAPSHOT_AFTER):
        log.append([value])
        if log.snapshot_due:
            log.snapshot([["all", value]])
    assert len(list(tmp_path.iterdir())) <= 2 * SNAPSHOT_AFTER + 2
    assert len(list((tmp_path / "snapshots").iterdir())) == 2
    behind = NumberedLog(tmp_path).read(3)
    assert behind.whole
    assert behind.entries[0] == ["all", 3 * SNAPSHOT_AFTER - 2]
    assert behind.entries[-1] == 3 * SNAPSHOT_AFTER - 1
    again = NumberedLog(tmp_path)
    assert again.claim(2).entries == behind.entries
    assert again.append(["on"]) == log.number + 2


def test_a_damaged_snapshot_is_passed_over(tmp_path: Path) -> None:
    log = NumberedLog(tmp_path)
    log.claim(1)
    for value in range(9):
        log.append([value])
        if value % 3 == 2:
            log.snapshot([["all", value]])
    newest, older = sorted((tmp_path / "snapshots").iterdir(), reverse=True)
    newest.write_bytes(b'{"number": 10, "ep')
    assert NumberedLog(tmp_path).read(0).entries == (["all", 5], 6, 7, 8)
    older.write_bytes(b"")
    with pytest.raises(StorageError, match="damaged"):
        NumberedLog(tmp_path).read(0)


def test_the_only_snapshot_is_damaged(tmp_path: Path) -> None:
    log = NumberedLog(tmp_path)
    log.claim(1)
    log.append(["a"])
    log.snapshot(["a"])
    next((tmp_path / "snapshots").iterdir()).write_bytes(b"")
    assert NumberedLog(tmp_path).read(0).entries == ("a",)


def test_L2_a_writer_that_wakes_up_late_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number was taken, condensed and removed: the file that it creates is a stray."""
    old, new = NumberedLog(tmp_path), NumberedLog(tmp_path)
    old.claim(1)
    reader = NumberedLog(tmp_path).read(0).number

    def asleep(path: Path, data: bytes) -> bool:
        monkeypatch.setattr(numbered, "create_if_absent", create_if_absent)
        new.claim(2)
        for value in range(4):
            new.append([value])
            new.snapshot([["all", value]])
        assert not path.exists()
        created = create_if_absent(path, data)
        assert created
        return created

    monkeypatch.setattr(numbered, "create_if_absent", asleep)
    with pytest.raises(Fenced):
        old.append(["stray"])
    assert (tmp_path / f"{2:020d}.json").exists()
    for after in (0, reader, 3):
        assert NumberedLog(tmp_path).read(after).entries == (["all", 3],)
    new.append([4])
    new.snapshot([["all", 4]])
    assert not (tmp_path / f"{2:020d}.json").exists()


def test_a_reader_that_the_log_overtakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects vanish between the listing and the reading: the snapshot takes their place."""
    log = NumberedLog(tmp_path)
    log.claim(1)
    for value in range(4):
        log.append([value])
    moved: list[int] = []

    def overtaken(path: Path) -> dict[str, Any] | None:
        if not moved:
            moved.append(1)
            log.snapshot([["all", 3]])
            log.append([4])
            log.snapshot([["all", 4]])
        return read_object(path)

    monkeypatch.setattr(numbered, "read_object", overtaken)
    reading = NumberedLog(tmp_path).read(1)
    assert reading.whole
    assert reading.entries == (["all", 4],)


def test_a_gap_is_an_error(tmp_path: Path) -> None:
    log = NumberedLog(tmp_path)
    log.claim(1)
    for value in range(5):
        log.append([value])
    (tmp_path / f"{4:020d}.json").unlink()
    with pytest.raises(StorageError, match="object 4") as caught:
        NumberedLog(tmp_path).read(0)
    assert caught.value.detail
    assert caught.value.hint
    assert NumberedLog(tmp_path).read(4).entries == (3, 4)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b'{"number": 9, "epoch": 1, "writer": "w", "entries": []}',
        b'{"number": 2, "epoch": "1", "writer": "w", "entries": []}',
        b'{"number": 2, "epoch": 1, "writer": "w", "entries": {}}',
        b'{"number": 2, "epoch": 1, "writer": "w", "entries": [1',
    ],
)
def test_damaged_objects(tmp_path: Path, data: bytes) -> None:
    log = NumberedLog(tmp_path)
    log.claim(1)
    log.append([1])
    (tmp_path / f"{2:020d}.json").write_bytes(data)
    with pytest.raises(StorageError) as caught:
        NumberedLog(tmp_path).read(0)
    assert str(tmp_path) in caught.value.what
    assert caught.value.detail
    assert caught.value.hint


def test_an_epoch_that_falls_is_an_error(tmp_path: Path) -> None:
    NumberedLog(tmp_path).claim(5)
    data = b'{"number": 2, "epoch": 4, "writer": "w", "entries": []}'
    (tmp_path / f"{2:020d}.json").write_bytes(data)
    with pytest.raises(StorageError, match="earlier epoch"):
        NumberedLog(tmp_path).read(0)


def test_after_a_failed_append_the_disk_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = NumberedLog(tmp_path)
    log.claim(1)

    def unsure(path: Path, data: bytes) -> bool:
        create_if_absent(path, data)
        raise StorageError("the folder could not be synced")

    monkeypatch.setattr(numbered, "create_if_absent", unsure)
    with pytest.raises(StorageError):
        log.append(["landed"])
    monkeypatch.undo()
    assert not log.claimed
    with pytest.raises(LocalError, match="without a claim"):
        log.append(["again"])
    assert log.claim(1).entries == ("landed",)
    log.append(["on"])
    assert log.read(0).entries == ("landed", "on")


def test_unfinished_files_are_ignored_and_removed(tmp_path: Path) -> None:
    log = NumberedLog(tmp_path)
    log.claim(1)
    old = tmp_path / f"{2:020d}.json{TEMPORARY_MARK}aa"
    new = tmp_path / f"{2:020d}.json{TEMPORARY_MARK}bb"
    for path in (old, new):
        path.write_bytes(b'{"number": 2')
    os.utime(old, (0, 0))
    assert log.read(0).entries == ()
    log.claim(2)
    assert not old.exists()
    assert new.exists()


def test_huge_entries(tmp_path: Path) -> None:
    log = NumberedLog(tmp_path)
    log.claim(1)
    log.append(["x" * 5_000_000, 1 << 200])
    assert log.read(0).entries == ("x" * 5_000_000, 1 << 200)


@pytest.mark.slow
def test_L1_killed_at_any_call(tmp_path: Path) -> None:
    crash.run("numbered", tmp_path, kills=10, rng=random.Random(7))


def test_a_listing_that_misses_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a writer a listing may show a number and not the one before."""
    log = NumberedLog(tmp_path)
    log.claim(1)
    for value in range(4):
        log.append([value])
    missed = f"{3:020d}.json"
    monkeypatch.setattr(
        numbered, "file_names", lambda folder: [n for n in os.listdir(folder) if n != missed]
    )
    assert NumberedLog(tmp_path).read(0).entries == (0, 1, 2, 3)
