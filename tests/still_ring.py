"""A ring that needs no messages, for tests of what stands on one.

It knows who its members are, because somebody tells it: a script (`event p1 Members p1,p2,p4`), or
a roster that all rings of a test share and look at now and then. It answers look-ups at once.

    StillRing(me)                          knows only itself until it is told Members
    StillRing(me, roster, look_every=..)   follows the roster, each peer at its own pace

Whoever is no longer a member is lost, whoever is new has joined: news are those of the real ring.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from shoal.control.ring.messages import Find, Found, PeerLost, TableChanged
from shoal.kernel.effects import Effect, SetTimer, Tell
from shoal.kernel.events import Started, TimerFired
from shoal.kernel.keys import Contact, Key
from shoal.kernel.time import Instant

__all__ = ["Members", "StillRing", "keeper_among", "neighbours_among"]

_SUCCESSORS = 4
_LOOK = "ring/look"


class Members(Struct, frozen=True):
    """Who is on the ring; a peer that is not in it is alone."""

    contacts: tuple[Contact, ...]


class _View(Struct, frozen=True):
    members: tuple[Contact, ...]


def keeper_among(contacts: Sequence[Contact], key: Key) -> Contact:
    """Who keeps a key: the first at or behind it."""
    order = sorted(contacts, key=lambda contact: contact.key)
    return next((one for one in order if one.key >= key), order[0])


def neighbours_among(
    contacts: Sequence[Contact], me: Contact
) -> tuple[Contact | None, tuple[Contact, ...]]:
    """Who stands before a member, and behind it."""
    order = sorted(contacts, key=lambda contact: contact.key)
    at = next(i for i, one in enumerate(order) if one.name == me.name)
    others = order[at + 1 :] + order[:at]
    return (others[-1] if others else None), tuple(others[:_SUCCESSORS])


class StillRing:
    """The ring machine of a peer, without a protocol."""

    name = "ring"
    messages: Mapping[int, type[Struct]] = {}
    questions: Sequence[type[Struct]] = ()

    def __init__(
        self, me: Contact, roster: Sequence[Contact] | None = None, *, look_every: int = 0
    ) -> None:
        self.me = me
        self.members: tuple[Contact, ...] = (me,)
        self._roster = roster
        self._look_every = look_every

    def handle(self, event: Struct, now: Instant) -> Sequence[Effect]:
        """Take an event in."""
        if isinstance(event, Members):
            return self._become(event.contacts)
        if isinstance(event, Find):
            owner = keeper_among(self.members, event.key)
            return [Tell(Found(event.token, event.key, owner, 0))]
        if isinstance(event, Started | TimerFired) and self._roster is not None:
            again = SetTimer(_LOOK, now + self._look_every)
            return [*self._become(tuple(self._roster)), again]
        return []

    def _become(self, contacts: tuple[Contact, ...]) -> list[Effect]:
        if all(one.name != self.me.name for one in contacts):
            contacts = (self.me,)
        if contacts == self.members and len(contacts) > 1:
            return []
        lost = [one for one in self.members if one not in contacts]
        self.members = contacts
        predecessor, successors = neighbours_among(contacts, self.me)
        news: list[Effect] = [Tell(TableChanged(predecessor, successors, ()))]
        return news + [Tell(PeerLost(one)) for one in lost]

    def validate(self) -> None:
        """There is always at least this peer."""
        assert self.members

    def view(self) -> Struct:
        """The members."""
        return _View(self.members)
