"""The way into a ring, and what is kept on disk so that a restart finds it again.

    look up the key behind mine through a seed ─▶ owner o, told by t
    ask o for its list, not as a member yet    ─▶ successors = [o, its list]: now a member
    Stabilise to o; tell t and o's predecessor that I am here

Zave's join: nobody is a member before it has a successor and that one's list.
"""

from collections.abc import Mapping

import msgspec

from shoal.control.ring.desk import Desk
from shoal.control.ring.messages import WAYS_MAX, Consider, Neighbours, Stabilise
from shoal.control.ring.neighbours import Neighbourhood
from shoal.control.ring.seek import Search, Seeker
from shoal.kernel.effects import Persist
from shoal.kernel.keys import Contact, ahead
from shoal.kernel.time import Instant

__all__ = ["Joiner", "Place"]

_STORED = "ring/contacts"
#: How much longer a joiner waits that knows of another with a better right to begin a ring.
_PATIENCE = 4


#: Predecessor, successors and fingers by power: a place in a ring that is whole already.
Place = tuple[Contact, tuple[Contact, ...], Mapping[int, Contact]]


class Joiner:
    """Finds a way in, and keeps one for the next incarnation."""

    def __init__(
        self, desk: Desk, seeker: Seeker, neighbourhood: Neighbourhood, place: Place | None
    ) -> None:
        self._ready = place
        self._desk = desk
        self._seeker = seeker
        self._neighbourhood = neighbourhood
        self._started_at: Instant = 0
        #: Others that are on the way in.
        self._joiners: dict[str, Contact] = {}
        self._kept = 0
        self._kept_at: Instant = 0

    def start(self, stored: bytes | None, now: Instant) -> None:
        """Read what is stored; it may be old or damaged, and then it is left out."""
        self._started_at = self._kept_at = now
        desk = self._desk
        seeds = [Contact("", a, 0) for a in desk.config.seeds if a != desk.me.address]
        desk.ways = (*seeds, *self._read(stored))

    def _read(self, stored: bytes | None) -> tuple[Contact, ...]:
        if stored is None:
            return ()
        try:
            contacts = msgspec.msgpack.decode(stored, type=tuple[Contact, ...])
        except (msgspec.DecodeError, ValueError) as error:
            self._desk.note(f"stored contacts cannot be read and are left out: {error}")
            return ()
        return tuple(c for c in contacts if c.name != self._desk.me.name)

    def take_place(self, now: Instant) -> bool:
        """Stand where this peer was put (`policy.stable_tables`), if it was put anywhere."""
        if self._ready is None:
            return False
        table = self._desk.table
        predecessor, successors, fingers = self._ready
        table.set_predecessor(predecessor)
        table.set_successors(successors)
        for power, contact in fingers.items():
            table.set_finger(power, contact)
        for contact in (predecessor, *successors, *fingers.values()):
            self._desk.watch.meet(contact, now)
        return True

    def ways_in(self) -> list[Contact]:
        """Whom to join through, in another order each time."""
        ways = list(self._desk.ways)
        self._desk.rng.shuffle(ways)
        return ways

    def ways(self) -> tuple[str, ...]:
        """Addresses to tell another joiner."""
        return tuple(contact.address for contact in self.ways_in()[:WAYS_MAX])

    def heard_joiner(self, contact: Contact) -> None:
        """Somebody else is on the way in, too."""
        self._joiners[contact.name] = contact

    def try_again(self, now: Instant) -> bool:
        """Look for the place, if that is not being done; False if it has taken too long.

        Where a whole mesh starts at once and everybody's seeds are joiners themselves, somebody has
        to begin: of those that know of each other the first by key, the others only much later.
        """
        me = self._desk.me.key
        first = all(me < joiner.key for joiner in self._joiners.values())
        patience = self._desk.config.alone_after * (1 if first else _PATIENCE)
        if now - self._started_at >= patience:
            return False
        if not self._seeker.is_seeking("place") and not self._desk.requests.pending_kind("join"):
            key = ahead(self._desk.me.key, 0)
            self._seeker.begin_through("place", key, None, self.ways_in(), now)
        return True

    def place_found(self, search: Search, now: Instant) -> None:
        """The owner of my place will be my successor: ask for its list, not as a member yet."""
        desk = self._desk
        owner = search.owner
        if owner is not None and owner.name != desk.me.name:
            desk.ask("join", owner, Stabilise, 0, False, now=now, about=search.teller)

    def welcomed(self, sender: Contact, message: Neighbours, now: Instant) -> Contact | None:
        """Take the list; who told of the owner, if this is indeed the answer awaited."""
        desk = self._desk
        request = desk.requests.close(message.request, sender)
        if request is None or request.kind != "join":
            return None
        assert isinstance(request.about, Contact)
        desk.watch.meet(sender, now)
        desk.watch.measured(sender.name, now - request.sent)
        desk.note(f"joins between {request.about.name} and {sender.name}")
        self._neighbourhood.adopt(sender, message, now)
        return request.about

    def introduce(self, told_by: Contact, message: Neighbours, now: Instant) -> None:
        """I am a member: let both sides know."""
        desk = self._desk
        self._neighbourhood.stabilise(now)
        first = desk.table.successors[0].name
        before = {told_by.name: told_by}
        if message.predecessor is not None:
            before[message.predecessor.name] = message.predecessor
        for contact in before.values():
            if contact.name not in (first, desk.me.name):
                desk.send(contact, Consider(desk.me))

    def keep(self, now: Instant) -> None:
        """Store whom I know, if it is time and another set; forget who is of no use."""
        desk = self._desk
        if now - self._kept_at < desk.config.store_period:
            return
        self._kept_at = now
        table = desk.table
        in_use = {c.name: c for c in (*table.successors, *table.fingers_apart())}
        if table.predecessor is not None:
            in_use[table.predecessor.name] = table.predecessor
        desk.watch.tidy(in_use, now)
        if table.changes != self._kept and in_use:
            self._kept = table.changes
            desk.out.append(Persist(_STORED, msgspec.msgpack.encode(tuple(in_use.values()))))
