"""Hooks: called when they should be, and free when they are not overridden."""

import pytest

from shoal.kernel.time import SECOND
from shoal.sim.checkers.checker import Checker, Violation
from shoal.sim.node import Node
from shoal.sim.world import Failed, World
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


class Broken(Checker):
    """Finds fault with whatever hook a test names."""

    name = "broken"

    def __init__(self, hook: str) -> None:
        self.hook = hook

    def _look(self, hook: str) -> None:
        if hook == self.hook:
            raise Violation("X9", f"found in {hook}")

    def up(self, node: Node) -> None:
        self._look("up")

    def down(self, node: Node) -> None:
        self._look("down")

    def every_second(self) -> None:
        self._look("every_second")

    def calm(self) -> None:
        self._look("calm")

    def settled(self) -> None:
        self._look("settled")

    def at_end(self) -> None:
        self._look("at_end")


@pytest.mark.parametrize("hook", ["up", "down", "every_second", "calm", "settled", "at_end"])
def test_a_violation_in_any_hook_is_a_failed_run(hook: str) -> None:
    world = World(1, toy_peer, checkers=[Broken(hook)])
    with pytest.raises(Failed, match=f"X9: found in {hook}"):
        live(world)


def live(world: World) -> None:
    """A life with everything that checkers are told."""
    node = world.add_host()
    world.start(node, [])
    world.run_for(2 * SECOND)
    world.crash(node)
    world.calm()
    world.settle()
    world.finish()
