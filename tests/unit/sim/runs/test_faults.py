"""Each kind of fault does what its name says, is counted, and is over when faults end."""

import pytest

from shoal.kernel.rng import Rng
from shoal.kernel.time import SECOND
from shoal.sim.network import Weather
from shoal.sim.node import PAUSED
from shoal.sim.runs import faults
from shoal.sim.runs.faults import KINDS, Fault
from shoal.sim.runs.storm import Storm
from shoal.sim.world import World
from tests.unit.sim.toy import toy_of, toy_peer

PEERS = 8


def stormy(*, seed: int = 1) -> Storm:
    """Eight toys that ping each other, and a storm that has not begun."""
    world = World(seed, toy_peer, weather=Weather(heavy=0.0))
    nodes = [world.add_host() for _ in range(PEERS)]
    for node in nodes:
        world.start(node, [other.address for other in nodes if other is not node])
    world.run_for(2 * SECOND)
    storm = Storm(
        world,
        Rng(seed, "storm"),
        weather=Weather(heavy=0.0),
        peers_min=2,
        losses_max=4,
        repair=SECOND,
        hooks={"sent forgotten": lambda peer: bool(toy_of(peer).sent)},
    )
    storm.begin([], world.now + 100 * SECOND)
    return storm


def running(storm: Storm) -> int:
    return len(storm.world.running())


CASES: list[tuple[Fault, str]] = [
    (faults.Crash(at_s=(0,), down_s=2.0), "crash, same disk"),
    (faults.Crash(at_s=(0,), down_s=2.0, disk="empty"), "crash, empty disk"),
    (faults.Crash(at_s=(0,), down_s=2.0, disk="another"), "crash, another disk"),
    (faults.Crash(at_s=(0,), down_s=0.0), "crash for good"),
    (faults.Crash(at_s=(0,), count=2, who="neighbours"), "crash of 2 neighbours at once"),
    (faults.Leave(at_s=(0,)), "leave"),
    (faults.Leave(at_s=(0,), down_s=1.0), "leave and come back"),
    (faults.Join(at_s=(0,)), "join"),
    (faults.Churn(at_s=(0,), count=3), "churn burst"),
    (faults.Pause(at_s=(0,)), "pause"),
    (faults.Slow(at_s=(0,)), "slow"),
    (faults.Clog(at_s=(0,)), "clog pair"),
    (faults.Clog(at_s=(0,), one_way=True), "clog one direction"),
    (faults.Swizzle(at_s=(0,)), "swizzle"),
    (faults.Partition(at_s=(0,)), "partition"),
    (faults.Partition(at_s=(0,), one_way=True), "partition, asymmetric"),
    (faults.Isolate(at_s=(0,)), "isolate one"),
    (faults.WeatherChange(at_s=(0,), rates=Weather(loss=0.3)), "weather"),
    (faults.Clock(at_s=(0,), leap_s=30.0), "clock leaps forward"),
    (faults.Clock(at_s=(0,), leap_s=-30.0), "clock leaps back"),
    (faults.Clock(at_s=(0,), drift_ppm=1_000), "clock drifts"),
    (faults.Corrupt(at_s=(0,), hook="sent forgotten"), "corrupt sent forgotten"),
]


@pytest.mark.parametrize(("fault", "probe"), CASES, ids=[probe for _, probe in CASES])
def test_it_happens_and_is_counted_and_ends(fault: Fault, probe: str) -> None:
    storm = stormy()
    world = storm.world
    fault.strike(storm)
    assert world.probes[probe] >= 1
    world.run_for(SECOND)
    storm.calm(Weather(heavy=0.0))
    world.run_for(SECOND)
    assert world.quiet_for() >= SECOND
    assert not world.network.partitions
    assert all(node.state != PAUSED and not node.service for node in world.nodes)
    assert all(not node.drift_ppm for node in world.nodes)
    before = {node.name: toy_of(node.peer).pongs for node in world.running()}
    world.run_for(10 * SECOND)
    for node in world.running():
        assert toy_of(node.peer).pongs > before[node.name] or not toy_of(node.peer).known


def test_every_kind_has_its_case() -> None:
    assert list(dict.fromkeys(type(fault) for fault, _ in CASES)) == list(KINDS.values())


def test_who_crashed_with_the_same_disk_is_the_same_peer_with_a_higher_incarnation() -> None:
    storm = stormy()
    faults.Crash(at_s=(0,), down_s=1.0).strike(storm)
    assert running(storm) == PEERS - 1
    storm.world.run_for(20 * SECOND)
    assert running(storm) == PEERS
    assert sorted(node.contact.incarnation for node in storm.world.nodes) == [1] * 7 + [2]


def test_who_lost_what_it_stored_is_the_same_peer_with_a_higher_incarnation() -> None:
    storm = stormy()
    for node in storm.world.nodes:
        node.disk.values["toy/count"] = b"3"
    faults.Crash(at_s=(0,), down_s=1.0, disk="empty").strike(storm)
    storm.world.run_for(20 * SECOND)
    (back,) = [node for node in storm.world.nodes if node.contact.incarnation == 2]
    assert back.disk.values == {}
    assert back.name == f"p{back.index}"


def test_who_was_replaced_is_another_peer() -> None:
    storm = stormy()
    faults.Crash(at_s=(0,), down_s=1.0, disk="another").strike(storm)
    storm.world.run_for(20 * SECOND)
    names = [node.name for node in storm.world.nodes]
    assert sum(name.endswith(".2") for name in names) == 1
    assert running(storm) == PEERS


def test_an_old_disk_holds_what_was_there_before() -> None:
    storm = stormy()
    old = faults.Crash(at_s=(0,), down_s=1.0, disk="old")
    for number in range(40):
        for node in storm.world.running():
            node.disk.begin("toy/count", str(number).encode())
            node.disk.finish()
        old.strike(storm)
        storm.world.run_for(5 * SECOND)
    assert storm.world.probes["an old disk that differs"] > 0


def test_neighbours_stand_beside_each_other_on_the_ring() -> None:
    storm = stormy()
    order = sorted(storm.world.nodes, key=lambda node: node.contact.key)
    for _ in range(20):
        one, other = storm.victims(2, "neighbours")
        assert order.index(other) == (order.index(one) + 1) % PEERS
