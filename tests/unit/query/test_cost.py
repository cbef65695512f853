"""The cycle and the relief; the fit itself is in tests/property/test_cost_fit.py."""

import math

import pytest

from shoal.kernel.errors import LocalError
from shoal.query.cost import PRIOR, CostFit, Demand, StepCost, StepSample, cycle_of

COST = StepCost(step=0.1, tuple_in=1e-6, tuple_out=1e-5, history=0.0, roster=1e-5)


def _demand(rate: float) -> Demand:
    return Demand.of(COST, in_per_second=rate, out_per_second=rate / 100, history=0, roster=1_000)


def test_cycle_grows_with_load_until_nothing_is_spare() -> None:
    cycles = [cycle_of([_demand(rate)], capacity=1.0) for rate in (0, 1e5, 5e5, 9e5)]
    lengths = [cycle.seconds for cycle in cycles]
    assert lengths == sorted(lengths)
    assert lengths[0] == pytest.approx(0.11)
    assert all(cycle.keeps_up for cycle in cycles)
    assert cycles[0].wait_mean == pytest.approx(0.055)
    assert cycles[0].wait_worst == pytest.approx(0.11)


def test_without_spare_capacity_the_cycle_never_ends() -> None:
    cycle = cycle_of([_demand(1e6)], capacity=1.0)
    assert math.isinf(cycle.seconds)
    assert not cycle.keeps_up
    assert cycle_of([], capacity=1.0).seconds == 0.0


def test_removing_a_row_relieves_by_its_output_and_its_place() -> None:
    before = _demand(1e5)
    after = before.without_row(COST, out_per_second=500)
    assert before.load - after.load == pytest.approx(0.005)
    assert before.fixed - after.fixed == pytest.approx(1e-5)
    shorter = cycle_of([after], capacity=1.0).seconds
    assert shorter < cycle_of([before], capacity=1.0).seconds
    nothing = Demand(fixed=0.0, load=0.0).without_row(COST, out_per_second=1)
    assert nothing == Demand(fixed=0.0, load=0.0)


@pytest.mark.parametrize("seconds", [-1.0, math.nan, math.inf])
def test_impossible_samples_are_refused(seconds: float) -> None:
    sample = StepSample(seconds=seconds, tuples_in=1, tuples_out=0, history=0, roster=1)
    with pytest.raises(LocalError):
        CostFit().observe(sample)


def test_validate() -> None:
    PRIOR.validate()
    CostFit().validate()
    with pytest.raises(LocalError):
        StepCost(step=-1, tuple_in=0, tuple_out=0, history=0, roster=0).validate()


def test_the_usual_error_is_known() -> None:
    fit = CostFit()
    for _ in range(50):
        fit.observe(StepSample(seconds=0.2, tuples_in=1_000, tuples_out=10, history=0, roster=5))
    assert fit.samples == 50
    assert fit.error < 0.01
