"""The way into a ring."""

import msgspec
import pytest

from shoal.control.ring.config import RingConfig
from shoal.control.ring.machine import RingMachine
from shoal.control.ring.messages import Neighbours, NotMember, Stabilise, Step, Stepped
from shoal.control.ring.state import State
from shoal.kernel.effects import Send
from shoal.kernel.events import Received, Started, TimerFired
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.kernel.time import SECOND
from tests.unit.control.ring.few import Few, contacts

RING = contacts(6)


def machine(*seeds: str) -> RingMachine:
    return RingMachine(RING[0], RingConfig(seeds=seeds), Rng(1))


def sends(effects: object) -> list[Send]:
    assert isinstance(effects, list)
    return [effect for effect in effects if isinstance(effect, Send)]


def test_without_a_way_in_a_peer_begins_a_ring() -> None:
    made = machine()
    made.handle(Started({}), 0)
    assert made.state is State.MEMBER
    own = machine(RING[0].address)
    own.handle(Started({}), 0)
    assert own.state is State.MEMBER


def test_a_joiner_is_a_member_only_with_a_successor_and_its_list() -> None:
    made = machine("seed:1")
    (step,) = sends(made.handle(Started({}), 0))
    assert step.to == Contact("", "seed:1", 0)
    assert isinstance(step.message, Step)
    told = made.handle(
        Received(RING[3], Stepped(step.message.request, RING[1], (RING[2],), ())), 10
    )
    (ask,) = sends(told)
    assert ask.to == RING[1]
    assert isinstance(ask.message, Stabilise)
    assert not ask.message.member
    assert made.state is State.JOINING
    answer = Neighbours(ask.message.request, 7, RING[3], (RING[2], RING[3]))
    effects = made.handle(Received(RING[1], answer), 20)
    assert made.state is State.MEMBER
    assert made.table.successors == (RING[1], RING[2], RING[3])
    introduced = {send.to.name: type(send.message).__name__ for send in sends(effects)}
    assert introduced == {RING[1].name: "Stabilise", RING[3].name: "Consider"}


def test_a_joiner_that_is_asked_says_where_it_tries_to_get_in() -> None:
    made = machine("seed:1", "other:1")
    made.handle(Started({}), 0)
    (reply,) = sends(made.handle(Received(RING[2], Step(5, RING[1].key)), 1))
    assert isinstance(reply.message, NotMember)
    assert sorted(reply.message.ways) == ["other:1", "seed:1"]


@pytest.mark.parametrize(("joiner", "waits"), [(RING[0], 4), (RING[5], 1)])
def test_of_joiners_that_know_each_other_the_first_by_key_begins(
    joiner: Contact, waits: int
) -> None:
    made = RingMachine(RING[3], RingConfig(seeds=("seed:1",)), Rng(1))
    (step,) = sends(made.handle(Started({}), 0))
    assert isinstance(step.message, Step)
    made.handle(Received(joiner, NotMember(step.message.request, ("seed:1",))), 1)
    now = 0
    while made.state is State.JOINING:
        now += SECOND
        made.handle(TimerFired("ring/round"), now)
    assert now == waits * RingConfig().alone_after


def test_stored_contacts_are_a_way_in_and_damaged_ones_are_left_out() -> None:
    made = machine()
    stored = msgspec.msgpack.encode((RING[2], RING[0]))
    (step,) = sends(made.handle(Started({"ring/contacts": stored}), 0))
    assert step.to == RING[2]
    for damaged in (b"", b"\xc1", stored[:-3], msgspec.msgpack.encode(["x"])):
        made = machine()
        made.handle(Started({"ring/contacts": damaged}), 0)
        assert made.state is State.MEMBER


def test_two_join_at_once_and_a_restart_finds_its_ring_again() -> None:
    few = Few(1)
    few.run(1)
    first, second = few.join(few.world.nodes[0]), few.join(few.world.nodes[0])
    few.run(10)
    assert few.wrong() == ""
    few.run(65)
    seed = few.world.nodes[0]
    assert "ring/contacts" in seed.disk.values
    few.world.crash(seed)
    few.world.start(seed, [])
    few.run(15)
    assert few.wrong() == ""
    assert len(few.ring) == 3
    assert first.running
    assert second.running


def test_a_place_in_a_ready_made_ring() -> None:
    few = Few(20)
    assert few.wrong() == ""
    few.run(5)
    assert few.wrong() == ""


def test_a_whole_mesh_that_starts_at_once_becomes_one_ring() -> None:
    few = Few(0)
    nodes = [few.world.add_host() for _ in range(5)]
    for place, node in enumerate(nodes):
        few.world.start(node, [nodes[place - 1].address, nodes[place - 2].address])
    few.run(60)
    assert few.wrong() == ""
    assert [few.story(node).count("begins a ring") for node in nodes].count(1) == 1
