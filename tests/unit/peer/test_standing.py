"""Standing: wrong messages cost, time forgives, memory is bounded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.kernel.errors import LocalError
from shoal.kernel.time import SECOND
from shoal.peer.standing import Standing, StandingConfig

CONFIG = StandingConfig(forgive_s=10, limit_faults=4, faults_max=8, peers_max=3)


def test_a_fault_now_and_then_is_borne_for_ever() -> None:
    """A peer with a small defect is not lost to the mesh."""
    standing = Standing(CONFIG)
    for number in range(100):
        assert not standing.fault("p", number * 10 * SECOND)
        assert standing.heard("p", number * 10 * SECOND)


def test_a_flood_is_ignored_and_heard_again() -> None:
    """Above the limit nothing is heard; below half of it everything is."""
    standing = Standing(CONFIG)
    assert [standing.fault("p", 0) for _ in range(5)] == [False] * 4 + [True]
    assert standing.faults("p", 0) == 5
    assert not standing.heard("p", 0)
    assert standing.heard("q", 0)
    assert not standing.heard("p", 30 * SECOND - 1)
    assert standing.ignored(30 * SECOND - 1) == ("p",)
    assert standing.heard("p", 30 * SECOND)
    assert standing.faults("p", 30 * SECOND) == 2
    assert standing.ignored(30 * SECOND) == ()


def test_a_flood_of_any_size_ends() -> None:
    """The debt has a limit, so that nobody is ignored for ever."""
    standing = Standing(CONFIG)
    for _ in range(10_000):
        standing.fault("p", 0)
    assert standing.faults("p", 0) == 8
    assert not standing.heard("p", 60 * SECOND - 1)
    assert standing.heard("p", 60 * SECOND)


def test_who_is_ignored_is_said_once() -> None:
    """The story has one line about it, not one for each message."""
    standing = Standing(CONFIG)
    assert sum(standing.fault("p", 0) for _ in range(100)) == 1


def test_only_so_many_are_remembered() -> None:
    """First who owes nothing any more is forgotten, then who owes least, never the worst."""
    standing = Standing(CONFIG)
    for _ in range(8):
        standing.fault("worst", 0)
    for name in ("a", "b", "c"):
        standing.fault(name, 0)
    assert len(standing) == 3
    assert not standing.heard("worst", 0)
    standing.fault("d", 20 * SECOND)
    assert len(standing) == 2
    assert standing.faults("d", 20 * SECOND) == 1


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 30 * SECOND)), max_size=200))
def test_bounds_hold_whatever_comes(faults: list[tuple[int, int]]) -> None:
    """Accounts and faults stay in their limits; who is ignored owes half the limit or more."""
    standing = Standing(CONFIG)
    now = 0
    for peer, wait in faults:
        now += wait
        standing.fault(f"p{peer}", now)
        assert len(standing) <= CONFIG.peers_max
        for name in standing.ignored(now):
            assert CONFIG.limit_faults // 2 <= standing.faults(name, now) <= CONFIG.faults_max
            assert not standing.heard(name, now)


@pytest.mark.parametrize(
    "config",
    [
        StandingConfig(forgive_s=0),
        StandingConfig(limit_faults=0),
        StandingConfig(limit_faults=5, faults_max=5),
        StandingConfig(peers_max=0),
    ],
)
def test_numbers_that_do_not_fit_are_refused(config: StandingConfig) -> None:
    """When the peer is built, not when it is attacked."""
    with pytest.raises(LocalError):
        Standing(config)
