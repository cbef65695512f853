"""The lives of hosts: start, crash, stop, pause, slow, clocks, questions."""

import itertools
from typing import Any

import pytest

from shoal.kernel.errors import LocalError
from shoal.kernel.events import AWAY
from shoal.kernel.time import HOUR, MILLISECOND, SECOND
from shoal.sim.checkers.checker import Checker, Violation
from shoal.sim.network import Weather
from shoal.sim.node import DOWN, Node
from shoal.sim.world import Failed, World
from tests.unit.sim.toy import Count, Counted, toy_of, toy_peer


class Asker:
    """Keeps what it was told."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.lost_requests: list[int] = []

    def answered(self, node: Node, request: int, result: Any) -> None:
        self.answers.append(result)

    def lost(self, node: Node, request: int) -> None:
        self.lost_requests.append(request)


def mesh(seed: int = 1, peers: int = 4, **options: Any) -> World:
    world = World(seed, toy_peer, **options)
    nodes = [world.add_host() for _ in range(peers)]
    for node in nodes:
        world.start(node, [other.address for other in nodes if other is not node])
    return world


def test_everybody_is_answered_when_nothing_goes_wrong() -> None:
    world = mesh(weather=Weather(heavy=0.0))
    world.run_for(20 * SECOND)
    for node in world.nodes:
        toy = toy_of(node.peer)
        assert 19 <= toy.sent <= 20
        assert toy.pongs >= toy.sent - 1
        assert toy.late <= 1


def test_a_cancelled_timer_never_fires() -> None:
    """`toy/never` is due before `toy/ping` cancels it in half of the draws, but never after."""
    world = mesh()
    world.run_for(3 * SECOND)
    assert all(toy_of(node.peer).late == 1 for node in world.nodes)


def test_an_answer_behind_a_write_waits_for_it() -> None:
    world = mesh()
    asker = Asker()
    node = world.nodes[0]
    world.ask(node, Count(), asker)
    world.run_for(1)
    assert asker.answers == []
    assert node.disk.pending == 1
    world.run_for(SECOND)
    assert asker.answers == [Counted(1)]
    assert node.disk.values == {"toy/count": b"1"}


@pytest.mark.parametrize(("writes", "count"), [("lost", 0), ("kept", 1)])
def test_a_crash_before_the_write_is_done_loses_what_is_behind(writes: str, count: int) -> None:
    world = mesh()
    asker = Asker()
    node = world.nodes[0]
    request = world.ask(node, Count(), asker)
    world.run_for(1)
    world.crash(node, writes=writes)
    assert node.state == DOWN
    world.start(node, [])
    world.run_for(SECOND)
    assert asker.answers == []
    assert asker.lost_requests == [request]
    assert toy_of(node.peer).count == count
    assert node.contact.incarnation == 2


def test_stopping_is_the_last_event_and_its_writes_are_done() -> None:
    world = mesh()
    node = world.nodes[0]
    peer = node.peer
    world.run_for(SECOND)
    world.stop(node)
    assert toy_of(peer).stopped
    assert node.disk.pending == 1
    heard = len(toy_of(peer).nows)
    world.run_for(5 * SECOND)
    assert node.state == DOWN
    assert node.disk.values == {"toy/stopped": b"1"}
    assert len(toy_of(peer).nows) == heard


def test_nothing_reaches_a_host_that_is_down_and_senders_are_told() -> None:
    world = mesh(peers=2)
    alive, dead = world.nodes
    world.crash(dead)
    world.run_for(20 * SECOND)
    assert toy_of(alive.peer).pongs <= 1
    assert toy_of(alive.peer).unreachable


def test_a_pause_is_a_leap_and_what_came_meanwhile_is_handled_in_order() -> None:
    world = mesh(weather=Weather(heavy=0.0))
    node = world.nodes[0]
    toy = toy_of(node.peer)
    world.run_for(5 * SECOND)
    world.pause(node)
    before = len(toy.nows)
    world.run_for(10 * SECOND)
    assert len(toy.nows) == before
    world.resume(node)
    assert toy.nows[before] - toy.nows[before - 1] > 9 * SECOND
    assert len(toy.nows) > before + 5
    assert len(dict.fromkeys(toy.nows[before:])) == 1
    assert toy.nows == sorted(toy.nows)


def test_after_a_long_pause_messages_are_dropped_and_the_rest_is_not() -> None:
    """As a host does it; timers that were due are handled, and what comes from now on."""
    world = mesh(weather=Weather(heavy=0.0))
    node = world.nodes[0]
    toy = toy_of(node.peer)
    world.run_for(5 * SECOND)
    world.pause(node)
    pongs, before = toy.pongs, len(toy.nows)
    world.run_for(AWAY + SECOND)
    world.resume(node)
    assert world.probes["message dropped after a long pause"] > 5
    assert toy.pongs == pongs
    assert len(toy.nows) > before
    world.run_for(5 * SECOND)
    assert toy.pongs > pongs


def test_a_slow_host_takes_its_time_for_each_event() -> None:
    world = mesh()
    node = world.nodes[0]
    world.slow_down(node, 600 * MILLISECOND)
    world.run_for(10 * SECOND)
    nows = toy_of(node.peer).nows[1:]
    assert min(b - a for a, b in itertools.pairwise(nows)) >= 600 * MILLISECOND
    assert node.inbox
    world.slow_down(node, 0)
    world.run_for(SECOND)
    assert not node.inbox


def test_a_leap_forward_fires_what_is_due_and_a_leap_back_waits_for_the_next_start() -> None:
    world = mesh()
    node = world.nodes[0]
    world.run_for(2 * SECOND)
    toy = toy_of(node.peer)
    sent = toy.sent
    world.leap(node, HOUR)
    world.run_for(1)
    assert toy.sent == sent + 1
    world.leap(node, -2 * HOUR)
    world.run_for(5 * SECOND)
    assert toy.nows == sorted(toy.nows)
    world.crash(node)
    world.start(node, [])
    assert toy_of(node.peer).nows[0] < toy.nows[-1] - HOUR


@pytest.mark.parametrize(("ppm", "least", "most"), [(100_000, 109, 111), (-100_000, 89, 91)])
def test_a_clock_that_drifts(ppm: int, least: int, most: int) -> None:
    """Ten per cent too fast or too slow: as many more or fewer pings."""
    world = mesh()
    node = world.nodes[0]
    world.drift(node, ppm)
    world.run_for(100 * SECOND)
    assert least <= toy_of(node.peer).sent <= most


def test_clocks_of_two_hosts_have_nothing_to_do_with_each_other() -> None:
    world = mesh(peers=2)
    one, other = (node.local(world.now) for node in world.nodes)
    assert abs(one - other) > HOUR


def test_a_new_name_at_an_old_address_gets_no_old_messages() -> None:
    world = mesh(peers=2)
    one, other = world.nodes
    toy = toy_of(one.peer)
    toy.known = [other.contact]
    world.crash(other)
    world.rename(other)
    world.start(other, [])
    world.run_for(10 * SECOND)
    assert toy.pongs == 0
    assert "p1" in toy.unreachable


class NoThirdPing(Checker):
    """A checker that is easy to break."""

    name = "third"

    def after_event(self, node: Node, event: object, effects: object) -> None:
        if toy_of(node.peer).sent == 3:
            raise Violation("X1", f"{node.name} has sent its third ping")


def test_a_violation_ends_the_run_and_says_when_and_where() -> None:
    world = mesh(checkers=[NoThirdPing()])
    with pytest.raises(Failed, match=r"X1: p\d has sent its third ping") as caught:
        world.run_for(10 * SECOND)
    assert 2 * SECOND <= caught.value.at <= 3 * SECOND


def test_quiet_is_counted_from_the_end_of_the_last_fault() -> None:
    world = mesh()
    world.disturb("one")
    world.disturb("other")
    world.run_for(SECOND)
    world.undisturb("one")
    assert world.quiet_for() == 0
    world.undisturb("other")
    world.run_for(SECOND)
    assert world.quiet_for() == SECOND


def test_nobody_can_be_asked_where_nobody_runs() -> None:
    world = mesh()
    world.crash(world.nodes[0])
    with pytest.raises(LocalError):
        world.ask(world.nodes[0], Count(), Asker())
