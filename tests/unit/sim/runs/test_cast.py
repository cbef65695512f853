"""The standard cast: whole peers as hosts run them, with the settings of the scenario."""

import pytest

from shoal.kernel.errors import ShoalError
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.sim.runs.cast import standard
from shoal.sim.runs.hooks import HOOKS
from shoal.sim.runs.scenario import MACHINES, Scenario

ME = Contact("p0", "host0:1", 1)


def test_peers_have_the_machines_that_were_asked_for_in_their_order() -> None:
    cast = standard()
    for wanted in (MACHINES, ("ring",), ("ring", "gossip")):
        scenario = Scenario(title="x", machines=wanted)  # type: ignore[arg-type]
        peer = cast.factory(scenario)(ME, [], Rng(1, "p0"))
        assert tuple(peer.machines) == wanted


def test_there_is_a_checker_for_everything_that_plays() -> None:
    names = [checker.name for checker in standard().checkers(Scenario(title="x"))]
    assert "honest" in names
    assert all(machine in names for machine in MACHINES)
    alone = [c.name for c in standard().checkers(Scenario(title="x", machines=("ring",)))]
    assert "gossip" not in alone
    assert "directory" not in alone


def test_checkers_are_new_for_every_run() -> None:
    cast = standard()
    one, other = (cast.checkers(Scenario(title="x")) for _ in range(2))
    assert all(a is not b for a, b in zip(one, other, strict=True))


def test_settings_that_do_not_fit_are_refused_before_a_run() -> None:
    scenario = Scenario(title="x", config={"ring": {"successors_max": 1}})
    with pytest.raises(ShoalError):
        standard().factory(scenario)


def test_hooks_are_those_that_scenarios_may_name() -> None:
    assert standard().hooks is HOOKS
