"""The book of a deliver component: where each delivery stands, in one numbered log.

One log for all deliveries of a component, because a step that serves a thousand sinks must not cost
a thousand commits. A step with rows costs two appends, one without rows none.

    {"add": [..]}    deliveries with their sinks, and versions of their queries, by table
    {"plan": {..}}   about to write: table, up to which step, and the place in every sink with rows
    {"done": {..}}   these deliveries stand at this step; the places after what they wrote
    {"end": [..]}    a query was dropped: what is due still comes
    {"leave": [..]}  a delivery needs a table no longer (its query is served by another one)
    {"close": [..]}  deliveries that have had everything

Promises
    L2  a plan without its `done` is repeated as it was: same range, same rows, same place.
    L3  the log fences: an owner that was replaced cannot plan, so it begins no new write.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shoal.dataplane.commands import Delivery, Sink
from shoal.dataplane.projection import Projection
from shoal.kernel.errors import LocalError, StorageError
from shoal.log.numbered import NumberedLog
from shoal.log.objects import JSON
from shoal.query.catalog import Column
from shoal.query.windows.plan import Output

__all__ = ["Account", "Book", "Piece", "Plan"]


@dataclass(slots=True, kw_only=True)
class Piece:
    """The part of a query's results that lies in one table."""

    position: int
    timestamp: str
    versions: dict[int, Projection] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A write that was begun and perhaps not ended."""

    table: str
    upto: int
    place: int


@dataclass(slots=True, kw_only=True)
class Account:
    """One delivery: its sink, its pieces in the order of the query's versions."""

    number: int
    delivery: str
    query: str
    sink: Sink
    pieces: dict[str, Piece] = field(default_factory=dict)
    place: int | None = None
    plan: Plan | None = None
    ending: bool = False

    @property
    def newest(self) -> str:
        """The table of the newest version."""
        return max(self.pieces, key=lambda table: max(self.pieces[table].versions))


class Book:
    """The durable state of a deliver component. Any thread of its owner may use it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = NumberedLog(folder)
        self._lock = threading.Lock()
        self._next = 1
        self.epoch = 0
        self.accounts: dict[int, Account] = {}

    def claim(self) -> None:
        """Become the owner; what was planned by the one before is in the accounts."""
        with self._lock:
            self._claim(self._log.read(0).epoch + 1)

    def knows(self, delivery: Delivery) -> bool:
        """Whether this version of the delivery is in the book."""
        pieces = (
            account.pieces.get(delivery.input)
            for account in self.accounts.values()
            if account.delivery == delivery.delivery
        )
        versions = (piece.versions for piece in pieces if piece is not None)
        return any(known.get(delivery.version) == delivery.projection for known in versions)

    def add(self, deliveries: Sequence[Delivery], *, heads: Mapping[str, int]) -> None:
        """Deliveries or versions that are new; those of a new table begin at its head."""
        if deliveries:
            self._append({"add": [_encoded(one, heads[one.input]) for one in deliveries]})

    def plan(self, table: str, upto: int, places: Mapping[int, int]) -> None:
        """About to write at these places."""
        pairs = [[number, place] for number, place in places.items()]
        self._append({"plan": {"table": table, "upto": upto, "places": pairs}})

    def done(
        self, table: str, upto: int, numbers: Sequence[int], places: Mapping[int, int]
    ) -> None:
        """These deliveries have everything of the table up to this step."""
        pairs = [[number, place] for number, place in places.items()]
        said = {"table": table, "upto": upto, "who": _runs(numbers), "places": pairs}
        self._append({"done": said})

    def end(self, numbers: Sequence[int]) -> None:
        """No version follows any more."""
        self._append({"end": list(numbers)})

    def leave(self, number: int, table: str) -> None:
        """Nothing more comes from this table."""
        self._append({"leave": [number, table]})

    def close(self, numbers: Sequence[int]) -> None:
        """These deliveries are over."""
        self._append({"close": list(numbers)})

    def _claim(self, epoch: int) -> None:
        reading = self._log.claim(epoch)
        self.epoch, self.accounts, self._next = epoch, {}, 1
        try:
            for entry in reading.entries:
                self._apply(entry)
        except (KeyError, TypeError, ValueError) as error:
            raise StorageError(
                f"deliveries {self._folder} hold an entry that cannot be read",
                detail=f"{type(error).__name__}: {error}",
                hint="was it written by a newer Shoal? use that one, or restore the folder",
            ) from error
        self._condense()

    def _append(self, entry: dict[str, JSON]) -> None:
        with self._lock:
            if not self.epoch:
                raise LocalError(f"deliveries {self._folder} were not claimed")
            if not self._log.claimed:
                # An append failed and its outcome is open: what is on disk decides.
                self._claim(self.epoch)
            self._log.append([entry])
            self._apply(entry)
            self._condense()

    def _condense(self) -> None:
        if not self._log.snapshot_due:
            return
        whole = [_whole(account) for account in self.accounts.values()]
        try:
            self._log.snapshot([{"whole": {"next": self._next, "accounts": whole}}])
        except StorageError:
            # What was acknowledged is durable without a snapshot, and the next append is due one.
            return

    def _apply(self, entry: Mapping[str, JSON]) -> None:
        ((kind, said),) = entry.items()
        kinds: dict[str, Callable[[Any], None]] = {
            "add": self._add,
            "plan": self._plan,
            "done": self._done,
            "end": self._end,
            "leave": self._leave,
            "close": self._close,
            "whole": self._take,
        }
        kinds[kind](said)

    def _add(self, said: Iterable[Mapping[str, JSON]]) -> None:
        known = {account.delivery: account for account in self.accounts.values()}
        for one in said:
            account = known.get(one["delivery"])
            if account is None:
                sink = Sink(kind=one["kind"], options=one["options"])
                account = Account(
                    number=self._next, delivery=one["delivery"], query=one["query"], sink=sink
                )
                known[account.delivery] = self.accounts[self._next] = account
                self._next += 1
            piece = account.pieces.setdefault(
                one["table"], Piece(position=one["position"], timestamp=one["timestamp"])
            )
            piece.versions[one["version"]] = _projection(one["columns"], one.get("outputs", ()))

    def _plan(self, said: Mapping[str, JSON]) -> None:
        for number, place in said["places"]:
            account = self.accounts.get(number)
            if account is not None:
                account.plan = Plan(table=said["table"], upto=said["upto"], place=place)

    def _done(self, said: Mapping[str, JSON]) -> None:
        places = dict(said["places"])
        numbers = (n for first, last in said["who"] for n in range(first, last + 1))
        for number in numbers:
            # A delivery may have ended while its last write was under way.
            account = self.accounts.get(number)
            if account is None or said["table"] not in account.pieces:
                continue
            account.pieces[said["table"]].position = said["upto"]
            if account.plan is not None and account.plan.table == said["table"]:
                account.plan = None
            account.place = places.get(number, account.place)

    def _end(self, said: Iterable[int]) -> None:
        for number in said:
            self.accounts[number].ending = True

    def _leave(self, said: Sequence[JSON]) -> None:
        self.accounts[said[0]].pieces.pop(said[1], None)

    def _close(self, said: Iterable[int]) -> None:
        for number in said:
            self.accounts.pop(number, None)

    def _take(self, said: Mapping[str, JSON]) -> None:
        self._next = said["next"]
        self.accounts = {one["number"]: _account(one) for one in said["accounts"]}


def _runs(numbers: Iterable[int]) -> list[list[int]]:
    """[first, last] of every run of consecutive numbers: short, however many sinks there are."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return runs


def _encoded(one: Delivery, position: int) -> dict[str, JSON]:
    return {
        "delivery": one.delivery,
        "query": one.query,
        "kind": one.sink.kind,
        "options": dict(one.sink.options),
        "table": one.input,
        "timestamp": one.timestamp,
        "position": position,
        "version": one.version,
        "columns": _pairs(one.projection),
        "outputs": _outputs(one.projection),
    }


def _pairs(projection: Projection) -> list[list[str]]:
    return [[column.name, column.type] for column in projection.columns]


def _outputs(projection: Projection) -> list[list[str]]:
    return [[one.name, one.expression, one.type] for one in projection.outputs]


def _projection(pairs: Iterable[Sequence[str]], outputs: Iterable[Sequence[str]]) -> Projection:
    """What `_pairs` and `_outputs` wrote; entries of older books have no outputs."""
    return Projection(
        columns=tuple(Column(name=name, type=kind) for name, kind in pairs),
        outputs=tuple(
            Output(name=name, expression=expression, type=kind)
            for name, expression, kind in outputs
        ),
    )


def _whole(account: Account) -> dict[str, JSON]:
    plan = account.plan
    pieces = [
        [
            table,
            piece.position,
            piece.timestamp,
            [[v, _pairs(one), _outputs(one)] for v, one in piece.versions.items()],
        ]
        for table, piece in account.pieces.items()
    ]
    return {
        "number": account.number,
        "delivery": account.delivery,
        "query": account.query,
        "kind": account.sink.kind,
        "options": dict(account.sink.options),
        "place": account.place,
        "plan": None if plan is None else [plan.table, plan.upto, plan.place],
        "ending": account.ending,
        "pieces": pieces,
    }


def _account(one: Mapping[str, Any]) -> Account:
    plan = one["plan"]
    return Account(
        number=one["number"],
        delivery=one["delivery"],
        query=one["query"],
        sink=Sink(kind=one["kind"], options=one["options"]),
        place=one["place"],
        plan=None if plan is None else Plan(table=plan[0], upto=plan[1], place=plan[2]),
        ending=one["ending"],
        pieces={
            table: Piece(
                position=position,
                timestamp=timestamp,
                versions={
                    version: _projection(columns, *outputs or [()])
                    for version, columns, *outputs in versions
                },
            )
            for table, position, timestamp, versions in one["pieces"]
        },
    )
