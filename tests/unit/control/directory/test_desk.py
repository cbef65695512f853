"""What the roles share: who keeps a key, asked of the ring once, for few keys at a time."""

import pytest

from shoal.control.directory.desk import Desk
from shoal.control.directory.messages import NeedOwner, OwnerFound
from shoal.kernel.errors import RemoteError
from shoal.kernel.keys import key_of_name
from shoal.kernel.time import SECOND
from tests.still_ring import keeper_among
from tests.unit.control.directory.pieces import (
    AES,
    FLOW,
    NAMES,
    contact,
    desk_of,
    news,
    taken,
)


def needs(desk: Desk) -> list[NeedOwner]:
    return news(taken(desk))


def test_what_one_keeps_oneself_needs_no_look_up() -> None:
    desk = desk_of("p1")
    route = desk.keeper_of(AES, 0)
    assert route is not None
    assert (route.keeper.name, len(route.backups)) == ("p1", 2)
    assert needs(desk) == []


def test_the_ring_is_asked_once_for_a_key_and_its_answer_is_a_route() -> None:
    desk = desk_of("p1")
    assert desk.keeper_of(FLOW, 0) is None
    assert desk.keeper_of(FLOW, 1) is None
    (need,) = needs(desk)
    assert need.key == FLOW
    desk.found(OwnerFound(need.token, FLOW, contact("p3")), 2)
    route = desk.keeper_of(FLOW, 2)
    assert route is not None
    assert route.keeper.name == "p3"
    assert needs(desk) == []


def test_an_answer_to_something_else_is_none() -> None:
    desk = desk_of("p1")
    desk.keeper_of(FLOW, 0)
    desk.found(OwnerFound("another", FLOW, contact("p3")), 1)
    assert desk.known(FLOW) is None
    assert FLOW in desk.open


@pytest.mark.parametrize("how", ["nobody", "no answer"])
def test_a_key_that_nobody_keeps_rests_a_moment(how: str) -> None:
    desk = desk_of("p1")
    desk.keeper_of(FLOW, 0)
    (need,) = needs(desk)
    if how == "nobody":
        desk.found(OwnerFound(need.token, FLOW, None), 1)
    else:
        desk.unanswered(int(need.token), 1)
    assert desk.open == {}
    assert desk.keeper_of(FLOW, 2) is None
    assert needs(desk) == []
    later = 1 + desk.config.retry_delay
    assert desk.deadlines.next == later
    desk.keeper_of(FLOW, later)
    assert len(needs(desk)) == 1


def test_few_look_ups_at_once_and_the_others_wait_for_their_turn() -> None:
    desk = desk_of("p1", lookups_max=2)
    keys = [key_of_name(f"key {number}") for number in range(40)]
    foreign = [key for key in keys if not desk.place.owns(key)]
    for key in foreign:
        desk.keeper_of(key, 0)
    asked = 0
    for _ in range(len(foreign)):
        found = needs(desk)
        if not found:
            break
        assert len(desk.open) <= 2
        asked += len(found)
        for need in found:
            keeper = keeper_among([contact(name) for name in NAMES], need.key)
            desk.found(OwnerFound(need.token, need.key, keeper), 1)
    assert not desk.open
    assert not desk.waiting
    assert all(desk.known(key) is not None for key in foreign)
    assert asked <= len(foreign)


def test_who_says_that_it_keeps_a_key_no_longer_is_believed() -> None:
    desk = desk_of("p1")
    desk.learn(contact("p3"), contact("p2").key, (contact("p4"),))
    assert desk.known(FLOW) is not None
    desk.refused(contact("p3"), FLOW, b"", 0)
    assert desk.known(FLOW) is None
    assert desk.keeper_of(FLOW, 1) is None
    assert needs(desk) == []


def test_a_keeper_that_knows_no_range_teaches_nothing() -> None:
    desk = desk_of("p1")
    desk.learn(contact("p3"), b"", ())
    desk.learn(contact("p1"), contact("p2").key, ())
    assert len(desk.routes) == 0


def test_rests_that_are_over_are_forgotten() -> None:
    desk = desk_of("p1")
    desk.rest(FLOW, 0)
    desk.rest(AES, SECOND)
    desk.forget_rests(desk.config.retry_delay)
    assert list(desk.resting) == [AES]


def test_a_range_that_cannot_be_is_refused() -> None:
    desk = desk_of("p1")
    desk.check_route(b"", ())
    for low, backups in ((AES[:-1], ()), (AES, (contact("p2"),) * 17)):
        with pytest.raises(RemoteError, match="impossible range"):
            desk.check_route(low, backups)


def test_numbers_of_two_lives_do_not_meet() -> None:
    one = desk_of("p1")
    assert one.number() + 1 == one.number()
    assert one.number() > 1_000
