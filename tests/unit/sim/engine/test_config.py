"""Settings out of range are refused; the true cost is told by instance, then by kind."""

import pytest

from shoal.kernel.errors import LocalError
from shoal.query.cost import PRIOR, StepCost
from shoal.sim.engine.config import Costs, EngineConfig


def test_defaults_are_within_bounds() -> None:
    EngineConfig().check()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("capacity", 0.0),
        ("lanes", 0),
        ("jitter", 1.0),
        ("hiccup_chance", 2.0),
        ("member_share", -0.1),
        ("rows_per_step", 0),
        ("poll_first", 10**9),
        ("fit_every", 0),
        ("selectivity", {"a": 1.5}),
    ],
)
def test_out_of_range(name: str, value: object) -> None:
    with pytest.raises(LocalError, match=name):
        EngineConfig(**{name: value}).check()  # type: ignore[arg-type]


def test_costs_of_an_instance_go_before_those_of_its_kind() -> None:
    cheap, dear = (
        StepCost(step=s, tuple_in=0.0, tuple_out=0.0, history=0.0, roster=0.0) for s in (0.1, 9.0)
    )
    costs = Costs(by_kind={"select": cheap}, by_instance={"x": dear})
    assert costs.of("select", "x") == dear
    assert costs.of("select", "y") == cheap
    assert costs.of("ingest", "w") == PRIOR
