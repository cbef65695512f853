"""The cost fit recovers what is true, stays within bounds, and is moved by nothing else."""

import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.query.cost import PRIOR, CostFit, StepCost, StepSample

TRUE = StepCost(step=0.08, tuple_in=4e-7, tuple_out=2e-6, history=2e-7, roster=3e-6)


def _sample(rng: Random, cost: StepCost, noise: float) -> StepSample:
    counts = {
        "tuples_in": rng.randrange(1_000, 500_000),
        "tuples_out": rng.randrange(0, 50_000),
        "history": rng.randrange(0, 2_000_000),
        "roster": rng.randrange(0, 20_000),
    }
    seconds = cost.seconds(**counts) * (1 + rng.uniform(-noise, noise))
    return StepSample(seconds=max(seconds, 0.0), **counts)


def _near(fitted: StepCost, true: StepCost, share: float) -> None:
    for name in ("step", "tuple_in", "tuple_out", "history", "roster"):
        assert getattr(fitted, name) == pytest.approx(getattr(true, name), rel=share), name


@pytest.mark.slow
@settings(max_examples=20)
@given(st.integers(min_value=0, max_value=10_000))
def test_exact_steps_give_the_true_coefficients(seed: int) -> None:
    rng, fit = Random(seed), CostFit()
    for _ in range(150):
        fit.observe(_sample(rng, TRUE, 0.0))
    fit.validate()
    _near(fit.cost(), TRUE, 0.02)


@pytest.mark.slow
@settings(max_examples=10)
@given(st.integers(min_value=0, max_value=10_000))
def test_noise_of_a_tenth_leaves_projections_within_a_tenth(seed: int) -> None:
    rng, fit = Random(seed), CostFit()
    for _ in range(400):
        fit.observe(_sample(rng, TRUE, 0.1))
    for _ in range(20):
        probe = _sample(rng, TRUE, 0.0)
        counts = (probe.tuples_in, probe.tuples_out, probe.history, probe.roster)
        keys = ("tuples_in", "tuples_out", "history", "roster")
        projected = fit.cost().seconds(**dict(zip(keys, counts, strict=True)))
        assert projected == pytest.approx(probe.seconds, rel=0.1, abs=0.02)


@pytest.mark.slow
@given(
    st.lists(
        st.builds(
            StepSample,
            seconds=st.floats(min_value=0, max_value=1e4),
            tuples_in=st.integers(min_value=0, max_value=10**9),
            tuples_out=st.integers(min_value=0, max_value=10**9),
            history=st.integers(min_value=0, max_value=10**10),
            roster=st.integers(min_value=0, max_value=10**6),
        ),
        max_size=60,
    )
)
def test_never_negative_never_beyond_bounds(samples: list[StepSample]) -> None:
    fit = CostFit()
    for sample in samples:
        fit.observe(sample)
    fit.validate()


@pytest.mark.slow
@settings(max_examples=10)
@given(st.integers(min_value=0, max_value=10_000))
def test_one_outlier_in_ten_changes_little(seed: int) -> None:
    rng, fit = Random(seed), CostFit()
    for at in range(600):
        sample = _sample(rng, TRUE, 0.02)
        if at > 20 and at % 10 == 0:
            wild = sample.seconds * 50
            sample = StepSample(
                seconds=wild,
                tuples_in=sample.tuples_in,
                tuples_out=sample.tuples_out,
                history=sample.history,
                roster=sample.roster,
            )
        fit.observe(sample)
    usual = TRUE.seconds(tuples_in=200_000, tuples_out=20_000, history=1e6, roster=10_000)
    found = fit.cost().seconds(tuples_in=200_000, tuples_out=20_000, history=1e6, roster=10_000)
    assert found == pytest.approx(usual, rel=0.1)


@pytest.mark.slow
def test_steps_that_are_all_alike_do_not_wash_out_what_is_known() -> None:
    rng, fit = Random(7), CostFit()
    for _ in range(200):
        fit.observe(_sample(rng, TRUE, 0.0))
    before = fit.cost()
    counts = {"tuples_in": 100_000, "tuples_out": 1_000, "history": 0, "roster": 10_000}
    same = StepSample(seconds=TRUE.seconds(**counts), **counts)
    for _ in range(10_000):
        fit.observe(same)
    fit.validate()
    _near(fit.cost(), before, 0.01)


def test_collinear_counts_are_projected_right() -> None:
    """Output is always a hundredth of the input: their shares are open, their sum is not."""
    rng, fit = Random(3), CostFit()
    for _ in range(2_000):
        tuples = rng.randrange(1_000, 500_000)
        counts = {"tuples_in": tuples, "tuples_out": tuples // 100, "history": 0, "roster": 5_000}
        fit.observe(StepSample(seconds=TRUE.seconds(**counts), **counts))
    fit.validate()
    counts = {"tuples_in": 300_000, "tuples_out": 3_000, "history": 0, "roster": 5_000}
    assert fit.cost().seconds(**counts) == pytest.approx(TRUE.seconds(**counts), rel=0.02)


def test_a_lasting_change_is_learned() -> None:
    rng, fit = Random(11), CostFit()
    for _ in range(300):
        fit.observe(_sample(rng, TRUE, 0.02))
    slow = StepCost(
        step=TRUE.step * 3,
        tuple_in=TRUE.tuple_in * 3,
        tuple_out=TRUE.tuple_out * 3,
        history=TRUE.history * 3,
        roster=TRUE.roster * 3,
    )
    for _ in range(600):
        fit.observe(_sample(rng, slow, 0.02))
    counts = {"tuples_in": 200_000, "tuples_out": 20_000, "history": 10**6, "roster": 10_000}
    assert fit.cost().seconds(**counts) == pytest.approx(slow.seconds(**counts), rel=0.1)


def test_before_any_step_the_prior_stands() -> None:
    fit = CostFit()
    assert fit.samples == 0
    for name in ("step", "tuple_in", "tuple_out", "history", "roster"):
        assert math.isclose(getattr(fit.cost(), name), getattr(PRIOR, name), rel_tol=1e-9)
