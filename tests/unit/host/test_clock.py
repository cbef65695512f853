"""Instants go forward, and start from the wall clock."""

import importlib
import time

import pytest

from shoal.host import clock as module
from shoal.host.clock import LOOK_S, Clock, wall_seconds
from shoal.kernel.time import HOUR, SECOND
from tests.unit.host.setting import suspend


def test_it_starts_at_the_wall_clock_and_never_goes_back() -> None:
    clock = Clock()
    assert abs(clock.now() - time.time_ns() // 1_000) < 5 * SECOND
    seen = [clock.now() for _ in range(1_000)]
    assert seen == sorted(seen)


def test_it_does_not_follow_the_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    before = clock.now()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert 0 <= clock.now() - before < 5 * SECOND
    assert wall_seconds() == 0


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this kernel has one clock only")
def test_a_suspended_machine_is_a_leap_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's monotonic clock stands still meanwhile; this one does not."""
    clock = Clock()
    before = clock.now()
    suspend(monkeypatch, 3 * HOUR)
    assert 3 * HOUR <= clock.now() - before < 3 * HOUR + 5 * SECOND
    later = Clock()  # nor does a start after it make a difference
    assert abs(later.now() - time.time_ns() // 1_000) < 5 * SECOND


def test_a_kernel_without_boot_time_has_a_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(time, "CLOCK_BOOTTIME", raising=False)
    try:
        old = importlib.reload(module)
        assert abs(old.Clock().now() - time.time_ns() // 1_000) < 5 * SECOND
    finally:
        monkeypatch.undo()
        importlib.reload(module)


def test_how_long_to_sleep() -> None:
    clock = Clock()
    assert clock.wait_s(clock.now() - SECOND) == 0.0
    assert 0.2 < clock.wait_s(clock.now() + SECOND // 2) <= 0.5
    assert clock.wait_s(clock.now() + 10 * SECOND) == LOOK_S
