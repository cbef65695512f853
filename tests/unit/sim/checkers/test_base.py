"""Hooks: called when they should be, and free when they are not overridden."""

from shoal.kernel.time import SECOND
from shoal.sim.checkers.base import Checker, Violation
from shoal.sim.node import Node
from shoal.sim.world import World
from tests.unit.sim.toy import toy_peer


class Listener(Checker):
    """Counts what it is told."""

    name = "listener"

    def __init__(self) -> None:
        self.events = 0
        self.seconds = 0
        self.lives: list[str] = []

    def after_event(self, node: Node, event: object, effects: object) -> None:
        self.events += 1

    def every_second(self) -> None:
        self.seconds += 1

    def up(self, node: Node) -> None:
        self.lives.append(f"up {node.name}")

    def down(self, node: Node) -> None:
        assert node.peer is not None
        self.lives.append(f"down {node.name}")


def test_every_hook_is_called() -> None:
    listener = Listener()
    world = World(1, toy_peer, checkers=[listener])
    node = world.add_host()
    world.start(node, ["nowhere:1"])
    world.run_for(5 * SECOND)
    world.crash(node)
    assert listener.events == world.events > 5
    assert listener.seconds == 5
    assert listener.lives == ["up p0", "down p0"]


def test_a_checker_that_overrides_nothing_is_not_called_for_every_event() -> None:
    world = World(1, toy_peer, checkers=[Checker()])
    assert world._after_event == []
    assert world._every_second == []


def test_a_violation_names_its_promise() -> None:
    violation = Violation("R2", "two rings")
    assert str(violation) == "R2: two rings"
    assert (violation.promise, violation.what) == ("R2", "two rings")
