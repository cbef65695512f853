"""What keeps a table small and quick: checkpoints, a short log, few segments, no leftovers.

Only the owner does any of it, between steps. What changes the table goes through the owner's
fence: a compaction or a retention is an entry that repeats the owner's mark, so a stale owner's
is refused like its commits are.

    checkpoint   every 20 entries, synced; then entries far below it move to `_history`
    compact      segments of one partition and size class are merged when there are 32 of them,
                 sorted by (_step, event time, _id); results of many queries by query first, so
                 that who reads one of them skips the others. Three classes and the `ok` and `late`
                 partitions keep a table below 256 small segments, and a row is rewritten at
                 most three times. Rows keep their `_step`, so L4 holds across it.
    expire       segments whose rows all have an earlier event time than is kept leave the table,
                 from the oldest step on and never past a registered reader
    sweep        files that no snapshot names are deleted when a commit can no longer want them
                 (their name's epoch and step have passed), when no registered reader may still
                 come to them by the entries (their step is at or below the horizon), and when
                 this owner has seen them unreferenced for the grace. One rule serves orphans of
                 crashed steps and files that compaction replaced.

What is not here: which reader is lowest (leases); the order of these in `Writer.housekeep`.
"""

import contextlib
import os
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.kernel.time import Instant
from shoal.log.durable import replace, sync_file, sync_folder
from shoal.log.entries import Mark, lowest_version
from shoal.log.root import TableDir, make_folder
from shoal.log.segment import (
    ROW_GROUP_ROWS,
    STEP_COLUMN,
    Segment,
    SegmentName,
    write_segment,
)

__all__ = [
    "Housekept",
    "Sweeper",
    "Upkeep",
    "ended_below",
    "merge",
    "plan_merge",
    "sync_checkpoint",
    "trim",
]

#: Whose result a row is, in tables that many queries share; rows of a row group of theirs once
#: they are merged: what a reader of one query reads of a segment at least.
QUERY_COLUMN = "_query"
QUERY_GROUP_ROWS = 16_384
#: Above every step: what a segment says that does not know its own.
_STEPS_MAX = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """How a table is kept; reasons for the defaults: docs/decisions/0002."""

    #: Entries between checkpoints; 10 to 20 cost least: 5.5 ms a commit; 6.1 at 5, 10 at 100.
    checkpoint_every: int = 20
    #: Entries left in the log below a checkpoint. Each costs every commit 5 to 10 microseconds;
    #: a foreign reader that takes longer than this many commits to open the table must retry.
    log_entries_kept: int = 100
    #: Hours that trimmed entries stay readable; far above any pause of a process.
    history_hours: float = 24.0
    #: Segments of one class that make a merge due; 3 classes of 2 partitions stay below 256.
    merge_from: int = 32
    #: Upper bytes of the size classes; what is larger is never merged.
    merge_classes: tuple[int, ...] = (128 << 10, 2 << 20, 32 << 20)
    #: Bytes of one merge, so that its memory is bounded (times five to ten in Arrow).
    merge_bytes_max: int = 64 << 20
    #: Seconds between looks at the folder for files to delete.
    sweep_every_s: float = 60.0
    #: Seconds a file stays after it was first seen unreferenced: the longest planned read.
    grace_s: float = 600.0
    #: Hours after which what a crashed step left in the staging folder is deleted.
    staging_hours: float = 24.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Housekept:
    """What one call did."""

    checkpointed: bool
    merged: int
    deleted: int


def plan_merge(live: Iterable[Segment], upkeep: Upkeep) -> tuple[Segment, ...]:
    """The segments to merge next, oldest first; empty where nothing is due."""
    classes: dict[tuple[tuple[tuple[str, str], ...], int], list[Segment]] = defaultdict(list)
    for segment in live:
        size_class = next(
            (i for i, limit in enumerate(upkeep.merge_classes) if segment.bytes < limit), None
        )
        if size_class is not None:
            classes[tuple(sorted(segment.partition.items())), size_class].append(segment)
    for _, members in sorted(classes.items(), key=lambda item: item[0]):
        if len(members) < upkeep.merge_from:
            continue
        members.sort(key=lambda segment: (segment.min_step, segment.path))
        chosen: list[Segment] = []
        total = 0
        for segment in members:
            total += segment.bytes
            if len(chosen) >= 2 and total > upkeep.merge_bytes_max:
                break
            chosen.append(segment)
        return tuple(chosen)
    return ()


def ended_below(live: Iterable[Segment], *, column: str, before: Instant) -> int:
    """The greatest step below which every segment has only rows with an earlier event time.

    Retention goes by steps, because readers do: so a segment that must stay keeps all that come
    after it. Where the statistics do not tell, it must stay.
    """
    ended: list[int] = []
    staying: list[int] = []
    for segment in live:
        latest = segment.latest(column)
        over = latest is not None and latest < before and segment.max_step < _STEPS_MAX
        (ended if over else staying).append(segment.max_step)
    first = min(staying, default=_STEPS_MAX)
    return max((step + 1 for step in ended if step < first), default=0)


def merge(
    table: TableDir, segments: Sequence[Segment], *, mark: Mark, event_time: str | None
) -> Segment:
    """One segment with the rows of these, in the order of the stream; results by query."""
    parts = [
        pq.read_table(table.path / segment.path, partitioning=None, use_threads=False)
        for segment in segments
    ]
    rows = pa.concat_tables(parts, promote_options="default")
    order = (QUERY_COLUMN, STEP_COLUMN, event_time, "_id")
    keys = [name for name in order if name in rows.column_names]
    if keys:
        rows = rows.sort_by([(name, "ascending") for name in keys if name is not None])
    return write_segment(
        table,
        rows,
        epoch=mark.epoch,
        step=mark.step,
        part="merged",
        partition=segments[0].partition,
        group_rows=QUERY_GROUP_ROWS if QUERY_COLUMN in rows.column_names else ROW_GROUP_ROWS,
    )


def sync_checkpoint(table: TableDir, version: int) -> None:
    """Make a checkpoint durable, which must be before anything that it stands for is trimmed."""
    for path in (table.checkpoint(version), table.log / "_last_checkpoint"):
        sync_file(path)
    sync_folder(table.log)


def trim(table: TableDir, *, below: int, upkeep: Upkeep, now_s: float) -> None:
    """Move entries below this version to the history, and drop what is too old from there."""
    lowest = lowest_version(table)
    moved = [path for path in table.log.iterdir() if _version_in(path.name, below)]
    if moved:
        make_folder(table.history)
    for path in moved:
        if path.suffix == ".json" and int(path.stem) >= lowest:
            # What is in the history already is the truth: then this one is a stray of a writer
            # that slept, and it only goes.
            with contextlib.suppress(FileExistsError):
                os.link(path, table.history / path.name)
    if moved:
        sync_folder(table.history)
    for path in moved:
        path.unlink(missing_ok=True)
    _forget(table, lowest=lowest, older_than_s=now_s - upkeep.history_hours * 3600)


@dataclass(slots=True)
class Sweeper:
    """Deletes files that nothing names; remembers since when it has seen each so."""

    table: TableDir
    upkeep: Upkeep
    clock_s: Callable[[], float] = time.monotonic
    _since_s: dict[str, float] = field(default_factory=dict)
    _last_s: float | None = None

    def due(self) -> bool:
        """Whether it is time to look again."""
        now_s = self.clock_s()
        return self._last_s is None or now_s - self._last_s >= self.upkeep.sweep_every_s

    def sweep(self, *, live: Mapping[str, Segment], mark: Mark, horizon: int | None) -> int:
        """Delete what may go; the number of files deleted."""
        now_s = self._last_s = self.clock_s()
        unnamed = {path: name for path, name in _files(self.table) if path not in live}
        self._since_s = {path: self._since_s.get(path, now_s) for path in unnamed}
        deleted = 0
        for path, name in unnamed.items():
            past = Mark(name.epoch, name.step) <= mark
            unread = horizon is None or name.step <= horizon
            if past and unread and now_s - self._since_s[path] >= self.upkeep.grace_s:
                (self.table.path / path).unlink(missing_ok=True)
                del self._since_s[path]
                deleted += 1
        _clear_staging(self.table, older_than_s=time.time() - self.upkeep.staging_hours * 3600)
        return deleted


def _version_in(name: str, below: int) -> bool:
    """Whether a name in the log is an entry, a checkpoint or a leftover of a lower version."""
    number = name[:20]
    return number.isdecimal() and len(number) == 20 and int(number) < below


def _forget(table: TableDir, *, lowest: int, older_than_s: float) -> None:
    """Delete entries of the history that are too old; record first that they are gone."""
    version = lowest
    while True:
        try:
            if table.entry_kept(version).stat().st_mtime >= older_than_s:
                break
        except FileNotFoundError:
            break
        version += 1
    if version == lowest:
        return
    replace(table.history / "lowest.json", b'{"version": %d}' % version)
    for number in range(lowest, version):
        table.entry_kept(number).unlink(missing_ok=True)


def _files(table: TableDir) -> Iterable[tuple[str, SegmentName]]:
    """Every segment's file in the folder of the table and of its partitions."""
    for folder, folders, names in os.walk(table.path):
        # Partition columns begin with an underscore too; those folders have an equals sign.
        folders[:] = [name for name in folders if not name.startswith("_") or "=" in name]
        for file_name in names:
            parsed = SegmentName.parse(file_name)
            if parsed is not None:
                path = Path(folder, file_name).relative_to(table.path).as_posix()
                yield path, parsed


def _clear_staging(table: TableDir, *, older_than_s: float) -> None:
    """Delete what crashed steps left with Spark's own names."""
    if not table.staging.is_dir():
        return
    for path in table.staging.iterdir():
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_mtime >= older_than_s:
                continue
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()
