"""Beliefs about others."""

from shoal.control.ring.config import RingConfig
from shoal.control.ring.watch import Belief, Watch
from shoal.kernel.time import HOUR, MILLISECOND, MINUTE, SECOND
from tests.unit.control.ring.few import contact

CONFIG = RingConfig(lost_max=2)
P = contact("p")


def watch() -> Watch:
    made = Watch(CONFIG)
    made.meet(P, 0)
    return made


def test_a_higher_incarnation_replaces_the_one_before() -> None:
    made = watch()
    assert made.heard(contact("p", 2), 5) == P
    found = made.get("p")
    assert found is not None
    assert found.contact.incarnation == 2
    assert made.is_leftover(P)
    assert made.is_gone(P)
    assert not made.is_gone(contact("p", 3))


def test_who_has_left_is_heard_again_only_in_another_incarnation() -> None:
    made = watch()
    made.left(P, 1)
    assert made.is_leftover(P)
    assert made.is_gone(P)
    assert not made.is_leftover(contact("p", 2))
    made.heard(contact("p", 2), 2)
    assert made.is_alive("p")


def test_strangers_are_taken_to_be_alive_and_not_doubtful() -> None:
    made = watch()
    assert made.is_alive("stranger")
    assert not made.is_doubtful("stranger")
    assert not made.is_gone(contact("stranger"))


def test_being_heard_ends_any_doubt_and_says_what_it_was() -> None:
    made = watch()
    assert made.revived("p", 1) is None
    made.lose("p", 1)
    assert made.is_gone(P)
    assert made.revived("p", 2) is Belief.LOST
    assert made.is_alive("p")
    assert list(made.lost()) == []


def test_the_lost_are_tried_in_turn_and_the_oldest_forgotten() -> None:
    made = watch()
    for name in ("q", "r"):
        made.meet(contact(name), 0)
    for name in ("p", "q", "r"):
        made.lose(name, 1)
    assert [one.name for one in made.lost()] == ["q", "r"]
    assert made.get("p") is None
    turns = [made.next_lost() for _ in range(3)]
    assert [turn.name for turn in turns if turn] == ["q", "r", "q"]
    assert Watch(CONFIG).next_lost() is None


def test_time_outs_adapt_to_round_trips() -> None:
    made = watch()
    assert made.timeout("p") == CONFIG.timeout_max
    for _ in range(50):
        made.measured("p", 100 * MILLISECOND)
    assert made.timeout("p") == CONFIG.timeout_min
    assert abs(made.round_trip("p") - 100 * MILLISECOND) < MILLISECOND
    for _ in range(50):
        made.measured("p", 400 * MILLISECOND)
    assert made.timeout("p") > 350 * MILLISECOND
    made.measured("stranger", 1)
    assert made.get("stranger") is None


def test_tidying_keeps_who_is_in_use_and_who_is_worth_remembering() -> None:
    made = Watch(RingConfig())
    for name in ("used", "idle", "lost", "left"):
        made.meet(contact(name), 0)
    made.lose("lost", 0)
    made.left(contact("left"), 0)
    made.tidy({"used": None}, SECOND)
    assert list(made.known) == ["used", "lost", "left"]
    made.tidy({"used": None}, 6 * MINUTE)
    assert list(made.known) == ["used", "lost"]
    made.tidy({"used": None}, 7 * HOUR)
    assert list(made.known) == ["used"]
    assert made.next_lost() is None
