"""Broken variants of the ring, each a replacement for one function; all of them break R2.

In which scenario each must be found:

    grow      peers join one after another, two of them at once
    crash     peers crash, leave and join
    parted    the network is in two halves for a while
    lookups   nothing happens, but look-ups are asked
    lossy     nothing happens, but one message in twenty is lost
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shoal.control.ring.merge import Merger
from shoal.control.ring.messages import Neighbours, Stabilise, Stepped
from shoal.control.ring.neighbours import Neighbourhood
from shoal.control.ring.probe import Prober
from shoal.control.ring.seek import Seeker
from shoal.control.ring.state import Table
from shoal.control.ring.watch import Watch
from shoal.kernel.keys import Contact
from shoal.kernel.time import Instant

__all__ = ["MUTANTS", "Mutant"]

_adopt = Neighbourhood.adopt
_answer = Seeker.answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """What is replaced, by what, and in which scenario that must be found."""

    where: Any
    name: str
    by: Callable[..., Any]
    scenario: str


def _no_rectify(self: Neighbourhood, sender: Contact, now: Instant) -> None:
    """R2: a predecessor is whoever came first; others are not taken."""
    if self._desk.table.predecessor is None:
        self._desk.watch.meet(sender, now)
        self._set_predecessor(sender)
        if not self._desk.table.successors:
            self.try_candidate(sender, now)


def _first_come(self: Neighbourhood, contact: Contact, now: Instant) -> bool:
    """R2: nobody between is asked: the successor that one joined with stays."""
    return False


def _wrong_between(self: Table, key: bytes) -> bool:
    """R2: the predecessor's own key counts as mine, and the rest is left to others."""
    if self.predecessor is None:
        return not self.successors or key == self.me.key
    return self.gap_of_key(key) >= self.gap(self.predecessor) or key[0] < 64


def _deep_names(self: Seeker, sender: Contact, message: Any) -> None:
    """R2: the owner is named from deep in a list, and it is off by one."""
    table = self._desk.table
    if len(table.successors) > 1 and not table.owns(message.key):
        gap = table.gap_of_key(message.key)
        if table.gap(table.successors[0]) < gap <= table.gap(table.successors[-1]):
            self._desk.send(sender, Stepped(message.request, table.successors[-1], (), ()))
            return
    _answer(self, sender, message)


def _never_lost(self: Prober, contact: Contact, since: Instant, now: Instant) -> None:
    """R2: silence has no consequence."""


def _only_one(self: Neighbourhood, sender: Contact, message: Neighbours, now: Instant) -> None:
    """R2: a list of one: the first crash leaves nobody."""
    short = Neighbours(message.request, message.version, message.predecessor, ())
    _adopt(self, sender, short, now)
    self._desk.table.set_successors(self._desk.table.successors[:1])


def _never_merged(self: Merger, now: Instant) -> None:
    """R2: who was lost is not tried again."""


def _no_notify(self: Neighbourhood, now: Instant) -> None:
    """R2: successors are asked, but not told that they have a predecessor."""
    desk = self._desk
    for contact in desk.table.successors[:1]:
        desk.ask("stabilise", contact, Stabilise, 0, False, now=now)


def _hasty(self: Prober, contact: Contact, since: Instant, now: Instant) -> None:
    """R2: one missed answer is death, and death is final."""
    found = self._desk.watch.get(contact.name)
    if found is not None and found.heard < since and contact.name in self._desk.table:
        self._desk.lost.append(contact.name)


def _final(self: Watch, name: str, now: Instant) -> None:
    """R2: nobody comes back in the same incarnation."""


MUTANTS = {
    "no rectify": Mutant(where=Neighbourhood, name="_notified", by=_no_rectify, scenario="grow"),
    "nobody between": Mutant(
        where=Neighbourhood, name="try_candidate", by=_first_come, scenario="grow"
    ),
    "no notification": Mutant(
        where=Neighbourhood, name="stabilise", by=_no_notify, scenario="grow"
    ),
    "wrong between": Mutant(where=Table, name="owns", by=_wrong_between, scenario="lookups"),
    "owners by hearsay": Mutant(where=Seeker, name="answer", by=_deep_names, scenario="lookups"),
    "silence ignored": Mutant(where=Prober, name="silent", by=_never_lost, scenario="crash"),
    "a list of one": Mutant(where=Neighbourhood, name="adopt", by=_only_one, scenario="crash"),
    "never merging": Mutant(where=Merger, name="look_around", by=_never_merged, scenario="parted"),
    "lost at once": Mutant(where=Prober, name="silent", by=_hasty, scenario="lossy"),
    "lost for good": Mutant(where=Watch, name="revived", by=_final, scenario="parted"),
}
