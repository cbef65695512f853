"""Each mutant of gossip is found by its checker, and the real machine passes where it is found.

A small mesh with the real ring plays a scenario under `sim/checkers/gossip.py`:

    calm      broadcasts, and nothing else
    parted    a partition in the middle
    absent    one peer is cut off for longer than removals are remembered
    dead      peers are dead and tables are not repaired, nobody compares; the living are counted
"""

from dataclasses import replace

import pytest

from shoal.control.gossip.config import GossipConfig
from shoal.control.gossip.machine import GossipMachine
from shoal.control.gossip.messages import Broadcast
from shoal.control.ring.config import RingConfig
from shoal.control.ring.machine import RingMachine
from shoal.kernel.rng import Rng
from shoal.kernel.time import HOUR, MINUTE, SECOND
from shoal.peer.peer import Peer
from shoal.sim.baselines.still import Still
from shoal.sim.checkers.gossip import GossipChecker, gossip_of
from shoal.sim.network import Weather
from shoal.sim.node import Node
from shoal.sim.runs.cast import Cast
from shoal.sim.runs.run import run
from shoal.sim.runs.scenario import Scenario, read
from shoal.sim.world import Factory, Failed, World
from tests.mutants.gossip_spread import MUTANTS

#: Removals are forgotten after two minutes, and who was away for one minute asks.
LIFE = 120 * SECOND
CONFIG = replace(
    GossipConfig(),
    compare_every_us=6 * SECOND,
    suspect_us=10 * SECOND,
    removed_life_us=LIFE,
)
COMMON = """
peers = 9
machines = ["ring", "gossip"]
weather = { heavy = 0.0 }
workload = { broadcasts_per_s = 1.0 }
config.ring.successors_max = 3
"""
SCENARIOS = {
    "calm": 'title = "calm"\nfaults_s = 40' + COMMON,
    "parted": 'title = "parted"\nfaults_s = 40'
    + COMMON
    + '[[fault]]\nkind = "partition"\nat_s = [5]\nspan_s = 25',
}


def _factory(scenario: Scenario) -> Factory:
    ring = RingConfig(**scenario.config["ring"])

    def build(me, seeds, rng):  # type: ignore[no-untyped-def]
        machines = [
            RingMachine(me, replace(ring, seeds=tuple(seeds)), rng.split("ring")),
            GossipMachine(me, CONFIG, rng.split("gossip")),
        ]
        return Peer(me, machines, story_lines_max=50)

    return build


CAST = Cast(
    factory=_factory,
    checkers=lambda _: [GossipChecker(bound_s=60.0, removed_life_us=LIFE)],
    hooks={},
)


def played(name: str, seed: int = 1) -> str:
    """What the checker found wrong in a scenario; empty if nothing."""
    if name == "dead":
        return missed(seed)
    if name == "absent":
        return came_back(seed)
    outcome = run(read(SCENARIOS[name], name=name), seed, CAST)
    return "" if outcome.failure is None else outcome.failure.what


def missed(seed: int) -> str:
    """Who is alive and does not hear a broadcast, where dead peers are in everybody's tables."""
    config = replace(GossipConfig(), compare_every_us=1_000 * HOUR, removed_life_us=99_000 * HOUR)
    names = [f"p{number}" for number in range(60)]
    still = Still(names, config=config, seed=seed)
    still.settle()
    for name in Rng(seed, "dead").sample(names, 20):
        still.dead[name] = None
    still.ask(still.living[0], Broadcast("query", "q1", b"x"))
    still.run(still.now + 2 * MINUTE)
    without = [name for name in still.living if ("query", "q1") not in still.facts(name)]
    return f"G2: {without} have not heard it" if without else ""


def came_back(seed: int) -> str:
    """A fact is removed while a peer is cut off, for longer than the removal is remembered."""
    world = World(
        seed,
        _factory(read(SCENARIOS["calm"], name="calm")),
        weather=Weather(heavy=0.0),
        checkers=[GossipChecker(bound_s=60.0, removed_life_us=LIFE)],
    )
    nodes = [world.add_host() for _ in range(9)]
    try:
        for number, node in enumerate(nodes):
            world.start(node, [nodes[0].address] if number else [])
            world.run_for(SECOND)
        world.run_for(30 * SECOND)
        world.ask(nodes[0], Broadcast("query", "q1", b"x"), Anybody())
        world.run_for(5 * SECOND)
        world.disturb("cut")
        world.network.partition("cut", [4], one_way=False)
        world.run_for(SECOND)
        world.ask(nodes[1], Broadcast("query", "q1", None), Anybody())
        world.run_for(LIFE + 30 * SECOND)
        held = [gossip_of(node).version_of("query", "q1") for node in nodes]
        assert [version is not None for version in held] == [node is nodes[4] for node in nodes]
        world.network.heal("cut")
        world.undisturb("cut")
        world.calm()
        world.run_for(60 * SECOND)
        world.settle()
        world.run_for(15 * SECOND)
        world.finish()
    except Failed as failed:
        return failed.what
    assert gossip_of(nodes[4]).dropped == 1
    return ""


class Anybody:
    """Asks and does not look at the answer; the checker does."""

    def answered(self, node: Node, request: int, result: object) -> None:
        pass

    def lost(self, node: Node, request: int) -> None:
        pass


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [*SCENARIOS, "dead", "absent"])
def test_the_real_machine_passes(scenario: str) -> None:
    assert played(scenario) == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = MUTANTS[name]
    monkeypatch.setattr(mutant.where, mutant.name, mutant.by)
    found = played(mutant.scenario)
    assert found.startswith(f"{mutant.promise}: "), found
