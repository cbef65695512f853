"""Duties: given away, waited for, sent again, given to others; a wave is covered once."""

from dataclasses import replace

import pytest

from shoal.control.gossip.config import GossipConfig
from shoal.control.gossip.messages import Fact, Spread, Taken, Version
from shoal.control.gossip.policy import order_of
from shoal.control.gossip.spread import RETRY, Spreading, first_number
from shoal.kernel.effects import CancelTimer, Effect, Note, Send, SetTimer
from shoal.kernel.keys import Contact
from shoal.kernel.time import SECOND

CONFIG = GossipConfig()
FACTS = (Fact("query", "q1", Version(1, "me", 1), b"x"),)
CONTACTS = sorted(
    (Contact(name, f"{name}:1", 1) for name in ("a", "b", "c", "d", "e")), key=lambda one: one.key
)
ME, *OTHERS = CONTACTS


def spreading(known: list[Contact] = OTHERS, config: GossipConfig = CONFIG) -> Spreading:
    one = Spreading(ME, config)
    one.order = order_of(ME.key, known)
    return one


def sent(out: list[Effect]) -> list[tuple[Contact, Spread]]:
    return [
        (effect.to, effect.message)
        for effect in out
        if isinstance(effect, Send) and isinstance(effect.message, Spread)
    ]


def timers(out: list[Effect]) -> list[SetTimer | CancelTimer]:
    return [effect for effect in out if isinstance(effect, SetTimer | CancelTimer)]


def begun(one: Spreading) -> list[Effect]:
    out: list[Effect] = []
    one.begin(FACTS, 0, out)
    return out


def test_a_broadcast_gives_the_whole_ring_away() -> None:
    one = spreading()
    out = begun(one)
    ends = [*OTHERS[1:], ME]
    assert [(to, spread.low, spread.high) for to, spread in sent(out)] == [
        (to, to.key, end.key) for to, end in zip(OTHERS, ends, strict=True)
    ]
    assert all(spread.hops == 1 for _, spread in sent(out))
    assert timers(out) == [SetTimer(RETRY, CONFIG.ack_us)]
    assert one.open == 4
    assert one.validate()


def test_nothing_is_waited_for_when_all_have_taken() -> None:
    one = spreading()
    out: list[Effect] = []
    for to, spread in sent(begun(one)):
        one.taken(to, spread.token, 1, out)
    assert timers(out) == [CancelTimer(RETRY)]
    assert one.open == 0


def test_an_answer_of_somebody_else_or_of_another_life_does_not_count() -> None:
    one = spreading()
    out: list[Effect] = []
    (first, spread), (second, _), *_ = sent(begun(one))
    one.taken(second, spread.token, 1, out)
    one.taken(first, spread.token + 1_000, 1, out)
    assert one.open == 4
    assert first_number(ME) != first_number(Contact("a", "a:1", 2))


def test_silence_is_asked_once_more_and_then_mended() -> None:
    """The silent delegate's interval, its own place included, goes to the one before it."""
    one = spreading()
    given = sent(begun(one))
    out: list[Effect] = []
    for to, spread in given:
        if to != OTHERS[1]:
            one.taken(to, spread.token, 1, out)
    out.clear()
    one.retry(CONFIG.ack_us, out)
    assert sent(out) == [given[1]]
    assert timers(out) == [SetTimer(RETRY, 2 * CONFIG.ack_us)]
    out.clear()
    one.retry(2 * CONFIG.ack_us, out)
    ((to, repair),) = sent(out)
    assert to == OTHERS[0]
    assert repair.low < OTHERS[1].key < repair.high == OTHERS[2].key
    assert repair.lost == (OTHERS[1].name,)
    assert any(isinstance(effect, Note) for effect in out)
    assert one.repairs == 1


def test_a_timer_that_is_early_mends_nothing() -> None:
    one = spreading()
    begun(one)
    out: list[Effect] = []
    one.retry(1, out)
    assert sent(out) == []
    assert timers(out) == [SetTimer(RETRY, CONFIG.ack_us)]


def test_a_hint_that_somebody_is_gone_mends_at_once() -> None:
    one = spreading()
    begun(one)
    out: list[Effect] = []
    one.silent(OTHERS[1], 1, out)
    assert [to for to, _ in sent(out)] == [OTHERS[0]]
    assert one.open == 4


def test_the_last_duty_is_mended_and_the_timer_goes_when_nothing_is_left() -> None:
    one = spreading([OTHERS[0]])
    begun(one)
    out: list[Effect] = []
    one.silent(OTHERS[0], 1, out)
    ((to, copy),) = sent(out)
    assert (to, copy.token) == (OTHERS[0], 0), "a copy nobody waits for, should it be alive"
    assert timers(out) == [CancelTimer(RETRY)]


def test_a_suspect_gets_no_part_until_it_speaks_or_time_has_passed() -> None:
    one = spreading()
    out: list[Effect] = []
    one.silent(OTHERS[1], 0, out)
    assert OTHERS[1] not in [to for to, _ in sent(begun(one))]
    one.heard_from(OTHERS[1].name)
    assert OTHERS[1] in [to for to, _ in sent(begun(one))]
    one.silent(OTHERS[1], 0, out)
    out.clear()
    one.begin(FACTS, CONFIG.suspect_us, out)
    assert OTHERS[1] in [to for to, _ in sent(out)]


def test_a_delegate_lost_soon_after_it_took_its_interval_is_mended_too() -> None:
    one = spreading()
    out: list[Effect] = []
    for to, spread in sent(begun(one)):
        one.taken(to, spread.token, 1, out)
    out.clear()
    one.silent(OTHERS[3], CONFIG.watch_us, out)
    ((to, repair),) = sent(out)
    assert (to, repair.high) == (OTHERS[2], ME.key)
    out.clear()
    one.silent(OTHERS[3], CONFIG.watch_us, out)
    assert sent(out) == [], "once"


def test_a_delegate_lost_long_after_is_not() -> None:
    one = spreading()
    out: list[Effect] = []
    given = sent(begun(one))
    for to, spread in given:
        one.taken(to, spread.token, 1, out)
    one.begin(FACTS, CONFIG.watch_us + 2, out)
    for to, spread in sent(out):
        one.taken(to, spread.token, CONFIG.watch_us + 3, out)
    out.clear()
    one.silent(OTHERS[3], CONFIG.watch_us + 4, out)
    assert [repair.wave for _, repair in sent(out)] == [given[0][1].wave + 1]


def receive(one: Spreading, spread: Spread, now: int = 0) -> list[Effect]:
    out: list[Effect] = []
    one.received(OTHERS[3], spread, now, out)
    return out


def test_G1_an_interval_that_comes_twice_is_covered_once_and_answered_twice() -> None:
    one = spreading()
    spread = Spread("x", 1, 7, ME.key, OTHERS[2].key, FACTS, 3)
    first, second = receive(one, spread), receive(one, spread)
    assert [to for to, _ in sent(first)] == OTHERS[:2]
    assert [spread.hops for _, spread in sent(first)] == [4, 4]
    assert second == [Send(OTHERS[3], Taken(7))]


def test_a_wider_interval_of_a_known_wave_is_covered_where_it_is_new() -> None:
    one = spreading()
    receive(one, Spread("x", 1, 7, ME.key, OTHERS[2].key, FACTS, 3))
    wider = receive(one, Spread("x", 1, 8, ME.key, ME.key, FACTS, 3))
    ((to, rest),) = sent(wider)
    assert (to, rest.low, rest.high) == (OTHERS[2], OTHERS[2].key, ME.key)


def test_a_repair_that_comes_twice_is_passed_on_once() -> None:
    one = spreading()
    repair = Spread("x", 1, 7, OTHERS[1].key, ME.key, FACTS, 3)
    assert [to for to, _ in sent(receive(one, repair))] == [OTHERS[1]]
    assert sent(receive(one, repair)) == []


def test_a_copy_is_not_answered() -> None:
    one = spreading()
    assert all(
        not isinstance(effect.message, Taken)
        for effect in receive(one, Spread("x", 1, 0, ME.key, OTHERS[1].key, FACTS, 1))
        if isinstance(effect, Send)
    )


def test_a_peer_without_tables_takes_nothing_over() -> None:
    """It could not pass it on; whoever sent it finds another one."""
    assert receive(spreading([]), Spread("x", 1, 7, ME.key, ME.key, FACTS, 1)) == []


def test_a_peer_with_too_many_duties_takes_no_more() -> None:
    one = spreading(config=replace(CONFIG, duties_max=4))
    begun(one)
    assert one.full
    assert receive(one, Spread("x", 1, 7, ME.key, ME.key, FACTS, 1)) == []


@pytest.mark.parametrize("dead", range(1, 5))
def test_every_delegate_but_some_silent_still_all_are_tried(dead: int) -> None:
    """Whoever is silent, each other peer is given a part or was given a part that contains it."""
    one = spreading()
    alive = OTHERS[dead:]
    now = 0
    pending = sent(begun(one))
    reached: dict[str, None] = {}
    for _ in range(20):
        out: list[Effect] = []
        for to, spread in pending:
            if to in alive and spread.token:
                reached[to.name] = None
                one.taken(to, spread.token, now, out)
        now += CONFIG.ack_us
        one.retry(now, out)
        pending = sent(out)
    assert list(reached) == [to.name for to in alive]
    assert one.open == 0
    assert now < 60 * SECOND
