"""What a peer has measured of its components: costs, rates, and the cycle they make together."""

import pytest

from shoal.dataplane.overlap import Overlap
from shoal.dataplane.progress import RATE_OVER, Progress
from shoal.dataplane.reports import StepDone
from shoal.kernel.time import SECOND


def outcome(instance: str, *, busy: float, rows_in: int = 0, rows_out: int = 0) -> StepDone:
    return StepDone(
        instance=instance,
        kind="select",
        epoch=1,
        step=1,
        positions={},
        rows_in=rows_in,
        rows_out=rows_out,
        rows_history=0,
        roster_rows=0,
        roster_version=0,
        watermark=None,
        committed=0,
        source_committed=0,
        busy=busy,
        seconds={},
        counters={},
        group=1,
    )


def run(progress: Progress, instance: str, *, steps: int, every: float, busy: float) -> None:
    """A steady component: a thousand tuples each time."""
    for n in range(1, steps + 1):
        done = outcome(instance, busy=busy, rows_in=1000, rows_out=10)
        progress.observe(done, int(n * every * SECOND))


def test_before_the_first_step_nothing_is_known() -> None:
    progress = Progress()
    assert progress.cost("a") == {}
    assert progress.cycle().seconds == 0.0


def test_the_cost_comes_near_what_was_measured() -> None:
    progress = Progress()
    run(progress, "a", steps=50, every=1.0, busy=0.4)
    cost = progress.cost("a")
    assert list(cost) == ["step", "tuple_in", "tuple_out", "history", "roster", "care", "error"]
    told = cost["step"] + 1000 * cost["tuple_in"] + 10 * cost["tuple_out"]
    assert told == pytest.approx(0.4, rel=0.1)


def test_a_cost_is_fitted_again_after_each_step() -> None:
    """It is kept between steps, because fitting takes a millisecond; never longer."""
    progress = Progress()
    run(progress, "a", steps=5, every=1.0, busy=0.1)
    before = progress.cost("a")
    assert progress.cost("a") == before
    progress.observe(outcome("a", busy=3.0, rows_in=1000), 6 * SECOND)
    assert progress.cost("a")["step"] != before["step"]


def test_rates_are_those_of_the_last_steps_and_fall_off_in_silence() -> None:
    progress = Progress()
    assert progress.rates("a", 0) == {}
    run(progress, "once", steps=1, every=2.0, busy=0.1)
    assert progress.rates("once", 3 * SECOND) == {}, "one step says nothing of time"
    run(progress, "b", steps=3, every=2.0, busy=0.1)
    assert progress.rates("b", 6 * SECOND)["in"] == pytest.approx(500, rel=0.01), "soon known"
    run(progress, "a", steps=200, every=2.0, busy=0.1)
    now = 400 * SECOND
    assert progress.rates("a", now)["in"] == pytest.approx(500, rel=0.01)
    assert progress.rates("a", now)["out"] == pytest.approx(5, rel=0.01)
    later = now + int(10 * RATE_OVER * SECOND)
    assert progress.rates("a", later)["in"] == pytest.approx(50, rel=0.01)
    progress.forget("a")
    assert progress.rates("a", later) == {}


def test_the_cycle_is_joint() -> None:
    """T = sum a / (C - sum b lambda): twice the components, more than twice the cycle."""
    one, two = Progress(), Progress()
    run(one, "a", steps=200, every=1.0, busy=0.1)
    for name in ("a", "b"):
        run(two, name, steps=200, every=1.0, busy=0.1)
    assert one.cycle().seconds > 0
    assert two.cycle().seconds >= 2 * one.cycle().seconds


def test_turns_side_by_side_do_not_make_a_peer_look_overloaded() -> None:
    """Each is at work for .6 of every second, beside the other: of the peer that is .6, not 1.2."""
    progress, overlap = Progress(), Overlap()
    for second in range(1, 200):
        now = second * SECOND
        numbers = {name: overlap.begin(now) for name in ("a", "b")}
        for name, number in numbers.items():
            busy = 0.6 * overlap.end(number, now + 6 * SECOND // 10)
            progress.observe(outcome(name, busy=busy, rows_in=1000), now)
    cycle = progress.cycle()
    assert cycle.keeps_up
    assert 0 < cycle.seconds < 2.0


def test_care_is_a_part_of_what_each_step_costs() -> None:
    """It comes after so many steps: ten times in two hundred, a second each."""
    plain, cared = Progress(), Progress()
    for progress in (plain, cared):
        for number in range(1, 201):
            progress.observe(outcome("a", busy=0.1), number * SECOND)
            if progress is cared and number % 20 == 0:
                progress.cared("a", 1.0)
    assert cared.cost("a")["care"] == pytest.approx(0.05, rel=0.2)
    assert cared.cost("a")["step"] == plain.cost("a")["step"]
    more = cared.cycle().seconds - plain.cycle().seconds
    assert more == pytest.approx(cared.cost("a")["care"])


def test_care_for_what_is_not_known_is_nobodys() -> None:
    progress = Progress()
    progress.cared("a", 1.0)
    assert progress.cost("a") == {}
    assert progress.cycle().seconds == 0.0


def test_rates_are_averages_over_some_seconds() -> None:
    """One burst is no trend: a step's rate counts by the time that it stands for."""
    steady, burst = Progress(), Progress()
    for progress in (steady, burst):
        run(progress, "a", steps=60, every=1.0, busy=0.1)
    burst.observe(outcome("a", busy=0.1, rows_in=50_000, rows_out=10), 61 * SECOND)
    steady.observe(outcome("a", busy=0.1, rows_in=1000, rows_out=10), 61 * SECOND)
    ratio = burst._measured["a"].in_rate / steady._measured["a"].in_rate
    assert 1.5 < ratio < 50 / RATE_OVER + 2.5


def test_a_pause_counts_whole() -> None:
    """After a silence longer than the average's memory only the new rate is true."""
    progress = Progress()
    run(progress, "a", steps=60, every=1.0, busy=0.1)
    progress.observe(outcome("a", busy=0.1, rows_in=1000), int((60 + 100) * SECOND))
    assert progress._measured["a"].in_rate == pytest.approx(10.0)


def test_two_steps_in_the_same_instant_are_no_infinity() -> None:
    progress = Progress()
    for _ in range(2):
        progress.observe(outcome("a", busy=0.1, rows_in=1000), SECOND)
    assert progress.cycle().seconds >= 0


def test_whoever_left_weighs_nothing() -> None:
    progress = Progress()
    run(progress, "a", steps=5, every=1.0, busy=0.1)
    progress.forget("a")
    progress.forget("never there")
    assert progress.cost("a") == {}
    assert progress.cycle().seconds == 0.0
