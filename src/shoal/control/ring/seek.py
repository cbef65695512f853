"""Look-ups: ask whoever stands closest before the key for somebody closer, until one knows.

    me ──Step──▶ a ──closer: d c b──▶ me ──Step──▶ d ──(no answer)  me ──Step──▶ c ──owner──▶ me

Only the peer before the key names the owner, its first successor; a peer knows its own keys, too.
Names from deeper in a successor list are hints, because they are older. Every step names several
alternatives, each closer than who named them, so a search cannot go in circles; when all have
failed it begins again from the own table, and it ends within `lookup_timeout` in any case.

Iterative, not recursive: the one who asks sees every silence, needs nobody's memory, and can take
any alternative it has heard of; it costs one message more a hop and the longer way back.
Of candidates within one power of two from the key the nearer by round trip is asked first.

Source     Chord (Stoica et al. 2003), section IV; alternatives and restarts are ours.
Not here   what the owner is wanted for (`machine.py` settles what is `done`).
"""

from collections.abc import Sequence

from shoal.control.ring.desk import Desk
from shoal.control.ring.messages import Step, Stepped
from shoal.control.ring.policy import rank
from shoal.kernel.keys import KEY_BITS, Contact, Key, key_of_name
from shoal.kernel.time import Instant

__all__ = ["CLOSER_MAX", "Search", "Seeker"]

#: Alternatives in one answer, and names behind an owner: two may be wrong and one is left.
CLOSER_MAX = 3
#: Peers that one search asks at most; far above the 160 of the longest possible path's halvings.
_HOPS_MAX = 256
#: How often a silent peer is asked before another is, and how often in all while others go on
#: naming it. Most silences are a lost message.
_IN_A_ROW = 2
_SILENCES_MAX = 6
#: How often a search may begin again.
_RESTARTS_MAX = 3
_ROUND = 1 << KEY_BITS


class Search:
    """One look-up; `purpose` and `about` say what for."""

    __slots__ = (
        "about",
        "behind",
        "hops",
        "key",
        "met_me",
        "named",
        "number",
        "owner",
        "place",
        "pool",
        "purpose",
        "restarts",
        "silences",
        "started",
        "teller",
    )

    def __init__(
        self, number: int, purpose: str, key: Key, about: object, started: Instant
    ) -> None:
        self.number = number
        self.purpose = purpose
        self.key = key
        self.about = about
        self.started = started
        self.place = int.from_bytes(key)
        #: Candidates with their rank, in no order.
        self.pool: list[tuple[tuple[int, int, int], Contact]] = []
        #: Who is or was in the pool, and how often somebody did not answer.
        self.named: dict[str, None] = {}
        self.silences: dict[str, int] = {}
        self.hops = 0
        self.restarts = 0
        #: The outcome, who told it, and who stands behind the owner.
        self.owner: Contact | None = None
        self.teller: Contact | None = None
        self.behind: tuple[Contact, ...] = ()
        #: Whether somebody named this peer as a candidate: it is known where we look.
        self.met_me = False

    def remaining(self, contact: Contact) -> int:
        """From a candidate to the key; a whole round if it stands on the key."""
        place = int.from_bytes(key_of_name(contact.name))
        return (self.place - place) % _ROUND or _ROUND


class Seeker:
    """All searches of a peer."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        #: Searches that have ended since the last settling.
        self.done: list[Search] = []
        self._active: dict[int, Search] = {}
        self._last = 0

    @property
    def active(self) -> int:
        """How many are under way."""
        return len(self._active)

    def begin(self, purpose: str, key: Key, about: object, now: Instant) -> None:
        """Look a key up from the own table."""
        search = self._new(purpose, key, about, now)
        if not self._known_here(search):
            self._fill(search, self._desk.table.closer(key, CLOSER_MAX))
            self._next(search, now)

    def begin_through(
        self, purpose: str, key: Key, about: object, others: Sequence[Contact], now: Instant
    ) -> None:
        """Look a key up through these peers, which may be known by their address only."""
        search = self._new(purpose, key, about, now)
        search.restarts = _RESTARTS_MAX
        search.pool = [((0, 0, turn), contact) for turn, contact in enumerate(others)]
        search.named = {contact.name or contact.address: None for contact in others}
        self._next(search, now)

    def _new(self, purpose: str, key: Key, about: object, now: Instant) -> Search:
        self._last += 1
        search = Search(self._last, purpose, key, about, now)
        self._active[search.number] = search
        return search

    def is_seeking(self, purpose: str) -> bool:
        """Whether a search for this is under way."""
        return any(search.purpose == purpose for search in self._active.values())

    def give_up(self) -> Sequence[Search]:
        """This peer leaves: all that are under way have no outcome."""
        ended = list(self._active.values())
        self._active.clear()
        return ended

    def _known_here(self, search: Search) -> bool:
        table = self._desk.table
        if table.owns(search.key):
            self._end(search, table.me)
            return True
        if table.is_firsts(search.key):
            search.behind = table.successors[1 : 1 + CLOSER_MAX]
            self._end(search, table.successors[0])
            return True
        return False

    def _fill(self, search: Search, contacts: Sequence[Contact]) -> None:
        """Into the pool; who is in doubt only if there is nobody else."""
        watch = self._desk.watch
        me = self._desk.me.name
        doubtful: list[Contact] = []
        for contact in contacts:
            name = contact.name
            if name == me:
                search.met_me = True
            elif name in search.named or search.silences.get(name, 0) >= _SILENCES_MAX:
                continue
            elif watch.is_doubtful(name):
                doubtful.append(contact)
            else:
                self._put(search, contact)
        if not search.pool:
            for contact in doubtful:
                if not watch.is_gone(contact):
                    self._put(search, contact)

    def _put(self, search: Search, contact: Contact) -> None:
        where = rank(search.remaining(contact), self._desk.watch.round_trip(contact.name))
        search.pool.append((where, contact))
        search.named[contact.name] = None

    def _next(self, search: Search, now: Instant) -> None:
        """Ask the best candidate; without any, begin again or end."""
        desk = self._desk
        if now - search.started >= desk.config.lookup_timeout or search.hops >= _HOPS_MAX:
            self._end(search, None)
            return
        if not search.pool and search.restarts < _RESTARTS_MAX:
            search.restarts += 1
            search.named.clear()
            search.silences.clear()
            if self._known_here(search):
                return
            self._fill(search, desk.table.closer(search.key, CLOSER_MAX * (1 + search.restarts)))
        if not search.pool:
            self._end(search, None)
            return
        best = min(search.pool, key=_rank)
        search.pool.remove(best)
        search.hops += 1
        self._ask(search, best[1], now)

    def _ask(self, search: Search, to: Contact, now: Instant) -> None:
        desk = self._desk
        left = search.started + desk.config.lookup_timeout - now
        wait = max(1, min(desk.watch.timeout(to.name), left))
        desk.ask("step", to, Step, search.key, now=now, about=search, timeout=wait)

    def _end(self, search: Search, owner: Contact | None) -> None:
        search.owner = owner
        search.pool.clear()
        del self._active[search.number]
        self.done.append(search)

    def stepped(self, sender: Contact, message: Stepped, search: Search, now: Instant) -> None:
        """A peer knows the owner, or somebody closer."""
        owner = message.owner
        if owner is None:
            least = search.remaining(sender)
            nearer = [c for c in message.closer if search.remaining(c) < least]
            self._fill(search, nearer)
            if search.met_me and search.purpose == "place":
                # Known there: what stands behind me is what I know already.
                self._end(search, None)
            else:
                self._next(search, now)
            return
        for contact in (owner, *message.behind):
            if not self._desk.watch.is_gone(contact):
                search.teller = sender
                search.behind = message.behind
                self._end(search, contact)
                return
        self._next(search, now)

    def silent(self, search: Search, contact: Contact, now: Instant) -> None:
        """The peer asked last did not answer: a message may be lost, so ask once more."""
        name = contact.name or contact.address
        times = search.silences[name] = search.silences.get(name, 0) + 1
        if times % _IN_A_ROW:
            self._ask(search, contact, now)
            return
        # Somebody may name it again, if there is no better way.
        search.named.pop(name, None)
        self._next(search, now)

    def failed(self, search: Search, ways: Sequence[str], now: Instant) -> None:
        """The peer asked last is in no ring; if it wants to join, it knows other ways in."""
        if search.purpose == "place":
            for turn, way in enumerate(ways):
                if way != self._desk.me.address and way not in search.named:
                    search.named[way] = None
                    search.pool.append(((0, 0, turn), Contact("", way, 0)))
        self._next(search, now)

    def answer(self, sender: Contact, message: Step) -> None:
        """Take one step of somebody's look-up."""
        desk = self._desk
        table = desk.table
        key = message.key
        if table.owns(key):
            behind = table.successors[:CLOSER_MAX]
            desk.send(sender, Stepped(message.request, table.me, behind, ()))
            return
        if table.is_firsts(key):
            successors = table.successors
            behind = successors[1 : 1 + CLOSER_MAX]
            desk.send(sender, Stepped(message.request, successors[0], behind, ()))
            return
        known = table.closer(key, CLOSER_MAX + 2)
        certain = [c for c in known if not desk.watch.is_doubtful(c.name)] or known
        desk.send(sender, Stepped(message.request, None, (), tuple(certain[:CLOSER_MAX])))


def _rank(candidate: tuple[tuple[int, int, int], Contact]) -> tuple[int, int, int]:
    return candidate[0]
