"""One whole peer: routing, news, blame, answers, and a life that begins and ends once."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from msgspec import Struct

from shoal.kernel.effects import Answer, Effect, Note, Persist, Send, SetTimer, Tell
from shoal.kernel.errors import LocalError, RemoteError, ShoalError, UserError
from shoal.kernel.events import (
    Asked,
    Received,
    Started,
    Stopping,
    TimerFired,
    Unreachable,
    Unreadable,
)
from shoal.kernel.keys import Contact
from shoal.kernel.time import SECOND
from shoal.peer import peer as peer_module
from shoal.peer.peer import ASKED_MAX, ILLEGAL, NEWS_MAX, TABLE, Peer, State
from shoal.peer.standing import StandingConfig

ME = Contact("me", "me:1", 1)
YOU = Contact("you", "you:1", 1)


class Ping(Struct, frozen=True, array_like=True):
    """A message of `one`."""


class Pong(Struct, frozen=True, array_like=True):
    """A message of `two`."""


class Stray(Struct, frozen=True, array_like=True):
    """A message of nobody."""


class Why(Struct, frozen=True):
    """A question to `one`."""


class Because(Struct, frozen=True):
    """An answer."""


class Gossip(Struct, frozen=True):
    """News."""


class Rumour(Struct, frozen=True):
    """What `two` hears of `Gossip`."""


class Fake:
    """A machine that does what it is told for each kind of event, and remembers what it got."""

    def __init__(self, name: str, *, message: type[Struct], question: type[Struct] | None) -> None:
        self.name = name
        self.messages: Mapping[int, type[Struct]] = {1: message}
        self.questions: Sequence[type[Struct]] = [question] if question else []
        self.got: list[Struct] = []
        self.does: dict[type, Callable[[Any], Sequence[Effect]]] = {}

    def handle(self, event: Struct, now: int) -> Sequence[Effect]:
        self.got.append(event)
        return self.does.get(type(event), lambda event: ())(event)

    def validate(self) -> None:
        """Nothing to check."""

    def view(self) -> Struct:
        return Because()


class Pair:
    """A running peer of two machines."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, start: bool = True) -> None:
        self.one = Fake("one", message=Ping, question=Why)
        self.two = Fake("two", message=Pong, question=None)
        self.peer = Peer(
            ME,
            [self.one, self.two],
            story_lines_max=100,
            standing=StandingConfig(forgive_s=10, limit_faults=2, faults_max=4),
        )
        self.bridge(monkeypatch, lambda news: [("two", Rumour())])
        if start:
            self.peer.handle(Started({}), 0)
            self.one.got.clear()
            self.two.got.clear()

    def bridge(
        self,
        monkeypatch: pytest.MonkeyPatch,
        heard: Callable[[Struct], Sequence[tuple[str, Struct]]],
    ) -> None:
        """Whom news concerns in this test."""
        monkeypatch.setattr(peer_module, "heard_by", heard)


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Pair:
    """A running peer of two machines; the bridge tells `two` everything."""
    return Pair(monkeypatch)


def give(*effects: Effect) -> Callable[[Any], Sequence[Effect]]:
    """A machine's behaviour: these effects."""
    return lambda event: effects


def fail(error: ShoalError) -> Callable[[Any], Sequence[Effect]]:
    """A machine's behaviour: this error."""

    def behave(event: Any) -> Sequence[Effect]:
        raise error

    return behave


def error_of(effects: Sequence[Effect]) -> str:
    """The text of the one answer, which is an error."""
    (answer,) = effects
    assert isinstance(answer, Answer)
    assert isinstance(answer.result, UserError)
    return str(answer.result)


# --- routing ------------------------------------------------------------------------------------


def test_messages_timers_and_questions_go_to_their_machine(pair: Pair) -> None:
    """Nobody else hears of them."""
    events = [Received(YOU, Ping()), TimerFired("one/a/b"), Asked(1, Why())]
    for event in events:
        pair.peer.handle(event, 5)
    assert pair.one.got == events
    assert pair.two.got == []
    pair.peer.handle(Received(YOU, Pong()), 5)
    assert pair.two.got == [Received(YOU, Pong())]


@pytest.mark.parametrize("event", [Unreachable(YOU), Stopping()])
def test_some_events_are_for_all(pair: Pair, event: Unreachable | Stopping) -> None:
    """Each machine is told, and effects come in the order of the machines."""
    pair.one.does[type(event)] = give(Send(YOU, Ping()), Note("one", "so"))
    pair.two.does[type(event)] = give(Send(YOU, Pong()))
    assert pair.peer.handle(event, 5) == [Send(YOU, Ping()), Send(YOU, Pong())]


def test_effects_keep_their_order_and_carry_the_number_of_their_event(pair: Pair) -> None:
    """A host persists before it sends because the list says so."""
    effects = (Persist("one/x", b"1"), Send(YOU, Ping()), SetTimer("one/t", 9))
    pair.one.does[Received] = give(*effects)
    before = pair.peer.event
    assert tuple(pair.peer.handle(Received(YOU, Ping()), 5)) == effects
    assert pair.peer.event == before + 1
    pair.one.does[Received] = give(Note("one", "why"), *effects)
    assert tuple(pair.peer.handle(Received(YOU, Ping()), 5)) == effects


def test_a_timer_of_no_machine_is_our_defect(pair: Pair) -> None:
    """It cannot have been asked for."""
    with pytest.raises(LocalError, match="of no machine"):
        pair.peer.handle(TimerFired("three/x"), 5)


def test_two_machines_may_not_claim_the_same() -> None:
    """Names, messages and questions belong to one machine each."""
    one = Fake("one", message=Ping, question=Why)
    for other, what in (
        (Fake("one", message=Pong, question=None), "one name"),
        (Fake("two", message=Ping, question=None), "message Ping"),
        (Fake("two", message=Pong, question=Why), "question Why"),
    ):
        with pytest.raises(LocalError, match=what):
            Peer(ME, [one, other], story_lines_max=1)


# --- news ---------------------------------------------------------------------------------------


def test_news_reaches_whom_it_concerns_behind_its_own_effects(pair: Pair) -> None:
    """The teller's effects all come first, then those of the hearer; no host sees the news."""
    pair.one.does[Received] = give(Tell(Gossip()), Send(YOU, Ping()))
    pair.two.does[Rumour] = give(Send(YOU, Pong()))
    assert pair.peer.handle(Received(YOU, Ping()), 5) == [Send(YOU, Ping()), Send(YOU, Pong())]
    assert pair.two.got == [Rumour()]


def test_nobody_hears_news_before_it_has_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first machine tells at its start, the second hears after its own."""
    pair = Pair(monkeypatch, start=False)
    pair.one.does[Started] = give(Tell(Gossip()))
    pair.peer.handle(Started({}), 0)
    assert pair.two.got == [Started({}), Rumour()]


def test_news_that_concerns_an_absent_machine_is_dropped(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A peer without a machine is a peer, not a defect."""
    pair.bridge(monkeypatch, lambda news: [("absent", Rumour())])
    pair.one.does[Received] = give(Tell(Gossip()))
    assert pair.peer.handle(Received(YOU, Ping()), 5) == []


@pytest.mark.parametrize("count", [NEWS_MAX, NEWS_MAX + 1])
def test_news_without_end_is_our_defect(pair: Pair, count: int) -> None:
    """The bound is reached, not passed."""
    left = [count - 1]

    def again(event: Struct) -> Sequence[Effect]:
        left[0] -= 1
        return [Tell(Gossip())] if left[0] >= 0 else []

    pair.one.does[Received] = give(Tell(Gossip()))
    pair.two.does[Rumour] = again
    if count <= NEWS_MAX:
        pair.peer.handle(Received(YOU, Ping()), 5)
        return
    with pytest.raises(LocalError, match="does not come to an end"):
        pair.peer.handle(Received(YOU, Ping()), 5)


# --- stories ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "because"),
    [
        (Received(YOU, Ping(), cause=209), "you#209"),
        (TimerFired("one/probe"), "one/probe"),
        (Asked(7, Why()), "question 7"),
        (Unreachable(YOU), "unreachable you"),
    ],
)
def test_a_line_says_what_led_to_it(
    pair: Pair, event: Received | TimerFired | Asked | Unreachable, because: str
) -> None:
    """The instant, the number of the event, and the event of the other peer."""
    pair.one.does[type(event)] = give(Note("one/x", "happened"))
    pair.peer.handle(event, 5)
    (line,) = pair.peer.story
    assert (line.at, line.event, line.because) == (5, pair.peer.event, because)
    assert (line.thing, line.what) == ("one/x", "happened")


# --- blame --------------------------------------------------------------------------------------


def test_a_wrong_message_costs_its_sender_and_nobody_else(pair: Pair) -> None:
    """Refused, counted, noted; after too many the sender is ignored until it is forgiven."""
    pair.one.does[Received] = fail(RemoteError("key has 3 bytes"))
    for _ in range(3):
        assert pair.peer.handle(Received(YOU, Ping(), 4), 0) == ()
    assert pair.peer.refused == 3
    lines = [line.what for line in pair.peer.story.of("peer/you")]
    assert lines == ["refused: key has 3 bytes"] * 3 + ["ignored for a while"]
    pair.one.got.clear()
    pair.peer.handle(Received(YOU, Ping()), 0)
    assert pair.one.got == []
    assert (pair.peer.refused, pair.peer.ignored) == (3, 1)
    assert pair.peer.own_view(0).out_of_favour == ("you",)
    other = Received(Contact("other", "o:1", 1), Pong())
    pair.peer.handle(other, 0)
    assert pair.two.got == [other]
    pair.peer.handle(Received(YOU, Ping()), 40 * SECOND)
    assert len(pair.one.got) == 1


def test_a_message_of_no_machine_and_bytes_of_none_are_wrong_too(pair: Pair) -> None:
    """Whatever the reason, it ends in the same account."""
    assert pair.peer.handle(Received(YOU, Stray()), 0) == ()
    assert pair.peer.handle(Unreadable(YOU, "tag 0x0999 is not known"), 0) == ()
    assert pair.peer.standing.faults("you", 0) == 2
    whats = [line.what for line in pair.peer.story]
    assert whats == ["refused: message Stray is for no machine", "refused: tag 0x0999 is not known"]


def test_blame_reaches_the_sender_through_news(pair: Pair) -> None:
    """What a sibling finds wrong in a message's consequences is the sender's too."""
    pair.one.does[Received] = give(Tell(Gossip()), Send(YOU, Ping()))
    pair.two.does[Rumour] = fail(RemoteError("contradiction"))
    assert pair.peer.handle(Received(YOU, Ping()), 0) == [Send(YOU, Ping())]
    assert pair.peer.standing.faults("you", 0) == 1


@pytest.mark.parametrize("event", [TimerFired("one/a"), Asked(1, Why()), Unreachable(YOU)])
def test_blame_without_a_message_is_our_defect(
    pair: Pair, event: TimerFired | Asked | Unreachable
) -> None:
    """Nobody else stands behind a timer or a question."""
    pair.one.does[type(event)] = fail(RemoteError("late"))
    with pytest.raises(LocalError, match="machine one blames another peer"):
        pair.peer.handle(event, 0)
    pair.one.does[type(event)] = give(Tell(Gossip()))
    pair.two.does[Rumour] = fail(RemoteError("late"))
    fresh = Asked(2, Why()) if isinstance(event, Asked) else event
    with pytest.raises(LocalError, match="machine two blames another peer"):
        pair.peer.handle(fresh, 0)


def test_our_own_defects_stop_the_run(pair: Pair) -> None:
    """A LocalError is nobody's standing."""
    pair.one.does[Received] = fail(LocalError("broken"))
    with pytest.raises(LocalError, match="broken"):
        pair.peer.handle(Received(YOU, Ping()), 0)
    assert pair.peer.refused == 0


# --- questions ----------------------------------------------------------------------------------


def test_P1_a_question_is_answered_now_or_later(pair: Pair) -> None:
    """The peer knows which are open."""
    pair.one.does[Asked] = give(Answer(1, Because()))
    assert pair.peer.handle(Asked(1, Why()), 0) == [Answer(1, Because())]
    pair.one.does[Asked] = give()
    assert pair.peer.handle(Asked(2, Why()), 0) == []
    assert pair.peer.own_view(0).unanswered == 1
    pair.one.does[TimerFired] = give(Answer(2, Because()))
    assert pair.peer.handle(TimerFired("one/a"), 0) == [Answer(2, Because())]
    assert pair.peer.own_view(0).unanswered == 0


@pytest.mark.parametrize("request_number", [1, 2])
def test_P1_an_answer_twice_or_unasked_is_our_defect(pair: Pair, request_number: int) -> None:
    """Number 1 was answered before; number 2 was never asked."""
    pair.one.does[Asked] = give(Answer(1, Because()))
    pair.peer.handle(Asked(1, Why()), 0)
    pair.one.does[TimerFired] = give(Answer(request_number, Because()))
    with pytest.raises(LocalError, match="does not wait"):
        pair.peer.handle(TimerFired("one/a"), 0)


def test_a_number_in_use_is_the_hosts_defect(pair: Pair) -> None:
    """Otherwise one of the two would never be answered."""
    pair.peer.handle(Asked(1, Why()), 0)
    with pytest.raises(LocalError, match="request 1"):
        pair.peer.handle(Asked(1, Why()), 0)


def test_questions_that_cannot_be_taken_are_answered_all_the_same(pair: Pair) -> None:
    """No machine takes it; or too many wait already."""
    assert "for no machine" in error_of(pair.peer.handle(Asked(1, Because()), 0))
    for request in range(2, ASKED_MAX + 2):
        pair.peer.handle(Asked(request, Why()), 0)
    assert "wait for their answers" in error_of(pair.peer.handle(Asked(0, Why()), 0))
    pair.peer.validate()


# --- one life -----------------------------------------------------------------------------------


def test_before_the_start_nothing_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages and timers are dropped; a question is told why."""
    pair = Pair(monkeypatch, start=False)
    for event in (Received(YOU, Ping()), TimerFired("one/a"), Unreachable(YOU)):
        assert pair.peer.handle(event, 0) == ()
    assert pair.peer.handle(Unreadable(YOU, "bad"), 0) == ()
    assert "not started" in error_of(pair.peer.handle(Asked(1, Why()), 0))
    assert (pair.one.got, pair.peer.ignored) == ([], 4)
    assert pair.peer.handle(Started({"one/x": b"1"}), 0) == []
    assert pair.one.got == pair.two.got == [Started({"one/x": b"1"})]


def test_P1_after_the_end_nothing_is_heard(pair: Pair) -> None:
    """Whoever still waits is told; what comes later is dropped."""
    pair.peer.handle(Asked(1, Why()), 0)
    pair.peer.handle(Asked(2, Why()), 0)
    pair.one.does[Stopping] = give(Answer(2, Because()), Send(YOU, Ping()))
    effects = pair.peer.handle(Stopping(), 0)
    assert list(effects[:2]) == [Answer(2, Because()), Send(YOU, Ping())]
    assert "ended before" in error_of(effects[2:])
    pair.peer.validate()
    pair.one.got.clear()
    for event in (Received(YOU, Ping()), TimerFired("one/a"), Unreachable(YOU), Stopping()):
        assert pair.peer.handle(event, 0) == ()
    assert "has ended" in error_of(pair.peer.handle(Asked(3, Why()), 0))
    assert pair.one.got == []


def test_ended_before_it_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host changed its mind while the store was read."""
    pair = Pair(monkeypatch, start=False)
    assert pair.peer.handle(Stopping(), 0) == ()
    assert pair.peer.state is State.ENDED
    assert pair.one.got == []


def test_a_peer_starts_once(pair: Pair) -> None:
    """Another incarnation is another Peer."""
    with pytest.raises(LocalError, match="not for a peer that is running"):
        pair.peer.handle(Started({}), 0)


def test_what_is_no_event_is_the_hosts_defect(pair: Pair) -> None:
    """Also when it looks like one."""
    with pytest.raises(LocalError, match="Rumour"):
        pair.peer.handle(Rumour(), 0)  # type: ignore[arg-type]


def test_every_action_exists_and_every_state_can_be_left_or_is_last() -> None:
    """The table names methods; where an action enters a state, it is the table's."""
    assert all(callable(getattr(Peer, action)) for _, action in TABLE.values())
    assert [pair for pair in ILLEGAL if pair in TABLE] == []


@pytest.mark.parametrize("pair_of_table", TABLE, ids=lambda pair: f"{pair[0]}-{pair[1].__name__}")
def test_the_next_state_is_the_tables(
    pair_of_table: tuple[State, type], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bring a peer into the state, give it the event, look where it is."""
    samples: dict[type, Any] = {
        Started: Started({}),
        Stopping: Stopping(),
        Asked: Asked(1, Why()),
        Received: Received(YOU, Ping()),
        TimerFired: TimerFired("one/a"),
        Unreachable: Unreachable(YOU),
        Unreadable: Unreadable(YOU, "bad"),
    }
    state, kind = pair_of_table
    pair = Pair(monkeypatch, start=state is not State.NEW)
    if state is State.ENDED:
        pair.peer.handle(Stopping(), 0)
    assert pair.peer.state is state
    pair.peer.handle(samples[kind], 0)
    assert pair.peer.state is TABLE[pair_of_table][0]


def test_the_view_is_of_every_machine(pair: Pair) -> None:
    """By name, for hosts and people."""
    assert pair.peer.view() == {"one": Because(), "two": Because()}
