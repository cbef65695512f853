"""Pieces of a directory: desks at known places, records, and small meshes on a still ring.

p4 ─▶ p5 ─▶ p6 ─▶ p1 ─▶ p2 ─▶ p3 ─▶        so p1 keeps `aes`, p3 keeps `flow`, p5 keeps `q`
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from msgspec import Struct

from shoal.control.directory.config import DirectoryConfig
from shoal.control.directory.desk import Desk
from shoal.control.directory.machine import DirectoryMachine
from shoal.control.directory.messages import (
    LIVE,
    Item,
    Neighbours,
    OfferRecord,
    Record,
    StreamRecord,
    Version,
)
from shoal.kernel.effects import Answer, Effect, Note, Send, Tell
from shoal.kernel.events import Started
from shoal.kernel.keys import Contact, Key, key_of_name
from shoal.kernel.rng import Rng
from shoal.kernel.time import MILLISECOND, SECOND
from shoal.peer.peer import Peer
from shoal.sim.checkers.checker import Checker
from shoal.sim.network import Weather
from shoal.sim.node import Node
from shoal.sim.world import World
from tests.checked import Checked
from tests.still_ring import StillRing, neighbours_among

__all__ = [
    "AES",
    "FLOW",
    "NAMES",
    "Mesh",
    "answers",
    "contact",
    "desk_of",
    "item",
    "news",
    "notes",
    "offer",
    "sent",
    "started",
    "stream",
    "taken",
]

NAMES = ("p1", "p2", "p3", "p4", "p5", "p6")
AES: Key = key_of_name("aes")
FLOW: Key = key_of_name("flow")


def contact(name: str, incarnation: int = 1) -> Contact:
    """A contact whose address follows from its name."""
    return Contact(name, f"{name}:1", incarnation)


def offer(owner: str = "p5", operator: str = "aes", *, load: float = 0.0, life: int = 1) -> Record:
    """That a peer offers an operator."""
    return OfferRecord(key_of_name(operator), contact(owner, life), operator, load)


def stream(owner: str = "p5", instance: str = "ingest-1", *, name: str = "flow") -> Record:
    """That a peer produces a stream."""
    return StreamRecord(key_of_name(name), contact(owner), instance)


def item(
    record: Record, counter: int, since: int = 0, *, state: int = LIVE, left: int = 60 * SECOND
) -> Item:
    """A record as it travels; `since` is the counter unless it is given."""
    version = Version(record.owner.incarnation, counter, since or counter)
    return Item(record, version, state, left)


def desk_of(name: str, members: Sequence[str] = NAMES, **config: Any) -> Desk:
    """The desk of a peer that knows its place among these."""
    me = contact(name)
    desk = Desk(me, replace(DirectoryConfig(), **config), Rng(1))
    predecessor, successors = neighbours_among([contact(one) for one in members], me)
    desk.place.move(predecessor, successors, desk.config.copies)
    desk.box.effects = []
    return desk


def taken(desk: Desk) -> list[Effect]:
    """What has been asked for since the last look."""
    effects, desk.box.effects = desk.box.effects, []
    return effects


def sent(effects: Sequence[Effect]) -> list[tuple[str, Any]]:
    """Messages, and to whom."""
    return [(effect.to.name, effect.message) for effect in effects if isinstance(effect, Send)]


def news(effects: Sequence[Effect]) -> list[Any]:
    """What siblings are told."""
    return [effect.news for effect in effects if isinstance(effect, Tell)]


def answers(effects: Sequence[Effect]) -> list[Any]:
    """What questions get."""
    return [effect.result for effect in effects if isinstance(effect, Answer)]


def notes(effects: Sequence[Effect]) -> str:
    """What the story says."""
    return "\n".join(effect.what for effect in effects if isinstance(effect, Note))


def started(name: str = "p1", members: Sequence[str] = NAMES, **config: Any) -> Checked:
    """A watched machine that has started and knows its place, at instant 0."""
    me = contact(name)
    machine = DirectoryMachine(me, replace(DirectoryConfig(), **config), Rng(1))
    checked = Checked(machine)
    checked.handle(Started({}), 0)
    if members:
        around = neighbours_among([contact(one) for one in members], me)
        checked.handle(Neighbours(*around), 0)
    return checked


class Mesh:
    """Watched directories on a still ring, in the simulator."""

    def __init__(
        self,
        count: int,
        *,
        checkers: Sequence[Checker] = (),
        weather: Weather | None = None,
        **config: Any,
    ) -> None:
        self.config = replace(DirectoryConfig(), **config)
        self.roster: list[Contact] = []
        self.results: dict[int, Any] = {}
        calm = Weather(heavy=0.0)
        self.world = World(1, self._build, weather=weather or calm, checkers=checkers)
        for _ in range(count):
            self.start(self.world.add_host())
        self.run(3)

    def _build(self, me: Contact, seeds: Sequence[str], rng: Rng) -> Peer:
        ring = StillRing(me, self.roster, look_every=500 * MILLISECOND)
        machine = Checked(DirectoryMachine(me, self.config, rng.split("directory")))
        return Peer(me, [ring, machine], story_lines_max=100)

    def start(self, node: Node) -> None:
        """A peer begins on this host, and is on the ring."""
        self.world.start(node, [])
        self.roster.append(node.contact)

    def crash(self, *nodes: Node) -> None:
        """They are gone, and the ring sees it soon."""
        for node in nodes:
            self.world.crash(node)
            self.world.mark("crash")
            self.roster[:] = [one for one in self.roster if one.name != node.name]

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.world.run_for(int(seconds * SECOND))

    def ask(self, node: Node, question: Struct) -> Any:
        """The answer to a question; it must come."""
        request = self.world.ask(node, question, self)
        for _ in range(150):
            if request in self.results:
                return self.results.pop(request)
            self.run(0.1)
        raise AssertionError(f"no answer to {question} in 15 s")

    def machine(self, node: Node) -> DirectoryMachine:
        """The directory of a host."""
        assert node.peer is not None
        machine = getattr(node.peer.machines["directory"], "inner", None)
        assert isinstance(machine, DirectoryMachine)
        return machine

    def keepers(self, key: Key) -> list[Node]:
        """Who keeps a key and its copies, the keeper first."""
        nodes = sorted(self.world.running(), key=lambda node: node.contact.key)
        at = next((i for i, node in enumerate(nodes) if node.contact.key >= key), 0)
        return [nodes[(at + turn) % len(nodes)] for turn in range(self.config.copies)]

    def answered(self, node: Node, request: int, result: Any) -> None:
        """The world has an answer."""
        self.results[request] = result

    def lost(self, node: Node, request: int) -> None:
        """The peer that was asked is gone."""
