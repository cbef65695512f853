"""The checker of the ring finds what is wrong, and excuses what faults excuse."""

from collections.abc import Callable

import pytest

from shoal.control.ring.messages import Located, Lookup
from shoal.kernel.keys import key_of_name
from shoal.sim.checkers.checker import Violation
from shoal.sim.loop import Failed
from tests.unit.control.ring.few import Few


def test_R2_a_ring_in_peace_passes() -> None:
    few = Few(12, successors_max=3)
    few.run(25)
    assert few.checker.checks > 12 * 25
    few.world.calm()
    few.run(1)
    few.world.settle()
    few.run(5)
    few.world.finish()
    figures = few.checker.figures()
    assert figures["ring_recovered_s"] <= 1.0
    assert figures["ring_lookups_right"] == 1.0


def _skip(few: Few) -> None:
    table = few.machine(few.ring[2]).table
    table.set_successors(table.successors[1:])


def _nobody(few: Few) -> None:
    few.machine(few.ring[2]).table.set_successors(())


@pytest.mark.parametrize(("damage", "words"), [(_skip, "skips"), (_nobody, "no living member")])
def test_R2_a_list_that_skips_somebody_or_is_empty_is_found(
    damage: Callable[[Few], None], words: str
) -> None:
    few = Few(10, successors_max=3)
    few.run(25)
    damage(few)
    with pytest.raises(Failed, match=words):
        few.run(1.5)


def test_R2_the_same_is_excused_while_faults_tear_at_the_ring() -> None:
    few = Few(10, successors_max=3)
    few.run(25)
    few.world.disturb("partition")
    _nobody(few)
    few.run(1.5)
    few.world.undisturb("partition")
    few.run(1)


def test_R2_a_newcomer_may_be_skipped_for_a_while() -> None:
    few = Few(10, successors_max=3)
    few.run(3)
    _skip(few)
    few.run(1.5)


def test_R2_what_is_not_settled_when_liveness_is_due_is_found() -> None:
    few = Few(10, successors_max=3)
    few.run(3)
    few.machine(few.ring[4]).table.set_predecessor(few.ring[1].contact)
    with pytest.raises(Failed, match="predecessor of"):
        few.world.settle()


def test_R2_who_does_not_become_a_member_is_found() -> None:
    few = Few(10, successors_max=3)
    few.cut(*few.ring)
    late = few.join(few.ring[0])
    few.run(1)
    with pytest.raises(Failed, match=f"{late.name} is joining"):
        few.world.settle()


def test_R2_a_look_up_that_is_wrong_in_peace_is_found() -> None:
    few = Few(10, successors_max=3, loss=0.0)
    few.checker.bound_s = 5.0
    few.run(10)
    first, second = few.ring[0], few.ring[1]
    wrong = Located(second.contact.key, first.contact, 1)
    request = few.world.ask(first, Lookup(second.contact.key), few)
    few.checker._open[request] = few.world.now, second.contact.key, second.name
    with pytest.raises(Violation, match="R2: look-up"):
        few.checker._answered(request, wrong)


def test_owners_follow_who_is_there() -> None:
    few = Few(5)
    few.run(1)
    ring = few.ring
    assert few.owner(ring[2].contact.key) == ring[2].name
    few.world.crash(ring[2])
    assert few.owner(ring[2].contact.key) == ring[3].name
    for node in (ring[0], ring[1], ring[3], ring[4]):
        few.world.crash(node)
    assert few.owner(key_of_name("anything")) == ""


def test_R2_two_rings_without_a_reason_are_found() -> None:
    few = Few(6)
    few.run(2)
    lonely = few.join()
    with pytest.raises(Failed, match="R2"):
        few.run(60)
    assert lonely.running
