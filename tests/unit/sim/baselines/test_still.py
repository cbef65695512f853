"""A still ring: right tables, and a driver that keeps the contract of timers and messages."""

from bisect import bisect_left

import pytest

from shoal.control.gossip.messages import Accepted, Broadcast
from shoal.kernel.effects import CancelTimer, SetTimer
from shoal.kernel.events import TimerFired
from shoal.kernel.keys import ahead, key_of_name
from shoal.kernel.time import SECOND
from shoal.sim.baselines.still import Still, tables_of


def test_tables_are_those_of_the_definition() -> None:
    """Successors and the predecessor by counting, fingers by asking who owns key + 2**i."""
    keys = sorted(key_of_name(f"n{number}") for number in range(100))
    for place, table in enumerate(tables_of(keys, 5)):
        assert table.successors == tuple((place + step) % 100 for step in range(1, 6))
        assert table.predecessor == (place - 1) % 100
        owners = [bisect_left(keys, ahead(keys[place], power)) % 100 for power in range(160)]
        assert list(table.fingers) == [one for one in dict.fromkeys(owners) if one != place]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_small_rings_have_tables_too(size: int) -> None:
    keys = sorted(key_of_name(f"n{number}") for number in range(size))
    for place, table in enumerate(tables_of(keys, 16)):
        others = [other for other in range(size) if other != place]
        assert sorted(table.successors) == others
        assert all(finger in others for finger in table.fingers)


def test_a_lonely_peer_accepts_and_tells_nobody() -> None:
    still = Still(["p1"])
    still.settle()
    request = still.ask("p1", Broadcast("query", "q1", b"x"))
    still.run(still.now + SECOND)
    assert isinstance(still.answers[request], Accepted)
    assert not still.sent


def test_the_dead_hear_nothing_and_say_nothing() -> None:
    still = Still([f"p{number}" for number in range(10)])
    still.settle()
    still.dead["p3"] = None
    still.ask("p1", Broadcast("query", "q1", b"x"))
    still.run(still.now + 20 * SECOND)
    assert not still.facts("p3")
    assert "p3" not in still.reached_at
    assert "p3" not in still.living
    assert len(still.reached_at) == 8


def test_a_timer_that_was_set_anew_fires_once() -> None:
    still = Still(["p1"])
    fired = []
    machine = still.machines["p1"]

    def handle(event: object, now: int) -> list[object]:
        fired.append((event, now))
        return []

    machine.handle = handle  # type: ignore[method-assign]
    still._carry_out("p1", [SetTimer("gossip/x", 5), SetTimer("gossip/x", 9)])
    still._carry_out("p1", [SetTimer("gossip/y", 5), CancelTimer("gossip/y")])
    still.run(20)
    assert fired == [(TimerFired("gossip/x"), 9)]
