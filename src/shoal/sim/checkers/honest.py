"""Nobody in a simulated mesh lies, so nobody may be refused: a refusal is a defect of ours.

A peer swallows a message that breaks a rule, because a stranger may have sent it. Here every
message comes from our own code over a network that damages nothing, so a refused message means that
two machines of ours disagree about what may be said.

Not checked   messages that are ignored for a stated reason: the network may delay or double them.
"""

from shoal.sim.checkers.checker import Checker, Violation
from shoal.sim.node import Node

__all__ = ["HonestChecker"]


class HonestChecker(Checker):
    """Counts refusals of all peers, every second and when one ends."""

    name = "honest"

    def down(self, node: Node) -> None:
        self._look(node)

    def every_second(self) -> None:
        for node in self.world.running():
            self._look(node)

    def at_end(self) -> None:
        self.every_second()

    def _look(self, node: Node) -> None:
        peer = node.peer
        if peer is not None and peer.refused:
            said = [
                line.what for line in peer.story if "refused" in line.what or line.thing == "peer"
            ]
            raise Violation(
                "honest", f"{node.name} has refused {peer.refused} messages: {'; '.join(said[-3:])}"
            )
