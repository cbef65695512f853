"""Instants go forward, and start from the wall clock."""

import time

from shoal.host.clock import Clock, wall_seconds
from shoal.kernel.time import SECOND


def test_it_starts_at_the_wall_clock_and_never_goes_back() -> None:
    clock = Clock()
    assert abs(clock.now() - time.time_ns() // 1_000) < 5 * SECOND
    seen = [clock.now() for _ in range(1_000)]
    assert seen == sorted(seen)


def test_it_does_not_follow_the_wall_clock(monkeypatch) -> None:
    clock = Clock()
    before = clock.now()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert 0 <= clock.now() - before < 5 * SECOND
    assert wall_seconds() == 0


def test_how_long_until() -> None:
    clock = Clock()
    assert clock.seconds_until(clock.now() - SECOND) == 0.0
    assert 8.0 < clock.seconds_until(clock.now() + 10 * SECOND) <= 10.0
