"""The source journal: the files that an ingest has found, each once, numbered in order.

A step of a file ingest reads files a + 1 to b of the journal and commits b as its position, so
it can be repeated exactly. The journal is owned by the epoch of the ingest.

Promises
    L2  a path is listed once. The first listing wins, whoever made it: an owner numbers files
        only after it has read every earlier listing, also those of the owners before it.
    L4  numbers run on from 1 without a gap; within one listing by (time of change, path).

Paths are not remembered for ever. A file that changed more than `forget_after` before the newest
file known is ignored and counted, as with maxFileAge of Structured Streaming, and its path is
forgotten; so memory goes with the files of that span. In the first listing every file counts,
however old. Time here is the files' own: a pause of the ingest loses nothing. A file dated ahead
of the ingest clock counts as of now, or one wrong date would make all others old.

    entry {"newest": ns, "pruned": 41, "files": [[42, "in/b.json", 1200, 1700000000, "b"], ...]}
    a snapshot has "seen", the paths below "pruned" that are not forgotten

Not here: listing a folder and telling its splits (`spark/ingest`), and the position of the
ingest (its table's commits).
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from shoal.kernel.errors import LocalError, StorageError
from shoal.kernel.time import DAY, Instant
from shoal.log.numbered import NumberedLog, Reading
from shoal.log.objects import JSON

__all__ = ["FORGET_AFTER", "Discovery", "FoundFile", "Journal", "JournalEntry"]

#: Microseconds; the default of maxFileAge in Structured Streaming.
FORGET_AFTER = 7 * DAY
#: Files in one object: bounds what is encoded at once (about 1 MB).
FILES_PER_OBJECT = 10_000
#: Paths remembered before it is worth looking for some to forget; a guess.
SWEEP_AFTER = 10_000

_NS_PER_US = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file as a listing shows it."""

    path: str
    size: int
    mtime_ns: int
    split: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """A file of the journal; `sequence` is what positions of the ingest count."""

    sequence: int
    path: str
    size: int
    mtime_ns: int
    split: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """What a listing added, and how many of its files were passed over because of their age."""

    appended: tuple[JournalEntry, ...]
    ignored: int


class Journal:
    """The journal in one folder. An owner claims and discovers; any other reader refreshes."""

    def __init__(self, folder: Path, *, forget_after: int) -> None:
        self._log = NumberedLog(folder)
        self._folder = folder
        self._forget_after_ns = forget_after * _NS_PER_US
        self._epoch = 0
        self._number = 0
        #: Threads that read a stream which is not stored come here while others add and prune.
        self._lock = threading.RLock()
        #: Everything up to this number was let go.
        self._pruned = 0
        self._files: list[JournalEntry] = []
        #: Paths not yet forgotten, with the time of change.
        self._seen: dict[str, int] = {}
        #: Each split's name once, however many files it has.
        self._splits: dict[str, str] = {}
        self._newest: int | None = None
        self._sweep_at = SWEEP_AFTER

    @property
    def head(self) -> int:
        """The number of the newest file; 0 when there is none."""
        return self._pruned + len(self._files)

    def claim(self, epoch: int) -> int:
        """Take the journal over for the ingest's new owner (L3); returns its head."""
        self._apply(self._log.claim(epoch))
        self._epoch = epoch
        self._condense()
        return self.head

    def refresh(self) -> int:
        """Read what an owner has added since; returns the head. Needs no ownership."""
        with self._lock:
            self._apply(self._log.read(self._number))
            return self.head

    def discover(self, files: Iterable[FoundFile], *, now: Instant) -> Discovery:
        """Add the files that are new, durable on return."""
        if not self._log.claimed and self._epoch:
            # An append failed and its outcome is open: what is on disk decides.
            self.claim(self._epoch)
        horizon = self._horizon()
        ignored = 0
        fresh: dict[str, FoundFile] = {}
        for file in files:
            if file.path in self._seen or file.path in fresh:
                continue
            if horizon is not None and file.mtime_ns < horizon:
                ignored += 1
                continue
            fresh[file.path] = file
        ordered = sorted(fresh.values(), key=lambda file: (file.mtime_ns, file.path))
        before = self.head
        for start in range(0, len(ordered), FILES_PER_OBJECT):
            self._append(ordered[start : start + FILES_PER_OBJECT], now)
        return Discovery(appended=self.entries(before, self.head), ignored=ignored)

    def entries(self, after: int, upto: int) -> tuple[JournalEntry, ...]:
        """The files numbered after + 1 to upto, or to the head if that is lower."""
        with self._lock:
            pruned = self._pruned
            if after >= pruned:
                return tuple(self._files[after - pruned : max(upto - pruned, 0)])
        raise StorageError(
            f"files {after + 1} to {pruned} of journal {self._folder} are gone",
            detail="they were pruned because the ingest had committed them",
            hint="a reader that still needs them must register a lease before it falls behind",
        )

    def prune(self, upto: int) -> None:
        """Let go of the files up to this committed position; durable with the next listing."""
        if upto > self.head:
            raise LocalError(
                f"journal {self._folder} cannot be pruned to {upto}",
                detail=f"its newest file is {self.head}",
            )
        with self._lock:
            if upto > self._pruned:
                del self._files[: upto - self._pruned]
                self._pruned = upto

    def _append(self, files: list[FoundFile], now: Instant) -> None:
        newest = max(min(file.mtime_ns, now * _NS_PER_US) for file in files)
        newest = newest if self._newest is None else max(newest, self._newest)
        rows = [
            [self.head + place, file.path, file.size, file.mtime_ns, file.split]
            for place, file in enumerate(files, start=1)
        ]
        entry = {"newest": newest, "pruned": self._pruned, "files": rows}
        self._number = self._log.append([entry])
        with self._lock:
            self._add(entry)
        if len(self._seen) > self._sweep_at:
            self._sweep()
        self._condense()

    def _condense(self) -> None:
        if not self._log.snapshot_due:
            return
        self._sweep()
        live = dict.fromkeys(file.path for file in self._files)
        entry = {
            "newest": self._newest,
            "pruned": self._pruned,
            "seen": [[path, ns] for path, ns in self._seen.items() if path not in live],
            "files": [
                [file.sequence, file.path, file.size, file.mtime_ns, file.split]
                for file in self._files
            ],
        }
        try:
            self._log.snapshot([entry])
        except StorageError:
            # What was acknowledged is durable without a snapshot, and the next append is due one.
            return

    def _apply(self, reading: Reading) -> None:
        try:
            with self._lock:
                if reading.whole:
                    self._pruned, self._files, self._seen, self._newest = 0, [], {}, None
                for entry in reading.entries:
                    self._add(entry)
        except (KeyError, TypeError, ValueError) as error:
            raise StorageError(
                f"journal {self._folder} holds an entry that cannot be read",
                detail=f"{type(error).__name__}: {error}",
                hint="was it written by a newer Shoal? use that one, or restore the journal",
            ) from error
        self._number = reading.number
        self._sweep()

    def _add(self, entry: dict[str, JSON]) -> None:
        if "seen" in entry:
            self._pruned = entry["pruned"]
            self._seen.update((path, mtime_ns) for path, mtime_ns in entry["seen"])
        for sequence, path, size, mtime_ns, split in entry["files"]:
            if sequence != self.head + 1:
                raise ValueError(f"file {sequence} follows file {self.head}")
            name = self._splits.setdefault(split, split)
            self._files.append(
                JournalEntry(sequence=sequence, path=path, size=size, mtime_ns=mtime_ns, split=name)
            )
            self._seen[path] = mtime_ns
        self._newest = entry["newest"]
        if entry["pruned"] > self.head:
            raise ValueError(f"pruned to {entry['pruned']}, beyond file {self.head}")
        self.prune(entry["pruned"])

    def _sweep(self) -> None:
        horizon = self._horizon()
        if horizon is not None:
            self._seen = {path: ns for path, ns in self._seen.items() if ns >= horizon}
        self._sweep_at = max(2 * len(self._seen), SWEEP_AFTER)

    def _horizon(self) -> int | None:
        """Files that changed before this are old; None before the first listing."""
        return None if self._newest is None else self._newest - self._forget_after_ns
