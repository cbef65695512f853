"""What peers of a ring say to each other, what may be asked of the ring, and its news.

    request     answer                   about
    Stabilise   Neighbours | Unchanged   who is around you? (and: I take you for my successor)
    Step        Stepped                  who owns this key, or who is closer to it?
    Ping        Pong                     are you there?
    PingFor     Vouched                  is that one there? I cannot hear it
    Goodbye     -                        I leave; these are my neighbours
    Consider    -                        that one may be a closer successor of yours
    Unify       -                        that one may stand in another ring; look for yourself

Any request gets `NotMember` from a peer that is in no ring (yet, or any more).
"""

from collections.abc import Mapping

from msgspec import Struct

from shoal.kernel.errors import RemoteError
from shoal.kernel.keys import KEY_BITS, Contact, Key, distance

__all__ = [
    "MESSAGES",
    "QUESTIONS",
    "WAYS_MAX",
    "Consider",
    "Find",
    "Found",
    "Goodbye",
    "Joined",
    "Leave",
    "Left",
    "Located",
    "Lookup",
    "Neighbours",
    "NotMember",
    "PeerBack",
    "PeerLost",
    "Ping",
    "PingFor",
    "Pong",
    "RingsMerged",
    "Stabilise",
    "Step",
    "Stepped",
    "TableChanged",
    "Unchanged",
    "Unify",
    "Vouched",
    "check_contact",
    "check_key",
    "check_neighbours",
    "check_stepped",
    "check_ways",
]

#: Contacts in one message; the longest successor list that a config allows.
_CONTACTS_MAX = 64
_NAME_MAX = 255
#: Addresses that a joiner passes on.
WAYS_MAX = 8


class Stabilise(Struct, frozen=True, array_like=True, gc=False):
    """Who is around you? `known` is the version heard last; a member takes you for a successor."""

    request: int
    known: int
    member: bool


class Neighbours(Struct, frozen=True, array_like=True, gc=False):
    """My neighbours; request 0 where nobody asked."""

    request: int
    version: int
    predecessor: Contact | None
    successors: tuple[Contact, ...]


class Unchanged(Struct, frozen=True, array_like=True, gc=False):
    """Nothing has changed since the version that you know."""

    request: int


class Step(Struct, frozen=True, array_like=True, gc=False):
    """One step of a look-up."""

    request: int
    key: bytes


class Stepped(Struct, frozen=True, array_like=True, gc=False):
    """The owner and who comes behind it; or peers closer to the key, the best first."""

    request: int
    owner: Contact | None
    behind: tuple[Contact, ...]
    closer: tuple[Contact, ...]


class Ping(Struct, frozen=True, array_like=True, gc=False):
    """Are you there?"""

    request: int


class Pong(Struct, frozen=True, array_like=True, gc=False):
    """I am here; a peer that is suspected refutes it by this."""

    request: int


class PingFor(Struct, frozen=True, array_like=True, gc=False):
    """Ask that one for me."""

    request: int
    target: Contact


class Vouched(Struct, frozen=True, array_like=True, gc=False):
    """It has answered me; `target` as it calls itself."""

    request: int
    target: Contact


class NotMember(Struct, frozen=True, array_like=True, gc=False):
    """I am in no ring; a joiner says through which addresses it is trying to get into one."""

    request: int
    ways: tuple[str, ...] = ()


class Goodbye(Struct, frozen=True, array_like=True, gc=False):
    """I leave; take my neighbours in my place."""

    predecessor: Contact | None
    successors: tuple[Contact, ...]


class Consider(Struct, frozen=True, array_like=True, gc=False):
    """This peer may stand between you and your successor."""

    contact: Contact


class Unify(Struct, frozen=True, array_like=True, gc=False):
    """This peer may stand in another ring; pass it on `spread` times."""

    contact: Contact
    spread: int


MESSAGES: Mapping[int, type[Struct]] = {
    0x0101: Stabilise,
    0x0102: Neighbours,
    0x0103: Unchanged,
    0x0104: Step,
    0x0105: Stepped,
    0x0106: Ping,
    0x0107: Pong,
    0x0108: PingFor,
    0x0109: Vouched,
    0x010A: NotMember,
    0x010B: Goodbye,
    0x010C: Consider,
    0x010D: Unify,
}


class Lookup(Struct, frozen=True):
    """Question: who owns this key? Answered by `Located`."""

    key: bytes


class Located(Struct, frozen=True):
    """The owner, or None if nobody could tell in time; `hops` is how many peers were asked."""

    key: bytes
    owner: Contact | None
    hops: int


class Leave(Struct, frozen=True):
    """Question: leave the ring for good. Answered by `Left`."""


class Left(Struct, frozen=True):
    """The good-byes are on their way."""


QUESTIONS: tuple[type[Struct], ...] = (Lookup, Leave)


class Find(Struct, frozen=True):
    """Event of a sibling: who owns this key? Answered by the news `Found`."""

    token: str
    key: bytes


class Found(Struct, frozen=True):
    """News: the answer to `Find`."""

    token: str
    key: bytes
    owner: Contact | None
    hops: int


class TableChanged(Struct, frozen=True):
    """News: other neighbours or fingers; fingers are distinct, clockwise from this peer."""

    predecessor: Contact | None
    successors: tuple[Contact, ...]
    fingers: tuple[Contact, ...]


class PeerLost(Struct, frozen=True):
    """News: this peer takes that one, in that incarnation, to be gone."""

    peer: Contact


class PeerBack(Struct, frozen=True):
    """News: a peer that was taken to be lost has been heard again."""

    peer: Contact


class Joined(Struct, frozen=True):
    """News: this peer is a member of a ring."""


class RingsMerged(Struct, frozen=True):
    """News: this peer has found another ring beside its own, and has begun to merge with it."""


def check_key(key: Key) -> None:
    """A key has 20 bytes."""
    if len(key) != KEY_BITS // 8:
        raise RemoteError(f"key of {len(key)} bytes", detail="a key has 20")


def check_contact(contact: Contact) -> None:
    """A contact that is passed on has a name, and nothing in it is out of bounds."""
    if not 0 < len(contact.name) <= _NAME_MAX or len(contact.address) > _NAME_MAX:
        raise RemoteError("contact without a name, or with an overlong one")
    if contact.incarnation < 0:
        raise RemoteError(f"contact {contact.name!r} with a negative incarnation")


def check_ways(ways: tuple[str, ...]) -> None:
    """A few addresses."""
    if len(ways) > WAYS_MAX or any(len(way) > _NAME_MAX for way in ways):
        raise RemoteError(f"{len(ways)} ways in, or an overlong one", detail="8 are allowed")


def check_neighbours(
    sender: Contact, predecessor: Contact | None, successors: tuple[Contact, ...]
) -> None:
    """A list runs clockwise from its sender, without it and without anybody twice."""
    if len(successors) > _CONTACTS_MAX:
        raise RemoteError(f"list of {len(successors)} contacts", detail="64 are allowed")
    if predecessor is not None:
        check_contact(predecessor)
        if predecessor.name == sender.name:
            raise RemoteError(f"peer {sender.name!r} says that it is its own predecessor")
    start = sender.key
    last = 0
    for contact in successors:
        check_contact(contact)
        gap = distance(start, contact.key)
        if gap <= last:
            raise RemoteError(f"successors of {sender.name!r} are not in order")
        last = gap


def check_stepped(sender: Contact, key: Key, message: Stepped) -> None:
    """Who names an owner must stand before the key, and the owner at or behind it."""
    owner = message.owner
    if max(len(message.closer), len(message.behind)) > _CONTACTS_MAX:
        raise RemoteError(f"step of {sender.name!r} names too many peers")
    for contact in (*message.closer, *message.behind):
        check_contact(contact)
    if owner is None or owner.name == sender.name:
        return
    check_contact(owner)
    here = sender.key
    if not 0 < distance(here, key) <= distance(here, owner.key):
        raise RemoteError(f"owner named by {sender.name!r} stands before the key")
