"""The ring's arithmetic."""

from shoal.control.ring.policy import finger_powers, rank, stable_tables, timeout
from shoal.kernel.keys import ahead, between, distance
from tests.unit.control.ring.few import contacts


def test_fingers_are_wanted_behind_the_last_successor_only() -> None:
    assert list(finger_powers(1 << 159)) == []
    assert list(finger_powers((1 << 158) - 1)) == [158, 159]
    assert all(1 << power > 12_345 for power in finger_powers(12_345))


def test_a_time_out_follows_the_round_trip_within_bounds() -> None:
    assert timeout(100, 25, at_least=50, at_most=1_000) == 200
    assert timeout(1, 0, at_least=50, at_most=1_000) == 50
    assert timeout(900, 900, at_least=50, at_most=1_000) == 1_000


def test_a_nearer_round_trip_decides_only_between_equally_good_ones() -> None:
    assert rank(1_000, 2_000) < rank(600, 90_000)
    assert rank(600, 2_000) < rank(1_000, 2_050)
    assert rank(500, 90_000) < rank(1_000, 10)


def test_the_tables_of_a_whole_ring() -> None:
    ring = contacts(40)
    tables = stable_tables(ring[::-1], 4)
    for place, me in enumerate(ring):
        predecessor, successors, fingers = tables[me.name]
        assert predecessor is ring[place - 1]
        assert list(successors) == [ring[(place + ahead_by) % 40] for ahead_by in (1, 2, 3, 4)]
        for power in finger_powers(distance(me.key, successors[-1].key)):
            target = ahead(me.key, power)
            owner = next(
                one for before, one in zip([ring[-1], *ring], ring, strict=False)
                if between(before.key, target, one.key)
            )  # fmt: skip
            reaches = distance(me.key, owner.key) >= 1 << power
            assert fingers.get(power) is (owner if reaches else None)


def test_small_rings_have_lists_that_go_once_around_and_no_fingers() -> None:
    ring = contacts(3)
    tables = stable_tables(ring, 16)
    assert tables[ring[0].name] == (ring[2], (ring[1], ring[2]), {})
    assert stable_tables(ring[:1], 16) == {}
