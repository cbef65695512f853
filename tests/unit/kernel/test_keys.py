"""Places on the ring: against the same in plain arithmetic."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from shoal.kernel.ids import key_of
from shoal.kernel.keys import (
    KEY_BITS,
    Contact,
    ahead,
    between,
    distance,
    key_of_name,
    short,
)

KEYS = st.binary(min_size=20, max_size=20)
ROUND = 1 << KEY_BITS


def number(key: bytes) -> int:
    """The key as the number it writes."""
    return int.from_bytes(key, "big")


def test_a_key_is_the_digest_of_a_name() -> None:
    """The same as everywhere else in Shoal, in bytes."""
    assert key_of_name("größe") == hashlib.sha1("größe".encode()).digest()
    assert key_of_name("abc").hex() == key_of("abc")
    assert short(key_of_name("abc")) == "a9993e36"


@given(KEYS, KEYS, KEYS)
def test_between_is_walking_clockwise(low: bytes, key: bytes, high: bytes) -> None:
    """From low, the key comes before or at high; where both are one, everything is between."""
    way = (number(high) - number(low)) % ROUND or ROUND
    step = (number(key) - number(low)) % ROUND or ROUND
    assert between(low, key, high) == (step <= way)


@given(KEYS, KEYS)
def test_of_two_arcs_a_key_lies_on_one(one: bytes, other: bytes) -> None:
    """(one, other] and (other, one] cut the ring without overlap."""
    for key in (one, other, ahead(one, 0), ahead(other, 159)):
        assert between(one, key, other) + between(other, key, one) == (1 if one != other else 2)


@given(KEYS, st.integers(0, KEY_BITS - 1))
def test_ahead_is_a_distance(key: bytes, power: int) -> None:
    """2**power further, around the end of the ring as well."""
    there = ahead(key, power)
    assert len(there) == 20
    assert distance(key, there) == 1 << power
    assert distance(there, key) == ROUND - (1 << power)
    assert distance(key, key) == 0


def test_the_end_of_the_ring() -> None:
    """After the greatest key comes the least."""
    least, greatest = bytes(20), b"\xff" * 20
    assert ahead(greatest, 0) == least
    assert between(greatest, least, bytes(19) + b"\x01")
    assert not between(least, greatest, bytes(19) + b"\x01")


def test_a_contact_stands_where_its_name_says() -> None:
    """Neither address nor incarnation moves a peer."""
    assert Contact("p1", "here:1", 1).key == Contact("p1", "there:2", 9).key == key_of_name("p1")
