"""Whether a table keeps the promises L1 to L4, judged from its files after the fact.

    L1  every file that the newest state names is there, whole, with the rows it claims
    L2  no step was committed twice, and none was left out
    L3  epochs never fall, and each epoch begins with one take-over (M1)
    L4  the rows of every step are there once: as many as its commit added, with no identity
        twice; and the library sees the same files as our own readers

It reads what entries are kept, and the `_step` and `_id` of all live rows: a check for tests and
for `shoal doctor`, not for every step. It takes no part in ownership and changes nothing.

What is not here: what rows should say; that is the oracle's.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.log.entries import (
    Entry,
    Mark,
    Snapshot,
    lowest_version,
    newest_version,
    read_entry,
    read_snapshot,
)
from shoal.log.fence import open_handle
from shoal.log.root import Root, TableDir
from shoal.log.segment import STEP_COLUMN, Segment

__all__ = ["Violation", "validate"]

#: Columns that together tell the rows of one step apart, as far as a table has them.
IDENTITY = ("_query", "_version", "_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A broken promise, by its name, and where."""

    promise: str
    detail: str


def validate(root: Root, instance: str) -> tuple[Violation, ...]:
    """What is wrong with the instance's table; empty where all promises hold."""
    table = root.table(instance)
    snapshot = read_snapshot(table)
    newest = newest_version(table)
    entries = [
        entry
        for version in range(lowest_version(table), newest + 1)
        if (entry := read_entry(table, version)) is not None
    ]
    return (
        *_files(table, snapshot),
        *_run(entries),
        *_rows(table, snapshot, entries),
        *_library(table, snapshot),
    )


def _files(table: TableDir, snapshot: Snapshot) -> Iterator[Violation]:
    """L1: what is named is there."""
    for segment in snapshot.segments.values():
        path = table.path / segment.path
        try:
            size, rows = path.stat().st_size, pq.read_metadata(path).num_rows
        except (OSError, pa.ArrowException) as error:
            yield Violation(promise="L1", detail=f"{segment.path}: {error}")
            continue
        if (size, rows) != (segment.bytes, segment.rows):
            detail = f"{segment.path}: {size} bytes, {rows} rows, not {segment.bytes}"
            yield Violation(promise="L1", detail=detail)


def _run(entries: list[Entry]) -> Iterator[Violation]:
    """L2 and L3: marks run on."""
    last: Mark | None = None
    for entry in entries:
        mark = entry.mark
        where = f"version {entry.version}: {mark} after {last}"
        if mark is None:
            if entry.new:
                yield Violation(promise="L2", detail=f"{where}: rows without a step")
            continue
        if last is not None:
            if mark.epoch < last.epoch:
                yield Violation(promise="L3", detail=where)
            if entry.kind == "take-over" and mark.epoch != last.epoch + 1:
                yield Violation(promise="M1", detail=where)
            if entry.kind != "take-over" and mark.epoch > last.epoch:
                yield Violation(promise="L3", detail=f"{where}: no take-over")
            if mark.step != last.step + (entry.kind == "step"):
                yield Violation(promise="L2", detail=where)
        if entry.new and entry.kind != "step":
            yield Violation(promise="L2", detail=f"{where}: rows in a {entry.kind}")
        last = mark


def _rows(table: TableDir, snapshot: Snapshot, entries: list[Entry]) -> Iterator[Violation]:
    """L4: the rows of each step, once."""
    found: Counter[int] = Counter()
    identities: Counter[tuple[int, ...]] = Counter()
    for segment in snapshot.segments.values():
        for step, *rest in _identities(table, segment):
            found[step] += 1
            identities[(step, *rest)] += 1
    for row, count in identities.items():
        if count > 1 and len(row) > 1:
            yield Violation(promise="L4", detail=f"{count} times the row {row}")
    for entry in entries:
        if entry.mark is None or entry.kind != "step" or entry.mark.step <= snapshot.retained:
            continue
        added = sum(segment.rows for segment in entry.new)
        there = found[entry.mark.step]
        if added != there:
            detail = f"step {entry.mark.step}: {added} rows committed, {there} there"
            yield Violation(promise="L4", detail=detail)


def _identities(table: TableDir, segment: Segment) -> Iterator[tuple[int, ...]]:
    """(step, identity ...) of each row; nothing where the file cannot be read, which is L1's."""
    try:
        with pq.ParquetFile(table.path / segment.path) as file:
            names = [n for n in (STEP_COLUMN, *IDENTITY) if n in file.schema_arrow.names]
            rows = file.read(columns=names, use_threads=False)
    except (OSError, pa.ArrowException):
        return
    if STEP_COLUMN in names:
        yield from zip(*(rows.column(name).to_pylist() for name in names), strict=True)


def _library(table: TableDir, snapshot: Snapshot) -> Iterator[Violation]:
    """L4: outside readers see what ours see, unless the table just went on."""
    handle = open_handle(table)
    if handle.version() != snapshot.version:
        return
    seen = {uri.rpartition(f"/{table.instance}/")[2]: True for uri in handle.file_uris()}
    for path in (*snapshot.segments, *seen):
        if (path in seen) != (path in snapshot.segments):
            yield Violation(promise="L4", detail=f"{path}: not the same files for the library")
