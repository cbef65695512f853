"""A few peers with the ring alone, in the simulator: whole at once, or grown one by one."""

from collections.abc import Sequence
from typing import Any

from shoal.control.ring.config import RingConfig
from shoal.control.ring.join import Place
from shoal.control.ring.machine import RingMachine
from shoal.control.ring.messages import Located, Lookup
from shoal.control.ring.policy import stable_tables
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.kernel.time import SECOND
from shoal.peer.peer import Peer
from shoal.sim.checkers.ring import RingChecker, ring_of
from shoal.sim.network import Weather
from shoal.sim.node import Node
from shoal.sim.world import World
from tests.checked import Checked

__all__ = ["Few", "contact", "contacts", "ring_order"]


def contact(name: str, incarnation: int = 1) -> Contact:
    """A contact whose address follows from its name."""
    return Contact(name, f"{name}:1", incarnation)


def contacts(count: int) -> list[Contact]:
    """This many, in the order of the ring."""
    return ring_order([contact(f"p{number}") for number in range(count)])


def ring_order(found: Sequence[Contact]) -> list[Contact]:
    """By key."""
    return sorted(found, key=lambda one: one.key)


class Few:
    """A world of ring machines, each of them watched."""

    def __init__(
        self, count: int, *, whole: bool = True, seed: int = 1, loss: float = 0.0, **config: Any
    ) -> None:
        self.config = config
        self._places: dict[str, Place] = {}
        self.checker = RingChecker()
        weather = Weather(loss=loss, heavy=0.0)
        self.world = World(seed, self._peer, weather=weather, checkers=[self.checker])
        self.located: dict[int, Located] = {}
        nodes = [self.world.add_host() for _ in range(count)]
        if whole:
            known = [Contact(node.name, node.address, 1) for node in nodes]
            self._places = stable_tables(known, RingConfig(**config).successors_max)
        for node in nodes:
            first = whole or node is nodes[0]
            self.world.start(node, [] if first else [nodes[0].address])
        self._places = {}

    def _peer(self, me: Contact, seeds: Sequence[str], rng: Rng) -> Peer:
        config = RingConfig(seeds=tuple(seeds), **self.config)
        place = self._places.get(me.name)
        machine = Checked(RingMachine(me, config, rng.split("ring"), place=place))
        return Peer(me, [machine], story_lines_max=500)

    @property
    def ring(self) -> list[Node]:
        """Hosts with a peer, in the order of the ring."""
        return sorted(self.world.running(), key=lambda node: node.contact.key)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.world.run_for(int(seconds * SECOND))

    def join(self, *through: Node) -> Node:
        """One more peer."""
        node = self.world.add_host()
        self.world.start(node, [seed.address for seed in through])
        return node

    def cut(self, *side: Node) -> None:
        """These hear nothing of the others."""
        self.world.network.partition("cut", [node.index for node in side], one_way=False)
        self.world.disturb("partition")

    def heal(self) -> None:
        """The network is whole again."""
        self.world.network.heal("cut")
        self.world.undisturb("partition")

    def pause(self, node: Node, seconds: float) -> None:
        """It stands still for so long."""
        self.world.disturb("pause")
        self.world.pause(node)
        self.run(seconds)
        self.world.resume(node)
        self.world.undisturb("pause")

    def wrong(self) -> str:
        """What keeps it from being one whole ring; empty if nothing."""
        return self.checker.unsettled()

    def look_up(self, node: Node, key: bytes) -> Located:
        """The answer to a look-up; it must come."""
        request = self.world.ask(node, Lookup(key), self)
        for _ in range(120):
            if request in self.located:
                return self.located[request]
            self.run(0.1)
        raise AssertionError("no answer in 12 s")

    def answered(self, node: Node, request: int, result: Any) -> None:
        """The world has an answer."""
        assert isinstance(result, Located), result
        self.located[request] = result

    def lost(self, node: Node, request: int) -> None:
        """The peer that was asked is gone."""

    def story(self, node: Node) -> str:
        """What a peer tells of itself."""
        assert node.peer is not None
        return "\n".join(line.what for line in node.peer.story)

    def owner(self, key: bytes) -> str:
        """Who owns a key."""
        return self.checker.owner_of(key)

    def machine(self, node: Node) -> RingMachine:
        """The ring machine of a host."""
        return ring_of(node)
