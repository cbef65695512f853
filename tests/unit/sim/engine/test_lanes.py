"""Steps share what a peer can do: alone at full speed, beside others slower."""

from shoal.kernel.time import SECOND
from shoal.sim.engine.lanes import Lanes


def test_alone_a_step_takes_its_work() -> None:
    lanes: Lanes[str] = Lanes(count=2, capacity=1.0, now=0)
    lanes.begin("a", seconds=2.0, now=SECOND)
    assert lanes.next_end() == 3 * SECOND
    assert lanes.ended(3 * SECOND - 1) == []
    (over,) = lanes.ended(3 * SECOND)
    assert (over.work, over.began) == ("a", SECOND)
    assert lanes.next_end() is None


def test_a_neighbour_makes_both_slower_and_no_work_is_lost() -> None:
    lanes: Lanes[str] = Lanes(count=2, capacity=1.0, now=0)
    lanes.begin("a", seconds=2.0, now=0)
    lanes.begin("b", seconds=1.0, now=SECOND)
    assert not lanes.free
    # One second each is left, at half speed: both end at 3.
    assert lanes.next_end() == 3 * SECOND
    assert [over.work for over in lanes.ended(3 * SECOND)] == ["a", "b"]


def test_with_more_capacity_nobody_is_faster_than_alone() -> None:
    lanes: Lanes[str] = Lanes(count=3, capacity=2.0, now=0)
    for name in "ab":
        lanes.begin(name, seconds=1.0, now=0)
    assert lanes.next_end() == SECOND
    lanes.begin("c", seconds=1.0, now=0)
    assert lanes.next_end() == 3 * SECOND // 2


def test_a_peer_that_hangs_ends_nothing_until_it_is_well() -> None:
    lanes: Lanes[str] = Lanes(count=1, capacity=1.0, now=0)
    lanes.begin("a", seconds=1.0, now=0)
    lanes.set_capacity(0.0, SECOND // 2)
    assert lanes.next_end() is None
    assert lanes.ended(60 * SECOND) == []
    lanes.set_capacity(1.0, 60 * SECOND)
    assert lanes.next_end() == 60 * SECOND + SECOND // 2
