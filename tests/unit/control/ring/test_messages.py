"""What a message must not say."""

import pytest

from shoal.control.ring.messages import (
    MESSAGES,
    WAYS_MAX,
    Stepped,
    check_contact,
    check_key,
    check_neighbours,
    check_stepped,
    check_ways,
)
from shoal.kernel.errors import RemoteError
from shoal.kernel.keys import Contact, ahead
from tests.unit.control.ring.few import contact, contacts

A, B, C, D = contacts(4)


def test_tags_are_the_rings() -> None:
    assert all(tag >> 8 == 1 for tag in MESSAGES)
    assert len(dict.fromkeys(MESSAGES.values())) == len(MESSAGES)


@pytest.mark.parametrize("size", [0, 19, 21])
def test_a_key_has_20_bytes(size: int) -> None:
    check_key(bytes(20))
    with pytest.raises(RemoteError):
        check_key(bytes(size))


@pytest.mark.parametrize(
    "wrong", [Contact("", "a:1", 1), Contact("x" * 256, "a:1", 1), Contact("x", "a" * 256, 1),
              Contact("x", "a:1", -1)]
)  # fmt: skip
def test_a_contact_is_within_bounds(wrong: Contact) -> None:
    check_contact(contact("x"))
    with pytest.raises(RemoteError):
        check_contact(wrong)


@pytest.mark.parametrize(
    "successors",
    [(B, C, C), (C, B), (A, B), (B, A), tuple([B] * 65)],
    ids=["twice", "backwards", "itself first", "around", "too many"],
)
def test_a_list_runs_clockwise_without_its_sender(successors: tuple[Contact, ...]) -> None:
    check_neighbours(A, D, (B, C, D))
    check_neighbours(B, None, (C, D, A))
    with pytest.raises(RemoteError):
        check_neighbours(A, None, successors)


def test_nobody_is_its_own_predecessor() -> None:
    with pytest.raises(RemoteError):
        check_neighbours(A, A, (B,))


def test_an_owner_stands_at_or_behind_the_key_and_its_teller_before_it() -> None:
    key = ahead(B.key, 0)
    check_stepped(B, key, Stepped(1, C, (), ()))
    check_stepped(A, key, Stepped(1, C, (), ()))
    check_stepped(C, key, Stepped(1, C, (), ()))
    check_stepped(A, B.key, Stepped(1, B, (), ()))
    for teller, owner in ((A, B), (D, B)):
        with pytest.raises(RemoteError):
            check_stepped(teller, key, Stepped(1, owner, (), ()))
    with pytest.raises(RemoteError):
        check_stepped(A, key, Stepped(1, None, (), (Contact("", "a:1", 1),)))
    with pytest.raises(RemoteError):
        check_stepped(A, key, Stepped(1, None, (), (B,) * 65))


def test_ways_in_are_few() -> None:
    check_ways(("a:1",) * WAYS_MAX)
    for wrong in (("a:1",) * (WAYS_MAX + 1), ("a" * 256,)):
        with pytest.raises(RemoteError):
            check_ways(wrong)
