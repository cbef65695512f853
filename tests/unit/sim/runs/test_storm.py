"""When faults strike, and what a storm never does."""

import pytest

from shoal.kernel.rng import Rng
from shoal.kernel.time import SECOND
from shoal.sim.network import Weather
from shoal.sim.runs.faults import Crash, Pause
from shoal.sim.runs.storm import Storm
from shoal.sim.world import World
from tests.unit.sim.test_world import Asker
from tests.unit.sim.toy import Count, toy_peer


def storm_of(peers: int, **limits: int) -> Storm:
    world = World(1, toy_peer, weather=Weather(heavy=0.0))
    for index in range(peers):
        world.start(world.add_host(), [] if index == 0 else ["host0:1"])
    limits = {"peers_min": 2, "losses_max": 2, "repair": 10 * SECOND, **limits}
    return Storm(world, Rng(1, "storm"), weather=Weather(), **limits)


def test_a_fault_strikes_at_its_seconds_and_no_more_when_faults_are_over() -> None:
    storm = storm_of(6)
    storm.begin([Pause(at_s=(1.0, 3.0, 20.0), span_s=0.5)], until=10 * SECOND)
    storm.world.run_for(2 * SECOND)
    assert storm.world.probes["pause"] == 1
    storm.world.run_for(30 * SECOND)
    assert storm.world.probes["pause"] == 2


def test_a_fault_strikes_again_and_again_with_the_mean_that_was_asked_for() -> None:
    storm = storm_of(6)
    storm.begin([Pause(every_s=2.0, span_s=0.1)], until=1_000 * SECOND)
    storm.world.run_for(1_000 * SECOND)
    assert 420 < storm.world.probes["pause"] < 580


def test_a_fault_lies_in_wait_for_a_question() -> None:
    storm = storm_of(6)
    storm.begin([Pause(after="Count", chance=0.5, span_s=0.1)], until=1_000 * SECOND)
    for _ in range(200):
        storm.asked("Count")
        storm.asked("Other")
        storm.world.run_for(SECOND)
    assert 70 < storm.world.probes["pause"] < 130


def test_a_fault_lies_in_wait_for_a_write_and_strikes_that_host_before_it_is_done() -> None:
    storm = storm_of(6)
    storm.begin([Crash(after="write", chance=0.5, down_s=1.0, writes="lost")], until=90 * SECOND)
    asker = Asker()
    for _ in range(40):
        for node in storm.world.nodes:
            if node.running:
                storm.world.ask(node, Count(), asker)
        storm.world.run_for(2 * SECOND)
    crashes = storm.world.probes["crash, same disk"]
    assert crashes >= 8
    assert storm.world.probes["crash with writes lost"] == crashes


def test_disks_are_copied_now_and_then() -> None:
    storm = storm_of(3)
    storm.begin([], until=200 * SECOND)
    disk = storm.world.nodes[0].disk
    disk.begin("key", b"1")
    disk.finish()
    storm.world.run_for(41 * SECOND)
    disk.begin("key", b"2")
    disk.finish()
    assert disk.restore()
    assert disk.values == {"key": b"1"}


def test_never_more_losses_within_the_time_of_repair_than_are_allowed() -> None:
    storm = storm_of(12)
    storm.begin([Crash(every_s=0.1, down_s=1.0)], until=100 * SECOND)
    instants: list[int] = []
    for _ in range(1_000):
        before = storm.world.probes["crash, same disk"]
        storm.world.run_for(SECOND // 10)
        instants += [storm.world.now] * (storm.world.probes["crash, same disk"] - before)
    assert len(instants) >= 15
    for first, third in zip(instants, instants[2:], strict=False):
        assert third - first >= 9.8 * SECOND


def test_never_fewer_peers_than_the_least() -> None:
    storm = storm_of(6, peers_min=4, repair=SECOND)
    storm.begin([Crash(every_s=1.0, down_s=0.0)], until=100 * SECOND)
    storm.world.run_for(100 * SECOND)
    assert len(storm.world.running()) == 4


def test_calm_brings_back_who_was_to_come_back_and_nobody_twice() -> None:
    storm = storm_of(6)
    storm.begin([Crash(at_s=(1.0,), down_s=50.0)], until=5 * SECOND)
    storm.world.run_for(5 * SECOND)
    assert len(storm.world.running()) == 5
    storm.calm(Weather())
    assert len(storm.world.running()) == 6
    storm.world.run_for(300 * SECOND)
    assert storm.world.probes["restart"] == 1


@pytest.mark.parametrize("count", [0, 3, 99])
def test_victims_are_different_peers_that_are_up(count: int) -> None:
    storm = storm_of(6)
    storm.world.pause(storm.world.nodes[0])
    for who in ("any", "neighbours"):
        found = storm.victims(count, who)
        assert len(found) == min(count, 5)
        assert len(dict.fromkeys(node.name for node in found)) == len(found)
        assert storm.world.nodes[0] not in found
