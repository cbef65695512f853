"""What a component reads: the recent commits of one stream, shared by all its readers here.

A hundred components that read one stream share one feed, so the log is tailed once. The feed
remembers commits from the slowest local reader on, within a bound; a reader further behind reads
the log itself.

Promise    L4  a reader at any position sees every commit once, in order.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from shoal.dataplane.rows import ALWAYS, FOREVER
from shoal.kernel.time import Instant
from shoal.log.entries import RETAINED, RETAINED_TIME
from shoal.log.reader import Reader
from shoal.log.root import Root
from shoal.log.writer import Commit

__all__ = ["FEED_MAX", "Feed", "Lost", "Range", "rows_of"]

#: Commits that a feed remembers; 1 KB each.
FEED_MAX = 4096
#: Commits read from the log at once.
POLL_MAX = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Committed steps (after, upto] of one stream, and what is known at its end."""

    instance: str
    after: int
    upto: int
    commits: tuple[Commit, ...]

    @property
    def rows(self) -> int:
        return sum(rows_of(commit) for commit in self.commits)

    @property
    def stamp(self) -> Instant:
        """The newest wall time of its commits; 0 where none has one."""
        return max((int(c.info["wall"]) for c in self.commits if "wall" in c.info), default=0)


def rows_of(commit: Commit) -> int:
    """The `ok` tuples of a commit, also where the stream is not stored."""
    stored = sum(s.rows for s in commit.segments if s.partition.get("_kind", "ok") == "ok")
    return stored or (0 if commit.segments else commit.transactions.get("rows", 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """Retention may have removed tuples of steps up to this one, none of a later event time."""

    step: int
    time: Instant


class Feed:
    """Recent commits of one instance. Not thread-safe: the engine's thread owns it."""

    def __init__(self, root: Root, instance: str, *, after: int) -> None:
        self._root = root
        self.instance = instance
        self._reader = Reader(root, instance, after=after)
        self._commits: deque[Commit] = deque()
        self._floor = after
        self.head = after

    @classmethod
    def at_head(cls, root: Root, instance: str) -> "Feed":
        """A feed that begins with the newest commit."""
        head = Reader.head(root, instance)
        return cls(root, instance, after=0 if head is None else max(0, head.step - 1))

    def poll(self) -> bool:
        """Take in what was committed since; says whether there was anything."""
        found = self._reader.poll(commits_max=POLL_MAX)
        for commit in found:
            self._commits.append(commit)
            self.head = commit.step
        while len(self._commits) > FEED_MAX:
            self._floor = self._commits.popleft().step
        return bool(found)

    def release(self, upto: int) -> None:
        """No local reader needs commits up to this one any more."""
        while self._commits and self._commits[0].step <= upto:
            self._floor = self._commits.popleft().step

    def forget(self) -> None:
        """Remember nothing: what there is up to the head is read from the log again."""
        self._commits.clear()
        self._floor = self.head

    def next_range(
        self, after: int, *, rows_max: int, upto_most: int | None = None
    ) -> Range | None:
        """The commits after a position, bounded by rows; at least one if there is one."""
        last = self.head if upto_most is None else min(self.head, upto_most)
        if after >= last:
            return None
        chosen: list[Commit] = []
        rows = 0
        for commit in self._after(after, last, rows_max):
            rows += rows_of(commit)
            if commit.step > last or (chosen and rows > rows_max):
                break
            chosen.append(commit)
        if not chosen:
            return None
        return Range(
            instance=self.instance, after=after, upto=chosen[-1].step, commits=tuple(chosen)
        )

    def _after(self, after: int, last: int, rows_max: int) -> Sequence[Commit]:
        if after >= self._floor:
            return [commit for commit in self._commits if commit.step > after]
        reader = Reader(self._root, self.instance, after=after)
        found = reader.poll(commits_max=POLL_MAX)
        if found and found[0].first_step <= last < found[0].step:
            # Its entries are gone: one commit stands for all, and it goes too far.
            part = reader.segments_between(after, last)
            found = (replace(found[0], step=last, segments=part),)
        if len(found) == 1:
            return [_piece(found[0], rows_max)]
        return found

    def lost(self) -> Lost:
        """What retention has removed so far."""
        head = Reader.head(self._root, self.instance)
        facts = {} if head is None else head.transactions
        step = facts.get(RETAINED, 0)
        return Lost(step=step, time=facts.get(RETAINED_TIME, FOREVER if step else ALWAYS))


def _piece(commit: Commit, rows_max: int) -> Commit:
    """A commit that stands for many steps, cut where its rows become too many.

    It says what is known at the end of all of them, but not the watermark at its own.
    """
    if commit.first_step == commit.step or rows_of(commit) <= rows_max:
        return commit
    rows = 0
    upto = commit.step
    for segment in sorted(commit.segments, key=lambda segment: segment.max_step):
        rows += segment.rows
        if rows > rows_max and upto < commit.step:
            break
        upto = min(segment.max_step, commit.step)
    if upto == commit.step:
        return commit
    told = {key: value for key, value in commit.transactions.items() if key != "wm"}
    segments = tuple(segment for segment in commit.segments if segment.min_step <= upto)
    return replace(commit, step=upto, segments=segments, transactions=told)
