"""R2: each mutant of the ring is found by its checker, and the real machine passes the same."""

from typing import Any

import pytest

from shoal.control.ring.config import RingConfig
from shoal.control.ring.machine import RingMachine
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.peer.peer import Peer
from shoal.sim.checkers.ring import RingChecker
from shoal.sim.runs.cast import Cast
from shoal.sim.runs.run import run
from shoal.sim.runs.scenario import Scenario, read
from shoal.sim.world import Factory
from tests.mutants.ring_chord import MUTANTS

COMMON = """
peers = 9
machines = ["ring"]
settle_s = 60
join_ms = 100
weather = { heavy = 0.0 }
workload = { lookups_per_s = 2.0 }
config.ring.successors_max = 3
"""
SCENARIOS = {
    "grow": 'title = "grow"\nfaults_s = 20'
    + COMMON
    + '[[fault]]\nkind = "join"\nat_s = [2]\ncount = 2\n',
    "crash": 'title = "crash"\nfaults_s = 60'
    + COMMON
    + '[[fault]]\nkind = "crash"\nat_s = [5, 35]\ncount = 2\nwho = "neighbours"\ndown_s = 0.0\n'
    + '[[fault]]\nkind = "join"\nat_s = [20, 50]\n[require]\n"crash for good" = 4\n',
    "parted": 'title = "parted"\nfaults_s = 45'
    + COMMON
    + '[[fault]]\nkind = "partition"\nat_s = [5]\nspan_s = 30\n',
    "lookups": 'title = "lookups"\nfaults_s = 40' + COMMON,
    "lossy": 'title = "lossy"\nfaults_s = 60' + COMMON.replace("heavy", "loss = 0.05, heavy"),
}


def _factory(scenario: Scenario) -> Factory:
    settings = scenario.config["ring"]

    def build(me: Contact, seeds: Any, rng: Rng) -> Peer:
        config = RingConfig(seeds=tuple(seeds), **settings)
        return Peer(me, [RingMachine(me, config, rng.split("ring"))], story_lines_max=50)

    return build


CAST = Cast(factory=_factory, checkers=lambda _: [RingChecker(bound_s=60.0)], hooks={})


def played(name: str, seed: int = 1) -> str:
    """What was found wrong in a scenario; empty if nothing."""
    outcome = run(read(SCENARIOS[name], name=name), seed, CAST)
    return "" if outcome.failure is None else outcome.failure.what


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_R2_the_real_machine_passes(scenario: str) -> None:
    assert played(scenario) == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_R2_a_mutant_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = MUTANTS[name]
    monkeypatch.setattr(mutant.where, mutant.name, mutant.by)
    assert played(mutant.scenario).startswith("R2: ")
