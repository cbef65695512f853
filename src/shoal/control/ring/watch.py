"""Who is there: round trips, doubts, suspicion and refutation, and who was lost.

    ALIVE ──no answer──▶ DOUBTED ──no answer, not through others either──▶ SUSPECTED ──▶ LOST
      ▲                     │                                                 │           │
      └──────── any message of that incarnation, or a peer that vouches ──────┴───────────┘

A suspected peer is asked again and again, directly and through changing others, and keeps its
place until `suspicion` is over: a slow peer is not a dead one. A message of a *higher* incarnation
means that the one known before is gone (`heard` says so); one of a lower is a leftover. LEFT is
who said good-bye; only a higher incarnation brings it back.

What is a belief of this peer alone is never passed on: others are told neighbours, not verdicts.

Source     SWIM (Das, Gupta, Motivala 2002), sections 3.1 and 4.2, without its dissemination: Chord
           needs verdicts only of neighbours, and everybody probes their own.
Not here   what a loss means for the table (`machine.py`).
"""

from collections.abc import Iterable, Mapping
from enum import Enum

from shoal.control.ring.config import RingConfig
from shoal.control.ring.policy import timeout
from shoal.kernel.keys import Contact
from shoal.kernel.time import MINUTE, Instant

__all__ = ["Acquaintance", "Belief", "Watch"]

#: A left peer is remembered this long: as long as a list that names it may still go round.
_LEFT_FORGET = 5 * MINUTE


class Belief(Enum):
    """What this peer believes of another."""

    ALIVE = "alive"
    DOUBTED = "doubted"
    SUSPECTED = "suspected"
    LOST = "lost"
    LEFT = "left"


#: Beliefs after which a peer has no place in the table.
_GONE = (Belief.LOST, Belief.LEFT)


class Acquaintance:
    """A peer this one has, or had, to do with."""

    __slots__ = ("belief", "contact", "deviation", "heard", "round_trip", "since")

    def __init__(self, contact: Contact, now: Instant) -> None:
        self.contact = contact
        self.belief = Belief.ALIVE
        #: Since when it is believed.
        self.since = now
        #: When a message of it came last.
        self.heard = now
        #: Mean and deviation of the round trip in microseconds; 0 when not measured.
        self.round_trip = 0
        self.deviation = 0

    def believe(self, belief: Belief, now: Instant) -> None:
        """Change the belief."""
        self.belief = belief
        self.since = now


class Watch:
    """All acquaintances, by name."""

    def __init__(self, config: RingConfig) -> None:
        self._config = config
        self._known: dict[str, Acquaintance] = {}
        #: Names of the lost, the longest lost first, and which is tried next.
        self._lost: dict[str, None] = {}

    @property
    def known(self) -> Mapping[str, Acquaintance]:
        """All of them."""
        return self._known

    def get(self, name: str) -> Acquaintance | None:
        """Who has this name, if known."""
        return self._known.get(name)

    def meet(self, contact: Contact, now: Instant) -> Acquaintance:
        """The acquaintance of a contact; of two incarnations the higher is kept."""
        found = self._known.get(contact.name)
        if found is None:
            found = self._known[contact.name] = Acquaintance(contact, now)
        elif contact.incarnation > found.contact.incarnation:
            self._renew(found, contact, now)
        return found

    def _renew(self, found: Acquaintance, contact: Contact, now: Instant) -> None:
        found.contact = contact
        found.believe(Belief.ALIVE, now)
        found.heard = now
        self._lost.pop(contact.name, None)

    def heard(self, sender: Contact, now: Instant) -> Contact | None:
        """A message came: the former incarnation of its sender, if that is now known to be gone."""
        found = self._known.get(sender.name)
        if found is None:
            return None
        found.heard = now
        former = found.contact
        if former is sender:
            return None
        if sender.incarnation > former.incarnation:
            gone = found.belief in _GONE
            self._renew(found, sender, now)
            return None if gone else former
        found.contact = sender
        return None

    def is_leftover(self, sender: Contact) -> bool:
        """Whether a message is of an incarnation that is over."""
        found = self._known.get(sender.name)
        return found is not None and (
            sender.incarnation < found.contact.incarnation
            or (found.belief is Belief.LEFT and sender.incarnation == found.contact.incarnation)
        )

    def revived(self, name: str, now: Instant) -> Belief | None:
        """It has been heard: what was believed of it until now, unless that it is alive."""
        found = self._known.get(name)
        if found is None or found.belief is Belief.ALIVE:
            return None
        before = found.belief
        found.believe(Belief.ALIVE, now)
        self._lost.pop(name, None)
        return before

    def measured(self, name: str, took: int) -> None:
        """A round trip was this long."""
        found = self._known.get(name)
        if found is None:
            return
        if found.round_trip == 0:
            found.round_trip, found.deviation = took, took // 2
        else:
            found.deviation += (abs(took - found.round_trip) - found.deviation) // 4
            found.round_trip += (took - found.round_trip) // 8

    def round_trip(self, name: str) -> int:
        """The mean round trip; a stranger is taken to be as far as the least time-out."""
        found = self._known.get(name)
        if found is None or found.round_trip == 0:
            return self._config.timeout_min
        return found.round_trip

    def timeout(self, name: str) -> int:
        """How long to wait for an answer of this peer."""
        config = self._config
        found = self._known.get(name)
        if found is None or found.round_trip == 0:
            return config.timeout_max
        return timeout(
            found.round_trip,
            found.deviation,
            at_least=config.timeout_min,
            at_most=config.timeout_max,
        )

    # --- beliefs ------------------------------------------------------------------------------

    def believes(self, name: str, belief: Belief) -> bool:
        """Whether this is what is believed of it."""
        found = self._known.get(name)
        return found is not None and found.belief is belief

    def is_alive(self, name: str) -> bool:
        """Whether nothing speaks against it; strangers are taken to be alive."""
        found = self._known.get(name)
        return found is None or found.belief is Belief.ALIVE

    def is_doubtful(self, name: str) -> bool:
        """Whether it should not be relied on just now."""
        found = self._known.get(name)
        return found is not None and found.belief is not Belief.ALIVE

    def is_gone(self, contact: Contact) -> bool:
        """Whether this very incarnation, or a later one of it, was given up here."""
        found = self._known.get(contact.name)
        if found is None or contact.incarnation > found.contact.incarnation:
            return False
        return contact.incarnation < found.contact.incarnation or found.belief in _GONE

    def lose(self, name: str, now: Instant) -> None:
        """Give it up; the longest lost is forgotten when there are too many."""
        self._known[name].believe(Belief.LOST, now)
        self._lost[name] = None
        if len(self._lost) > self._config.lost_max:
            self._forget(next(iter(self._lost)))

    def left(self, contact: Contact, now: Instant) -> None:
        """It has said good-bye."""
        self.meet(contact, now).believe(Belief.LEFT, now)
        self._lost.pop(contact.name, None)

    def lost(self) -> Iterable[Contact]:
        """The lost that are remembered, the one tried longest ago first."""
        return [self._known[name].contact for name in self._lost]

    def next_lost(self) -> Contact | None:
        """The lost peer whose turn it is to be tried; its next turn is behind all others."""
        name = next(iter(self._lost), None)
        if name is None:
            return None
        del self._lost[name]
        self._lost[name] = None
        return self._known[name].contact

    def tidy(self, keep: Mapping[str, object], now: Instant) -> None:
        """Forget who has no place any more and no use as a memory."""
        for name, found in list(self._known.items()):
            age = now - found.since
            if found.belief is Belief.LOST:
                stale = age > self._config.lost_forget
            elif found.belief is Belief.LEFT:
                stale = age > _LEFT_FORGET
            else:
                stale = name not in keep
            if stale:
                self._forget(name)

    def _forget(self, name: str) -> None:
        del self._known[name]
        self._lost.pop(name, None)
