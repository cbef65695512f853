"""The picture that a peer gives of its ring."""

from tests.unit.control.ring.few import Few


def test_a_view_shows_neighbours_fingers_and_who_is_missing() -> None:
    few = Few(12, successors_max=3)
    few.run(5)
    node, gone = few.ring[0], few.ring[1]
    before = few.machine(node).view()
    assert before.state == "member"
    assert before.me == node.contact
    assert before.predecessor == few.ring[-1].contact
    assert [c.name for c in before.successors] == [other.name for other in few.ring[1:4]]
    assert [power for power, _ in before.fingers] == sorted(power for power, _ in before.fingers)
    few.world.crash(gone)
    few.run(6)
    assert few.machine(node).view().suspected == (gone.name,)
    few.run(10)
    after = few.machine(node).view()
    assert after.suspected == ()
    assert after.lost == (gone.name,)
    assert gone.name not in [c.name for c in after.successors]
    assert after.version > before.version
