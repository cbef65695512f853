"""A small machine for tests of the simulator: it pings, counts durably, and answers questions.

ping      every second to one of the addresses it knows, which is answered with a pong
count     a question: one more, durable before the answer
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from msgspec import Struct

from shoal.kernel.effects import Answer, CancelTimer, Effect, Persist, Send, SetTimer
from shoal.kernel.events import Asked, Received, Started, Stopping, TimerFired, Unreachable
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.kernel.time import SECOND, Instant
from shoal.peer.peer import Peer


class Ping(Struct, frozen=True, array_like=True):
    """Are you there?"""

    number: int


class Pong(Struct, frozen=True, array_like=True):
    """I am."""

    number: int


class Count(Struct, frozen=True):
    """One more, please."""


class Counted(Struct, frozen=True):
    """How many there are now."""

    count: int


class ToyMachine:
    """Pings the addresses it was given and counts durably."""

    name = "toy"
    messages: ClassVar[Mapping[int, type[Struct]]] = {0x0E01: Ping, 0x0E02: Pong}
    questions: ClassVar[Sequence[type[Struct]]] = (Count,)

    def __init__(self, me: Contact, seeds: Sequence[str], rng: Rng) -> None:
        self.me = me
        self.rng = rng
        self.known = [Contact("", address, 0) for address in seeds]
        self.count = 0
        self.sent = 0
        self.pongs = 0
        self.late = 0
        self.nows: list[Instant] = []
        self.unreachable: list[str] = []
        self.stopped = False

    def handle(self, event: Any, now: Instant) -> Sequence[Effect]:
        self.nows.append(now)
        match event:
            case Started():
                self.count = int(event.stored.get("toy/count", b"0"))
                wait = self.rng.between(1, SECOND)
                return [SetTimer("toy/ping", now + wait), SetTimer("toy/never", now + wait // 2)]
            case TimerFired(timer="toy/ping"):
                self.sent += 1
                known = [self.rng.choice(self.known)] if self.known else []
                return [
                    *(Send(peer, Ping(self.sent)) for peer in known),
                    CancelTimer("toy/never"),
                    SetTimer("toy/ping", now + SECOND),
                ]
            case TimerFired():
                self.late += 1
                return []
            case Received(message=Ping(number=number)):
                return [Send(event.sender, Pong(number))]
            case Received():
                self.pongs += 1
                return []
            case Asked():
                self.count += 1
                return [
                    Persist("toy/count", str(self.count).encode()),
                    Answer(event.request, Counted(self.count)),
                ]
            case Unreachable():
                self.unreachable.append(event.peer.name)
                return []
            case Stopping():
                self.stopped = True
                return [Persist("toy/stopped", b"1")]
        raise AssertionError(event)

    def validate(self) -> None:
        assert self.pongs <= 2 * self.sent

    def view(self) -> Struct:
        return Counted(self.count)


def toy_peer(me: Contact, seeds: Sequence[str], rng: Rng) -> Peer:
    return Peer(me, [ToyMachine(me, seeds, rng.split("toy"))], story_lines_max=100)


def toy_of(peer: Peer | None) -> ToyMachine:
    assert peer is not None
    machine = peer.machines["toy"]
    assert isinstance(machine, ToyMachine)
    return machine
