"""Silence, suspicion, refutation."""

from shoal.control.ring.config import RingConfig
from shoal.control.ring.desk import Desk, Request
from shoal.control.ring.messages import Ping, PingFor, Vouched
from shoal.control.ring.probe import Prober
from shoal.control.ring.watch import Belief
from shoal.kernel.effects import Send
from shoal.kernel.rng import Rng
from shoal.kernel.time import SECOND
from tests.unit.control.ring.few import contact, contacts

RING = contacts(8)
ME, P = RING[0], RING[1]


def prober() -> tuple[Desk, Prober]:
    desk = Desk(ME, RingConfig(), Rng(1))
    for one in RING[1:]:
        desk.watch.meet(one, 0)
    desk.table.set_successors(RING[1:])
    return desk, Prober(desk)


def sent(desk: Desk) -> list[tuple[str, type]]:
    found = [(e.to.name, type(e.message)) for e in desk.out if isinstance(e, Send)]
    desk.out.clear()
    return found


def expire(desk: Desk, made: Prober) -> int:
    """Let the next request be due; the instant."""
    due = desk.requests.next_due()
    assert due is not None
    for request in desk.requests.take_due(due):
        if request.kind in ("doubt", "suspect", "relay"):
            made.expired(request, due)
    return due


def test_a_silent_peer_is_asked_again_then_through_others_then_suspected_then_lost() -> None:
    desk, made = prober()
    made.silent(P, 1, SECOND)
    assert sent(desk) == [(P.name, Ping)]
    expire(desk, made)
    asked = sent(desk)
    assert asked[0] == (P.name, Ping)
    relays = [name for name, kind in asked if kind is PingFor]
    assert len(dict.fromkeys(relays)) == desk.config.relays
    assert P.name not in relays
    while not desk.suspected:
        began = expire(desk, made)
    assert desk.watch.believes(P.name, Belief.SUSPECTED)
    assert P.name in desk.table
    while not desk.lost:
        ended = expire(desk, made)
    assert desk.lost == [P.name]
    assert ended - began >= desk.config.suspicion


def test_whoever_is_heard_meanwhile_is_left_alone() -> None:
    desk, made = prober()
    desk.watch.heard(P, 5)
    found = desk.watch.get(P.name)
    assert found is not None
    made.silent(P, 3, SECOND)
    assert found.belief is Belief.ALIVE
    made.silent(P, 6, SECOND)
    desk.watch.revived(P.name, SECOND)
    sent(desk)
    expire(desk, made)
    assert sent(desk) == []
    assert found.belief is Belief.ALIVE


def test_strangers_and_who_stands_nowhere_are_nobodys_business() -> None:
    desk, made = prober()
    made.silent(contact("stranger"), 1, SECOND)
    desk.table.drop(P.name)
    made.silent(P, 1, SECOND)
    assert sent(desk) == []


def test_another_incarnation_is_not_blamed_for_the_silence_of_the_former() -> None:
    desk, made = prober()
    made.silent(P, 1, SECOND)
    desk.watch.heard(contact(P.name, 2), 2 * SECOND)
    sent(desk)
    expire(desk, made)
    assert sent(desk) == []


def test_a_relay_asks_and_vouches_for_who_answers() -> None:
    desk, made = prober()
    made.ping_for(RING[3], PingFor(77, P), SECOND)
    assert sent(desk) == [(P.name, Ping)]
    request = desk.requests.close(1, P)
    assert isinstance(request, Request)
    made.answered(request, P)
    assert desk.out == [Send(RING[3], Vouched(77, P))]


def test_a_relay_does_not_take_any_number_of_requests() -> None:
    desk, made = prober()
    for number in range(1_000):
        made.ping_for(RING[3], PingFor(number, P), SECOND)
    assert len(sent(desk)) == 256
    expire(desk, made)
    made.ping_for(RING[3], PingFor(1, P), SECOND)
    assert len(sent(desk)) == 1
