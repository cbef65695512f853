"""Entries of the transaction log, read as files: one entry, the newest, and the state they give.

An entry is `_delta_log/<version>.json`. Reading these files costs microseconds where a handle of
the library costs milliseconds, and gives what the library does not: all application
transactions, and which rows are new. The log is kept short because every commit lists it; older
entries are moved to `_history`.

Which file to believe. A writer that slept while its number was trimmed can create that number
again (docs/decisions/0002). Therefore an entry is moved by linking it to `_history` before its
name in the log is freed, and a reader that finds a number in both places believes `_history`.
Below `_history/lowest.json` nothing is believed: readers go to a snapshot.

Which file is whole. Every entry of ours states its number of lines. After a power loss the last
one may be torn; it was never acknowledged and counts as absent until it is mended.

What is not here: following entries as positions (reader), writing them (writer), moving them
(housekeep).
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.kernel.errors import StorageError
from shoal.log.root import TableDir
from shoal.log.segment import Segment, segment_from_stats

__all__ = [
    "APPLICATION",
    "RETAINED",
    "RETAINED_TIME",
    "Entry",
    "Mark",
    "Snapshot",
    "lowest_version",
    "newest_version",
    "parse_entry",
    "read_entry",
    "read_snapshot",
]

#: The one application id that fences an instance (module fence).
APPLICATION = "shoal"
#: Transactions of retention: the greatest step whose rows it may have removed, and the greatest
#: event time of any row that it has.
RETAINED = "retained"
RETAINED_TIME = "retained/time"
STEP_BITS = 40
_CHECKPOINT_COLUMNS = ["txn", "add.path", "add.size", "add.partitionValues", "add.stats"]
#: Attempts to read a snapshot while the log is trimmed under the reader.
ATTEMPTS_MAX = 20


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """(epoch, step), recorded as one integer: the version of the fencing transaction."""

    epoch: int
    step: int

    @classmethod
    def unpack(cls, version: int | None) -> "Mark":
        """The mark in a transaction's version; (0, 0) where nobody has owned the table yet."""
        number = version or 0
        return cls(number >> STEP_BITS, number & ((1 << STEP_BITS) - 1))

    def pack(self) -> int:
        """The version of the transaction."""
        return self.epoch << STEP_BITS | self.step


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of the transaction log.

    `new` are segments with rows that were not in the table before; `moved` those that hold rows
    of others that `gone` names (compaction). `kind` and `info` are what the writer said.
    """

    version: int
    mark: Mark | None
    transactions: Mapping[str, int]
    new: tuple[Segment, ...]
    moved: tuple[Segment, ...]
    gone: tuple[str, ...]
    lost: tuple[str, ...]
    nonce: str
    kind: str
    info: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The table at one version: who owned it, all transactions, every live segment by path."""

    version: int
    mark: Mark
    transactions: Mapping[str, int]
    segments: Mapping[str, Segment]

    @property
    def retained(self) -> int:
        """Rows up to this step may be gone; all later ones are there."""
        return self.transactions.get(RETAINED, 0)


def parse_entry(version: int, data: bytes) -> Entry | None:
    """The entry in these bytes, or None if they are torn."""
    try:
        lines = [json.loads(line) for line in data.splitlines()]
    except ValueError:
        return None
    if not lines or not all(isinstance(line, dict) for line in lines):
        return None
    said: dict[str, Any] = {}
    for line in lines:
        said = line.get("commitInfo", {}).get("shoal", said)
    if said and said["lines"] != len(lines):
        return None
    adds = [line["add"] for line in lines if "add" in line]
    removes = [line["remove"] for line in lines if "remove" in line]
    transactions = {
        line["txn"]["appId"]: int(line["txn"]["version"]) for line in lines if "txn" in line
    }
    fence = transactions.get(APPLICATION)
    return Entry(
        version=version,
        mark=None if fence is None else Mark.unpack(fence),
        transactions=transactions,
        new=tuple(_segment(add) for add in adds if add.get("dataChange", True)),
        moved=tuple(_segment(add) for add in adds if not add.get("dataChange", True)),
        gone=tuple(r["path"] for r in removes if not r.get("dataChange", True)),
        lost=tuple(r["path"] for r in removes if r.get("dataChange", True)),
        nonce=said.get("nonce", ""),
        kind=said.get("kind", ""),
        info=said.get("info", {}),
    )


def read_entry(table: TableDir, version: int) -> Entry | None:
    """The entry to believe under this number; None where there is none, or a torn one."""
    # In this order: an entry is linked to the history before its name in the log is freed. Plain
    # strings, because an idle reader does nothing but this.
    data = _bytes(f"{table.path}/_delta_log/{version:020d}.json")
    kept = _bytes(f"{table.path}/_history/{version:020d}.json")
    if kept is not None:
        data = kept
    return None if data is None else parse_entry(version, data)


def newest_version(table: TableDir) -> int:
    """The greatest version of the table; -1 where there is no table."""
    version = _base(table)
    while table.entry(version + 1).exists() or table.entry_kept(version + 1).exists():
        version += 1
    return version


def lowest_version(table: TableDir) -> int:
    """Entries below this version are gone for good and never to be believed again."""
    data = _bytes(f"{table.path}/_history/lowest.json")
    return 0 if data is None else int(json.loads(data)["version"])


def read_snapshot(table: TableDir) -> Snapshot:
    """The newest state of the table: the last checkpoint and the entries after it."""
    for _ in range(ATTEMPTS_MAX):
        found = _try_snapshot(table)
        if found is not None:
            return found
    raise StorageError(
        f"cannot read the table of {table.instance}",
        detail=f"no whole checkpoint with the entries after it in {table.log}",
        hint="an owner mends a torn checkpoint when it takes over; else restore from a backup",
    )


@dataclass(slots=True)
class _Build:
    """A snapshot that is being put together."""

    transactions: dict[str, int] = field(default_factory=dict)
    segments: dict[str, Segment] = field(default_factory=dict)

    def apply(self, entry: Entry) -> None:
        for path in (*entry.gone, *entry.lost):
            self.segments.pop(path, None)
        for segment in (*entry.new, *entry.moved):
            self.segments[segment.path] = segment
        self.transactions.update(entry.transactions)

    def load(self, checkpoint: pa.Table) -> None:
        for row in checkpoint.to_pylist():
            if row["txn"] is not None:
                self.transactions[row["txn"]["appId"]] = row["txn"]["version"]
            elif row["add"] is not None:
                segment = _segment(row["add"])
                self.segments[segment.path] = segment


def _try_snapshot(table: TableDir) -> Snapshot | None:
    """One attempt; None if a file vanished on the way, as trimming makes them do."""
    build = _Build()
    version = _base(table)
    if version >= 0:
        try:
            with pq.ParquetFile(table.checkpoint(version)) as file:
                build.load(file.read(columns=_CHECKPOINT_COLUMNS, use_threads=False))
        except (OSError, pa.ArrowException):
            return None
    while (entry := read_entry(table, version + 1)) is not None:
        build.apply(entry)
        version += 1
    if version < 0:
        return None
    return Snapshot(
        version=version,
        mark=Mark.unpack(build.transactions.get(APPLICATION)),
        transactions=build.transactions,
        segments=build.segments,
    )


def _base(table: TableDir) -> int:
    """The version of a checkpoint from which all later entries can be read; -1 is the start."""
    hint = _bytes(f"{table.path}/_delta_log/_last_checkpoint")
    try:
        version = int(json.loads(hint or b"")["version"])
    except (ValueError, KeyError, TypeError):
        version = -1
    # A stale owner may have set the hint back to a version whose successors are gone.
    if version + 1 < lowest_version(table) or (version < 0 and not table.entry(0).exists()):
        found = [path.name for path in table.log.glob("*.checkpoint.parquet")]
        version = max((int(name.partition(".")[0]) for name in found), default=-1)
    return version


def _segment(add: Mapping[str, Any]) -> Segment:
    partition = dict(add["partitionValues"] or {})
    return segment_from_stats(
        path=add["path"], size=add["size"], partition=partition, stats=add.get("stats")
    )


def _bytes(path: str) -> bytes | None:
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            return open(descriptor, "rb", buffering=0, closefd=False).readall()
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(
            f"cannot read {path}",
            detail=str(error.strerror),
            hint="look at the rights and the disk of the root, and at the limit of open files",
        ) from error
