"""Places on the ring: 160-bit keys, their order and their distances; who is a peer.

A key is 20 bytes, the SHA-1 of a name. Bytes of one length compare as the numbers they write, so
deciding "does this key lie between those" needs no arithmetic. The ring runs clockwise, upwards,
and after the greatest key comes the least.

Promises   a peer's place follows from its name alone, so nobody chooses where it stands.
Not here   who owns a key (control/ring); names of streams (`kernel/ids.py`).
"""

from functools import lru_cache

from msgspec import Struct

from shoal.kernel.ids import key_of

__all__ = ["KEY_BITS", "Contact", "Key", "ahead", "between", "distance", "key_of_name", "short"]

KEY_BITS = 160
_ROUND = 1 << KEY_BITS

Key = bytes


@lru_cache(maxsize=65536)
def key_of_name(name: str) -> Key:
    """The key of a canonical name."""
    return bytes.fromhex(key_of(name))


def between(low: Key, key: Key, high: Key) -> bool:
    """Whether `key` lies in (low, high], clockwise; the whole ring where low equals high.

    >>> a, b, c = bytes([1]), bytes([2]), bytes([3])
    >>> between(a, b, c), between(c, b, a), between(a, c, c), between(c, c, a)
    (True, False, True, False)
    """
    if low < high:
        return low < key <= high
    return key > low or key <= high


def distance(start: Key, end: Key) -> int:
    """How far it is from `start` clockwise to `end`."""
    return (int.from_bytes(end) - int.from_bytes(start)) % _ROUND


def ahead(key: Key, power: int) -> Key:
    """The key 2**power clockwise of this one: where a finger points."""
    return ((int.from_bytes(key) + (1 << power)) % _ROUND).to_bytes(KEY_BITS // 8)


def short(key: Key) -> str:
    """The first eight digits, for people."""
    return key.hex()[:8]


class Contact(Struct, frozen=True, array_like=True, gc=False):
    """A peer as others know it. Its name is its identity; the incarnation counts its starts.

    Of two contacts with one name the higher incarnation is the truth.
    """

    name: str
    address: str
    incarnation: int

    @property
    def key(self) -> Key:
        """Its place on the ring."""
        return key_of_name(self.name)
