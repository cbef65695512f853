"""The few things of a peer that survive a loss of power: its durable store.

    <home>/store/0000000000000007.snapshot    everything up to a point, replaced as a whole
    <home>/store/0000000000000007.log         what was written since, batch behind batch

What a batch is, as bytes, is `wire/batches.py`. `write` returns when its batch is on disk. A crash
can tear only the batch that nobody was told about; it is cut off at the next start. Damage anywhere
else means that something acknowledged is lost, and the store refuses to open. After a failed write
or sync nothing more is written: what the disk holds is unknown until it is read again.

A process that is killed leaves files that are there and not yet on disk: names too are synced at
each start, not only when they are made.

Promises   H1  once `write` has returned its batch is there, after any crash and loss of power; a
           batch is there as a whole or not at all. One process at a time has a home.
Not here   what the keys mean (machines, `disk/identity.py`); whether the disk keeps its word.
"""

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from shoal.kernel.errors import LocalError, StorageError, UserError
from shoal.log.durable import TEMPORARY_MARK, replace, sync_folder
from shoal.wire.batches import Change, batch, replay

__all__ = ["LOG_BYTES_MAX", "Change", "Store"]

#: A longer log is folded into a snapshot. At 1 MiB it is read in about 10 ms; a guess.
LOG_BYTES_MAX = 1 << 20


class Store:
    """Values by key, in memory and on disk. One thread at a time calls `write`."""

    def __init__(self, home: Path, *, log_bytes_max: int = LOG_BYTES_MAX) -> None:
        self._folder = home / "store"
        self._log_bytes_max = log_bytes_max
        self._values: dict[str, bytes] = {}
        self._number = 0
        self._generation = 0
        self._size = 0
        self._file = -1
        self._broken = ""
        #: Bytes of a torn batch that were cut off when the store was opened.
        self.mended = 0
        with _explained("open", home):
            _make_folder(home)
            self._lock = _lock(home)
            try:
                _make_folder(self._folder)
                self._load()
            except BaseException:
                self.close()
                raise

    @property
    def values(self) -> Mapping[str, bytes]:
        """What is stored."""
        return self._values

    def write(self, changes: Sequence[Change]) -> None:
        """Store the changes as one; they are on disk when this returns."""
        if self._broken or self._file < 0:
            raise StorageError(
                f"store {self._folder} takes no more writes",
                detail=self._broken or "it is closed",
                hint="start the host again: what the disk holds is read afresh",
            )
        data = batch(self._number + 1, changes)
        try:
            with _explained("write to", self._folder):
                _write_all(self._file, data)
                os.fsync(self._file)
        except StorageError as error:
            self._broken = error.what
            raise
        self._number += 1
        self._size += len(data)
        self._apply(changes)
        if self._size > self._log_bytes_max:
            self._fold()

    def close(self) -> None:
        """Give the home back."""
        for descriptor in (self._file, self._lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._lock = -1

    def _apply(self, changes: Sequence[Change]) -> None:
        for key, value in changes:
            if value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = value

    def _path(self, kind: str, generation: int) -> Path:
        return self._folder / f"{generation:016d}.{kind}"

    def _load(self) -> None:
        """Read the newest snapshot and the log behind it; cut off a torn end."""
        snapshots = _generations(self._folder, "snapshot")
        logs = _generations(self._folder, "log")
        self._generation = max(snapshots, default=0)
        if logs and max(logs) > self._generation:
            raise _damaged(self._path("snapshot", max(logs)), "it is missing, but its log is there")
        if snapshots:
            self._load_snapshot()
        self._open_log()
        for path in self._folder.iterdir():
            old = path.suffix in (".snapshot", ".log") and not path.name.startswith(
                f"{self._generation:016d}."
            )
            if old or TEMPORARY_MARK in path.name:
                path.unlink()

    def _load_snapshot(self) -> None:
        path = self._path("snapshot", self._generation)
        data = path.read_bytes()
        found = replay(data, None)
        if found.end != len(data) or not data:
            raise _damaged(path, "its checksum does not fit")
        self._number = found.number
        self._apply(found.changes)

    def _open_log(self) -> None:
        path = self._path("log", self._generation)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        os.fsync(self._file)
        _sync_names(self._folder)
        data = path.read_bytes()
        found = replay(data, self._number)
        if found.damage:
            raise _damaged(path, found.damage)
        self._number = found.number
        self._apply(found.changes)
        self._size = found.end
        self.mended = len(data) - self._size
        if self.mended:
            os.ftruncate(self._file, self._size)
            os.fsync(self._file)

    def _fold(self) -> None:
        """Begin the next generation with a snapshot of everything."""
        generation = self._generation + 1
        old = self._file
        try:
            everything: list[Change] = list(self._values.items())
            replace(self._path("snapshot", generation), batch(self._number, everything))
            with _explained("write to", self._folder):
                flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
                self._file = os.open(self._path("log", generation), flags, 0o600)
                os.fsync(self._file)
                _sync_names(self._folder)
        except StorageError as error:
            self._broken = error.what
            raise
        finally:
            if self._file != old:
                os.close(old)
        self._generation = generation
        self._size = 0
        for kind in ("log", "snapshot"):  # in this order: a log without snapshot is an alarm
            self._path(kind, generation - 1).unlink(missing_ok=True)


def _generations(folder: Path, kind: str) -> list[int]:
    return [int(path.stem) for path in folder.glob(f"*.{kind}") if path.stem.isdigit()]


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _sync_names(folder: Path) -> None:
    """Return when the names in a folder are on disk; an error is told as one of the home."""
    try:
        sync_folder(folder)
    except StorageError as error:
        raise (error.__cause__ or error) from None


def _make_folder(folder: Path) -> None:
    places = (folder, *folder.parents)
    missing = [place for place in places if not place.exists()]
    last = places[len(missing)] if len(missing) < len(places) else places[-1]
    if os.access(last.parent, os.R_OK | os.W_OK):  # else it was not us who made it
        _sync_names(last.parent)
    for place in reversed(missing):
        place.mkdir(mode=0o700, exist_ok=True)
        _sync_names(place.parent)
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder", hint="give another --home")


def _lock(home: Path) -> int:
    """The right to use the home, for as long as the descriptor is open."""
    descriptor = os.open(home / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise UserError(
            f"home {home} is in use",
            detail="another host has locked it",
            hint="stop that host first, or give this one a --home of its own",
        ) from error
    return descriptor


def _damaged(path: Path, why: str) -> StorageError:
    return StorageError(
        f"store file {path} is damaged",
        detail=f"{why}; something that was acknowledged may be lost",
        hint="move the home away and start with an empty one: the peer gets a new incarnation and "
        "learns the rest from the others",
    )


_HINTS = {
    errno.ENOSPC: "free space on the disk of the home, then start the host again",
    errno.EDQUOT: "free space within the quota of the host's user, then start the host again",
    errno.EROFS: "the home is mounted read-only; mount it for writing or give another --home",
    errno.EACCES: "give the home to the user that runs the host (mode 0700)",
    errno.EPERM: "give the home to the user that runs the host (mode 0700)",
    errno.EIO: "the disk of the home fails; give another --home on a sound disk",
}


@contextlib.contextmanager
def _explained(verb: str, path: Path) -> Iterator[None]:
    """An error of the operating system as one of ours, in three parts."""
    try:
        yield
    except LocalError:
        raise
    except OSError as error:
        raise StorageError(
            f"cannot {verb} {path}",
            detail=f"{error.strerror} ({errno.errorcode.get(error.errno or 0, 'no code')})",
            hint=_HINTS.get(error.errno or 0, "look at the disk and the mount of the home"),
        ) from error
