"""A refused message among honest peers is a defect, and is found."""

import pytest

from shoal.kernel.errors import RemoteError
from shoal.kernel.time import SECOND
from shoal.sim.checkers.honest import HonestChecker
from shoal.sim.world import Failed, World
from tests.unit.sim.toy import toy_of, toy_peer


def test_nothing_is_found_where_nobody_refuses() -> None:
    world = World(1, toy_peer, checkers=[HonestChecker()])
    for index in range(2):
        world.start(world.add_host(), [f"host{1 - index}:1"])
    world.run_for(10 * SECOND)


def test_a_refusal_is_found_within_a_second() -> None:
    world = World(1, toy_peer, checkers=[HonestChecker()])
    for index in range(2):
        world.start(world.add_host(), [f"host{1 - index}:1"])
    toy = toy_of(world.nodes[0].peer)
    handle = toy.handle

    def refuse(event: object, now: int) -> object:
        if toy.sent > 3 and type(event).__name__ == "Received":
            raise RemoteError("ping with a wrong number")
        return handle(event, now)

    toy.handle = refuse  # type: ignore[method-assign, assignment]
    with pytest.raises(Failed, match="p0 has refused") as caught:
        world.run_for(30 * SECOND)
    assert "wrong number" in caught.value.what
