"""Broken variants of the log, one for each promise at least; their checker must catch them.

UncheckedFence    refreshes and tries again without comparing marks        breaks L3
SharingWriter     takes over without a number of its own                   breaks M1
RepeatingWriter   does not look whether the step was committed already     breaks L2
HastyWriter       does not look whether the files are whole                breaks L1
merge_and_keep    compacts without removing what it merged                 breaks L4
CarelessReader    takes moved rows for new ones                            breaks L4
read_without_history  believes the log where the history knows better          breaks L4
"""

from collections.abc import Sequence
from dataclasses import replace

from shoal.log.entries import Entry, Mark, parse_entry
from shoal.log.fence import Change, Fence
from shoal.log.reader import Reader
from shoal.log.root import TableDir
from shoal.log.segment import Segment
from shoal.log.writer import Commit, Writer

__all__ = [
    "CarelessReader",
    "HastyWriter",
    "RepeatingWriter",
    "SharingWriter",
    "UncheckedFence",
    "merge_and_keep",
    "read_without_history",
]


class UncheckedFence(Fence):
    """L3: what many would write first: on a conflict, refresh and try again."""

    def _resolve(self, before: int, *, nonce: str, mark: Mark) -> Entry | None:
        self._handle.update_incremental()
        for version in range(before + 1, self.version + 1):
            data = self.table.entry(version).read_bytes()
            entry = parse_entry(version, data)
            if entry is not None and entry.nonce == nonce:
                return entry
        return None


class SharingWriter(Writer):
    """M1: goes on where the last owner stopped, under that one's number."""

    def _take(self) -> None:
        append = self._fence.append

        def under_the_old_one(change: Change, *, mark: Mark) -> Entry:
            return append(change, mark=Mark(mark.epoch - 1, mark.step))

        self._fence.append = under_the_old_one  # type: ignore[method-assign]
        super()._take()
        self._fence.append = append  # type: ignore[method-assign]


class RepeatingWriter(Writer):
    """L2: commits whatever step it is told to."""

    def _check_step(self, step: int, segments: Sequence[Segment], transactions: object) -> None:
        return None


class HastyWriter(Writer):
    """L1: names files without looking at them."""

    def _flaw(self, step: int, segment: Segment) -> str:
        return ""


class CarelessReader(Reader):
    """L4: does not ask whether an entry changes data."""

    def _believe(self, entry: Entry) -> Commit | None:
        commit = super()._believe(entry)
        if not entry.moved:
            return commit
        assert entry.mark is not None
        return Commit(
            version=entry.version,
            epoch=entry.mark.epoch,
            step=entry.mark.step,
            first_step=0,
            segments=entry.moved,
            transactions=entry.transactions,
            info=entry.info,
        )


def merge_and_keep(change: Change) -> Change:
    """L4: a compaction that forgets to remove what it merged."""
    return replace(change, gone=())


def read_without_history(table: TableDir, version: int) -> Entry | None:
    """L4: reads an entry from the log first, where a writer that slept may have put its own."""
    for path in (table.entry(version), table.entry_kept(version)):
        if path.exists():
            return parse_entry(version, path.read_bytes())
    return None
