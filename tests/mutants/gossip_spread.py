"""Broken variants of gossip, each a replacement for one function, and the promise it breaks.

G1  a peer hears a broadcast once         parts that are not narrowed; a part nobody gets
G2  everybody ends with every fact        silence that is not mended; stores nobody compares
G3  the highest version holds             an older one wins; versions that start from nothing
G4  what was removed stays removed        a removal that is not remembered; an absence that is
                                          not asked about
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from shoal.control.gossip import policy, spread
from shoal.control.gossip.compare import Comparing
from shoal.control.gossip.machine import GossipMachine
from shoal.control.gossip.messages import Broadcast, Fact, Want
from shoal.control.gossip.policy import Order, Share
from shoal.control.gossip.spread import Spreading
from shoal.control.gossip.state import Store
from shoal.kernel.effects import Effect
from shoal.kernel.keys import Contact, Key
from shoal.kernel.time import Instant

_take = Store.take
_accept = GossipMachine._accept
_told = GossipMachine._take


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """What is replaced, by what, and in which scenario that must be found."""

    promise: str
    where: Any
    name: str
    by: Callable[..., Any]
    scenario: str


def _not_narrowed(order: Order, low: Key, high: Key, absent: Mapping[str, object]) -> list[Share]:
    """Every delegate gets the rest of the interval, not only the part up to the next one."""
    shares = policy.assign(order, low, high, absent)
    return [msgspec.structs.replace(share, high=high) for share in shares]


def _last_left_out(order: Order, low: Key, high: Key, absent: Mapping[str, object]) -> list[Share]:
    """The part behind the last known peer is nobody's."""
    return policy.assign(order, low, high, absent)[:-1]


def _not_mended(self: Spreading, duty: Any, now: Instant, out: list[Effect]) -> None:
    """A silent delegate is not replaced."""


def _never_compared(self: Comparing, partner: Contact, now: Instant, out: list[Effect]) -> None:
    """No comparison begins."""


def _latest_wins(self: Store, fact: Fact, now: Instant) -> bool:
    """What came last holds, whatever its version."""
    if self.version(fact.name) is not None:
        self.drop(fact.name)
    return _take(self, fact, now)


def _from_nothing(
    self: GossipMachine, request: int, question: Broadcast, now: Instant, out: list[Effect]
) -> None:
    """Versions do not start above what was seen."""
    self._store.counter = 0
    _accept(self, request, question, now, out)


def _not_remembered(self: GossipMachine, fact: Fact, now: Instant, out: list[Effect]) -> bool:
    """A removal by another peer takes the fact away, and that is all."""
    taken = _told(self, fact, now, out)
    if taken and fact.body is None and fact.version.writer != self.me.name:
        self._store.drop(fact.name)
    return taken


def _never_over(self: Comparing, session: Any, want: Want) -> bool:
    """Whatever the neighbour lacks is given to it, however long this peer was away."""
    return False


MUTANTS = {
    "parts not narrowed": Mutant(
        promise="G1", where=spread, name="assign", by=_not_narrowed, scenario="calm"
    ),
    "last part left out": Mutant(
        promise="G1", where=spread, name="assign", by=_last_left_out, scenario="calm"
    ),
    "silence not mended": Mutant(
        promise="G2", where=Spreading, name="_repair", by=_not_mended, scenario="dead"
    ),
    "stores never compared": Mutant(
        promise="G2", where=Comparing, name="_begin", by=_never_compared, scenario="parted"
    ),
    "latest wins": Mutant(
        promise="G3", where=Store, name="take", by=_latest_wins, scenario="parted"
    ),
    "versions from nothing": Mutant(
        promise="G3", where=GossipMachine, name="_accept", by=_from_nothing, scenario="calm"
    ),
    "removals not remembered": Mutant(
        promise="G4", where=GossipMachine, name="_take", by=_not_remembered, scenario="calm"
    ),
    "absence not asked about": Mutant(
        promise="G4", where=Comparing, name="_is_over", by=_never_over, scenario="absent"
    ),
}
