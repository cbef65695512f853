"""A cast of toys: scenarios with a machine that is easy to understand and to break."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.peer.peer import Peer
from shoal.sim.checkers.checker import Checker, Violation
from shoal.sim.node import Node
from shoal.sim.runs.cast import Cast
from shoal.sim.runs.faults import Fault
from shoal.sim.runs.scenario import Scenario
from tests.unit.sim.toy import toy_of, toy_peer


def toy_cast(checkers: Callable[[], Sequence[Checker]] = lambda: ()) -> Cast:
    """Toys, and the checkers that a test wants."""
    return Cast(factory=lambda _: toy_peer, checkers=lambda _: checkers(), hooks={})


def toy_scenario(*faults: Fault, peers: int = 6, faults_s: float = 20.0) -> Scenario:
    """A short scenario for toys: they need no time to form a ring."""
    return Scenario(
        title="toys",
        peers=peers,
        peers_min=2,
        faults_s=faults_s,
        form_s=2.0,
        settle_s=5.0,
        repair_s=1.0,
        fault=faults,
    )


class NobodyUnreachable(Checker):
    """Breaks as soon as a toy hears that somebody cannot be reached: after any crash or cut."""

    name = "reach"

    def after_event(self, node: Node, event: Struct, effects: object) -> None:
        unreachable = toy_of(node.peer).unreachable
        if unreachable:
            raise Violation("X2", f"{node.name} cannot reach {unreachable[0]}")


def crashing_peer(me: Contact, seeds: Sequence[str], rng: Rng) -> Peer:
    """A toy whose code has a defect."""
    peer = toy_peer(me, seeds, rng)
    toy = toy_of(peer)
    handle = toy.handle

    def broken(event: object, now: int) -> object:
        if toy.sent == 3:
            raise KeyError("a defect")
        return handle(event, now)

    toy.handle = broken  # type: ignore[method-assign, assignment]
    return peer
