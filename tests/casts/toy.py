"""The cast `toy`: a machine just large enough to show every command of a script.

It counts. `Add` puts a number on top and tells the peers it was started with (`with=p2,p3`); what
is not acknowledged within a second is sent again, three times.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

from shoal.kernel.effects import Answer, CancelTimer, Effect, Note, Persist, Send, SetTimer, Tell
from shoal.kernel.errors import RemoteError
from shoal.kernel.events import Asked, Received, Started, Stopping, TimerFired, Unreachable
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.kernel.time import SECOND, Instant
from tests.scripts import Cast

TRIES_MAX = 3


class Add(Struct, frozen=True):
    """A question: add this."""

    number: int


class Sum(Struct, frozen=True):
    """The answer."""

    total: int


class Added(Struct, frozen=True, array_like=True):
    """Somebody added something; `serial` counts per sender."""

    serial: int
    number: int


class Noted(Struct, frozen=True, array_like=True):
    """Acknowledges one `Added`."""

    serial: int


class Grew(Struct, frozen=True):
    """News: the total changed."""

    total: int


class Reset(Struct, frozen=True):
    """An event of a sibling: begin again at this number."""

    number: int = 0


class View(Struct, frozen=True):
    """What the machine holds."""

    total: int
    waiting: tuple[int, ...]


class State(StrEnum):
    """Whether anything waits for an acknowledgement."""

    IDLE = "idle"
    WAITING = "waiting"


class Toy:
    """A counter that is told to others."""

    name = "toy"
    messages: Mapping[int, type[Struct]] = {0x7001: Added, 0x7002: Noted}
    questions: Sequence[type[Struct]] = (Add,)

    def __init__(self, others: Sequence[Contact]) -> None:
        self._others = others
        self._total = 0
        self._serial = 0
        self._waiting: dict[int, tuple[Contact, Added, int]] = {}
        self._table: dict[type, Callable[[Any, Instant], list[Effect]]] = {
            Started: self._started,
            Asked: self._asked,
            Received: self._received,
            TimerFired: self._again,
            Reset: self._reset,
            Stopping: lambda event, now: [Note("toy", "good-bye")],
            Unreachable: lambda event, now: [Note("toy", f"no way to {event.peer.name}")],
        }

    @property
    def state(self) -> State:
        return State.WAITING if self._waiting else State.IDLE

    def handle(self, event: Struct, now: Instant) -> Sequence[Effect]:
        return self._table[type(event)](event, now)

    def validate(self) -> None:
        assert all(tries <= TRIES_MAX for _, _, tries in self._waiting.values())

    def view(self) -> View:
        return View(total=self._total, waiting=tuple(self._waiting))

    def _started(self, event: Started, now: Instant) -> list[Effect]:
        self._total = int(event.stored.get("toy/total", b"0"))
        return []

    def _asked(self, event: Asked, now: Instant) -> list[Effect]:
        assert isinstance(event.question, Add)
        effects = self._grow(event.question.number)
        for other in self._others:
            self._serial += 1
            message = Added(self._serial, event.question.number)
            self._waiting[self._serial] = (other, message, 1)
            effects += [Send(other, message), SetTimer(f"toy/{self._serial}", now + SECOND)]
        return [*effects, Answer(event.request, Sum(self._total))]

    def _received(self, event: Received, now: Instant) -> list[Effect]:
        if isinstance(event.message, Noted):
            known = self._waiting.pop(event.message.serial, None)
            return [CancelTimer(f"toy/{event.message.serial}")] if known else []
        assert isinstance(event.message, Added)
        if event.message.number < 0:
            raise RemoteError(f"number {event.message.number} is below zero")
        return [
            *self._grow(event.message.number),
            Send(event.sender, Noted(event.message.serial)),
        ]

    def _again(self, event: TimerFired, now: Instant) -> list[Effect]:
        serial = int(event.timer.partition("/")[2])
        other, message, tries = self._waiting.pop(serial)
        if tries == TRIES_MAX:
            return [Note("toy", f"gave up on {other.name}")]
        self._waiting[serial] = (other, message, tries + 1)
        return [Send(other, message), SetTimer(event.timer, now + SECOND)]

    def _reset(self, event: Reset, now: Instant) -> list[Effect]:
        self._total = event.number
        return [Persist("toy/total", None)]

    def _grow(self, number: int) -> list[Effect]:
        self._total += number
        return [
            Persist("toy/total", str(self._total).encode()),
            Tell(Grew(self._total)),
        ]


def build(
    me: Contact, rng: Rng, options: Mapping[str, str], contact: Callable[[str], Contact]
) -> Sequence[Toy]:
    """A peer with the toy machine; `with=p2,p3` names those it tells."""
    return [Toy([contact(name) for name in options.get("with", "").split(",") if name])]


CAST = Cast(build=build, events=(Reset,))
