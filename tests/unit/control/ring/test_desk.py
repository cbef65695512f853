"""Requests under way."""

from shoal.control.ring.config import RingConfig
from shoal.control.ring.desk import Desk, Requests
from shoal.control.ring.messages import Ping
from shoal.kernel.effects import Note, Send
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from tests.unit.control.ring.few import contact

P, Q = contact("p"), contact("q")


def test_only_who_was_asked_can_answer_and_only_once() -> None:
    requests = Requests()
    made = requests.open("ping", P, "why", now=0, timeout=10)
    assert requests.about(made.number, P) == "why"
    assert requests.about(made.number, Q) is None
    assert requests.close(made.number, Q) is None
    assert requests.close(made.number, P) is made
    assert requests.close(made.number, P) is None
    assert requests.about(made.number, P) is None


def test_whoever_is_at_an_address_may_answer_for_it() -> None:
    requests = Requests()
    made = requests.open("step", Contact("", "q:1", 0), None, now=0, timeout=10)
    assert requests.close(made.number, Q) is made


def test_what_is_due_comes_in_the_order_it_was_asked() -> None:
    requests = Requests()
    late = requests.open("a", P, None, now=0, timeout=30)
    soon = requests.open("b", Q, None, now=0, timeout=10)
    assert requests.next_due() == 10
    assert list(requests.take_due(9)) == []
    assert list(requests.take_due(10)) == [soon]
    assert list(requests.take_due(99)) == [late]
    assert requests.next_due() is None


def test_a_peer_that_was_away_gives_everybody_more_time() -> None:
    requests = Requests()
    requests.open("a", P, None, now=0, timeout=10)
    requests.delay(5)
    assert requests.next_due() == 15


def test_an_unreachable_peer_is_not_waited_for() -> None:
    requests = Requests()
    requests.open("a", P, None, now=0, timeout=10)
    requests.open("a", Q, None, now=0, timeout=10)
    requests.hurry(P, 3)
    assert [made.to for made in requests.take_due(3)] == [P]
    assert requests.pending("a", "q")
    assert not requests.pending("a", "p")
    assert requests.pending_kind("a")
    requests.clear()
    assert len(requests) == 0


def test_asking_sends_a_numbered_message() -> None:
    desk = Desk(P, RingConfig(), Rng(1))
    made = desk.ask("ping", Q, Ping, now=7)
    desk.note("hm")
    assert desk.out == [Send(Q, Ping(made.number)), Note("ring", "hm")]
    assert made.due == 7 + desk.config.timeout_max
