"""Parts of an interval: each peer in exactly one, whatever is known and whoever is absent."""

import pytest

from shoal.control.gossip.policy import Order, Share, assign, before, farther, order_of
from shoal.kernel.keys import Contact, Key, between

NOBODY: dict[str, object] = {}


class Placed(Contact, frozen=True, array_like=True, gc=False):
    """A contact that stands where its name says: `n7` at seven."""

    @property
    def key(self) -> Key:
        return at(int(self.name[1:]))


def at(place: int) -> Key:
    return place.to_bytes(20)


def known(*places: int) -> list[Contact]:
    return [Placed(f"n{place}", f"n{place}:1", 1) for place in places]


def shares(order: Order, low: int, high: int, *absent: int) -> list[tuple[str, int, int, bool]]:
    return [
        (one.to.name, int.from_bytes(one.low), int.from_bytes(one.high), one.copy)
        for one in assign(order, at(low), at(high), dict.fromkeys(f"n{x}" for x in absent))
    ]


def test_the_order_is_clockwise_from_me_and_without_me() -> None:
    order = order_of(at(50), known(10, 60, 50, 90, 40))
    assert [one.name for one in order.contacts] == ["n60", "n90", "n10", "n40"]


def test_of_two_contacts_of_one_name_the_higher_incarnation_counts() -> None:
    old, new = Placed("n7", "old:1", 1), Placed("n7", "new:1", 2)
    assert order_of(at(1), [new, old]).contacts == (new,)
    assert order_of(at(1), [old, new]).contacts == (new,)


def test_a_whole_ring_is_cut_at_everybody_known() -> None:
    order = order_of(at(50), known(60, 90, 10))
    assert shares(order, 50, 50) == [
        ("n60", 60, 90, False),
        ("n90", 90, 10, False),
        ("n10", 10, 50, False),
    ]


def test_nobody_outside_the_interval_gets_a_part() -> None:
    order = order_of(at(50), known(60, 70, 90, 10))
    assert shares(order, 50, 80) == [("n60", 60, 70, False), ("n70", 70, 80, False)]
    assert shares(order, 50, 60) == []


def test_an_interval_over_the_end_of_the_ring() -> None:
    order = order_of(at(80), known(90, 5, 20, 40))
    assert shares(order, 80, 20) == [("n90", 90, 5, False), ("n5", 5, 20, False)]


def test_a_repair_goes_to_whoever_is_nearest_before_it() -> None:
    order = order_of(at(50), known(55, 60, 70, 90))
    assert shares(order, 65, 90) == [("n60", 65, 90, False)]
    assert shares(order, 60, 70) == [("n60", 60, 70, False)], "its own place: it covers"
    assert shares(order, 65, 90, 60) == [("n55", 65, 90, False)]


def test_nobody_before_it_is_as_if_it_began_here() -> None:
    order = order_of(at(50), known(60, 70, 90))
    assert shares(order, 55, 90) == [("n60", 60, 70, False), ("n70", 70, 90, False)]


def test_an_absent_peer_in_a_part_is_left_to_whoever_covers_it() -> None:
    order = order_of(at(50), known(60, 70, 90))
    assert shares(order, 50, 50, 70) == [("n60", 60, 90, False), ("n90", 90, 50, False)]


def test_absent_peers_before_the_first_part_get_copies() -> None:
    order = order_of(at(50), known(60, 70, 90))
    assert shares(order, 50, 50, 60, 70) == [
        ("n60", 60, 90, True),
        ("n70", 70, 90, True),
        ("n90", 90, 50, False),
    ]
    assert shares(order, 50, 80, 60, 70) == [("n60", 60, 80, True), ("n70", 70, 80, True)]


def test_an_interval_that_contains_me_ends_nowhere_behind_me() -> None:
    """Only a peer with other tables, or a liar, sends it; it must not go around for ever."""
    order = order_of(at(50), known(60, 90))
    assert shares(order, 80, 70) == [("n60", 80, 70, False)]
    assert shares(order_of(at(50), known(90)), 80, 70) == []


@pytest.mark.parametrize(
    ("reach", "high", "is_farther"),
    [
        (60, 70, True),
        (70, 60, False),
        (60, 60, False),
        (50, 60, False),
        (60, 50, True),
        (60, 40, True),
    ],
)
def test_farther_is_clockwise_from_me(reach: int, high: int, is_farther: bool) -> None:
    assert farther(at(50), at(reach), at(high)) is is_farther


def test_the_key_before() -> None:
    assert before(at(7)) == at(6)
    assert before(bytes(20)) == b"\xff" * 20
    assert between(before(at(7)), at(7), at(9))


def test_a_share_says_what_it_is() -> None:
    (one,) = assign(order_of(at(50), known(60)), at(50), at(50), NOBODY)
    assert one == Share(known(60)[0], at(60), at(50), False)
