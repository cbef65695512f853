"""A log of numbered objects: appended by one owner at a time, durable on return, kept short.

Every object is one file named by its number, created only if absent; numbers run on from 1
without a gap. An object holds a list of entries and the epoch of its owner. A claim is an object
without entries; it is what takes the log over.

Promises
    L1  an append is there whole or not at all, and there when `append` returned.
    L2  no two writers ever get the same number.
    L3  after a claim with a higher epoch (or a later claim with the same one) no earlier writer
        appends: the number that it would take next is taken by the claim.
    L4  a reader at any number sees every entry once, in order, or a snapshot in place of them.

Snapshots stand for all objects up to their number, so neither the count of files nor the time
to start grows without bound. Two are kept, and an object goes only when two snapshots cover it:
a damaged snapshot can be passed over. A writer that was stopped for long could find its number
free again because the object that took it was removed. So each append looks, after it, for a
snapshot at or above its number: there can be none unless somebody else has taken over. Readers
pass over objects that two snapshots cover, so such a stray is never believed.

    000...041.json           {"number": 41, "epoch": 3, "writer": "9f..", "entries": [...]}
    000...042.json
    snapshots/000...040.json {"number": 40, "epoch": 3, "writer": "9f..", "entries": [...]}

After an append that failed with a StorageError the outcome is open: claim again, read, decide.

Not here: what entries mean and how a snapshot condenses them (`rosterlog`, `journal`).
"""

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shoal.kernel.errors import Fenced, LocalError, StorageError
from shoal.log.durable import TEMPORARY_MARK, create_if_absent
from shoal.log.objects import JSON, encode, file_names, read_object
from shoal.log.root import make_folder

__all__ = ["NumberedLog", "Reading"]

#: Objects since the last snapshot before the next is worth its cost; at most SNAPSHOT_AFTER_MAX.
SNAPSHOT_AFTER = 128
SNAPSHOT_AFTER_MAX = 1024
#: A snapshot is also due early only when the objects since weigh this share of the last one.
SNAPSHOT_SHARE = 0.25
#: Snapshots kept: the newest, and one to fall back to.
SNAPSHOTS_KEPT = 2
#: How often a read or a claim starts again because the log moved on under it; a guess.
ATTEMPTS_MAX = 100
#: Seconds after which a file that was never finished belongs to a writer that died.
UNFINISHED_AGE_S = 3600

_OBJECT = re.compile(r"(\d{20})\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a read found: entries in order, up to this number.

    `whole` says that the entries begin with a snapshot and replace all that was read before.
    """

    number: int
    epoch: int
    whole: bool
    entries: tuple[JSON, ...]


class NumberedLog:
    """One log in one folder: any number of readers, one owner at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._snapshots = folder / "snapshots"
        self._epoch = 0
        #: Empty while this object may not append.
        self._writer = ""
        self._fenced = False
        self._number = 0
        self._objects_since = 0
        self._bytes_since = 0
        self._snapshot_bytes = 0

    @property
    def number(self) -> int:
        """The number of the last object this writer claimed or appended; 0 before a claim."""
        return self._number

    @property
    def claimed(self) -> bool:
        """True while this object may append; False after Fenced or an append that failed."""
        return bool(self._writer)

    @property
    def snapshot_due(self) -> bool:
        """True when a snapshot saves more than it costs."""
        if self._objects_since >= SNAPSHOT_AFTER_MAX:
            return True
        heavy = self._bytes_since >= self._snapshot_bytes * SNAPSHOT_SHARE
        return self._objects_since >= SNAPSHOT_AFTER and heavy

    def claim(self, epoch: int) -> Reading:
        """Take the log over for this epoch; returns all that it holds. Fences earlier writers."""
        if epoch < 1:
            raise LocalError(f"epoch {epoch} cannot own {self._folder}", detail="epochs begin at 1")
        if self._fenced and epoch <= self._epoch:
            raise self._lost(self._epoch, "it was fenced before, and that is for good")
        make_folder(self._snapshots)
        self._writer = ""
        writer = secrets.token_hex(8)
        for _ in range(ATTEMPTS_MAX):
            reading = self._read_whole()
            if reading.epoch > epoch:
                self._fenced, self._epoch = True, max(epoch, self._epoch)
                raise self._lost(epoch, f"it is at epoch {reading.epoch}")
            number = reading.number + 1
            if not self._create(number, epoch, writer, ()):
                continue
            if self._newest_snapshot() >= number:
                continue
            self._epoch, self._writer, self._number = epoch, writer, number
            self._fenced = False
            self._objects_since += 1
            self._remove_unfinished(number)
            return Reading(number=number, epoch=epoch, whole=True, entries=reading.entries)
        raise self._restless()

    def append(self, entries: Sequence[JSON]) -> int:
        """Add these entries as one object, durable on return; returns its number."""
        if not self._writer:
            raise LocalError(
                f"append to {self._folder} without a claim",
                detail="the log was never claimed, was lost to another owner, or an append failed",
                hint="claim it with the epoch of the instance's owner",
            )
        number, epoch, writer = self._number + 1, self._epoch, self._writer
        # Whatever interrupts the lines below leaves the outcome open until the next claim.
        self._writer = ""
        created = self._create(number, epoch, writer, entries)
        if not created or self._newest_snapshot() >= number:
            self._fenced = True
            raise self._lost(epoch, f"number {number} was taken by {self._taker(number)}")
        self._writer, self._number = writer, number
        self._objects_since += 1
        return number

    def snapshot(self, entries: Sequence[JSON]) -> None:
        """Let these entries stand for everything up to `number`, and remove what two cover."""
        if not self._writer:
            raise LocalError(f"snapshot of {self._folder} without a claim")
        data = self._encoded(self._number, self._epoch, self._writer, entries)
        create_if_absent(self._snapshots / f"{self._number:020d}.json", data)
        self._objects_since = self._bytes_since = 0
        self._snapshot_bytes = len(data)
        snapshots = _numbers(self._snapshots)
        if len(snapshots) < SNAPSHOTS_KEPT:
            return
        floor = snapshots[-SNAPSHOTS_KEPT]
        for number in _numbers(self._folder):
            if number > floor:
                break
            self._path(number).unlink(missing_ok=True)
        for number in snapshots[:-SNAPSHOTS_KEPT]:
            (self._snapshots / f"{number:020d}.json").unlink(missing_ok=True)

    def read(self, after: int) -> Reading:
        """Everything after this number; needs no ownership. A gap is an error."""
        for _ in range(ATTEMPTS_MAX):
            if self._floor() > after:
                return self._read_whole()
            objects = self._objects_after(after)
            # Believed only if no object of this range can have been removed meanwhile.
            if self._floor() <= after:
                return _reading(after, objects, whole=after == 0)
        raise self._restless()

    def _read_whole(self) -> Reading:
        for _ in range(ATTEMPTS_MAX):
            base = self._base()
            start = 0 if base is None else base["number"]
            objects = self._objects_after(start)
            if self._floor() <= start:
                self._objects_since = len(objects)
                self._bytes_since = sum(self._size(item["number"]) for item in objects)
                return _reading(start, objects if base is None else [base, *objects], whole=True)
        raise self._restless()

    def _base(self) -> dict[str, JSON] | None:
        """The newest snapshot that can be read, if there is any."""
        damage: StorageError | None = None
        snapshots = _numbers(self._snapshots)[-SNAPSHOTS_KEPT:]
        for number in reversed(snapshots):
            path = self._snapshots / f"{number:020d}.json"
            try:
                content = read_object(path)
                if content is not None:
                    self._snapshot_bytes = path.stat().st_size
                    return self._checked(path, number, content)
            except StorageError as error:
                damage = damage or error
            except FileNotFoundError:
                continue
        # Below two snapshots no object was ever removed: the objects alone are enough.
        if damage is not None and len(snapshots) == SNAPSHOTS_KEPT:
            raise damage
        return None

    def _objects_after(self, after: int) -> list[dict[str, JSON]]:
        """The objects numbered after + 1 up to the newest; a gap is an error."""
        objects: list[dict[str, JSON]] = []
        newest = max(_numbers(self._folder), default=0)
        # A listing beside a writer may show a number and not the one before: look for each.
        for number in range(after + 1, newest + 1):
            content = read_object(self._path(number))
            if content is None:
                if self._floor() > after:
                    return []
                raise StorageError(
                    f"object {number} of {self._folder} is missing",
                    detail=f"objects up to {newest} are there, and no snapshot covers the gap",
                    hint="was a file removed by hand? restore it from a backup",
                )
            objects.append(self._checked(self._path(number), number, content))
            epochs = [item["epoch"] for item in objects[-2:]]
            if epochs[-1] < epochs[0]:
                raise StorageError(
                    f"object {number} of {self._folder} is of an earlier epoch than the last",
                    detail=f"epoch {epochs[-1]} after {epochs[0]} (promise L3)",
                    hint="the root lets two writers create one file: run shoal doctor",
                )
        return objects

    def _checked(self, path: Path, number: int, content: dict[str, JSON]) -> dict[str, JSON]:
        entries, epoch = content.get("entries"), content.get("epoch")
        if (
            content.get("number") == number
            and isinstance(entries, list)
            and isinstance(epoch, int)
            and isinstance(content.get("writer"), str)
        ):
            return content
        raise StorageError(
            f"damaged file {path}",
            detail=f"it is not object {number} of a log: number, epoch, writer and entries",
            hint="was it copied or edited by hand? restore the file from a backup",
        )

    def _create(self, number: int, epoch: int, writer: str, entries: Sequence[JSON]) -> bool:
        data = self._encoded(number, epoch, writer, entries)
        created = create_if_absent(self._path(number), data)
        if created:
            self._bytes_since += len(data)
        return created

    def _encoded(self, number: int, epoch: int, writer: str, entries: Sequence[JSON]) -> bytes:
        return encode(
            {"number": number, "epoch": epoch, "writer": writer, "entries": list(entries)}
        )

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:020d}.json"

    def _size(self, number: int) -> int:
        try:
            return self._path(number).stat().st_size
        except FileNotFoundError:
            return 0

    def _newest_snapshot(self) -> int:
        return max(_numbers(self._snapshots), default=0)

    def _floor(self) -> int:
        """Objects up to here may have been removed."""
        snapshots = _numbers(self._snapshots)
        return snapshots[-SNAPSHOTS_KEPT] if len(snapshots) >= SNAPSHOTS_KEPT else 0

    def _taker(self, number: int) -> str:
        try:
            content = read_object(self._path(number))
        except StorageError:
            return "an object that cannot be read"
        return f"epoch {content.get('epoch')}" if content else "an owner that has moved on"

    def _remove_unfinished(self, number: int) -> None:
        """Remove what dead writers left behind; the age is told by the clock of the disk."""
        try:
            now = self._path(number).stat().st_mtime
            for path in self._folder.rglob(f"*{TEMPORARY_MARK}*"):
                if now - path.stat().st_mtime > UNFINISHED_AGE_S:
                    path.unlink(missing_ok=True)
        except FileNotFoundError:
            return

    def _lost(self, epoch: int, detail: str) -> Fenced:
        return Fenced(
            f"epoch {epoch} no longer owns the log {self._folder}",
            detail=detail,
            hint="another owner has taken over; stop this one",
        )

    def _restless(self) -> StorageError:
        return StorageError(
            f"cannot read {self._folder}",
            detail=f"it moved on {ATTEMPTS_MAX} times while it was read",
            hint="are many owners fighting for one instance? see who claims it",
        )


def _reading(after: int, objects: Sequence[dict[str, JSON]], *, whole: bool) -> Reading:
    return Reading(
        number=objects[-1]["number"] if objects else after,
        epoch=max((item["epoch"] for item in objects), default=0),
        whole=whole,
        entries=tuple(entry for item in objects for entry in item["entries"]),
    )


def _numbers(folder: Path) -> list[int]:
    """The numbers of the objects in a folder, in order; unfinished files have other names."""
    matches = [_OBJECT.fullmatch(name) for name in file_names(folder)]
    return sorted(int(match.group(1)) for match in matches if match)
