"""The one owner of an instance: takes it over, commits its steps, keeps its table.

Promises (the fence holds L3 and M1)
    L1  A commit is visible whole or not at all: files are synced before it and looked at again.
    L2  No step is committed twice; steps run on without a gap.

    take over   an entry without rows that records (epoch + 1, step)
    commit      rows, and (epoch, step + 1)
    compact     moved rows, and (epoch, step) again, so the same fence refuses a stale owner
    retain      lost rows, (epoch, step) again, and the greatest step that may have lost some

A writer that was fenced, or that cannot learn what became of its commit, stops for good. Its
instance goes on with whoever takes it over next. One writer may be used from several threads;
different writers commit at the same time (the library and every sync release the GIL).

What is not here: what the rows are; how compaction chooses (housekeep); reading (reader).
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import pyarrow as pa
from deltalake import DeltaTable, Schema

from shoal.kernel.errors import Fenced, LocalError, StorageError, UserError
from shoal.kernel.time import Instant
from shoal.log.durable import sync_file, sync_folder
from shoal.log.entries import (
    APPLICATION,
    RETAINED,
    RETAINED_TIME,
    Entry,
    Mark,
    read_snapshot,
)
from shoal.log.fence import Change, Fence, open_handle, refused
from shoal.log.housekeep import (
    Housekept,
    Sweeper,
    Upkeep,
    ended_below,
    merge,
    plan_merge,
    sync_checkpoint,
    trim,
)
from shoal.log.mend import mend
from shoal.log.root import Root, TableDir, make_folder
from shoal.log.segment import Segment, SegmentName

__all__ = ["EVENT_TIME_PROPERTY", "Commit", "Writer"]

#: Table property that names the event-time column, by which compaction sorts.
EVENT_TIME_PROPERTY = "shoal.event_time"
#: Takers of one instance at one time that make each other try again.
TAKE_OVERS_MAX = 200
#: Merges of one `housekeep`, so that a step never waits for a long backlog.
MERGES_MAX = 4
#: Above every instant.
_NEVER = 1 << 62
#: Entries since the last checkpoint at which `commit` makes one by itself.
CHECKPOINT_OVERDUE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One atomic addition to a stream.

    `segments` hold the rows of steps `first_step` to `step`, which are one step but where a
    reader had to go to a snapshot: then they may hold other rows too, to be left out by `_step`.
    `transactions` are those that this commit wrote (all of them where it came from a snapshot).
    """

    version: int
    epoch: int
    step: int
    first_step: int
    segments: tuple[Segment, ...]
    transactions: Mapping[str, int]
    info: Mapping[str, str]


def _untraced(point: str) -> None:
    """The trace of production: none. Tests stop or kill the process at the named points."""


class Writer:
    """The owner of one instance from `take_over` until it is fenced."""

    def __init__(
        self, table: TableDir, *, owner: str, upkeep: Upkeep, trace: Callable[[str], None]
    ) -> None:
        self.table = table
        self._upkeep = upkeep
        self._trace = trace
        self._lock = threading.RLock()
        self._fence = Fence(table, owner=owner, trace=trace)
        self._event_time = self._fence.property(EVENT_TIME_PROPERTY)
        self._transactions: dict[str, int] = {}
        self._live: dict[str, Segment] = {}
        self._checkpoint_version = 0
        self._sweeper = Sweeper(table=table, upkeep=upkeep)

    @property
    def instance(self) -> str:
        """The instance that this writer owns."""
        return self.table.instance

    @property
    def epoch(self) -> int:
        """The number of this owner."""
        return self._fence.mark.epoch

    @property
    def step(self) -> int:
        """The step committed last."""
        return self._fence.mark.step

    @property
    def transactions(self) -> Mapping[str, int]:
        """All application transactions after the last commit."""
        return MappingProxyType(self._transactions)

    @property
    def live(self) -> Mapping[str, Segment]:
        """The segments of the table after the last commit, by path."""
        return MappingProxyType(self._live)

    @classmethod
    def create(
        cls,
        root: Root,
        instance: str,
        schema: pa.Schema,
        *,
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Create the table; if it is there already, it must have this schema."""
        table = root.table(instance)
        make_folder(table.log)
        mend(table)
        wanted = Schema.from_arrow(schema)
        if not table.exists():
            _create(table, wanted, partition_by, properties)
        handle = open_handle(table)
        found = (handle.schema().to_json(), list(handle.metadata().partition_columns))
        if found != (wanted.to_json(), list(partition_by)):
            raise UserError(
                f"instance {instance} exists with another schema",
                detail=f"found {found[0]} by {found[1]}, wanted {wanted.to_json()}",
                hint="a stream keeps its schema; give the changed one another name",
            )

    @classmethod
    def take_over(
        cls,
        root: Root,
        instance: str,
        *,
        owner: str,
        upkeep: Upkeep = Upkeep(),  # noqa: B008  frozen
        trace: Callable[[str], None] = _untraced,
    ) -> "Writer":
        """Become the owner: mend what is torn, record the next epoch, learn the state."""
        table = root.table(instance)
        if not table.path.is_dir():
            raise LocalError(
                f"instance {instance} has no table",
                detail=f"nothing in {table.path}",
                hint="create it first: Writer.create",
            )
        mend(table)
        for _ in range(TAKE_OVERS_MAX):
            writer = cls(table, owner=owner, upkeep=upkeep, trace=trace)
            try:
                writer._take()
            except Fenced:
                continue
            return writer
        raise StorageError(
            f"cannot take over {instance}",
            detail=f"{TAKE_OVERS_MAX} times another owner was faster",
            hint="look at who else runs this instance",
        )

    def commit(
        self,
        *,
        step: int,
        segments: Sequence[Segment],
        transactions: Mapping[str, int],
        info: Mapping[str, str] = MappingProxyType({}),
    ) -> Commit:
        """Commit one step; durable and alone in its place when this returns."""
        with self._lock:
            self._fence.check()
            self._check_step(step, segments, transactions)
            self._trace("files written")
            for folder in {(self.table.path / s.path).parent: True for s in segments}:
                sync_folder(folder)
            self._trace("folders synced")
            if self._fence.version - self._checkpoint_version >= CHECKPOINT_OVERDUE:
                self._checkpoint()
            change = Change(kind="step", new=segments, transactions=transactions, info=info)
            entry = self._apply(change, mark=Mark(self.epoch, step))
            return Commit(
                version=entry.version,
                epoch=self.epoch,
                step=step,
                first_step=step,
                segments=tuple(segments),
                transactions=dict(entry.transactions),
                info=dict(info),
            )

    def housekeep(self, *, horizon: int | None) -> Housekept:
        """Checkpoint, compact and delete what is due; cheap when nothing is.

        `horizon` is the lowest position of the registered readers, None where there are none.
        """
        with self._lock:
            self._fence.check()
            merged = self._compact()
            due = self._fence.version - self._checkpoint_version
            checkpointed = due >= self._upkeep.checkpoint_every
            if checkpointed:
                self._checkpoint()
            deleted = 0
            if self._sweeper.due():
                mark = self._fence.mark
                deleted = self._sweeper.sweep(live=self._live, mark=mark, horizon=horizon)
            return Housekept(checkpointed=checkpointed, merged=merged, deleted=deleted)

    def retain(self, *, below_step: int) -> int:
        """Remove whole segments with no row at or above this step; how many.

        The greatest step that may have lost rows is recorded in the same entry, so that a
        reader below it is told, and never takes the rest for the whole.
        """
        with self._lock:
            self._fence.check()
            lost = [s for s in self._live.values() if s.max_step < below_step]
            if not lost:
                return 0
            reached = max(segment.max_step for segment in lost)
            retained = {RETAINED: max(reached, self._transactions.get(RETAINED, 0))}
            retained |= self._retained_time(lost)
            change = Change(kind="retain", lost=lost, transactions=retained)
            self._apply(change, mark=self._fence.mark)
            return len(lost)

    def expire(self, *, before: Instant, horizon: int | None) -> int:
        """Remove what ended before this event time and no registered reader still needs.

        `horizon` as in `housekeep`; how many segments went. A table without an event time keeps
        everything.
        """
        with self._lock:
            if self._event_time is None:
                return 0
            below = ended_below(self._live.values(), column=self._event_time, before=before)
            return self.retain(below_step=below if horizon is None else min(below, horizon + 1))

    def validate(self) -> None:
        """Raise unless what this owner believes is what the table says (L2, L3)."""
        with self._lock:
            self._fence.check()
            found = read_snapshot(self.table)
            if found.mark != self._fence.mark:
                self._fence.stop(found.mark)
            same = dict(found.transactions) == self._transactions
            if not same or sorted(found.segments) != sorted(self._live):
                raise StorageError(
                    f"the table of {self.instance} is not what its owner wrote",
                    detail=f"at {found.mark}: {found.transactions}, {len(found.segments)} files",
                    hint="somebody else writes to this table; validate(root, instance) says more",
                )

    def _retained_time(self, lost: Sequence[Segment]) -> dict[str, int]:
        """The greatest event time that is lost; the end of time where it is not known."""
        if self._event_time is None:
            return {}
        times = [segment.latest(self._event_time) for segment in lost]
        known = [_NEVER if time is None else time for time in times]
        return {RETAINED_TIME: max([*known, self._transactions.get(RETAINED_TIME, known[0])])}

    def _take(self) -> None:
        self._trace("taking over")
        self._fence.append(Change(kind="take-over"), mark=Mark(self.epoch + 1, self.step))
        snapshot = read_snapshot(self.table)
        if snapshot.mark != self._fence.mark:
            self._fence.stop(snapshot.mark)
        self._transactions = dict(snapshot.transactions)
        self._live = dict(snapshot.segments)
        self._checkpoint_version = _checkpointed(self.table)
        self._trace("taken over")

    def _apply(self, change: Change, *, mark: Mark) -> Entry:
        entry = self._fence.append(change, mark=mark)
        self._transactions.update(entry.transactions)
        for segment in (*change.gone, *change.lost):
            self._live.pop(segment.path, None)
        for segment in (*change.new, *change.moved):
            self._live[segment.path] = segment
        return entry

    def _checkpoint(self) -> None:
        """Write a checkpoint, sync it, shorten the log, and go on from a handle that uses it."""
        try:
            version = self._checkpoint_synced()
        except StorageError:
            # Another owner has trimmed what the handle was opened with: a later one, then this
            # one is told so; or one before us that slept, then a new handle knows better.
            self._fence.reopen()
            version = self._checkpoint_synced()
        self._checkpoint_version = version
        below = version - self._upkeep.log_entries_kept
        trim(self.table, below=below, upkeep=self._upkeep, now_s=time.time())
        self._trace("trimmed")
        self._fence.reopen()

    def _checkpoint_synced(self) -> int:
        version = self._fence.checkpoint()
        self._trace("checkpointed")
        sync_checkpoint(self.table, version)
        return version

    def _compact(self) -> int:
        merged = 0
        for _ in range(MERGES_MAX):
            chosen = plan_merge(self._live.values(), self._upkeep)
            if not chosen:
                break
            whole = self._merge(chosen)
            sync_folder((self.table.path / whole.path).parent)
            self._trace("merged")
            self._apply(Change(kind="compact", moved=[whole], gone=chosen), mark=self._fence.mark)
            merged += len(chosen)
        return merged

    def _merge(self, chosen: Sequence[Segment]) -> Segment:
        try:
            return merge(self.table, chosen, mark=self._fence.mark, event_time=self._event_time)
        except FileNotFoundError as error:
            # A later owner has merged and swept what this one still believes in: then that is
            # the news.
            self._fence.reopen()
            raise StorageError(
                f"a segment of {self.instance} is gone",
                detail=str(error),
                hint="somebody deleted files of the table; restore them from a backup",
            ) from error

    def _check_step(
        self, step: int, segments: Sequence[Segment], transactions: Mapping[str, int]
    ) -> None:
        wrong = ""
        if step != self.step + 1:
            wrong = f"step {step} does not follow step {self.step}"
        if any(name in transactions for name in (APPLICATION, RETAINED, RETAINED_TIME)):
            wrong = f"{APPLICATION!r} and {RETAINED!r} are the log's own transactions"
        for segment in segments:
            wrong = wrong or self._flaw(step, segment)
        if wrong:
            # A later owner sweeps the files of an earlier one that slept: then that is the news.
            self._fence.reopen()
            raise LocalError(
                f"step {step} of {self.instance} cannot be committed",
                detail=wrong,
                hint="write the segments of step writer.step + 1 with this owner's epoch",
            )

    def _flaw(self, step: int, segment: Segment) -> str:
        """Why this segment cannot be part of the step; empty where it can."""
        path = self.table.path / segment.path
        if SegmentName.parse(path.name) != SegmentName(epoch=self.epoch, step=step):
            return f"{segment.path} is not of epoch {self.epoch}, step {step}"
        if (segment.min_step, segment.max_step) not in ((step, step), (0, 1 << 62)):
            return f"{segment.path} holds rows of steps {segment.min_step} to {segment.max_step}"
        if not path.exists() or path.stat().st_size != segment.bytes:
            return f"{segment.path} is not there whole"
        return ""


def _create(
    table: TableDir, schema: Schema, partition_by: Sequence[str], properties: Mapping[str, str]
) -> None:
    configuration: dict[str, str | None] = {
        "delta.checkpointInterval": str(Upkeep().checkpoint_every),
        # We trim by ourselves, because the library does it by age alone.
        "delta.enableExpiredLogCleanup": "false",
        "delta.logRetentionDuration": "interval 24 hours",
        # Only the library's own vacuum looks at tombstones; kept short, checkpoints stay small.
        "delta.deletedFileRetentionDuration": "interval 10 minutes",
        **properties,
    }
    try:
        DeltaTable.create(
            str(table.path),
            schema,
            mode="error",
            partition_by=list(partition_by),
            configuration=configuration,
            raise_if_key_not_exists=False,
        )
    except Exception as error:  # who came first created it; what is there decides
        if not table.exists():
            raise refused(table, "create the table", error) from error
    sync_file(table.entry(0))
    sync_folder(table.log)


def _checkpointed(table: TableDir) -> int:
    """The version of the newest checkpoint; 0 where there is none."""
    names = (path.name for path in table.log.glob("*.checkpoint.parquet"))
    return max((int(name.partition(".")[0]) for name in names), default=0)
