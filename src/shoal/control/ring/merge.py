"""Rings that parted find each other and become one.

    look_around      now and then: ping one lost peer; see through a seed whether it is one ring
    back             a lost peer answers: probably the network is whole again. Ask all the lost
    unify            look up the key behind mine through a peer that may stand in another ring
    found            if nobody there knows me: that is another ring. Its owner of my place may be
                     my successor, who named it is my predecessor there; pass the word on

Chord alone never merges: two rings that each stabilise are both content. Looking up the own place
through the other ring closes the zip at one place; `Consider` (the old successor, told to the new
one, `neighbours.py`) pulls it along; `Unify`, passed on to all fingers, closes it at many places at
once, so that it takes rounds by the logarithm of the size and not by the size.

Source     Shafaat, Ghodsi, Haridi 2009 (list of lost peers, look-up of the own key, fan-out).
"""

from shoal.control.ring.desk import Desk
from shoal.control.ring.messages import Consider, Ping, RingsMerged, Unify
from shoal.control.ring.neighbours import Neighbourhood
from shoal.control.ring.seek import Search, Seeker
from shoal.kernel.effects import Tell
from shoal.kernel.keys import Contact, ahead
from shoal.kernel.time import MINUTE, SECOND, Instant

__all__ = ["Merger"]

#: Times that the word of another ring is passed on: with eight fingers, 4,096 peers and more.
_SPREAD = 4
#: Lost peers asked at once when one of them is back.
_ASKED_MAX = 16
#: The own place is looked up at most this often, however many say that it should be.
_PAUSE = SECOND
#: The own place is looked up through a seed this often: the cost is a look-up a minute.
_SEED_PERIOD = MINUTE


class Merger:
    """Looks for other rings and joins this one with them."""

    def __init__(self, desk: Desk, seeker: Seeker, neighbourhood: Neighbourhood) -> None:
        self._desk = desk
        self._seeker = seeker
        self._neighbourhood = neighbourhood
        self._looking = False
        self._next_at: Instant = 0
        self._seed_at: Instant = 0
        self._unsure = False
        self._told_at: Instant = 0
        #: Whom to look through when the pause is over.
        self._waiting: tuple[Contact, int] | None = None

    def began_ring(self) -> None:
        """There were ways in, and none led anywhere: not sure to stand in the right ring."""
        self._unsure = bool(self._desk.ways)

    def look_around(self, now: Instant) -> None:
        """Try one lost peer; now and then, or while not sure of the own ring, a way in."""
        desk = self._desk
        lost = desk.watch.next_lost()
        if lost is not None:
            desk.ask("lost", lost, Ping, now=now)
        if desk.ways and (self._unsure or now >= self._seed_at):
            # Anywhere in the period, so that a thousand peers do not ask one seed at once.
            self._seed_at = now + _SEED_PERIOD // 2 + int(_SEED_PERIOD * desk.rng.uniform())
            self._look_through(desk.rng.choice(desk.ways), _SPREAD, now)

    def alone(self, now: Instant) -> None:
        """No successor is left, or memory was lost: find one through whoever is still known."""
        desk = self._desk
        table = desk.table
        if table.predecessor is not None:
            # Its list names who stands behind me.
            self._neighbourhood.try_candidate(table.predecessor, now)
        known = table.route()[1] or desk.ways
        if known:
            self._look_through(desk.rng.choice(known), 0, now)

    def back(self, contact: Contact, now: Instant) -> None:
        """A lost peer has been heard: look for its ring, and have it look for this one."""
        desk = self._desk
        self._neighbourhood.ask_anew()
        self._neighbourhood.try_candidate(contact, now)
        desk.send(contact, Unify(desk.me, 0))
        self.unify(contact, _SPREAD, now)
        for other in list(desk.watch.lost())[:_ASKED_MAX]:
            if not desk.requests.pending("lost", other.name):
                desk.ask("lost", other, Ping, now=now)

    def unify(self, contact: Contact, spread: int, now: Instant) -> None:
        """It may stand in another ring."""
        if contact.name != self._desk.me.name and not self._desk.watch.is_gone(contact):
            self._look_through(contact, min(spread, _SPREAD), now)

    def _look_through(self, contact: Contact, spread: int, now: Instant) -> None:
        if self._looking or now < self._next_at:
            self._waiting = contact, spread
            return
        self._looking = True
        self._next_at = now + _PAUSE
        key = ahead(self._desk.me.key, 0)
        self._seeker.begin_through("place", key, (contact, spread), [contact], now)

    def go_on(self, now: Instant) -> None:
        """The pause is over: look through whoever came meanwhile."""
        if self._waiting is not None and not self._looking and now >= self._next_at:
            contact, spread = self._waiting
            self._waiting = None
            self._look_through(contact, spread, now)

    def found(self, search: Search, now: Instant) -> None:
        """My place there is known."""
        self._looking = False
        desk = self._desk
        owner, teller = search.owner, search.teller
        if search.met_me or owner is not None:
            self._unsure = False
        if search.met_me or owner is None or teller is None or owner.name == desk.me.name:
            return
        successors = desk.table.successors
        if successors and successors[0].name in (owner.name, teller.name):
            # Only my predecessor there is out of date.
            desk.send(teller, Consider(desk.me))
            return
        if now >= self._told_at:
            self._told_at = now + MINUTE
            desk.note(f"there is another ring, with {owner.name} behind this place")
            desk.out.append(Tell(RingsMerged()))
        self._neighbourhood.try_candidate(owner, now)
        desk.send(teller, Consider(desk.me))
        # A joiner that began a ring of its own may still hear of its place in the other.
        spread = search.about[1] if isinstance(search.about, tuple) else _SPREAD
        if spread > 0:
            self._pass_on(teller, spread - 1)

    def _pass_on(self, other: Contact, spread: int) -> None:
        """To all fingers, and to the neighbours."""
        table = self._desk.table
        told = {c.name: c for c in (*table.fingers_apart(), *table.successors[:2])}
        if table.predecessor is not None:
            told[table.predecessor.name] = table.predecessor
        for contact in told.values():
            self._desk.send(contact, Unify(other, spread))
