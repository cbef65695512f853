"""Broken variants of the directory, each a replacement for one function, and the promise it breaks.

R1  no record is lost           copies that are not made, or counted before anybody has them; a
                                range that is not handed over; nobody compares, so new replicas and
                                new keepers learn nothing
D1  what is gone stays gone     a withdrawal that is not remembered; leases that do not end;
                                records taken from the disk
D2  versions never go back      the latest message wins, whatever its version
D3  every question is answered  a question that waits for a keeper for ever
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from shoal.control.directory import keeper, machine
from shoal.control.directory.keeper import Keeper, Outcome
from shoal.control.directory.machine import DirectoryMachine
from shoal.control.directory.messages import WITHDRAWN, Item, Want, ident_of
from shoal.control.directory.owner import Owner
from shoal.control.directory.seeker import Seeker
from shoal.control.directory.state import Entry
from shoal.control.directory.sync import Sync
from shoal.kernel.effects import Persist
from shoal.kernel.events import Started
from shoal.kernel.keys import Contact
from shoal.kernel.time import DAY, Instant

__all__ = ["MUTANTS", "Mutant"]

_take = Keeper.take
_beat = DirectoryMachine._beat
_started = DirectoryMachine._started
_ITEMS = msgspec.msgpack.Decoder(tuple[Item, ...])


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """What is replaced, by what, and in which scenario that must be found."""

    promise: str
    replaced: Sequence[tuple[Any, str, Any]]
    scenario: str


def _no_copy(self: Keeper, to: Contact, entries: list[Entry], receipt: object, now: Instant) -> int:
    """Backups get nothing."""
    return 0


def _no_renewal(self: Keeper, now: Instant) -> None:
    """Not even later."""
    self.renewed.clear()


def _all_told(self: Keeper, entry: Entry) -> int:
    """Whoever should have a copy is taken to have it."""
    return 1 + len(self.desk.place.backups)


def _nothing_to_give(self: Sync, sender: Contact, message: Want, now: Instant) -> None:
    """Whoever takes a range over is left without what was kept there."""


def _never_compared(self: Sync, to: Contact, turn: int, now: Instant) -> None:
    """No comparison begins."""


def _not_remembered(self: Keeper, item: Item, until: Instant) -> Outcome:
    """A withdrawal takes the record away, and that is all."""
    outcome = _take(self, item, until)
    entry = self.shelf.entries.get(ident_of(item.record))
    if item.state == WITHDRAWN and entry is not None and entry.state == WITHDRAWN:
        self.shelf.drop(entry)
        return Outcome.SAME
    return outcome


def _for_ever(self: Keeper, item: Item) -> int:
    """No lease ends."""
    return 30 * DAY


def _write_down(self: DirectoryMachine, now: Instant) -> None:
    """The shelf is kept on disk."""
    _beat(self, now)
    items = tuple(entry.item(now) for entry in self.keeper.shelf.entries.values())
    self.desk.box.effects.append(Persist("directory/shelf", msgspec.msgpack.encode(items)))


def _read_back(self: DirectoryMachine, event: Started, now: Instant) -> None:
    """And believed when the peer starts again."""
    _started(self, event, now)
    for item in _ITEMS.decode(event.stored.get("directory/shelf", b"\x90")):
        self.keeper.take(item, now + item.left)


def _latest_wins(*_: object) -> bool:
    """What came last holds."""
    return True


def _for_want_of_a_keeper(self: Seeker, number: int) -> None:
    """Nobody says that it has taken too long."""


def _no_hurry(self: Owner, number: int) -> None:
    """Nor here."""


def _acts(**methods: Callable[..., None]) -> dict[Any, Any]:
    """The machine's routes with other methods behind some actions."""
    return {
        pair: (following, methods.get(machine.TABLE[pair][1], method))
        for pair, (following, method) in machine._ACT.items()
    }


MUTANTS = {
    "copies not made": Mutant(
        promise="R1",
        replaced=[(Keeper, "push", _no_copy), (Keeper, "copy_renewals", _no_renewal)],
        scenario="neighbours",
    ),
    "stored before it is copied": Mutant(
        promise="R1", replaced=[(Keeper, "push", _no_copy)], scenario="calm"
    ),
    "copies counted unseen": Mutant(
        promise="R1", replaced=[(Keeper, "copies_of", _all_told)], scenario="lossy"
    ),
    "range not handed over": Mutant(
        promise="R1", replaced=[(Sync, "want", _nothing_to_give)], scenario="rarely renewed"
    ),
    "nobody compares": Mutant(
        promise="R1", replaced=[(Sync, "_compare", _never_compared)], scenario="rarely renewed"
    ),
    "withdrawal not remembered": Mutant(
        promise="D1", replaced=[(Keeper, "take", _not_remembered)], scenario="rough"
    ),
    "leases do not end": Mutant(
        promise="D1", replaced=[(Keeper, "life_of", _for_ever)], scenario="ended"
    ),
    "taken from the disk": Mutant(
        promise="D1",
        replaced=[
            (DirectoryMachine, "_beat", _write_down),
            (machine, "_ACT", _acts(_started=_read_back)),
        ],
        scenario="disks",
    ),
    "latest wins": Mutant(
        promise="D2", replaced=[(keeper, "replaces", _latest_wins)], scenario="renewed"
    ),
    "waits for ever": Mutant(
        promise="D3",
        replaced=[
            (Seeker, "timed_out", _for_want_of_a_keeper),
            (Owner, "question_timed_out", _no_hurry),
        ],
        scenario="silent",
    ),
}
