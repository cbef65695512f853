"""A disk that forgets what was not synced, under the real store: promise H1 at every moment.

What the store asks of the operating system is done in a folder, and written down: which names and
which bytes are on disk for certain, and which only in memory. Before each of these calls the power
may go. All that the disk may hold then is laid out in another folder, a store is opened there, and
what was acknowledged must be in it, as whole batches and nothing else.

    names    since the folder was synced, each step may be on disk or not
    bytes    since the file was synced: none of them, a part, or all

A file is not on disk before it is synced, and neither is its name before its folder is. Some file
systems are kinder; none promises to be.

Not here   a disk that says it has synced and has not; blocks that rot.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, combinations, product
from pathlib import Path
from typing import Any

import pytest

from shoal.host.disk.store import Change, Store
from shoal.kernel.errors import StorageError

__all__ = ["validate_store", "validate_store_after_a_kill"]

#: With more steps in one folder than this, beginnings and ends of them are tried, not all subsets.
_STEPS_ALL_MAX = 5
#: Folds twice, each time with something to write behind it.
_BATCHES: Sequence[Sequence[Change]] = (
    [("a", b"1" * 30), ("b", b"2")],
    [("a", b"3"), ("gone", b"4" * 20)],
    [("gone", None), ("b", b"5" * 90)],
    [("c", b"6")],
    [("a", None), ("d", b"7" * 150)],
    [("e", b"8")],
)
_LOG_BYTES_MAX = 120
_CALLS = ("open", "close", "write", "ftruncate", "fsync", "mkdir", "unlink", "replace")

_State = dict[str, bytes]
_Names = dict[str, Any]
_Step = Callable[[_Names], object]


class _Killed(BaseException):
    """The process is gone; what the kernel knows stays."""


@dataclass(eq=False)
class _File:
    """One file: its bytes now, and those that are on disk."""

    path: Path
    now: bytes = b""
    synced: bytes = b""

    def look(self) -> None:
        """Read what is there; of a file that was removed, keep what was there last."""
        if self.path.exists():
            self.now = self.path.read_bytes()

    def sync(self) -> None:
        """Its bytes are on disk."""
        self.look()
        self.synced = self.now

    def left(self, share: float) -> bytes:
        """What is there if so much of what was not synced has reached the disk."""
        self.look()
        if share == 0.0 or not self.now.startswith(self.synced):
            return self.now if share else self.synced
        return self.now[: len(self.synced) + int((len(self.now) - len(self.synced)) * share)]


@dataclass(eq=False)
class _Folder:
    """One folder: its names now, those on disk, and what changed in between, step by step."""

    now: _Names = field(default_factory=dict)
    synced: _Names = field(default_factory=dict)
    steps: list[_Step] = field(default_factory=list)

    def step(self, change: _Step) -> None:
        """Change names; only in memory so far."""
        change(self.now)
        self.steps.append(change)

    def sync(self) -> None:
        """Its names are on disk."""
        self.synced = dict(self.now)
        self.steps.clear()

    def left(self) -> Iterator[_Names]:
        """All that may have become of its names."""
        count = len(self.steps)
        numbers = range(count)
        chosen: Iterator[Sequence[int]] = chain.from_iterable(
            combinations(numbers, size) for size in range(count + 1)
        )
        if count > _STEPS_ALL_MAX:
            chosen = chain((numbers[:end] for end in numbers), (numbers[at:] for at in numbers))
        for subset in chosen:
            names = dict(self.synced)
            for number in subset:
                self.steps[number](names)
            yield names


class _Disk:
    """Everything below one folder; while `under` holds, the functions of `os` go through here."""

    def __init__(self, base: Path, judge: Callable[[_Names], None]) -> None:
        self._base = base
        self._judge = judge
        self._root = _Folder()
        self._descriptors: dict[int, _File | _Folder] = {}
        self._real = {name: getattr(os, name) for name in _CALLS}
        self._asleep = False
        #: Calls so far, and the one before which the process is killed; 0 is never.
        self.calls = 0
        self.kill_at = 0
        #: Whether the power may go.
        self.judging = True

    @contextmanager
    def under(self) -> Iterator[None]:
        """Let the calls of this block go through here."""
        with pytest.MonkeyPatch.context() as patch:
            for name in _CALLS:
                patch.setattr(os, name, getattr(self, f"on_{name}"))
            yield

    def restart(self) -> None:
        """The process was killed: its descriptors are closed, the kernel knows what it knew."""
        self.kill_at = 0
        for descriptor in tuple(self._descriptors):
            self.on_close(descriptor)

    # --- calls of the store ---------------------------------------------------------------------

    def on_open(self, path: Any, flags: int, mode: int = 0o777, **more: Any) -> int:
        file = Path(path)
        created = bool(flags & os.O_CREAT) and not file.exists()
        ours = self._before(file)
        descriptor: int = self._real["open"](path, flags, mode, **more)
        if ours:
            if created:
                self._folder(file).step(_added(file.name, _File(file)))
            self._descriptors[descriptor] = self._node(file)
        return descriptor

    def on_close(self, descriptor: int) -> None:
        self._descriptors.pop(descriptor, None)
        self._real["close"](descriptor)

    def on_write(self, descriptor: int, data: Any) -> int:
        self._before(descriptor)
        written: int = self._real["write"](descriptor, data)
        return written

    def on_ftruncate(self, descriptor: int, length: int) -> None:
        self._before(descriptor)
        self._real["ftruncate"](descriptor, length)

    def on_fsync(self, descriptor: int) -> None:
        """Only written down: the disk below this one need not survive anything."""
        if self._before(descriptor):
            self._descriptors[descriptor].sync()

    def on_mkdir(self, path: Any, mode: int = 0o777, **more: Any) -> None:
        ours = self._before(Path(path))
        self._real["mkdir"](path, mode, **more)
        if ours:
            self._folder(Path(path)).step(_added(Path(path).name, _Folder()))

    def on_unlink(self, path: Any, **more: Any) -> None:
        ours = self._before(Path(path))
        self._real["unlink"](path, **more)
        if ours:
            self._folder(Path(path)).step(_removed(Path(path).name))

    def on_replace(self, path: Any, to: Any, **more: Any) -> None:
        old, new = Path(path), Path(to)
        ours = self._before(old)
        self._real["replace"](path, to, **more)
        if ours:
            node = self._node(old)
            assert isinstance(node, _File)
            node.path = new
            self._folder(old).step(_renamed(old.name, new.name, node))

    # --- the power ------------------------------------------------------------------------------

    def look(self) -> None:
        """Judge all that the disk may hold if the power goes now."""
        if not self.judging:
            return
        self._asleep = True
        try:
            for share in (0.0, 0.5, 1.0):
                for left in self._left(self._root, share):
                    self._judge(left)
        finally:
            self._asleep = False

    def _before(self, what: Path | int) -> bool:
        """Whether a call is about something here; before it the process or the power may go."""
        here = (
            what in self._descriptors if isinstance(what, int) else what.is_relative_to(self._base)
        )
        if self._asleep or not here:
            return False
        self.calls += 1
        if 0 < self.kill_at <= self.calls:
            raise _Killed
        self.look()
        return True

    def _left(self, folder: _Folder, share: float) -> Iterator[_Names]:
        for names in folder.left():
            below = [
                list(self._left(node, share)) if isinstance(node, _Folder) else [node.left(share)]
                for node in names.values()
            ]
            for found in product(*below):
                yield dict(zip(names, found, strict=True))

    def _node(self, path: Path) -> _File | _Folder:
        node: _File | _Folder = self._root
        for part in path.relative_to(self._base).parts:
            assert isinstance(node, _Folder)
            node = node.now[part]
        return node

    def _folder(self, path: Path) -> _Folder:
        folder = self._node(path.parent)
        assert isinstance(folder, _Folder)
        return folder


def _added(name: str, node: _File | _Folder) -> _Step:
    return lambda names: names.__setitem__(name, node)


def _removed(name: str) -> _Step:
    return lambda names: names.pop(name, None)


def _renamed(old: str, new: str, node: _File) -> _Step:
    return lambda names: (names.pop(old, None), names.__setitem__(new, node))


class _Judge:
    """Opens a store on what is left, and compares."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._seen: dict[str, None] = {}
        #: What was acknowledged, and what may be there instead because its write is under way.
        self.allowed: list[_State] = [{}]

    def __call__(self, left: _Names) -> None:
        sign = repr((left, self.allowed))
        if sign in self._seen:
            return
        self._seen[sign] = None
        shutil.rmtree(self._place, ignore_errors=True)
        _lay_out(self._place, left)
        try:
            found = values_of(self._place / "home")
        except StorageError as error:
            raise AssertionError(f"H1: {error.what} ({error.detail}): {left}") from error
        assert found in self.allowed, f"H1: {found} is there, not {self.allowed[0]}: {left}"


def validate_store(folder: Path, store: type[Store] = Store) -> int:
    """H1 at every moment of a store's life; how many states of the disk were looked at."""
    judge = _Judge(folder / "judged")
    disk = _new_disk(folder, judge)
    with disk.under():
        for half in (_BATCHES[:3], _BATCHES[3:]):
            _live(store, folder, judge, half)
        disk.look()
    return len(judge._seen)


def validate_store_after_a_kill(folder: Path, store: type[Store] = Store) -> int:
    """H1 where the process was killed before a call, began anew, and then the power went.

    What a process has left unsynced, the next one must not build on. Returns the number of kills.
    """
    for kill_at in range(1, 1_000):
        shutil.rmtree(folder, ignore_errors=True)
        judge = _Judge(folder / "judged")
        disk = _new_disk(folder, judge)
        disk.kill_at, disk.judging = kill_at, False
        with disk.under():
            try:
                _live(store, folder, judge, _BATCHES[:4])
            except _Killed:
                disk.restart()
            else:
                return kill_at - 1
            judge.allowed = [{}, *judge.allowed]
            opened = store(folder / "real" / "home", log_bytes_max=_LOG_BYTES_MAX)
            assert dict(opened.values) in judge.allowed[1:]
            judge.allowed = [dict(opened.values)]
            disk.judging = True
            _write(opened, judge, [("z", b"9")])
            disk.look()
            opened.close()
    raise AssertionError("it never ended")


def values_of(home: Path) -> _State:
    """What a store that is opened there holds."""
    store = Store(home)
    values = dict(store.values)
    store.close()
    return values


def _new_disk(folder: Path, judge: _Judge) -> _Disk:
    base = folder / "real"
    base.mkdir(parents=True)
    return _Disk(base, judge)


def _live(
    kind: type[Store], folder: Path, judge: _Judge, batches: Sequence[Sequence[Change]]
) -> None:
    store = kind(folder / "real" / "home", log_bytes_max=_LOG_BYTES_MAX)
    for changes in batches:
        _write(store, judge, changes)
    store.close()


def _write(store: Store, judge: _Judge, changes: Sequence[Change]) -> None:
    before = judge.allowed[0]
    after = {key: value for key, value in {**before, **dict(changes)}.items() if value is not None}
    judge.allowed = [before, after]
    store.write(changes)
    judge.allowed = [after]


def _lay_out(place: Path, names: _Names) -> None:
    place.mkdir(parents=True)
    for name, node in names.items():
        if isinstance(node, dict):
            _lay_out(place / name, node)
        else:
            (place / name).write_bytes(node)
