"""Delays between hosts: positive, symmetric, and of the shape that the name says."""

import pytest

from shoal.kernel.errors import UserError
from shoal.kernel.rng import Rng
from shoal.kernel.time import MILLISECOND
from shoal.sim.topology import TOPOLOGIES, Topology, TransitStub, Tree, topology_of

MEAN = 10 * MILLISECOND


def made(kind: str, hosts: int, seed: int = 1) -> Topology:
    topology = topology_of(kind, Rng(seed, "topology"), mean=MEAN)
    for index in range(hosts):
        topology.place(index)
    return topology


@pytest.mark.parametrize("kind", TOPOLOGIES)
def test_delays_are_positive_symmetric_and_repeatable(kind: str) -> None:
    one, again = made(kind, 60), made(kind, 60)
    for start in range(60):
        for end in range(start):
            delay = one.delay(start, end)
            assert delay == one.delay(end, start) == again.delay(start, end)
            assert delay > 0


def test_uniform_has_the_mean_that_was_asked_for() -> None:
    topology = made("uniform", 200)
    delays = [topology.delay(i, j) for i in range(200) for j in range(i)]
    assert abs(sum(delays) / len(delays) - MEAN) < MEAN / 10


def test_a_tree_goes_through_the_common_ancestor() -> None:
    """Host 1 is the parent of 5 and 6; 2 is not."""
    tree = made("tree", 30)
    assert Tree.FAN_OUT == 4
    assert tree.delay(5, 6) == tree.delay(5, 1) + tree.delay(1, 6)
    assert tree.delay(5, 2) == tree.delay(5, 1) + tree.delay(1, 0) + tree.delay(0, 2)


def test_transit_stub_has_the_size_of_the_papers() -> None:
    """1,500 routers, and two hosts of one stub domain are nearer than two of different ones."""
    assert TransitStub.TRANSIT * (TransitStub.STUB + 1) == 1_500
    topology = made("transit-stub", 500)
    assert isinstance(topology, TransitStub)
    near, far = [], []
    for start in range(500):
        for end in range(start):
            together = topology.stub_of(start) == topology.stub_of(end)
            (near if together else far).append(topology.delay(start, end))
    assert len(near) > 500
    assert max(near) < sum(far) / len(far)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(UserError, match="torus"):
        topology_of("torus", Rng(1, "x"), mean=MEAN)
