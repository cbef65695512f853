"""Fingers."""

from shoal.control.ring.config import RingConfig
from shoal.control.ring.desk import Desk
from shoal.control.ring.fingers import Fingers
from shoal.control.ring.messages import Ping, Step
from shoal.control.ring.seek import Search, Seeker
from shoal.kernel.effects import Send
from shoal.kernel.keys import Contact, ahead
from shoal.kernel.rng import Rng
from shoal.kernel.time import SECOND
from tests.unit.control.ring.few import Few, contacts

RING = contacts(64)
ME = RING[0]


def fingers() -> tuple[Desk, Seeker, Fingers]:
    desk = Desk(ME, RingConfig(successors_max=4), Rng(1))
    desk.table.set_predecessor(RING[-1])
    desk.table.set_successors(RING[1:5])
    seeker = Seeker(desk)
    return desk, seeker, Fingers(desk, seeker)


def sent(desk: Desk) -> list[type]:
    found = [type(e.message) for e in desk.out if isinstance(e, Send)]
    desk.out.clear()
    return found


def found(power: int, owner: Contact | None, *behind: Contact) -> Search:
    search = Search(1, "finger", ahead(ME.key, power), power, 0)
    search.owner, search.behind = owner, behind
    return search


def test_new_powers_are_looked_up_one_round_after_the_other_then_it_calms_down() -> None:
    desk, _, made = fingers()
    wanted = len(desk.table.powers())
    for turn in range(wanted):
        made.check(turn)
    assert sent(desk) == [Step] * wanted
    now = wanted
    for turn in range(20):
        made.check(now + turn)
    assert len(sent(desk)) == 1


def test_a_finger_is_pinged_in_turn_and_looked_up_anew_now_and_then() -> None:
    desk, _, made = fingers()
    far = [c for c in RING if desk.table.gap(c) >= 1 << 159]
    for power in desk.table.powers():
        made.check(0)
        desk.table.set_finger(power, far[0])
    sent(desk)
    kinds = []
    for turn in range(1, 40):
        made.check(turn * 6 * SECOND)
        kinds += sent(desk)
    assert kinds.count(Ping) > 2 * kinds.count(Step) > 0


def test_of_those_that_reach_as_far_the_nearest_is_taken() -> None:
    desk, _, made = fingers()
    reach = [c for c in RING if desk.table.gap(c) >= 1 << 159]
    first, second, third = reach[:3]
    made.found(found(159, first, second, third), 1)
    assert desk.table.fingers[159] is first
    for one, took in ((first, 90_000), (second, 2_000), (third, 50_000)):
        desk.watch.meet(one, 1)
        desk.watch.measured(one.name, took)
    made.found(found(159, first, second, third), 2)
    assert desk.table.fingers[159] is second


def test_a_finger_that_reaches_nobody_is_none() -> None:
    desk, _, made = fingers()
    power = desk.table.powers().start
    made.found(found(159, RING[40]), 1)
    made.found(found(159, RING[1]), 2)
    assert 159 not in desk.table.fingers
    made.found(found(power, None), 3)
    assert desk.table.fingers == {}
    made.found(found(3, RING[40]), 4)
    assert desk.table.fingers == {}


def test_a_grown_ring_has_its_fingers_within_a_minute() -> None:
    few = Few(30, successors_max=3)
    for node in few.ring:
        few.machine(node).table.fingers.clear()
    few.run(40)
    for node in few.ring:
        table = few.machine(node).table
        for power in table.powers():
            owner = few.owner(ahead(node.contact.key, power))
            expected = next(other.contact for other in few.ring if other.name == owner)
            if table.gap(expected) >= 1 << power:
                assert power in table.fingers
