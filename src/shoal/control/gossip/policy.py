"""Who gets which part of an interval: the arithmetic of a broadcast, without state.

Peers known here, clockwise from this one (x), and what it gives them of (x, high):

    x ──── a ──── b ──────────── c ───── high
           └(a, b)┘└── (b, c) ──┘└(c, high)┘

Every peer of the interval lies in exactly one part or is the peer that gets the part, so while
tables are right everybody is reached once. Between x and a there is nobody, because a is the
successor. An interval that does not begin here (repair) goes to the known peer nearest before it,
and so on until somebody has nobody in between; for that one it is as if it began there.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from shoal.kernel.keys import KEY_BITS, Contact, Key

__all__ = ["Order", "Share", "assign", "before", "farther", "order_of"]

_ROUND = 1 << KEY_BITS

#: Place in clockwise order from one peer: whether it comes after the least key, and the key.
_Rank = tuple[bool, Key]


class Order(Struct, frozen=True, gc=False):
    """Known peers, clockwise from one peer, which is not among them."""

    me: Key
    ranks: tuple[_Rank, ...]
    contacts: tuple[Contact, ...]


class Share(Struct, frozen=True, gc=False):
    """A part of an interval and who is to cover it; nobody waits for a `copy`."""

    to: Contact
    low: Key
    high: Key
    copy: bool


def order_of(me: Key, known: Iterable[Contact]) -> Order:
    """Clockwise from `me`, each peer once, in its highest incarnation."""
    newest: dict[str, Contact] = {}
    for contact in known:
        held = newest.get(contact.name)
        if held is None or contact.incarnation > held.incarnation:
            newest[contact.name] = contact
    ranked = sorted(
        ((_rank(me, one.key), one) for one in newest.values() if one.key != me),
        key=lambda pair: pair[0],
    )
    return Order(
        me=me,
        ranks=tuple(rank for rank, _ in ranked),
        contacts=tuple(contact for _, contact in ranked),
    )


def assign(order: Order, low: Key, high: Key, absent: Mapping[str, object]) -> list[Share]:
    """The parts of (low, high). Who is `absent` gets no part, at most a copy.

    An absent peer that lies in a part needs no copy from here: whoever covers the part finds it.
    """
    me = order.me
    contacts = order.contacts
    start = 0 if low == me else bisect_right(order.ranks, _rank(me, low))
    for nearest in reversed(contacts[:start]):
        if nearest.name not in absent:
            return [Share(nearest, low, high, False)]
    end = len(contacts) if high == me else bisect_left(order.ranks, _rank(me, high))
    shares: list[Share] = []
    for contact in reversed(contacts[start:end]):
        if contact.name not in absent:
            shares.append(Share(contact, contact.key, high, False))
            high = contact.key
    shares.reverse()
    return _copies(contacts[start:end], high, absent) + shares if absent else shares


def _copies(inside: Sequence[Contact], high: Key, absent: Mapping[str, object]) -> list[Share]:
    """For those before the first part: nobody else will find them."""
    copies: list[Share] = []
    for contact in inside:
        if contact.name not in absent:
            break
        copies.append(Share(contact, contact.key, high, True))
    return copies


def farther(me: Key, reach: Key, high: Key) -> bool:
    """Whether (me, high) ends after (me, reach); both are clockwise from `me`."""
    if high == reach or reach == me:
        return False
    return high == me or _rank(me, high) > _rank(me, reach)


def before(key: Key) -> Key:
    """The key just before, so that an interval that begins there contains `key`."""
    return ((int.from_bytes(key) - 1) % _ROUND).to_bytes(KEY_BITS // 8)


def _rank(me: Key, key: Key) -> _Rank:
    return (key <= me, key)
