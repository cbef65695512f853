"""One whole peer: owns the machines, routes events to them, carries news between them.

    event ──▶ the machine it is for ──▶ effects ──▶ host
                     ▲                     │ Tell
                     └────── bridges ◀─────┘

News may cause news. The loop that carries it has a bound, and reaching it is a defect of ours. The
effects of a machine stay in its order; those of who heard its news come behind all of them.

A message that no rule allows (RemoteError) ends here: it is counted, noted, and costs its sender
standing (`peer/standing.py`).

Promise    P1  every question is answered exactly once: by its machine, or by the peer when the
           machine can no longer do it.
Not here   what machines decide (control/); who hears whose news (`peer/bridges.py`); sockets,
           timers and disks (host/, and again sim/).
Diagram    docs/protocols/peer.svg, drawn from TABLE.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

from shoal.kernel.effects import Answer, Effect, Note, Tell
from shoal.kernel.errors import LocalError, RemoteError, UserError
from shoal.kernel.events import (
    Asked,
    Event,
    Received,
    Started,
    Stopping,
    TimerFired,
    Unreachable,
    Unreadable,
)
from shoal.kernel.keys import Contact
from shoal.kernel.story import Line, Story
from shoal.kernel.time import Instant
from shoal.peer.bridges import heard_by
from shoal.peer.machine import Machine
from shoal.peer.standing import Standing, StandingConfig

__all__ = ["ASKED_MAX", "NEWS_MAX", "Peer", "PeerView", "State"]

#: News that one event may cause; a chain of three machines needs a handful. A guess with room.
NEWS_MAX = 1_000
#: Questions that may wait for their answers; the next is refused. A guess with room.
ASKED_MAX = 10_000


class State(StrEnum):
    """Where a peer is in its one life; a restart is another Peer with a higher incarnation."""

    NEW = "new"
    RUNNING = "running"
    ENDED = "ended"


#: (state, event) to (next state, method).
TABLE: Mapping[tuple[State, type], tuple[State | None, str]] = {
    (State.NEW, Started): (State.RUNNING, "_started"),
    (State.NEW, Asked): (State.NEW, "_too_early"),
    (State.NEW, Stopping): (State.ENDED, "_ended_unstarted"),
    (State.RUNNING, Received): (State.RUNNING, "_received"),
    (State.RUNNING, TimerFired): (State.RUNNING, "_timer_fired"),
    (State.RUNNING, Asked): (State.RUNNING, "_asked"),
    (State.RUNNING, Unreachable): (State.RUNNING, "_for_all"),
    (State.RUNNING, Unreadable): (State.RUNNING, "_unreadable"),
    (State.RUNNING, Stopping): (State.ENDED, "_stopping"),
    (State.ENDED, Asked): (State.ENDED, "_too_late"),
}
IGNORED: Mapping[tuple[State, type], str] = {
    (State.NEW, Received): "the store has not been read; messages promise nothing",
    (State.NEW, TimerFired): "a timer of an earlier incarnation",
    (State.NEW, Unreachable): "nothing was sent yet; it was meant for an earlier incarnation",
    (State.NEW, Unreadable): "nothing is heard yet, so nobody can lose standing",
    (State.ENDED, Received): "good-bye has been said",
    (State.ENDED, TimerFired): "the host had the timer in hand when the peer ended",
    (State.ENDED, Unreachable): "the good-bye did not arrive",
    (State.ENDED, Unreadable): "nobody is listened to any more",
    (State.ENDED, Stopping): "asked to stop twice, as people do",
}
ILLEGAL: Mapping[tuple[State, type], str] = {
    (State.RUNNING, Started): "a peer starts once; another incarnation is another Peer",
    (State.ENDED, Started): "a peer starts once; another incarnation is another Peer",
}

_Method = Callable[[Any, Instant], Sequence[Effect]]
#: What one machine has asked for.
_Found = tuple[Machine, Sequence[Effect]]
#: Effects that the peer itself has to do with.
_INNER = {Tell: None, Note: None, Answer: None}
_NOTHING: tuple[Effect, ...] = ()


class PeerView(Struct, frozen=True):
    """What the peer itself knows, beside its machines."""

    me: Contact
    state: str
    event: int
    unanswered: int
    refused: int
    ignored: int
    out_of_favour: tuple[str, ...]


class Peer:
    """The machines of one peer behind one `handle`."""

    def __init__(
        self,
        me: Contact,
        machines: Sequence[Machine],
        *,
        story_lines_max: int,
        standing: StandingConfig | None = None,
    ) -> None:
        self.me = me
        self.machines: Mapping[str, Machine] = {machine.name: machine for machine in machines}
        self.story = Story(story_lines_max)
        self.standing = Standing(standing or StandingConfig())
        self.state = State.NEW
        #: The number of the event that is being handled, or was last: the cause of its effects.
        self.event = 0
        #: Messages that were wrong, and messages or events that nobody looked at.
        self.refused = 0
        self.ignored = 0
        #: Questions without an answer yet, by request, in the order asked.
        self._unanswered: dict[int, type[Struct]] = {}
        self._of_message = _owners(machines, "message", lambda m: m.messages.values())
        self._of_question = _owners(machines, "question", lambda m: m.questions)
        if len(self.machines) != len(machines):
            raise LocalError("two machines of one peer have one name")
        self._routes = self._routes_in(State.NEW)

    def handle(self, event: Event, now: Instant) -> Sequence[Effect]:
        """Take an event in; return the effects for the host, in order, without news or notes."""
        self.event += 1
        route = self._routes.get(type(event))
        if route is None:
            return self._no_route(event)
        return route(event, now)

    def _routes_in(self, state: State) -> dict[type, _Method]:
        return {
            kind: getattr(self, action)
            for (when, kind), (_, action) in TABLE.items()
            if when is state
        }

    def _no_route(self, event: Event) -> Sequence[Effect]:
        """What the table does not name is ignored or a defect of the host."""
        pair = (self.state, type(event))
        if pair not in IGNORED:
            raise LocalError(
                f"event {type(event).__name__} is not for a peer that is {self.state}",
                detail=ILLEGAL.get(pair, "it is not an event of kernel/events.py"),
            )
        self.ignored += 1
        return _NOTHING

    def _enter(self, state: State) -> None:
        self.state = state
        self._routes = self._routes_in(state)

    # --- one method for each action of the table ------------------------------------------------

    def _received(self, event: Received, now: Instant) -> Sequence[Effect]:
        """To the machine of the message, if its sender is in good standing."""
        sender = event.sender
        if not self.standing.heard(sender.name, now):
            self.ignored += 1
            return _NOTHING
        machine = self._of_message.get(type(event.message))
        try:
            if machine is None:
                raise RemoteError(f"message {type(event.message).__name__} is for no machine")
            found = machine.handle(event, now)
        except RemoteError as error:
            self._blame(sender, error.what, now)
            return _NOTHING
        for effect in found:
            if type(effect) in _INNER:
                return self._carry([(machine, found)], event, now)
        return found

    def _timer_fired(self, event: TimerFired, now: Instant) -> Sequence[Effect]:
        """To the machine whose name the timer begins with."""
        machine = self.machines.get(event.timer.partition("/")[0])
        if machine is None:
            raise LocalError(f"timer {event.timer!r} is of no machine")
        found = self._trusted(machine, event, now)
        for effect in found:
            if type(effect) in _INNER:
                return self._carry([(machine, found)], event, now)
        return found

    def _asked(self, event: Asked, now: Instant) -> Sequence[Effect]:
        """To the machine of the question; it answers now or later."""
        if event.request in self._unanswered:
            raise LocalError(
                f"request {event.request} is used again before it was answered",
                hint="the host numbers questions upwards",
            )
        kind = type(event.question)
        machine = self._of_question.get(kind)
        if machine is None:
            return _refusal(event, f"question {kind.__name__} is for no machine of this peer")
        if len(self._unanswered) >= ASKED_MAX:
            return _refusal(event, f"{ASKED_MAX} questions wait for their answers already")
        self._unanswered[event.request] = kind
        return self._carry([(machine, self._trusted(machine, event, now))], event, now)

    def _too_early(self, event: Asked, now: Instant) -> Sequence[Effect]:
        return _refusal(event, "the peer has not started yet")

    def _too_late(self, event: Asked, now: Instant) -> Sequence[Effect]:
        return _refusal(event, "the peer has ended")

    def _unreadable(self, event: Unreadable, now: Instant) -> Sequence[Effect]:
        self._blame(event.peer, event.why, now)
        return _NOTHING

    def _started(self, event: Started, now: Instant) -> Sequence[Effect]:
        self._enter(State.RUNNING)
        return self._for_all(event, now)

    def _ended_unstarted(self, event: Stopping, now: Instant) -> Sequence[Effect]:
        """Nobody knows of this peer yet, so there is nobody to say good-bye to."""
        self._enter(State.ENDED)
        return _NOTHING

    def _for_all(self, event: Event, now: Instant) -> list[Effect]:
        """Every machine is told, in their order, and news only then: none hears it unstarted."""
        machines = self.machines.values()
        return self._carry([(one, self._trusted(one, event, now)) for one in machines], event, now)

    def _stopping(self, event: Stopping, now: Instant) -> Sequence[Effect]:
        """Every machine says good-bye, and whoever still waits for an answer is told."""
        effects = self._for_all(event, now)
        self._enter(State.ENDED)
        error = UserError("the peer ended before it had an answer", hint="ask another peer")
        effects += [Answer(request, error) for request in self._unanswered]
        self._unanswered.clear()
        return effects

    # --- news, notes, answers and blame ---------------------------------------------------------

    def _trusted(self, machine: Machine, event: Struct, now: Instant) -> Sequence[Effect]:
        """The effects of an event behind which no other peer stands."""
        try:
            return machine.handle(event, now)
        except RemoteError as error:
            raise _our_defect(machine, event, error) from error

    def _carry(self, found: Sequence[_Found], event: Event, now: Instant) -> list[Effect]:
        """Keep notes, settle answers, carry news to whom it concerns, pass the rest on."""
        effects: list[Effect] = []
        todo = deque(found)
        carried = 0
        while todo:
            source, outcome = todo.popleft()
            for effect in outcome:
                if isinstance(effect, Note):
                    self._note(effect.thing, effect.what, _because(event), now)
                elif isinstance(effect, Tell):
                    carried += 1
                    _check_news(carried, source, effect)
                    todo.extend(self._spread(effect.news, event, now))
                elif isinstance(effect, Answer):
                    self._settle(source, effect)
                    effects.append(effect)
                else:
                    effects.append(effect)
        return effects

    def _spread(self, news: Struct, event: Event, now: Instant) -> list[_Found]:
        """Tell the machines that this concerns; for what a message led to, its sender pays."""
        found: list[_Found] = []
        for name, heard in heard_by(news):
            machine = self.machines.get(name)
            if machine is None:
                continue
            try:
                found.append((machine, machine.handle(heard, now)))
            except RemoteError as error:
                if not isinstance(event, Received):
                    raise _our_defect(machine, heard, error) from error
                self._blame(event.sender, error.what, now)
        return found

    def _settle(self, machine: Machine, answer: Answer) -> None:
        if self._unanswered.pop(answer.request, None) is None:
            raise LocalError(
                f"P1: request {answer.request} does not wait for the answer of {machine.name}",
                detail="it was answered before, or never asked",
            )

    def _blame(self, sender: Contact, why: str, now: Instant) -> None:
        """A wrong message: counted, noted, and paid for by its sender."""
        self.refused += 1
        thing = f"peer/{sender.name}"
        self._note(thing, f"refused: {why}", sender.name, now)
        if self.standing.fault(sender.name, now):
            self._note(thing, "ignored for a while", sender.name, now)

    def _note(self, thing: str, what: str, because: str, now: Instant) -> None:
        self.story.tell(Line(now, self.event, because, thing, what))

    # --- for hosts, tests and people ------------------------------------------------------------

    def validate(self) -> None:
        """Every machine's invariants hold; P1: who waits is counted and can be answered."""
        for machine in self.machines.values():
            machine.validate()
        if len(self._unanswered) > ASKED_MAX:
            raise LocalError("P1: more questions wait than are allowed")
        if self._unanswered and self.state is not State.RUNNING:
            raise LocalError(f"P1: questions wait for a peer that is {self.state}")

    def view(self) -> dict[str, Struct]:
        """A read-only picture of every machine, by name."""
        return {name: machine.view() for name, machine in self.machines.items()}

    def own_view(self, now: Instant) -> PeerView:
        """A read-only picture of the peer itself."""
        return PeerView(
            me=self.me,
            state=self.state.value,
            event=self.event,
            unanswered=len(self._unanswered),
            refused=self.refused,
            ignored=self.ignored,
            out_of_favour=self.standing.ignored(now),
        )


def _owners(
    machines: Sequence[Machine],
    what: str,
    of: Callable[[Machine], Any],
) -> dict[type[Struct], Machine]:
    """Which machine takes a class; none is taken by two."""
    owners: dict[type[Struct], Machine] = {}
    for machine in machines:
        for kind in of(machine):
            if kind in owners:
                raise LocalError(f"{what} {kind.__name__} belongs to two machines")
            owners[kind] = machine
    return owners


def _check_news(carried: int, source: Machine, effect: Tell) -> None:
    """News comes to an end."""
    if carried > NEWS_MAX:
        raise LocalError(
            f"news does not come to an end, last from {source.name}", detail=repr(effect.news)
        )


def _our_defect(machine: Machine, event: Struct, error: RemoteError) -> LocalError:
    return LocalError(
        f"machine {machine.name} blames another peer for {type(event).__name__}",
        detail=error.what,
        hint="what a message says is judged when it is received, not later",
    )


def _refusal(event: Asked, why: str) -> tuple[Effect, ...]:
    return (Answer(event.request, UserError("question cannot be answered", detail=why)),)


def _because(event: Event) -> str:
    """What led here, for a story: another peer's event, a timer, a question."""
    match event:
        case Received(sender=sender, cause=cause):
            return f"{sender.name}#{cause}"
        case TimerFired(timer=timer):
            return timer
        case Asked(request=request):
            return f"question {request}"
        case Unreachable(peer=peer):
            return f"unreachable {peer.name}"
        case _:
            return type(event).__name__.lower()
