"""What becomes of messages: every kind of trouble really happens, at its rate, and ends."""

import itertools

import pytest

from shoal.kernel.rng import Rng
from shoal.kernel.time import MILLISECOND, SECOND
from shoal.sim.network import BLOCKED, LONG_MS, LOST, Network, Weather
from shoal.sim.topology import Uniform

MESSAGES = 20_000


def network(weather: Weather | None = None, hosts: int = 4) -> Network:
    topology = Uniform(Rng(1, "topology"))
    for index in range(hosts):
        topology.place(index)
    return Network(topology, Rng(1, "network"), weather or Weather(heavy=0.0))


def arrivals(network: Network, count: int = MESSAGES) -> list[int]:
    return [network.arrival(0, 0, 1) for _ in range(count)]


def test_jitter_comes_on_top_with_an_exponential_distribution() -> None:
    net = network(Weather(jitter_ms=4.0, heavy=0.0))
    base = net.topology.delay(0, 1)
    waits = [at - base for at in arrivals(net)]
    assert min(waits) >= 0
    mean = sum(waits) / len(waits)
    assert abs(mean - 4 * MILLISECOND) < 200
    below = sum(wait < mean for wait in waits) / len(waits)
    assert abs(below - 0.632) < 0.02


def test_long_delays_are_counted_as_long_as_they_last() -> None:
    net = network()
    arrivals(net, 100)
    assert "delay" not in net.happened
    net.set_weather(Weather(jitter_ms=LONG_MS, heavy=0.0))
    waits = arrivals(net, 1_000)
    assert sum(waits) / len(waits) > LONG_MS * MILLISECOND
    net.set_weather(Weather(heavy=0.0))
    arrivals(net, 100)
    assert net.happened["delay"] == 1_000


def test_loss_at_its_rate() -> None:
    net = network(Weather(loss=0.2, heavy=0.0))
    lost = arrivals(net).count(LOST)
    assert abs(lost / MESSAGES - 0.2) < 0.01
    assert net.happened["loss"] == lost


def test_a_heavy_tail_is_rare_long_and_bounded() -> None:
    net = network(Weather(heavy=0.01, heavy_ms=100.0, heavy_max_ms=3_000.0))
    late = [at for at in arrivals(net) if at > 100 * MILLISECOND]
    assert abs(len(late) / MESSAGES - 0.01) < 0.003
    assert SECOND < max(late) < 4 * SECOND


def test_a_duplicate_comes_after_the_original() -> None:
    net = network(Weather(duplicate=0.5, heavy=0.0))
    copies = 0
    for _ in range(1_000):
        at = net.arrival(0, 0, 1)
        if net.copy_at:
            copies += 1
            assert net.copy_at > at
    assert 450 < copies < 550


def test_reordering_lets_others_overtake() -> None:
    net = network(Weather(reorder=0.1, jitter_ms=0.001, heavy=0.0))
    found = arrivals(net, 1_000)
    overtaken = sum(later < earlier for earlier, later in itertools.pairwise(found))
    assert overtaken > 50


def test_a_partition_cuts_both_directions_and_heals() -> None:
    net = network()
    net.partition("cut", [0, 2], one_way=False)
    assert net.arrival(0, 0, 1) == net.arrival(0, 1, 0) == BLOCKED
    assert net.arrival(0, 0, 2) > 0
    assert net.arrival(0, 1, 3) > 0
    net.heal("cut")
    assert net.arrival(0, 0, 1) > 0


def test_an_asymmetric_partition_cuts_one_direction() -> None:
    """Those who are cut off are heard, and hear nobody."""
    net = network()
    net.partition("cut", [0], one_way=True)
    assert net.arrival(0, 1, 0) == BLOCKED
    assert net.arrival(0, 0, 1) > 0
    assert net.side("cut", 0) == 1


def test_two_partitions_at_once_both_cut() -> None:
    net = network()
    net.partition("one", [0], one_way=False)
    net.partition("other", [1], one_way=False)
    net.heal("one")
    assert net.arrival(0, 0, 1) == BLOCKED
    assert net.partitions == ("other",)


def test_a_clogged_direction_holds_back_until_it_opens() -> None:
    net = network()
    net.clog_link(0, 1, 5 * SECOND)
    assert net.arrival(0, 0, 1) >= 5 * SECOND
    assert 0 < net.arrival(0, 1, 0) < SECOND
    assert 0 < net.arrival(6 * SECOND, 0, 1) - 6 * SECOND < SECOND


def test_a_clogged_host_holds_back_both_ways_until_it_is_opened() -> None:
    net = network()
    net.clog_host(0, 5 * SECOND)
    assert net.arrival(0, 0, 1) >= 5 * SECOND
    assert net.arrival(0, 1, 0) >= 5 * SECOND
    assert net.arrival(0, 1, 2) < SECOND
    net.unclog_host(0)
    assert net.arrival(0, 0, 1) < SECOND


def test_calm_ends_everything() -> None:
    net = network(Weather(loss=0.3, duplicate=0.5))
    net.partition("cut", [0], one_way=False)
    net.clog_link(0, 1, SECOND)
    net.clog_host(1, SECOND)
    net.calm(Weather(heavy=0.0))
    assert all(0 < at < SECOND for at in arrivals(net, 1_000))


@pytest.mark.parametrize("kind", ["loss", "heavy", "duplicate", "reorder"])
def test_what_happened_is_counted_by_kind(kind: str) -> None:
    net = network(Weather(loss=0.05, heavy=0.05, duplicate=0.05, reorder=0.05))
    arrivals(net, 2_000)
    assert 50 < net.happened[kind] < 150
