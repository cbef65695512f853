"""Who plays: how the peers of a scenario are built, who checks them, and how they can be damaged.

`standard()` is the real thing. Tests put in mutants and toys instead.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.control.directory.config import DirectoryConfig
from shoal.control.gossip.config import GossipConfig
from shoal.control.ring.config import RingConfig
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.peer.build import PeerConfig, build_machines
from shoal.peer.peer import Peer
from shoal.sim.checkers.checker import Checker
from shoal.sim.checkers.directory import DirectoryChecker
from shoal.sim.checkers.gossip import GossipChecker
from shoal.sim.checkers.honest import HonestChecker
from shoal.sim.checkers.ring import RingChecker
from shoal.sim.checkers.wire import WireChecker
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
    config = PeerConfig(
        ring=RingConfig(**settings.get("ring", {})),
        directory=DirectoryConfig(**settings.get("directory", {})),
        gossip=GossipConfig(**settings.get("gossip", {})),
        story_lines_max=_STORY_LINES,
    )
    config.check()
    wanted = scenario.machines

    def build(me: Contact, seeds: Sequence[str], rng: Rng) -> Peer:
        machines = build_machines(me, config.joining(*seeds), rng)
        taken = [machine for machine in machines if machine.name in wanted]
        return Peer(me, taken, story_lines_max=_STORY_LINES, standing=config.standing)

    return build


def _checkers(scenario: Scenario) -> Sequence[Checker]:
    found: list[Checker] = [HonestChecker(), WireChecker()]
    if "ring" in scenario.machines:
        found.append(RingChecker())
    if "directory" in scenario.machines:
        found.append(DirectoryChecker(DirectoryConfig(**scenario.config.get("directory", {}))))
    if "gossip" in scenario.machines:
        config = GossipConfig(**scenario.config.get("gossip", {}))
        found.append(GossipChecker(removed_life_us=config.removed_life_us))
    return found
