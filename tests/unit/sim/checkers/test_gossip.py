"""The checker of gossip: each kind of violation is found, and what is allowed is not."""

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import Struct

from shoal.control.gossip.config import GossipConfig
from shoal.control.gossip.machine import GossipMachine
from shoal.control.gossip.messages import (
    Broadcast,
    Fact,
    Give,
    Routes,
    Spread,
    Version,
)
from shoal.kernel.effects import Effect, Send
from shoal.kernel.errors import UserError
from shoal.kernel.events import Asked, Received, Started, TimerFired, Unreachable
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.kernel.time import HOUR, MINUTE, SECOND
from shoal.sim.checkers.checker import Violation
from shoal.sim.checkers.gossip import GossipChecker, gossip_of
from shoal.sim.network import Weather
from shoal.sim.node import UP

CONTACTS = [Contact(f"p{number}", f"p{number}:1", 1) for number in range(4)]


class Mesh:
    """As much of a world as the checker asks for; events are handled only when a test says so."""

    def __init__(self, count: int = 4) -> None:
        self.now = HOUR
        self.quiet = HOUR
        self.seed = 1
        self.network = SimpleNamespace(weather=Weather(heavy=0.0))
        self.asked: list[Struct] = []
        self.nodes: list[Any] = []
        self.checker = GossipChecker()
        self.checker.attach(self)  # type: ignore[arg-type]
        for contact in CONTACTS[:count]:
            machine = GossipMachine(contact, GossipConfig(), Rng(1, contact.name))
            peer = SimpleNamespace(machines={"gossip": machine})
            node = SimpleNamespace(name=contact.name, starts=1, state=UP, peer=peer)
            self.nodes.append(node)
            self.checker.up(node)  # type: ignore[arg-type]
            self.handle(node, Started({}))
            others = [other for other in CONTACTS[:count] if other != contact]
            others.sort(key=lambda other: other.key)
            machine.handle(Routes(others[-1], tuple(others), ()), self.now)
            self.handle(node, TimerFired("gossip/hold"))

    def running(self) -> list[Any]:
        return self.nodes

    def quiet_for(self) -> int:
        return self.quiet

    def ask(self, node: Any, question: Struct, asker: object) -> None:
        self.asked.append(question)

    def handle(self, node: Any, event: Struct) -> list[Effect]:
        """A peer handles an event, and the checker looks."""
        effects = node.peer.machines["gossip"].handle(event, self.now)
        self.checker.after_event(node, event, effects)
        return effects

    def broadcast(self, number: int = 0, body: bytes | None = b"x") -> list[tuple[Contact, Spread]]:
        """One peer broadcasts; the messages are in the hands of the test."""
        node = self.nodes[number]
        self.handle(node, Asked(1, Broadcast("query", "q1", body)))
        effects = self.handle(node, TimerFired("gossip/batch"))
        return [(one.to, one.message) for one in effects if isinstance(one, Send)]

    def deliver(self, sent: list[tuple[Contact, Spread]], sender: int = 0) -> None:
        for to, message in sent:
            node = next(node for node in self.nodes if node.name == to.name)
            self.handle(node, Received(CONTACTS[sender], message))

    def later(self, seconds: int) -> None:
        self.now += seconds * SECOND
        self.checker.every_second()


def test_a_broadcast_that_everybody_hears_once_is_judged_and_right() -> None:
    mesh = Mesh()
    mesh.deliver(mesh.broadcast())
    mesh.later(6)
    assert mesh.checker.judged == 1
    assert mesh.checker.figures()["broadcast_hops_max"] == 1
    mesh.checker.settled()
    assert [type(question) for question in mesh.asked] == [Broadcast]


def test_G1_a_peer_that_hears_it_twice_is_found() -> None:
    mesh = Mesh()
    sent = mesh.broadcast()
    mesh.deliver([*sent, sent[0]])
    with pytest.raises(Violation, match=r"G1.* 2 times"):
        mesh.later(6)


def test_G1_a_peer_that_does_not_hear_it_is_found() -> None:
    mesh = Mesh()
    mesh.deliver(mesh.broadcast()[1:])
    with pytest.raises(Violation, match=r"G1.* 0 times"):
        mesh.later(6)


def test_G1_too_many_hops_are_found() -> None:
    mesh = Mesh()
    sent = mesh.broadcast()
    long = [(to, Spread(m.origin, m.wave, m.token, m.low, m.high, m.facts, 99)) for to, m in sent]
    mesh.deliver(long)
    with pytest.raises(Violation, match="99 hops"):
        mesh.later(6)


@pytest.mark.parametrize("how", ["fault", "silent", "unreachable", "loss", "restart", "paused"])
def test_what_was_disturbed_is_not_judged(how: str) -> None:
    mesh = Mesh()
    if how == "fault":
        mesh.quiet = SECOND
    mesh.broadcast()
    if how == "silent":
        mesh.now += GossipConfig().ack_us
        mesh.handle(mesh.nodes[0], TimerFired("gossip/retry"))
    elif how == "unreachable":
        mesh.handle(mesh.nodes[0], Unreachable(CONTACTS[1]))
    elif how == "loss":
        mesh.network.weather = Weather(loss=0.1)
    elif how == "restart":
        mesh.nodes[2].starts = 2
    elif how == "paused":
        mesh.nodes[2].state = UP + 1
    mesh.later(6)
    assert mesh.checker.judged == 0


def give(counter: int, body: bytes | None = b"x", *, name: str = "p0") -> Give:
    return Give(1, (Fact("query", "q1", Version(counter, name, 1), body),))


def test_G3_what_nobody_wrote_is_found() -> None:
    mesh = Mesh()
    with pytest.raises(Violation, match=r"G3.*nobody wrote"):
        mesh.handle(mesh.nodes[1], Received(CONTACTS[0], give(1)))
    mesh = Mesh()
    mesh.broadcast()
    with pytest.raises(Violation, match=r"G3.*nobody wrote"):
        mesh.handle(mesh.nodes[1], Received(CONTACTS[0], give(1, b"another body")))


def test_G3_a_version_that_goes_back_is_found() -> None:
    mesh = Mesh()
    mesh.broadcast()
    mesh.broadcast()
    mesh.handle(mesh.nodes[1], Received(CONTACTS[0], give(2)))
    machine = gossip_of(mesh.nodes[1])
    machine._store.drop(("query", "q1"))
    with pytest.raises(Violation, match=r"G3.*holds Version.counter=1"):
        mesh.handle(mesh.nodes[1], Received(CONTACTS[0], give(1)))


def test_G3_a_version_that_is_written_twice_is_found() -> None:
    mesh = Mesh()
    mesh.broadcast()
    store = gossip_of(mesh.nodes[0])._store
    store.drop(("query", "q1"))
    store.counter = 0
    with pytest.raises(Violation, match="written twice"):
        mesh.broadcast()


def test_G4_a_removal_that_is_forgotten_too_soon_is_found() -> None:
    mesh = Mesh()
    mesh.deliver(mesh.broadcast(body=None))
    for node in mesh.nodes:
        gossip_of(node)._store.drop(("query", "q1"))
    mesh.now += 10 * MINUTE
    with pytest.raises(Violation, match="G4"):
        mesh.checker.settled()
    mesh.now += HOUR
    mesh.checker.settled()


def test_G4_an_older_version_of_what_all_knew_to_be_removed_is_found() -> None:
    mesh = Mesh()
    mesh.deliver(mesh.broadcast())
    mesh.deliver(mesh.broadcast(body=None))
    mesh.later(1)
    assert mesh.checker.figures()["agreements"] == 1
    mesh.now += 2 * HOUR
    for node in mesh.nodes:
        machine = gossip_of(node)
        machine._store.drop(("query", "q1"))
        mesh.checker.down(node)
        machine._store.take(Fact("query", "q1", Version(1, "p0", 1), b"x"), mesh.now)
    with pytest.raises(Violation, match=r"G4.*is back"):
        mesh.checker.settled()


def test_G2_stores_that_differ_are_found() -> None:
    mesh = Mesh()
    mesh.deliver(mesh.broadcast()[1:])
    with pytest.raises(Violation, match=r"G2.*q1"):
        mesh.checker.settled()


def test_removals_that_are_about_to_be_forgotten_may_differ() -> None:
    mesh = Mesh()
    mesh.deliver(mesh.broadcast(body=None))
    gossip_of(mesh.nodes[2])._store.drop(("query", "q1"))
    mesh.now += HOUR - SECOND
    mesh.checker.settled()


def test_G2_the_last_broadcast_is_looked_for_at_the_end() -> None:
    mesh = Mesh()
    mesh.checker.at_end()
    mesh.checker.settled()
    with pytest.raises(Violation, match="has not heard"):
        mesh.checker.at_end()


def test_G2_a_last_broadcast_that_is_not_accepted_is_found() -> None:
    mesh = Mesh()
    with pytest.raises(Violation, match="did not accept"):
        mesh.checker.answered(mesh.nodes[0], 1, UserError("no"))
    with pytest.raises(Violation, match="ended before"):
        mesh.checker.lost(mesh.nodes[0], 1)


def test_an_empty_mesh_has_nothing_to_settle() -> None:
    mesh = Mesh(0)
    mesh.later(1)
    mesh.checker.settled()
    assert mesh.asked == []
