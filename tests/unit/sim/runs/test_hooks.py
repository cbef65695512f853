"""Hooks damage what they say they damage, and say when there was nothing."""

from shoal.kernel.time import SECOND
from shoal.sim.runs.cast import standard
from shoal.sim.runs.hooks import HOOKS
from shoal.sim.runs.scenario import Scenario
from shoal.sim.world import World


def ring(peers: int) -> World:
    scenario = Scenario(title="x", machines=("ring",), config={"ring": {"successors_max": 3}})
    world = World(1, standard().factory(scenario))
    for index in range(peers):
        world.start(world.add_host(), ["host0:1"] if index else [])
        world.run_for(SECOND)
    world.run_for(60 * SECOND)
    return world


def table(world: World, index: int) -> object:
    peer = world.nodes[index].peer
    assert peer is not None
    return peer.machines["ring"].table  # type: ignore[attr-defined]


def test_a_wiped_successor_list_is_empty_and_comes_back() -> None:
    world = ring(5)
    peer = world.nodes[2].peer
    assert HOOKS["successor list wiped"](peer)
    assert table(world, 2).successors == ()  # type: ignore[attr-defined]
    assert not HOOKS["successor list wiped"](peer)
    world.run_for(60 * SECOND)
    assert len(table(world, 2).successors) == 3  # type: ignore[attr-defined]


def test_stale_fingers_point_to_the_farthest() -> None:
    world = ring(16)
    moved = [HOOKS["fingers stale"](node.peer) for node in world.nodes]
    assert any(moved)
    for node in world.nodes:
        fingers = table(world, node.index).fingers  # type: ignore[attr-defined]
        assert len(dict.fromkeys(fingers.values())) <= 1


def test_a_peer_alone_has_nothing_to_damage() -> None:
    world = ring(1)
    assert [hook(world.nodes[0].peer) for hook in HOOKS.values()] == [False, False]
