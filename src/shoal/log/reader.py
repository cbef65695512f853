"""Readers of an instance: its commits in order from a position on, without owning anything.

Promise L4: a reader at any position within the horizon sees every row once.

A reader follows the entries of the transaction log as files (microseconds). It takes what is
new and passes over what only moved (compaction), and it checks that epochs never fall and steps
run on without a gap, so that it cannot believe an entry that never was the table's. Where the
entries do not reach, or a file that they name has been merged away, it goes to a snapshot and
hands out one commit for all steps up to there: its segments may hold older rows too, and the
caller leaves them out by `_step`. Where retention has removed rows past the position, it raises
`PastHorizon`, which says from where one can go on.

What is not here: leases that hold the horizon back; reading the rows (Spark, or pyarrow).
"""

from collections.abc import Iterator

from shoal.kernel.errors import LocalError, StorageError
from shoal.log.entries import (
    Entry,
    Mark,
    Snapshot,
    lowest_version,
    newest_version,
    read_entry,
    read_snapshot,
)
from shoal.log.root import Root, TableDir
from shoal.log.segment import Segment
from shoal.log.writer import Commit

__all__ = ["PastHorizon", "Reader"]

#: Entries without rows (take-overs, compactions) that one poll passes over.
PASSED_MAX = 10_000


class PastHorizon(StorageError):
    """Rows after the reader's position are gone; all rows after `retained` are there."""

    def __init__(self, instance: str, *, position: int, retained: int) -> None:
        super().__init__(
            f"a reader of {instance} is past the horizon",
            detail=f"it is at step {position}; rows up to step {retained} are no longer kept",
            hint=f"go on with after={retained} and say that rows are missing, or read them from "
            "the source again; a registered reader or a longer retention avoids this",
        )
        self.retained = retained


class Reader:
    """Follows one instance; `position` is the step handed out last."""

    def __init__(self, root: Root, instance: str, *, after: int) -> None:
        self._table = root.table(instance)
        if not self._table.exists():
            raise LocalError(
                f"instance {instance} has no table",
                detail=f"nothing in {self._table.log}",
                hint="create it first: Writer.create",
            )
        self.position = after
        #: The version read last, and the greatest epoch seen; unknown until the first poll.
        self._version: int | None = None
        self._epoch = 0

    def poll(self, *, commits_max: int) -> tuple[Commit, ...]:
        """Commits after the position, in order, at most so many; moves the position."""
        if self._version is None and not self._seek():
            return self._leap()
        found: list[Commit] = []
        for entry in self._entries():
            commit = self._believe(entry)
            if commit is not None and not _all_there(self._table, commit.segments):
                break
            self._version = entry.version
            if commit is not None:
                self.position = commit.step
                found.append(commit)
            if len(found) == commits_max:
                break
        else:
            return tuple(found) or (self._leap() if self._left_behind() else ())
        return tuple(found) or self._leap()

    @staticmethod
    def head(root: Root, instance: str) -> Commit | None:
        """The newest state with all transactions; None where there is no table."""
        table = root.table(instance)
        if not table.exists():
            return None
        snapshot = read_snapshot(table)
        return _commit_of(snapshot, (), first_step=snapshot.mark.step)

    @staticmethod
    def oldest(root: Root, instance: str) -> Commit | None:
        """The oldest step whose own entry is still there; None where there is none."""
        table = root.table(instance)
        for version in range(lowest_version(table), newest_version(table) + 1):
            entry = read_entry(table, version)
            if entry is not None and entry.mark is not None and entry.kind == "step":
                return _commit_by(entry, entry.mark)
        return None

    def segments_between(self, after: int, upto: int) -> tuple[Segment, ...]:
        """Segments that may hold rows with after < `_step` <= upto; other rows are in them too."""
        return _between(read_snapshot(self._table), self._table, after, upto)

    def _entries(self) -> Iterator[Entry]:
        """The entries after the version read last, as far as they can be read."""
        assert self._version is not None
        for version in range(self._version + 1, self._version + 1 + PASSED_MAX):
            entry = read_entry(self._table, version)
            if entry is None or version < lowest_version(self._table):
                return
            yield entry

    def _believe(self, entry: Entry) -> Commit | None:
        """The step that this entry commits, None if it commits none; raises on a broken run."""
        mark = entry.mark
        if mark is None and not entry.new:
            return None  # the creation of the table, or a change of its properties
        wrong = ""
        if mark is None:
            wrong = "it adds rows without a step"
        elif mark.epoch < self._epoch:
            wrong = f"its epoch {mark.epoch} is below {self._epoch}"
        elif entry.kind == "step":
            if mark != Mark(self._epoch, self.position + 1):
                wrong = f"{mark} does not follow epoch {self._epoch}, step {self.position}"
        elif mark.step != self.position or entry.new:
            wrong = f"it repeats step {mark.step} at step {self.position}"
        if mark is None or wrong:
            raise StorageError(
                f"entry {entry.version} of {self._table.instance} does not run on",
                detail=wrong,
                hint="somebody wrote past the owner; validate(root, instance) lists what is wrong",
            )
        self._epoch = mark.epoch
        if entry.kind != "step":
            return None
        return _commit_by(entry, mark)

    def _seek(self) -> bool:
        """Find the last entry at or before the position; False if the log does not reach back."""
        low, high = lowest_version(self._table), newest_version(self._table)
        while high > low and read_entry(self._table, high) is None:
            high -= 1  # torn by a power loss and not mended yet
        start = self._mark_from(low, high)
        if start is None or (low > 0 and start.step > self.position):
            if low == 0:
                self._version = high
            return low == 0
        newest = self._mark_down(high, low)
        if newest.step < self.position:
            raise LocalError(
                f"a reader of {self._table.instance} starts after its last step",
                detail=f"after step {self.position}, but the last is {newest.step}",
                hint="a position comes from this very table; was the root replaced?",
            )
        while low < high:
            middle = (low + high + 1) // 2
            if self._mark_down(middle, low).step <= self.position:
                low = middle
            else:
                high = middle - 1
        self._version = low
        self._epoch = self._mark_down(low, 0).epoch
        return True

    def _mark_down(self, version: int, lowest: int) -> Mark:
        """The mark at a version: its own entry's, or that of the nearest before it."""
        for number in range(version, lowest - 1, -1):
            entry = read_entry(self._table, number)
            if entry is not None and entry.mark is not None:
                return entry.mark
        return Mark(0, 0)

    def _mark_from(self, low: int, high: int) -> Mark | None:
        """The mark of the first entry that has one."""
        for number in range(low, high + 1):
            entry = read_entry(self._table, number)
            if entry is not None and entry.mark is not None:
                return entry.mark
        return None

    def _left_behind(self) -> bool:
        """Whether the table went on past entries that can no longer be read."""
        assert self._version is not None
        return self._version + 1 < lowest_version(self._table)

    def _leap(self) -> tuple[Commit, ...]:
        """One commit from a snapshot for all steps after the position."""
        snapshot = read_snapshot(self._table)
        if snapshot.mark.epoch < self._epoch or snapshot.mark.step < self.position:
            raise StorageError(
                f"the table of {self._table.instance} went back",
                detail=f"{snapshot.mark}, but a reader is at {self._epoch}, {self.position}",
                hint="was an older copy of the root restored? read from the start of it again",
            )
        segments = _between(snapshot, self._table, self.position, snapshot.mark.step)
        first_step = self.position + 1
        self._version, self._epoch = snapshot.version, snapshot.mark.epoch
        self.position = snapshot.mark.step
        if first_step > snapshot.mark.step:
            return ()
        return (_commit_of(snapshot, segments, first_step=first_step),)


def _between(snapshot: Snapshot, table: TableDir, after: int, upto: int) -> tuple[Segment, ...]:
    if after < snapshot.retained:
        raise PastHorizon(table.instance, position=after, retained=snapshot.retained)
    chosen = [s for s in snapshot.segments.values() if s.max_step > after and s.min_step <= upto]
    return tuple(sorted(chosen, key=lambda segment: (segment.min_step, segment.path)))


def _all_there(table: TableDir, segments: tuple[Segment, ...]) -> bool:
    """Whether no file of the commit was deleted after a merge."""
    return all((table.path / segment.path).exists() for segment in segments)


def _commit_by(entry: Entry, mark: Mark) -> Commit:
    return Commit(
        version=entry.version,
        epoch=mark.epoch,
        step=mark.step,
        first_step=mark.step,
        segments=entry.new,
        transactions=entry.transactions,
        info=entry.info,
    )


def _commit_of(snapshot: Snapshot, segments: tuple[Segment, ...], *, first_step: int) -> Commit:
    return Commit(
        version=snapshot.version,
        epoch=snapshot.mark.epoch,
        step=snapshot.mark.step,
        first_step=first_step,
        segments=segments,
        transactions=snapshot.transactions,
        info={},
    )
