"""A host's clock: local instants, drift, and the way back."""

import pytest

from shoal.kernel.rng import Rng
from shoal.kernel.time import SECOND
from shoal.sim.node import DOWN, PAUSED, UP, Node


def node(index: int = 0) -> Node:
    return Node(index, Rng(1, f"host/{index}"))


def test_clocks_begin_at_different_instants() -> None:
    offsets = [node(index).offset for index in range(20)]
    assert len(dict.fromkeys(offsets)) == 20
    assert min(offsets) > 1_700_000_000 * SECOND


@pytest.mark.parametrize("ppm", [0, 1, -1, 200, -200, 500_000, -500_000])
def test_the_way_back_is_the_first_instant_that_shows_it(ppm: int) -> None:
    one = node()
    one.set_drift(ppm, 7 * SECOND)
    for ahead in (1, 2, 999, 1_000_000, 12_345_678):
        local = one.local(7 * SECOND) + ahead
        instant = one.world_instant(local)
        assert one.local(instant) >= local
        assert one.local(instant - 1) < local


def test_a_change_of_drift_does_not_make_the_clock_jump() -> None:
    one = node()
    one.set_drift(100_000, 0)
    before = one.local(10 * SECOND)
    one.set_drift(0, 10 * SECOND)
    assert one.local(10 * SECOND) == before
    assert one.local(11 * SECOND) == before + SECOND


def test_running_is_up_or_paused() -> None:
    one = node()
    running = []
    for state in (DOWN, UP, PAUSED):
        one.state = state
        running.append(one.running)
    assert running == [False, True, True]
