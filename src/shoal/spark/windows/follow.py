"""Following the commits of a panes table: how far a component has come, and what is due next.

Most commits bring tuples and let no window fall due. They only move the position, in memory; a
commit of one's own follows when there is something to do, or after `LAZY_COMMITS` of theirs. Who
starts again looks at them again, and finds the same.
"""

from collections.abc import Mapping, Sequence

from shoal.dataplane.rows import ALWAYS
from shoal.kernel.time import Instant
from shoal.log.writer import Writer
from shoal.spark.feed import Feed
from shoal.spark.select.rostered import ROWS_PER_STEP
from shoal.spark.windows.due import BEGUN, REACHED, Due, Wanted, due_in

__all__ = ["LAZY_COMMITS", "Follower"]

#: Commits that only move the position, until that is worth a commit: looking at them again after
#: a restart costs microseconds each, a commit some milliseconds. A guess.
LAZY_COMMITS = 64


class Follower:
    """A place in the commits of one panes table."""

    def __init__(self, feed: Feed, writer: Writer) -> None:
        self._feed = feed
        self._writer = writer
        known = writer.transactions
        self.position = self.durable
        #: All ends up to here are done.
        self.done: Instant = known.get("wm", ALWAYS)
        #: The commit that was begun last, counting the step in flight: the watermark and the
        #: greatest event time after it.
        self.planned = max(self.position, known.get(BEGUN, 0))
        self.reached: Instant = max(self.done, known.get(REACHED, ALWAYS))
        self.evmax: Instant = known.get("evmax", ALWAYS)

    @property
    def durable(self) -> int:
        """The position of the newest commit of one's own."""
        return self._writer.transactions[f"in/{self._feed.instance}"]

    @property
    def lag(self) -> int:
        """Commits that are still to be consumed."""
        return self._feed.head - self.position

    def next(self, wanted: Sequence[Wanted]) -> Due | None:
        """What is due next; None if nothing is, in all commits so far."""
        while True:
            read = self._feed.next_range(self.position, rows_max=ROWS_PER_STEP)
            if read is None:
                return None
            due = Due.of(read, done=self.done, evmax=self.evmax)
            lazy = due.upto - self.durable < LAZY_COMMITS
            if due_in(wanted, due.done, due.reached) or not lazy:
                return due
            self.plan(due)
            self.position, self.done = due.upto, due.reached

    def plan(self, due: Due) -> None:
        """A step over this begins: whoever joins now is served from its end on."""
        self.planned = max(self.planned, due.upto)
        self.reached = max(self.reached, due.reached)
        self.evmax = max(self.evmax, due.evmax)

    def committed(self, transactions: Mapping[str, int]) -> None:
        """A step, or a piece of it, was committed."""
        self.position = transactions[f"in/{self._feed.instance}"]
        self.done = transactions.get("wm", ALWAYS)
