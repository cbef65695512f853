"""One whole peer: owns the machines, routes events to them, carries news between them.

    event ──▶ the machine it is for ──▶ effects ──▶ host
                     ▲                     │ Tell
                     └────── bridges ◀─────┘

News may cause news. The loop that carries it has a bound, and reaching it is a defect of ours.

Not here   what machines decide (control/); who hears whose news (`peer/bridges.py`); sockets,
           timers and disks (host/, and again sim/).
"""

from collections import deque
from collections.abc import Mapping, Sequence

from msgspec import Struct

from shoal.kernel.effects import Answer, Effect, Note, Tell
from shoal.kernel.errors import LocalError, UserError
from shoal.kernel.events import Asked, Event, Received, Started, Stopping, TimerFired, Unreachable
from shoal.kernel.keys import Contact
from shoal.kernel.story import Line, Story
from shoal.kernel.time import Instant
from shoal.peer.bridges import heard_by
from shoal.peer.machine import Machine

__all__ = ["NEWS_MAX", "Peer"]

#: News that one event may cause; a chain of three machines needs a handful. A guess with room.
NEWS_MAX = 1_000


class Peer:
    """The machines of one peer behind one `handle`."""

    def __init__(self, me: Contact, machines: Sequence[Machine], *, story_lines_max: int) -> None:
        self.me = me
        self.machines: Mapping[str, Machine] = {machine.name: machine for machine in machines}
        self.story = Story(story_lines_max)
        #: The number of the event that is being handled, or was last: the cause of its effects.
        self.event = 0
        self._of_message = {
            message: machine for machine in machines for message in machine.messages.values()
        }
        self._of_question = {
            question: machine for machine in machines for question in machine.questions
        }

    def handle(self, event: Event, now: Instant) -> list[Effect]:
        """Take an event in; return the effects for the host, in order, without news or notes."""
        self.event += 1
        because = ""
        kind = type(event)
        effects: list[Effect] = []
        if kind is Received:
            assert isinstance(event, Received)
            target = self._of_message.get(type(event.message))
            if target is None:
                raise LocalError(f"message {type(event.message).__name__} is for no machine")
            found = target.handle(event, now)
            because = f"{event.sender.name}#{event.cause}" if _has_inner(found) else ""
            self._take(target, found, because, now, effects)
        elif kind is TimerFired:
            assert isinstance(event, TimerFired)
            name = event.timer.partition("/")[0]
            target = self.machines.get(name)
            if target is None:
                raise LocalError(f"timer {event.timer!r} is of no machine")
            self._take(target, target.handle(event, now), because, now, effects)
        elif kind is Asked:
            assert isinstance(event, Asked)
            target = self._of_question.get(type(event.question))
            if target is None:
                error = UserError(f"question {type(event.question).__name__} is for no machine")
                return [Answer(event.request, error)]
            self._take(target, target.handle(event, now), because, now, effects)
        elif kind is Started or kind is Stopping or kind is Unreachable:
            for target in self.machines.values():
                self._take(target, target.handle(event, now), because, now, effects)
        else:
            raise LocalError(f"event {event!r} is not known to a peer")
        return effects

    def _take(
        self,
        machine: Machine,
        found: Sequence[Effect],
        because: str,
        now: Instant,
        effects: list[Effect],
    ) -> None:
        """Keep notes, carry news to whom it concerns, pass the rest on."""
        if not _has_inner(found):
            effects.extend(found)
            return
        news: deque[tuple[Machine, Sequence[Effect]]] = deque([(machine, found)])
        carried = 0
        while news:
            source, outcome = news.popleft()
            for effect in outcome:
                match effect:
                    case Note():
                        line = Line(now, self.event, because, effect.thing, effect.what)
                        self.story.tell(line)
                    case Tell():
                        carried += 1
                        if carried > NEWS_MAX:
                            raise LocalError(
                                f"news does not come to an end, last from {source.name}",
                                detail=repr(effect.news),
                            )
                        for name, event in heard_by(effect.news):
                            hearer = self.machines.get(name)
                            if hearer is not None:
                                news.append((hearer, hearer.handle(event, now)))
                    case _:
                        effects.append(effect)

    def validate(self) -> None:
        """Every machine's invariants hold."""
        for machine in self.machines.values():
            machine.validate()

    def view(self) -> dict[str, Struct]:
        """A read-only picture of every machine, by name."""
        return {name: machine.view() for name, machine in self.machines.items()}


def _has_inner(effects: Sequence[Effect]) -> bool:
    """Whether any of them stays inside the peer."""
    return any(type(effect) is Tell or type(effect) is Note for effect in effects)
