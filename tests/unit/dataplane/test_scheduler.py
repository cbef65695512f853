"""The scheduler: shares go by weight, nobody starves, idle time is not saved up, failures wait."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.dataplane.scheduler import (
    ATTEMPTS_BEFORE_BISECTION,
    BACKOFF_FIRST,
    BACKOFF_MOST,
    Scheduler,
)
from shoal.kernel.time import MILLISECOND


def made(**weights: float) -> Scheduler:
    scheduler = Scheduler()
    for name, weight in weights.items():
        scheduler.add(name, weight=weight)
    return scheduler


def serve(scheduler: Scheduler, ready: list[str], *, busy: float, turns: int) -> dict[str, int]:
    """Who had how many turns."""
    had = dict.fromkeys(ready, 0)
    for _ in range(turns):
        name = scheduler.next(ready, 0)
        assert name is not None
        had[name] += 1
        scheduler.ran(name, busy=busy)
        scheduler.validate()
    return had


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 400))
def test_shares_follow_weights_within_one_step(weights: list[int], turns: int) -> None:
    """Busy time by weight differs by one step at most between any two."""
    scheduler = made(**{f"c{n}": float(weight) for n, weight in enumerate(weights)})
    had = serve(scheduler, list(scheduler._turns), busy=1.0, turns=turns)
    for a, first in enumerate(weights):
        for b, second in enumerate(weights):
            gap = had[f"c{a}"] / first - had[f"c{b}"] / second
            assert gap <= 1 / first + 1e-9, (had, a, b)


def test_a_weight_that_changes_counts_from_then_on() -> None:
    """Nobody has to make up for what he had when he was worth less, or more."""
    scheduler = made(a=1.0, b=1.0)
    assert serve(scheduler, ["a", "b"], busy=1.0, turns=40) == {"a": 20, "b": 20}
    scheduler.weigh("a", 3.0)
    assert serve(scheduler, ["a", "b"], busy=1.0, turns=40) == {"a": 30, "b": 10}


@given(st.lists(st.floats(0.001, 5.0), min_size=2, max_size=8))
def test_nobody_starves(busy: list[float]) -> None:
    """Whatever the steps cost, everyone has had a turn before the dearest has two more."""
    names = [f"c{n}" for n in range(len(busy))]
    scheduler = made(**dict.fromkeys(names, 1.0))
    waiting = dict.fromkeys(names, 0)
    for _ in range(200):
        name = scheduler.next(names, 0)
        assert name is not None
        waiting = {other: count + 1 for other, count in waiting.items()}
        waiting[name] = 0
        scheduler.ran(name, busy=busy[names.index(name)])
        limit = sum(max(busy) / cost + 1 for cost in busy)
        assert max(waiting.values()) <= limit


def test_idle_time_is_not_saved_up() -> None:
    """Who comes back after a long silence shares from then on; it does not take all."""
    scheduler = made(steady=1.0, guest=1.0)
    serve(scheduler, ["steady"], busy=1.0, turns=100)
    assert serve(scheduler, ["steady", "guest"], busy=1.0, turns=10) == {"steady": 5, "guest": 5}


def test_idle_time_is_not_saved_up_when_nobody_was_ready() -> None:
    """The same when both come back at once."""
    scheduler = made(steady=1.0, guest=1.0)
    serve(scheduler, ["steady"], busy=1.0, turns=100)
    assert scheduler.next([], 0) is None
    had = serve(scheduler, ["steady", "guest"], busy=1.0, turns=10)
    assert abs(had["steady"] - had["guest"]) <= 1


def test_a_newcomer_starts_where_the_others_are() -> None:
    """A component that is added late has no claim on the past."""
    scheduler = made(steady=1.0)
    serve(scheduler, ["steady"], busy=1.0, turns=50)
    scheduler.add("new", weight=1.0)
    had = serve(scheduler, ["steady", "new"], busy=1.0, turns=10)
    assert abs(had["steady"] - had["new"]) <= 1


def test_work_in_flight_is_not_idleness() -> None:
    """A component at work while another is chosen keeps its place."""
    scheduler = made(heavy=10.0, light=1.0)
    had = {"heavy": 0, "light": 0}
    flying: list[str] = []
    for _ in range(220):
        able = [name for name in had if name not in flying]
        name = scheduler.next(able, 0)
        if name is not None:
            flying.append(name)
            had[name] += 1
        if len(flying) == 2 or name is None:
            scheduler.ran(flying.pop(0), busy=1.0)
    assert had["heavy"] >= had["light"]


def test_failures_wait_longer_each_time() -> None:
    """Back-off doubles up to the longest; success ends it."""
    scheduler = made(ill=1.0)
    waits = []
    for _ in range(20):
        waits.append(scheduler.failed("ill", 0).retry_at)
    assert waits[0] == BACKOFF_FIRST
    assert all(b == min(2 * a, BACKOFF_MOST) for a, b in itertools.pairwise(waits))
    assert scheduler.next(["ill"], BACKOFF_MOST - 1) is None
    assert scheduler.waiting_until(0) == BACKOFF_MOST
    assert scheduler.next(["ill"], BACKOFF_MOST) == "ill"
    scheduler.ran("ill", busy=0.1)
    assert scheduler.waiting_until(0) is None
    assert not scheduler.turn("ill").alone


def test_rows_are_suspected_after_failing_alone() -> None:
    """The first failure may be another member's fault; it counts from alone on."""
    scheduler = made(ill=1.0)
    for attempt in range(1, ATTEMPTS_BEFORE_BISECTION):
        scheduler.failed("ill", 0)
        assert not scheduler.suspects_rows("ill"), attempt
    scheduler.failed("ill", 0)
    assert scheduler.suspects_rows("ill")


def test_a_failing_component_holds_up_nobody() -> None:
    """While one waits, the others run."""
    scheduler = made(ill=1.0, well=1.0)
    scheduler.failed("ill", 0)
    assert serve(scheduler, ["ill", "well"], busy=1.0, turns=1) == {"ill": 0, "well": 1}
    assert scheduler.next(["ill", "well"], 200 * MILLISECOND) == "ill"


@pytest.mark.parametrize("weight", [0.0, -1.0])
def test_a_weight_is_positive(weight: float) -> None:
    """No weight makes a component unreachable."""
    scheduler = made(odd=weight)
    scheduler.validate()
    assert scheduler.next(["odd"], 0) == "odd"


def test_who_was_removed_is_forgotten() -> None:
    """A component that leaves at work leaves nothing behind."""
    scheduler = made(gone=1.0, stays=1.0)
    name = scheduler.next(["gone"], 0)
    assert name == "gone"
    scheduler.remove("gone")
    assert scheduler.next(["stays"], 0) == "stays"
