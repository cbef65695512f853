"""The ring's arithmetic: pure functions of their arguments.

A *gap* is how far a peer stands clockwise from this one, as an integer; this peer's own gap is 0.
Everything about order is a comparison of gaps. What is *remaining* of a look-up is the distance
from a candidate to the key: the smaller, the better.

    me ──▶ s1 ──▶ s2 ──▶ s3 ............ f1 ......... f2 ................ predecessor ──▶ me
    0      successors, gaps ascending    fingers, one for each power of two behind the list
"""

from collections.abc import Sequence

from shoal.kernel.keys import KEY_BITS, Contact, ahead, distance

__all__ = ["finger_powers", "rank", "stable_tables", "timeout"]


def finger_powers(gap_last: int) -> range:
    """The powers whose fingers point behind the last successor, whose gap this is.

    >>> list(finger_powers(2**157 + 1))
    [158, 159]
    """
    return range(gap_last.bit_length(), KEY_BITS)


def timeout(mean: int, deviation: int, *, at_least: int, at_most: int) -> int:
    """How long to wait for an answer, by what earlier ones took (RFC 6298)."""
    return min(max(mean + 4 * deviation, at_least), at_most)


#: Round trips are told apart only by doublings: a tie is broken, no race is run.
def rank(remaining: int, round_trip: int) -> tuple[int, int, int]:
    """The order in which candidates of a look-up are asked, least first.

    Two that stand within the same power of two from the key are equally good; then a round trip
    that is shorter by a power of two decides, and at last what remains.

    >>> near, far = rank(1000, 3_000), rank(900, 90_000)
    >>> near < far and rank(400, 90_000) < near
    True
    """
    return remaining.bit_length(), round_trip.bit_length(), remaining


def stable_tables(
    contacts: Sequence[Contact], successors_max: int
) -> dict[str, tuple[Contact, tuple[Contact, ...], dict[int, Contact]]]:
    """Predecessor, successors and fingers by power of each peer of a ring that is whole.

    For tests and benchmarks that begin with a ring of thousands; a ring that nobody disturbs comes
    to the same tables by itself.
    """
    ring = sorted(contacts, key=lambda contact: contact.key)
    keys = [contact.key for contact in ring]
    size = len(ring)
    if size == 1:
        return {}
    tables = {}
    for index, me in enumerate(ring):
        count = min(successors_max, size - 1)
        successors = tuple(ring[(index + ahead_by) % size] for ahead_by in range(1, count + 1))
        whole = count < successors_max
        wanted = () if whole else finger_powers(distance(me.key, successors[-1].key))
        owners = {power: ring[_first_at(keys, ahead(me.key, power))] for power in wanted}
        fingers = {
            power: owner
            for power, owner in owners.items()
            if distance(me.key, owner.key) >= 1 << power
        }
        tables[me.name] = (ring[index - 1], successors, fingers)
    return tables


def _first_at(keys: Sequence[bytes], key: bytes) -> int:
    """The index of the owner of a key among sorted keys."""
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low % len(keys)
