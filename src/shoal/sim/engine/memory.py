"""A root in memory: tables with commits and epochs, roster logs, and spools of pushed tuples.

    memory = Memory()
    memory.push("readings-1", "client", 0, [{"n": 1, "ts": 1_000_000}])
    memory.table("readings-1").commits[-1].items       what a commit brought

Several engines may stand on one root, and it outlives them: what is committed here is what a
crash leaves behind. There is no disk and no network in between, so a commit happens or does not;
that its outcome may be unknown is tested on the real log (tests/races).

Promises   L1 L2 L3  a commit is one append, numbered by its step, refused to all but the owner of
                     the last epoch.
           L4        commits are kept until no registered reader needs them, and `forgotten` says
                     up to where some may be gone.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.dataplane.rows import RosterRow
from shoal.kernel.errors import Fenced, LocalError
from shoal.kernel.time import Instant

__all__ = ["Commit", "Entry", "Item", "Memory", "Result", "RosterBook", "Spool", "Table", "Volume"]

#: Commits of a table that are kept though no reader needs them any more.
COMMITS_KEPT = 1024

#: A tuple of a source stream: its event time, its `_id`, its columns by name.
Item = tuple[Instant, int, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Volume:
    """So many tuples, spread evenly over these event times; nobody looks into them."""

    rows: int
    earliest: Instant
    latest: Instant


@dataclass(frozen=True, slots=True)
class Result:
    """A tuple that a row of a select asked for."""

    query: str
    version: int
    at: Instant
    id: int
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One commit: what is new in it, and nothing of what was before.

    `items` are the `ok` tuples of a source (a Volume where only their number is known, None where
    the stream is not stored), or the results of a select.
    """

    epoch: int
    step: int
    transactions: Mapping[str, int]
    rows: int
    items: tuple[Item, ...] | Volume | tuple[Result, ...] | None
    late: tuple[Item, ...] = ()
    wall: Instant = 0


class Table:
    """The commits of one instance, and who may add to them."""

    def __init__(self, instance: str) -> None:
        self.instance = instance
        self.epoch = 0
        self.step = 0
        #: All transactions, as the newest commit leaves them.
        self.transactions: dict[str, int] = {}
        self.commits: deque[Commit] = deque()
        #: Commits up to this step may be gone.
        self.forgotten = 0
        self._readers: dict[str, int] = {}

    def take_over(self) -> int:
        """The next epoch; whoever had the last one commits no more (L3)."""
        self.epoch += 1
        return self.epoch

    def append(self, commit: Commit) -> None:
        """Add a commit, whole (L1), under the next number (L2), by the owner alone (L3)."""
        if commit.epoch != self.epoch:
            raise Fenced(
                f"epoch {commit.epoch} no longer owns {self.instance}",
                detail=f"it is at epoch {self.epoch}",
            )
        if commit.step != self.step + 1:
            raise Fenced(
                f"step {commit.step} of {self.instance} cannot be committed",
                detail=f"the next one is {self.step + 1}",
            )
        self.step = commit.step
        self.transactions.update(commit.transactions)
        self.commits.append(commit)
        if len(self.commits) > 2 * COMMITS_KEPT:
            self._forget()

    def between(self, after: int, upto: int) -> list[Commit]:
        """The commits numbered after + 1 to upto; an error if some are gone."""
        if after < self.forgotten and upto > after:
            raise LocalError(
                f"history of {self.instance} after step {after} is not there",
                detail=f"commits up to step {self.forgotten} were removed",
            )
        first = self.step - len(self.commits)
        return [self.commits[at - first - 1] for at in range(after + 1, min(upto, self.step) + 1)]

    def head(self) -> Commit | None:
        """The newest commit, if there is one."""
        return self.commits[-1] if self.commits else None

    def read_by(self, reader: str, position: int | None) -> None:
        """A reader needs what comes after this position; None: it needs nothing any more."""
        if position is None:
            self._readers.pop(reader, None)
        else:
            self._readers[reader] = position

    def retain(self, upto: int) -> None:
        """Forget commits up to this step, but none that a reader needs."""
        horizon = min([upto, *self._readers.values()])
        while self.commits and self.commits[0].step <= horizon:
            self.forgotten = self.commits.popleft().step

    def _forget(self) -> None:
        self.retain(self.step - COMMITS_KEPT)

    def validate(self) -> None:
        """Raise LocalError unless steps have no gap or repeat and epochs never fall (L2 L3)."""
        numbers = [commit.step for commit in self.commits]
        if numbers != list(range(self.step - len(numbers) + 1, self.step + 1)):
            raise LocalError(f"steps of {self.instance} have a gap or repeat (L2)")
        epochs = [commit.epoch for commit in self.commits]
        if epochs != sorted(epochs) or (epochs and epochs[-1] > self.epoch):
            raise LocalError(f"an earlier epoch committed to {self.instance} (L3)")


class RosterBook:
    """The rows of one component, owned by the same epoch as its table."""

    def __init__(self, instance: str) -> None:
        self._instance = instance
        self._epoch = 0
        self.version = 0
        self.rows: dict[tuple[str, int], RosterRow] = {}

    def claim(self, epoch: int) -> tuple[RosterRow, ...]:
        """Take it over; earlier owners put no more rows (L3)."""
        self._check(epoch)
        self._epoch = epoch
        self.version += 1
        return tuple(self.rows[name] for name in sorted(self.rows))

    def put(self, epoch: int, rows: Sequence[RosterRow]) -> int:
        """Add or replace rows, all or none; returns the version."""
        self._check(epoch)
        for row in rows:
            row.validate()
        self.version += 1
        self.rows.update((row.identity, row) for row in rows)
        return self.version

    def prune(self, epoch: int, before: Instant) -> None:
        """Forget rows that end before this event time."""
        self._check(epoch)
        self.version += 1
        self.rows = {name: row for name, row in self.rows.items() if row.until >= before}

    def _check(self, epoch: int) -> None:
        if epoch < self._epoch:
            raise Fenced(
                f"epoch {epoch} no longer owns the roster of {self._instance}",
                detail=f"it is at epoch {self._epoch}",
            )


@dataclass(frozen=True, slots=True)
class Entry:
    """One pushed batch: tuples by column name, texts that fit no schema, or a Volume."""

    position: int
    client: str
    sequence: int
    content: tuple[Mapping[str, Any] | str, ...] | Volume


class Spool:
    """Pushed batches in the order in which they were accepted."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()
        self._sequences: dict[str, int] = {}
        self._last = 0
        #: Entries up to this position are committed and gone.
        self.released = 0

    def push(
        self, client: str, sequence: int, content: Sequence[Mapping[str, Any] | str] | Volume
    ) -> bool:
        """Accept a batch; False if the client's batch of this number is there already."""
        if sequence <= self._sequences.get(client, -1):
            return False
        self._sequences[client] = sequence
        self._last += 1
        kept = content if isinstance(content, Volume) else tuple(content)
        self._entries.append(Entry(self._last, client, sequence, kept))
        return True

    def after(self, position: int, *, most: int) -> list[Entry]:
        """Up to so many batches after a position."""
        found: list[Entry] = []
        for entry in self._entries:
            if entry.position > position:
                if len(found) >= most:
                    break
                found.append(entry)
        return found

    def release(self, upto: int) -> None:
        """Forget what is committed."""
        while self._entries and self._entries[0].position <= upto:
            self.released = self._entries.popleft().position


@dataclass(slots=True)
class Memory:
    """Everything durable of an invented mesh."""

    tables: dict[str, Table] = field(default_factory=dict)
    rosters: dict[str, RosterBook] = field(default_factory=dict)
    spools: dict[str, Spool] = field(default_factory=dict)

    def table(self, instance: str) -> Table:
        """The table of an instance; created where there is none."""
        if instance not in self.tables:
            self.tables[instance] = Table(instance)
        return self.tables[instance]

    def roster(self, instance: str) -> RosterBook:
        """The roster log of an instance; created where there is none."""
        if instance not in self.rosters:
            self.rosters[instance] = RosterBook(instance)
        return self.rosters[instance]

    def spool(self, instance: str) -> Spool:
        """The spool of an instance; created where there is none."""
        if instance not in self.spools:
            self.spools[instance] = Spool()
        return self.spools[instance]

    def push(
        self,
        instance: str,
        client: str,
        sequence: int,
        content: Sequence[Mapping[str, Any] | str] | Volume,
    ) -> bool:
        """Give a batch to an ingest that reads what is pushed; each is accepted once."""
        return self.spool(instance).push(client, sequence, content)

    def results(self, instance: str) -> list[Result]:
        """All results of a select that are still kept, in their order."""
        found: list[Result] = []
        for commit in self.table(instance).commits:
            items = commit.items if isinstance(commit.items, tuple) else ()
            found += [item for item in items if isinstance(item, Result)]
        return found

    def validate(self) -> None:
        """Raise LocalError if a table contradicts itself."""
        for table in self.tables.values():
            table.validate()
