"""What a power loss can tear, found and set aside before an instance is taken over.

The library does not sync. What Shoal acknowledged was synced by us, so only
what was never acknowledged can be torn: the last entry of the transaction log, or a checkpoint
whose entries are all still there. Both are moved to `_mended` with their names; nothing else is
touched. Promises L1 (a torn commit becomes an absent one) and L2 (its number and step are free).

Several processes may mend at once: a file lock makes one wait for the other, and the file is
judged only under the lock, so nobody sets aside an entry that was written after its judgement.
A process that dies gives the lock back.

What is not here: damage to what was synced. That is found by `validate` and needs a backup.
"""

import fcntl
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.kernel.errors import StorageError
from shoal.log.durable import sync_file, sync_folder
from shoal.log.entries import parse_entry
from shoal.log.root import TableDir, make_folder

__all__ = ["mend"]


def mend(table: TableDir) -> tuple[str, ...]:
    """Set torn files aside, sync the last entry; the names of what was set aside."""
    make_folder(table.log)
    with _locked(table):
        names = sorted(path.name for path in table.log.iterdir())
        entries = [name for name in names if name.endswith(".json")]
        torn = [name for name in names if _is_torn_checkpoint(table.log / name)]
        if entries and _is_torn_entry(table.log / entries[-1]):
            torn.append(entries.pop())
        if any(name.endswith(".parquet") for name in torn):
            # The hint may name it; without a hint every reader lists the log.
            torn += [name for name in names if name == "_last_checkpoint"]
        for name in torn:
            _set_aside(table, name)
        if entries:
            _sync_entry(table, entries[-1])
    return tuple(torn)


def _sync_entry(table: TableDir, name: str) -> None:
    """Whoever builds on an entry must not survive it."""
    try:
        sync_file(table.log / name)
    except StorageError:
        # A process that slept here may find it trimmed; then a synced checkpoint stands for it.
        if (table.log / name).exists():
            raise
    sync_folder(table.log)


def _is_torn_entry(path: Path) -> bool:
    try:
        return parse_entry(0, path.read_bytes()) is None
    except FileNotFoundError:
        return False


def _is_torn_checkpoint(path: Path) -> bool:
    if not path.name.endswith(".checkpoint.parquet"):
        return False
    try:
        with pq.ParquetFile(path) as file:
            file.read(columns=["txn"], use_threads=False)
    except FileNotFoundError:
        return False
    except (OSError, pa.ArrowException):
        return True
    return False


def _set_aside(table: TableDir, name: str) -> None:
    make_folder(table.mended)
    (table.log / name).rename(table.mended / f"{name}.{secrets.token_hex(4)}")
    sync_folder(table.mended)
    sync_folder(table.log)


@contextmanager
def _locked(table: TableDir) -> Iterator[None]:
    with open(table.path / "_mend.lock", "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
