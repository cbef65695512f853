"""What was acknowledged is there after any crash; damage is said, never passed over."""

import errno
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.host.disk import store as module
from shoal.host.disk.store import Change, Store
from shoal.kernel.errors import StorageError, UserError
from tests.unit.host.disk.power import validate_store, validate_store_after_a_kill
from tests.unit.host.disk.writer import changes_of


def stored(home: Path) -> dict[str, bytes]:
    store = Store(home)
    values = dict(store.values)
    store.close()
    return values


def log_of(home: Path) -> Path:
    (path,) = (home / "store").glob("*.log")
    return path


def fill(home: Path, count: int = 5) -> list[dict[str, bytes]]:
    """The states after each batch."""
    store = Store(home)
    states = []
    for number in range(1, count + 1):
        store.write(changes_of(number))
        states.append(dict(store.values))
    store.close()
    return states


def test_values_stay(tmp_path: Path) -> None:
    store = Store(tmp_path / "deep" / "home")
    store.write([("ring/a", b"1"), ("ring/b", b"2")])
    store.write([("ring/a", b"3"), ("ring/b", None), ("ring/none", None)])
    store.close()
    store.close()
    assert stored(tmp_path / "deep" / "home") == {"ring/a": b"3"}


def test_only_its_user_may_read_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    fill(home)
    assert home.stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o077 for path in home.rglob("*")] == [0] * 3


def test_a_home_has_one_host(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(UserError, match="in use"):
        Store(tmp_path)
    store.close()
    Store(tmp_path).close()


def test_a_home_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("", encoding="utf-8")
    with pytest.raises(UserError, match="not a folder"):
        Store(tmp_path / "home")


def test_a_long_log_becomes_a_snapshot(tmp_path: Path) -> None:
    store = Store(tmp_path, log_bytes_max=500)
    twin: dict[str, bytes | None] = {}
    for number in range(1, 40):
        store.write(changes_of(number))
        twin |= dict(changes_of(number))
    files = sorted(path.name for path in (tmp_path / "store").iterdir())
    assert len(files) == 2
    assert files[0].removesuffix(".log") == files[1].removesuffix(".snapshot") > "0" * 16
    store.close()
    assert stored(tmp_path) == {key: value for key, value in twin.items() if value is not None}


@pytest.mark.parametrize("seed", range(20))
def test_a_torn_last_batch_is_cut_off(tmp_path: Path, seed: int) -> None:
    """Any part of the last batch is missing or garbage: the state before it, and it goes on."""
    states = fill(tmp_path)
    path = log_of(tmp_path)
    data = path.read_bytes()
    last = data.rindex(b"SHL1")
    draw = random.Random(seed)
    cut = draw.randrange(last + 1, len(data))
    garbage = draw.randbytes(draw.choice([0, 1, len(data) - cut, 4_096]))
    path.write_bytes(data[:cut] + garbage)
    store = Store(tmp_path)
    assert dict(store.values) == states[-2]
    assert store.mended == cut - last + len(garbage)
    store.write(changes_of(5))
    store.close()
    assert stored(tmp_path) == states[-1]


@pytest.mark.parametrize("where", ["head", "payload"])
def test_damage_before_the_end_is_an_alarm(tmp_path: Path, where: str) -> None:
    fill(tmp_path)
    path = log_of(tmp_path)
    data = bytearray(path.read_bytes())
    second = data.index(b"SHL1", 1)
    data[second + (8 if where == "head" else 30)] ^= 1
    path.write_bytes(data)
    with pytest.raises(StorageError, match="damaged") as raised:
        Store(tmp_path)
    assert "batch 2" in raised.value.detail
    assert raised.value.hint
    with pytest.raises(StorageError):  # the lock was given back
        Store(tmp_path)


def test_a_batch_that_is_missing_is_an_alarm(tmp_path: Path) -> None:
    fill(tmp_path)
    path = log_of(tmp_path)
    data = path.read_bytes()
    second = data.index(b"SHL1", 1)
    third = data.index(b"SHL1", second + 1)
    path.write_bytes(data[:second] + data[third:])
    with pytest.raises(StorageError, match="damaged"):
        Store(tmp_path)


@pytest.mark.parametrize("how", ["damaged", "missing"])
def test_a_snapshot_is_never_torn(tmp_path: Path, how: str) -> None:
    store = Store(tmp_path, log_bytes_max=1)
    store.write([("a", b"1" * 100)])
    store.close()
    (path,) = (tmp_path / "store").glob("*.snapshot")
    if how == "damaged":
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
    else:
        path.unlink()
    with pytest.raises(StorageError, match="damaged"):
        Store(tmp_path)


@pytest.mark.parametrize("step", range(4))
def test_a_crash_while_folding(tmp_path: Path, step: int) -> None:
    """The files as they are before each step of a fold: nothing is lost, nothing comes back."""
    store = Store(tmp_path)
    store.write([("a", b"1"), ("gone", b"1")])
    store.write([("gone", None)])
    store.close()
    before = tmp_path / "before"
    shutil.copytree(tmp_path / "store", before)
    store = Store(tmp_path, log_bytes_max=1)
    store.write([("b", b"2")])
    store.close()
    folder = tmp_path / "store"
    log, snapshot = folder / f"{1:016d}.log", folder / f"{1:016d}.snapshot"
    assert sorted(folder.iterdir()) == [log, snapshot]
    if step <= 2:  # the old files are not yet removed
        shutil.copy(before / f"{0:016d}.log", folder)
    if step <= 1:  # the new log is not yet there
        log.unlink()
    if step == 0:  # the snapshot is not yet whole
        snapshot.rename(folder / f"{snapshot.name}.unfinished-1")
        assert stored(tmp_path) == {"a": b"1"}
    else:
        assert stored(tmp_path) == {"a": b"1", "b": b"2"}
    assert len(list(folder.iterdir())) == (1 if step == 0 else 2)


def failing(code: int) -> Callable[..., int]:
    def fail(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    return fail


@pytest.mark.parametrize("call", ["write", "fsync"])
@pytest.mark.parametrize(
    ("code", "hint"),
    [(errno.ENOSPC, "free space"), (errno.EIO, "sound disk"), (errno.EROFS, "read-only")],
)
def test_after_a_failed_write_nothing_more_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int, hint: str
) -> None:
    """What a disk holds after a failed sync is unknown, so nobody builds on it."""
    store = Store(tmp_path)
    store.write([("a", b"1")])
    with monkeypatch.context() as patch:
        patch.setattr(module.os, call, failing(code))
        with pytest.raises(StorageError) as raised:
            store.write([("a", b"2")])
    assert hint in raised.value.hint
    assert errno.errorcode[code] in raised.value.detail
    assert store.values == {"a": b"1"}
    with pytest.raises(StorageError, match="no more writes"):
        store.write([("a", b"3")])
    store.close()
    assert stored(tmp_path)["a"] in (b"1", b"2")


def test_a_disk_that_takes_only_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes of the system may be short; the batch is written whole all the same."""
    store = Store(tmp_path)
    whole = os.write
    monkeypatch.setattr(module.os, "write", lambda fd, data: whole(fd, bytes(data[:7])))
    store.write([("a", b"x" * 1_000)])
    store.close()
    assert stored(tmp_path) == {"a": b"x" * 1_000}


@pytest.mark.parametrize(
    ("code", "hint"), [(errno.EACCES, "mode 0700"), (errno.EROFS, "mounted read-only")]
)
def test_a_home_that_cannot_be_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, hint: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(module.os, "open", failing(code))
        with pytest.raises(StorageError, match="cannot open") as raised:
            Store(tmp_path)
    assert hint in raised.value.hint
    Store(tmp_path).close()


def test_a_closed_store_takes_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.close()
    with pytest.raises(StorageError, match="no more writes"):
        store.write([("a", b"1")])


CHANGES = st.lists(st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.binary())), min_size=1)


@pytest.mark.slow
@settings(max_examples=30)
@given(batches=st.lists(CHANGES, max_size=8), power=st.data())
def test_a_loss_of_power_keeps_a_prefix(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Change]], power: st.DataObject
) -> None:
    """Whatever of the last batch reached the disk: every earlier one is whole."""
    home = tmp_path_factory.mktemp("home")
    store = Store(home)
    states: list[dict[str, bytes]] = [{}]
    ends = [0]
    for batch in batches:
        store.write(batch)
        states.append(dict(store.values))
        ends.append(log_of(home).stat().st_size)
    store.close()
    cut = power.draw(st.integers(0, ends[-1]))
    os.truncate(log_of(home), cut)
    survived = sum(end <= cut for end in ends) - 1
    assert stored(home) == states[survived]


def test_H1_what_was_acknowledged_survives_a_loss_of_power_at_every_moment(tmp_path: Path) -> None:
    """Between any two calls, with any of what was not synced lost, torn or kept."""
    assert validate_store(tmp_path / "disk") > 20


@pytest.mark.slow
def test_H1_what_a_killed_process_left_unsynced_is_not_built_on(tmp_path: Path) -> None:
    """Killed before each call of its life, started anew; then the power goes."""
    assert validate_store_after_a_kill(tmp_path / "disk") > 25


@pytest.mark.slow
def test_killed_at_any_moment(tmp_path: Path) -> None:
    """Six lives of a process that is killed while it writes; nothing acknowledged is missing."""
    draw = random.Random(7)
    number = 0
    for _ in range(6):
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.unit.host.disk.writer", str(tmp_path), str(number)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        with process.stdout as lines:
            for _ in range(draw.randrange(1, 60)):
                number = int(next(lines))
            process.kill()
            number = max([number, *(int(line) for line in lines if line.endswith("\n"))])
        process.wait()
        found = stored(tmp_path)
        later = int(found["a"][: len(found["a"]) // _times(found["a"])])
        assert later in (number, number + 1)  # the last may be there without being acknowledged
        number = later
        twin: dict[str, bytes | None] = {}
        for one in range(1, number + 1):
            twin |= dict(changes_of(one))
        assert found == {key: value for key, value in twin.items() if value is not None}


def _times(value: bytes) -> int:
    """How often the number stands in a value: its last digits say how often they are repeated."""
    for digits in range(1, 8):
        if len(value) % digits == 0 and value == value[:digits] * (len(value) // digits):
            times = len(value) // digits
            if int(value[:digits]) % 50 + 1 == times:
                return times
    raise AssertionError(value)
