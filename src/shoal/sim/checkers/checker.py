"""What a checker is: it sees the world after every event and raises `Violation`.

    after_event   after each event of a peer, and before its effects are carried out; hot
    up, down      a peer has begun, or is gone (crashed or stopped)
    every_second  each second of the world
    calm          faults have just ended: from now on liveness is due
    settled       the bound for liveness has passed: state must be right, and questions that are
                  asked now must be answered rightly by `at_end`
    at_end        some seconds later: nothing that was promised is still open

Under faults a checker asks for safety alone: nothing unsafe, ever. What must hold outside faults
only, it asks for when `world.quiet_for()` says that nothing has been disturbed for long enough.

Global truth (who runs, who can reach whom) comes from the world, never from peers. Each checker
says in its docstring what it does *not* check, and why.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from shoal.kernel.effects import Effect
    from shoal.sim.node import Node
    from shoal.sim.world import World

__all__ = ["Checker", "Violation"]


class Violation(Exception):
    """A promise is broken; the run ends here."""

    def __init__(self, promise: str, what: str) -> None:
        super().__init__(f"{promise}: {what}")
        self.promise = promise
        self.what = what


class Checker:
    """Base of all checkers; a hook that a checker does not override costs nothing."""

    name = ""
    #: Seconds after faults end by which what this checker watches must be settled.
    bound_s = 0.0

    def attach(self, world: "World") -> None:
        """It will watch this world; called once, before anything happens."""
        self.world = world

    def after_event(self, node: "Node", event: Struct, effects: "Sequence[Effect]") -> None:
        """The peer of `node` has handled `event`; it asks for `effects` (not news, not notes)."""

    def up(self, node: "Node") -> None:
        """A peer has begun here."""

    def down(self, node: "Node") -> None:
        """The peer of this node is gone; `node.peer` is as it was last."""

    def every_second(self) -> None:
        """A second of the world has passed."""

    def calm(self) -> None:
        """Faults have ended."""

    def settled(self) -> None:
        """Liveness is due."""

    def at_end(self) -> None:
        """Nothing may still be open."""

    def figures(self) -> dict[str, float]:
        """Numbers worth writing down about the run."""
        return {}
