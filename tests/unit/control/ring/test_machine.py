"""The machine as a whole: its contract with the peer, with time, and with strangers."""

import pytest
from msgspec import Struct

from shoal.control.ring.config import RingConfig
from shoal.control.ring.machine import RingMachine
from shoal.control.ring.messages import (
    Consider,
    Goodbye,
    Joined,
    Leave,
    Left,
    Located,
    Lookup,
    Neighbours,
    NotMember,
    PeerBack,
    PeerLost,
    Ping,
    PingFor,
    Pong,
    Stabilise,
    Step,
    Stepped,
    TableChanged,
    Unify,
    Vouched,
)
from shoal.control.ring.state import State
from shoal.kernel.effects import Answer, Effect, Send, SetTimer, Tell
from shoal.kernel.errors import LocalError, RemoteError
from shoal.kernel.events import (
    Asked,
    Received,
    Started,
    Stopping,
    TimerFired,
    Unreachable,
)
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.kernel.time import SECOND
from tests.unit.control.ring.few import Few, contact, contacts

RING = contacts(10)
ME = RING[0]


def member(**config: int) -> RingMachine:
    """A member between p9 and p1, to which nothing has happened."""
    place = (RING[9], tuple(RING[1:4]), {})
    made = RingMachine(ME, RingConfig(successors_max=3, **config), Rng(1), place=place)
    made.handle(Started({}), 0)
    return made


def news(effects: object) -> list[Struct]:
    assert isinstance(effects, list)
    return [effect.news for effect in effects if isinstance(effect, Tell)]


def sends(effects: object) -> list[tuple[str, Struct]]:
    assert isinstance(effects, list)
    return [(effect.to.name, effect.message) for effect in effects if isinstance(effect, Send)]


def through(made: RingMachine, now: int, until: int) -> tuple[int, list[Effect]]:
    """Fire timers as they are due, nobody answers; the instant and all effects."""
    effects: list[Effect] = []
    timers: dict[str, int] = {"ring/round": now}
    while timers and min(timers.values()) <= until:
        timer = min(timers, key=lambda name: timers[name])
        now = max(now, timers.pop(timer))
        for effect in made.handle(TimerFired(timer), now):
            effects.append(effect)
            if isinstance(effect, SetTimer):
                timers[effect.timer] = effect.at
        made.validate()
    return now, effects


def test_news_of_the_table_comes_when_it_changes_and_only_then() -> None:
    made = member()
    effects = made.handle(Received(RING[9], Stabilise(1, 0, True)), 5)
    assert news(effects) == []
    closer = contact("p-closer")
    names = iter(f"q{number}" for number in range(10_000))
    while not RING[9].key < closer.key:
        closer = contact(next(names))
    (changed,) = news(made.handle(Received(closer, Stabilise(1, 0, True)), 6))
    assert isinstance(changed, TableChanged)
    assert changed.predecessor == closer
    assert changed.successors == tuple(RING[1:4])


def test_a_pause_shorter_than_suspicion_costs_nobody_its_place() -> None:
    few = Few(6)
    few.run(5)
    paused = few.ring[2]
    few.pause(paused, 5)
    few.run(5)
    assert few.wrong() == ""
    for node in few.ring:
        assert f"{paused.name} is lost" not in few.story(node)
    assert "has refuted the suspicion" in few.story(few.ring[1])


def test_after_my_own_pause_nobody_is_blamed_for_it() -> None:
    few = Few(6)
    few.run(5)
    paused = few.ring[2]
    few.pause(paused, 300)
    few.run(15)
    assert "is lost" not in few.story(paused)
    assert few.wrong() == ""


def test_a_silent_mesh_is_lost_peer_by_peer_and_then_i_am_alone() -> None:
    made = member()
    _, effects = through(made, 0, 60 * SECOND)
    lost = [one.peer.name for one in news(effects) if isinstance(one, PeerLost)]
    assert sorted(lost) == sorted(one.name for one in (*RING[1:4], RING[9]))
    assert made.table.successors == ()
    assert made.table.predecessor is None
    (back,) = [n for n in news(made.handle(Received(RING[2], Ping(1)), 99 * SECOND))
               if isinstance(n, PeerBack)]  # fmt: skip
    assert back.peer == RING[2]


def test_a_restart_ends_the_former_incarnation_at_once() -> None:
    made = member()
    anew = contact(RING[1].name, 2)
    effects = made.handle(Received(anew, Step(1, RING[5].key)), 5)
    assert PeerLost(RING[1]) in news(effects)
    assert made.table.successors == tuple(RING[2:4])
    assert made.handle(Received(RING[1], Ping(1)), 6) == []


def test_who_leaves_says_good_bye_and_is_no_member_any_more() -> None:
    made = member()
    effects = made.handle(Asked(4, Leave()), 5)
    assert Answer(4, Left()) in effects
    assert sorted(name for name, _ in sends(effects)) == sorted(
        one.name for one in (RING[9], RING[1], RING[2])
    )
    assert made.state is State.LEFT
    assert sends(made.handle(Received(RING[1], Stabilise(7, 0, True)), 6)) == [
        (RING[1].name, NotMember(7))
    ]
    assert made.handle(Stopping(), 7) == []
    again = member()
    assert len(sends(again.handle(Stopping(), 5))) == 3


def test_questions_that_are_open_when_a_peer_leaves_are_answered() -> None:
    made = member()
    made.handle(Asked(1, Lookup(RING[7].key)), 1)
    effects = made.handle(Asked(2, Leave()), 2)
    assert Answer(1, Located(RING[7].key, None, 1)) in effects


def test_a_peer_that_left_or_never_joined_loses_its_place_when_it_says_so() -> None:
    made = member()
    effects = made.handle(TimerFired("ring/round"), 2 * SECOND)
    stabilise = dict(sends(effects))[RING[1].name]
    assert isinstance(stabilise, Stabilise)
    made.handle(Received(RING[1], NotMember(stabilise.request)), 2 * SECOND + 5)
    assert made.table.successors == tuple(RING[2:4])


def test_unreachable_is_a_hint_that_shortens_the_wait() -> None:
    made = member()
    made.handle(TimerFired("ring/round"), 2 * SECOND)
    effects = made.handle(Unreachable(RING[1]), 2 * SECOND + 5)
    (wake,) = [e.at for e in effects if isinstance(e, SetTimer) and e.timer == "ring/wake"]
    assert wake == 2 * SECOND + 5
    assert RING[1] in made.table.successors


def test_pings_are_answered_for_oneself_and_for_others() -> None:
    made = member()
    assert sends(made.handle(Received(RING[5], Ping(9)), 1)) == [(RING[5].name, Pong(9))]
    ((to, ping),) = sends(made.handle(Received(RING[5], PingFor(3, RING[6])), 2))
    assert to == RING[6].name
    assert isinstance(ping, Ping)
    assert sends(made.handle(Received(RING[6], Pong(ping.request)), 3)) == [
        (RING[5].name, Vouched(3, RING[6]))
    ]


BAD = contact("bad")


@pytest.mark.parametrize(
    "message",
    [
        Step(1, b"short"),
        Neighbours(0, 1, BAD, ()),
        Neighbours(0, 1, None, (RING[1], RING[1])),
        PingFor(1, Contact("", "x:1", 1)),
        Vouched(1, Contact("x", "x:1", -1)),
        Goodbye(BAD, ()),
        Consider(Contact("", "x:1", 1)),
        Unify(Contact("", "x:1", 1), 3),
        NotMember(1, ("a:1",) * 99),
    ],
    ids=lambda message: type(message).__name__,
)
def test_what_no_rule_allows_is_refused_and_leaves_no_trace(message: Struct) -> None:
    made = member()
    before = made.view()
    with pytest.raises(RemoteError):
        made.handle(Received(BAD, message), 5)
    assert made.view() == before


def test_a_wrong_answer_does_not_end_a_look_up() -> None:
    made = member()
    ((to, step),) = sends(made.handle(Asked(1, Lookup(RING[7].key)), 1))
    assert to == RING[3].name
    assert isinstance(step, Step)
    with pytest.raises(RemoteError):
        made.handle(Received(RING[3], Stepped(step.request, RING[6], (), ())), 2)
    effects = made.handle(Received(RING[3], Stepped(step.request, RING[7], (), ())), 3)
    assert Answer(1, Located(RING[7].key, RING[7], 1)) in effects


def test_answers_that_nobody_waits_for_are_nothing() -> None:
    made = member()
    for message in (
        Pong(99),
        Stepped(99, RING[5], (), ()),
        Neighbours(99, 1, None, (RING[1],)),
        Vouched(99, RING[5]),
        NotMember(99),
    ):
        assert made.handle(Received(RING[7], message), 5) == []


def test_an_input_that_cannot_be_is_our_own_mistake() -> None:
    made = member()
    with pytest.raises(LocalError):
        made.handle(Started({}), 1)
    with pytest.raises(LocalError):
        made.handle(TimerFired("ring/unknown"), 1)


def test_R2_whoever_was_given_up_stands_in_no_list() -> None:
    made = member()
    made._watch.lose(RING[1].name, 1)
    made._checked = -1
    with pytest.raises(LocalError, match="R2"):
        made.validate()


def test_R2_who_joins_has_no_successors_yet() -> None:
    made = RingMachine(ME, RingConfig(seeds=("x:1",)), Rng(1))
    made.handle(Started({}), 0)
    made.validate()
    made.table.set_successors(RING[1:3])
    with pytest.raises(LocalError, match="R2"):
        made.validate()


def test_joining_is_news() -> None:
    made = RingMachine(ME, RingConfig(), Rng(1))
    assert Joined() in news(made.handle(Started({}), 0))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_R2_after_crashes_leaves_and_joins_under_loss_it_is_one_ring(seed: int) -> None:
    few = Few(24, seed=seed, loss=0.05, successors_max=4)
    few.run(5)
    for turn in range(6):
        few.world.crash(few.ring[(turn * 7) % len(few.ring)])
        few.world.stop(few.ring[(turn * 5) % len(few.ring)])
        few.join(*few.ring[::8])
        few.run(4)
    few.run(30)
    assert few.wrong() == ""
    for node in few.ring:
        found = few.look_up(node, RING[3].key)
        assert found.owner is not None
        assert found.owner.name == few.owner(RING[3].key)
