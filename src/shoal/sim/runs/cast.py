"""Who plays: how the peers of a scenario are built, who checks them, and how they can be damaged.

`standard()` is the real thing. Tests put in mutants and toys instead.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.control.gossip.config import GossipConfig
from shoal.control.gossip.machine import GossipMachine
from shoal.control.ring.config import RingConfig
from shoal.control.ring.machine import RingMachine
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.peer.machine import Machine
from shoal.peer.peer import Peer
from shoal.sim.checkers.base import Checker
from shoal.sim.checkers.honest import HonestChecker
from shoal.sim.runs.hooks import HOOKS
from shoal.sim.runs.scenario import Scenario
from shoal.sim.world import Factory

__all__ = ["Cast", "standard"]

_STORY_LINES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """Builders, given a scenario."""

    factory: Callable[[Scenario], Factory]
    checkers: Callable[[Scenario], Sequence[Checker]]
    #: Damage to a peer's state, by name; says whether there was anything to damage.
    hooks: Mapping[str, Callable[[Any], bool]]


def standard() -> Cast:
    """The peers that hosts run, and every checker."""
    return Cast(factory=_factory, checkers=_checkers, hooks=HOOKS)


def _factory(scenario: Scenario) -> Factory:
    settings = scenario.config
    gossip = GossipConfig(**settings.get("gossip", {}))

    def build(me: Contact, seeds: Sequence[str], rng: Rng) -> Peer:
        config = RingConfig(seeds=tuple(seeds), **settings.get("ring", {}))
        machines: list[Machine] = [RingMachine(me, config, rng.split("ring"))]
        if "gossip" in scenario.machines:
            machines.append(GossipMachine(me, gossip, rng.split("gossip")))
        return Peer(me, machines, story_lines_max=_STORY_LINES)

    return build


def _checkers(scenario: Scenario) -> Sequence[Checker]:
    return [HonestChecker()]
