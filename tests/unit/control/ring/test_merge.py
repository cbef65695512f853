"""Rings that parted, and memory that was lost."""

import pytest

from shoal.control.ring.messages import Consider, Unify
from shoal.kernel.events import Received
from tests.unit.control.ring.few import Few, contact


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_two_halves_become_two_rings_and_then_one(seed: int) -> None:
    few = Few(16, seed=seed, successors_max=4)
    few.run(5)
    few.cut(*few.ring[::2])
    few.run(60)
    assert "successors" in few.wrong()
    few.heal()
    few.run(30)
    assert few.wrong() == ""


@pytest.mark.slow
def test_one_peer_that_was_cut_off_comes_back() -> None:
    few = Few(8, successors_max=4)
    few.run(5)
    few.cut(few.ring[3])
    few.run(60)
    assert few.machine(few.ring[3]).table.successors == ()
    few.heal()
    few.run(20)
    assert few.wrong() == ""


@pytest.mark.slow
def test_neighbours_on_one_side_of_a_partition() -> None:
    few = Few(12, successors_max=3)
    few.run(5)
    few.cut(*few.ring[2:9])
    few.run(60)
    few.heal()
    few.run(45)
    assert few.wrong() == ""


def test_one_who_is_lost_to_a_single_peer_does_not_wait_for_its_turn() -> None:
    """Parted rings have merged and the one question of this peer to that one got lost."""
    few = Few(10, successors_max=4)
    few.run(3)
    asker, missed = few.ring[2], few.ring[5]
    machine = few.machine(asker)
    watch = machine._watch
    # Four that are gone for good: their turns come before, one every eight seconds.
    for name in ("dead 1", "dead 2", "dead 3", "dead 4", missed.contact.name):
        watch.meet(contact(name), few.world.now)
        watch.lose(name, few.world.now)
    machine.table.drop(missed.contact.name)
    few.world.disturb("damage")
    assert few.wrong().startswith(f"successors of {asker.contact.name} are")
    few.run(6)
    assert few.wrong() == ""


def test_who_has_forgotten_its_successors_finds_them_again() -> None:
    few = Few(10, successors_max=4)
    few.run(3)
    for node in few.ring[2:4]:
        few.machine(node).table.set_successors(())
        few.machine(node).table.fingers.clear()
    few.world.disturb("damage")
    few.run(8)
    assert few.wrong() == ""


@pytest.mark.slow
def test_who_began_a_ring_for_want_of_another_finds_the_ring_of_its_seed() -> None:
    few = Few(6)
    few.run(2)
    few.cut(*few.ring)
    late = few.join(few.ring[0])
    few.run(20)
    assert "begins a ring" in few.story(late)
    few.heal()
    few.run(25)
    assert few.wrong() == ""
    assert len(few.ring) == 7


def test_word_of_another_ring_is_not_passed_on_without_end() -> None:
    few = Few(12, successors_max=3)
    few.run(3)
    before = few.world.messages
    node = few.ring[0]
    other = few.ring[5]
    assert node.peer is not None
    machine = node.peer.machines["ring"]
    for _ in range(50):
        said = Received(other.contact, Unify(other.contact, 1_000))
        machine.handle(said, node.local(few.world.now))
    few.run(2)
    assert few.world.messages - before < 12 * 2 * 5


def test_words_about_me_or_about_who_is_gone_are_nothing() -> None:
    few = Few(4)
    few.run(1)
    node = few.ring[0]
    machine = few.machine(node)
    now = node.local(few.world.now)
    sender = few.ring[1].contact
    assert machine.handle(Received(sender, Unify(node.contact, 3)), now) == []
    assert machine.handle(Received(sender, Consider(node.contact)), now) == []
