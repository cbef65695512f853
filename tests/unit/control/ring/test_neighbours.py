"""Predecessor and successors of one peer, exchange by exchange."""

from shoal.control.ring.config import RingConfig
from shoal.control.ring.desk import Desk
from shoal.control.ring.messages import (
    Consider,
    Goodbye,
    Neighbours,
    Ping,
    Stabilise,
    Unchanged,
)
from shoal.control.ring.neighbours import Neighbourhood
from shoal.control.ring.probe import Prober
from shoal.control.ring.watch import Belief
from shoal.kernel.effects import Send
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.kernel.time import SECOND
from tests.unit.control.ring.few import contacts

RING = contacts(12)
ME = RING[0]


def neighbourhood(
    *successors: Contact, predecessor: Contact | None = None
) -> tuple[Desk, Neighbourhood]:
    desk = Desk(ME, RingConfig(successors_max=4), Rng(1))
    for one in (*successors, *([predecessor] if predecessor else [])):
        desk.watch.meet(one, 0)
    desk.table.set_successors(successors)
    desk.table.set_predecessor(predecessor)
    return desk, Neighbourhood(desk, Prober(desk))


def sent(desk: Desk) -> list[tuple[Contact, object]]:
    found = [(e.to, e.message) for e in desk.out if isinstance(e, Send)]
    desk.out.clear()
    return found


def told(predecessor: Contact | None, *successors: Contact) -> Neighbours:
    return Neighbours(1, 99, predecessor, successors)


def test_the_successors_own_list_replaces_mine() -> None:
    desk, made = neighbourhood(RING[2], RING[3], RING[5])
    made.adopt(RING[2], told(ME, RING[4], RING[5], RING[6]), 1)
    assert desk.table.successors == (RING[2], RING[4], RING[5], RING[6])
    assert sent(desk) == []


def test_its_version_is_named_next_time_and_an_unchanged_list_is_not_told_again() -> None:
    desk, made = neighbourhood(RING[2])
    made.adopt(RING[2], told(ME, RING[3]), 1)
    made.stabilise(2)
    ((to, message),) = sent(desk)
    assert to is RING[2]
    assert isinstance(message, Stabilise)
    assert message.known == 99
    made.answer(RING[5], Stabilise(7, desk.table.version, False), 3)
    assert sent(desk) == [(RING[5], Unchanged(7))]


def test_what_stands_beside_the_successors_own_list_goes_when_it_tells_it_again() -> None:
    """While rings merge, lists are joined: the list must be told anew, though it is unchanged."""
    desk, around = neighbourhood(RING[3], RING[5])
    around.adopt(RING[2], told(ME, RING[4]), SECOND)
    assert desk.table.successors == (RING[2], RING[3], RING[4], RING[5])
    sent(desk)
    later = 60 * SECOND
    desk.watch.meet(RING[2], later)
    around.stabilise(later)
    asked = [message for _, message in sent(desk) if isinstance(message, Stabilise)]
    assert [message.known for message in asked] == [0]
    around.adopt(RING[2], told(ME, RING[4]), later)
    assert desk.table.successors == (RING[2], RING[4])


def test_a_lost_peer_in_a_list_just_heard_is_asked_until_it_answers() -> None:
    """It may be back, and everybody before me copies a list without it."""
    desk, made = neighbourhood(RING[2], RING[3], RING[5])
    desk.watch.lose(RING[3].name, 0)
    for asked_at in (SECOND, 60 * SECOND):
        made.adopt(RING[2], told(ME, RING[3], RING[5]), asked_at)
        assert desk.table.successors == (RING[2], RING[5])
        ((to, message),) = sent(desk)
        assert to is RING[3]
        assert isinstance(message, Ping)
        # While that is awaited it is not asked again.
        made.adopt(RING[2], told(ME, RING[3], RING[5]), asked_at + 1)
        assert sent(desk) == []
        made.stabilise(asked_at + 2)
        ((to, message),) = sent(desk)
        assert isinstance(message, Stabilise)
        # An unchanged list would not name it a second time.
        assert message.known == 0
        desk.requests.clear()


def test_who_has_left_is_not_asked_because_a_list_still_names_it() -> None:
    desk, made = neighbourhood(RING[2], RING[3], RING[5])
    desk.watch.left(RING[3], 0)
    made.adopt(RING[2], told(ME, RING[3], RING[5]), SECOND)
    assert desk.table.successors == (RING[2], RING[5])
    assert sent(desk) == []


def test_a_predecessor_of_the_successor_between_us_is_asked_itself() -> None:
    desk, made = neighbourhood(RING[4])
    made.adopt(RING[4], told(RING[2], RING[5]), 1)
    ((to, message),) = sent(desk)
    assert to is RING[2]
    assert isinstance(message, Stabilise)
    assert desk.table.successors[0] is RING[4]
    made.adopt(RING[2], told(ME, RING[4], RING[5]), 2)
    assert desk.table.successors == (RING[2], RING[4], RING[5])


def test_a_newcomer_that_does_not_know_my_old_successor_is_told_of_it() -> None:
    desk, made = neighbourhood(RING[4], RING[5])
    made.adopt(RING[2], told(None), 1)
    assert desk.table.successors == (RING[2], RING[4], RING[5])
    assert sent(desk) == [(RING[2], Consider(RING[4]))]


def test_who_stands_behind_a_living_successor_changes_nothing() -> None:
    desk, made = neighbourhood(RING[2], RING[3])
    made.adopt(RING[3], told(None, RING[7]), 1)
    assert desk.table.successors == (RING[2], RING[3])


def test_a_suspected_successor_keeps_its_place_before_who_is_asked_instead() -> None:
    desk, made = neighbourhood(RING[2], RING[3])
    found = desk.watch.get(RING[2].name)
    assert found is not None
    found.believe(Belief.SUSPECTED, 0)
    made.stabilise(1)
    assert [to for to, _ in sent(desk)] == [RING[3]]
    made.adopt(RING[3], told(RING[2], RING[4], RING[5]), 2)
    assert desk.table.successors == (RING[2], RING[3], RING[4], RING[5])


def test_who_was_given_up_here_is_left_out_of_lists() -> None:
    desk, made = neighbourhood(RING[2], RING[3])
    desk.watch.meet(RING[4], 0)
    desk.watch.lose(RING[4].name, 0)
    made.adopt(RING[2], told(ME, RING[3], RING[4], RING[5]), 1)
    assert desk.table.successors == (RING[2], RING[3], RING[5])


def test_a_nearer_predecessor_is_taken_and_a_farther_one_makes_me_ask() -> None:
    desk, made = neighbourhood(RING[2], predecessor=RING[9])
    made.answer(RING[10], Stabilise(1, 0, True), 1)
    assert desk.table.predecessor is RING[10]
    sent(desk)
    made.answer(RING[8], Stabilise(1, 0, True), 9 * SECOND)
    assert desk.table.predecessor is RING[10]
    assert [to for to, _ in sent(desk)] == [RING[10], RING[8]]
    assert desk.watch.believes(RING[10].name, Belief.DOUBTED)


def test_who_is_no_member_is_not_taken_for_a_predecessor() -> None:
    desk, made = neighbourhood(RING[2])
    made.answer(RING[10], Stabilise(1, 0, False), 1)
    assert desk.table.predecessor is None


def test_who_knows_nobody_asks_its_first_predecessor_to_be_its_successor() -> None:
    desk, made = neighbourhood()
    made.answer(RING[3], Stabilise(1, 0, True), 1)
    assert [(to, type(message)) for to, message in sent(desk)] == [
        (RING[3], Stabilise),
        (RING[3], Neighbours),
    ]


def test_a_candidate_must_stand_before_my_successor() -> None:
    desk, made = neighbourhood(RING[3])
    assert not made.try_candidate(RING[3], 1)
    assert not made.try_candidate(RING[5], 1)
    assert not made.try_candidate(ME, 1)
    assert made.try_candidate(RING[1], 1)
    assert made.try_candidate(RING[1], 1)
    assert len(sent(desk)) == 1


def test_news_that_nobody_asked_for_counts_only_from_the_list() -> None:
    desk, made = neighbourhood(RING[3])
    made.pushed(RING[2], told(None, RING[4]), 1)
    assert desk.table.successors == (RING[3],)
    made.pushed(RING[3], told(ME, RING[4]), 1)
    assert desk.table.successors == (RING[3], RING[4])


def test_a_change_is_told_to_the_predecessor() -> None:
    desk, made = neighbourhood(RING[3], predecessor=RING[9])
    made.push()
    assert sent(desk) == [(RING[9], Neighbours(0, desk.table.version, RING[9], (RING[3],)))]
    assert made.told == desk.table.version


def test_leaving_closes_the_gap_on_both_sides() -> None:
    desk, made = neighbourhood(RING[2], RING[3], RING[4], predecessor=RING[9])
    made.say_goodbye()
    assert [to for to, _ in sent(desk)] == [RING[2], RING[3], RING[9]]
    made.goodbye(RING[2], Goodbye(ME, (RING[3],)), 1)
    assert desk.table.successors == (RING[3], RING[4])
    made.goodbye(RING[9], Goodbye(RING[8], (ME,)), 1)
    assert desk.table.predecessor == RING[8]
    assert desk.watch.is_gone(RING[2])
    assert desk.watch.is_gone(RING[9])


def test_the_last_successor_that_leaves_hands_its_own_over() -> None:
    desk, made = neighbourhood(RING[2])
    made.goodbye(RING[2], Goodbye(ME, (RING[5], RING[6])), 1)
    assert desk.table.successors == (RING[5], RING[6])
