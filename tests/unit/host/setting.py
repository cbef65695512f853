"""Hosts of a test: a toy machine whose every move a test can make, and hosts that run in its loop.

toy       Call(to, text) -> Heard(text): asks another peer to say a text back
mesh      an authority with keys for some peers, made once for all tests
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from shoal.host.config import HostConfig, NetConfig
from shoal.host.logs import Log
from shoal.host.loop import Host
from shoal.host.run import Settings, serve
from shoal.kernel.effects import Answer, Effect, Persist, Send, SetTimer
from shoal.kernel.errors import UserError
from shoal.kernel.events import Asked, Received, Started, Stopping, TimerFired, Unreachable
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.kernel.time import Instant
from shoal.peer.build import PeerConfig
from shoal.peer.peer import Peer
from shoal.wire.codec import Codec

__all__ = [
    "CODEC",
    "FAST",
    "Call",
    "Heard",
    "Keep",
    "Never",
    "Say",
    "Toy",
    "Wake",
    "eventually",
    "running",
    "suspend",
]

WAIT_S = 20.0


class Say(Struct, frozen=True, array_like=True):
    """Say this back, if it is a call."""

    text: str
    back: bool


class Call(Struct, frozen=True):
    """Question: ask that one to say a text back."""

    to: Contact
    text: str


class Heard(Struct, frozen=True):
    """Answer: it came back."""

    text: str


class Keep(Struct, frozen=True):
    """Question: store values, and say when that is done."""

    values: tuple[tuple[str, bytes | None], ...]


class Wake(Struct, frozen=True):
    """Question: answer after so many microseconds."""

    after: int


class Never(Struct, frozen=True):
    """Question that is never answered."""


MESSAGES: dict[int, type[Struct]] = {0x7001: Say}
CODEC = Codec(MESSAGES)


class Toy:
    """Does what a test says and remembers what happened."""

    name = "toy"
    messages = MESSAGES
    questions: Sequence[type[Struct]] = (Call, Keep, Wake, Never)

    def __init__(self) -> None:
        self.stored: dict[str, bytes] = {}
        self.heard: list[tuple[Contact, str]] = []
        self.unreachable: list[Contact] = []
        self.stopped = False
        self._calls: dict[str, int] = {}
        #: Effects of the good-bye, for tests about the end.
        self.last: list[Effect] = []

    def handle(self, event: Struct, now: Instant) -> Sequence[Effect]:
        """Do it."""
        match event:
            case Started(stored=stored):
                self.stored = dict(stored)
            case Received(sender=sender, message=Say() as said):
                self.heard.append((sender, said.text))
                if said.back:
                    return [Send(sender, Say(said.text, False))]
                if said.text in self._calls:
                    return [Answer(self._calls.pop(said.text), Heard(said.text))]
            case Unreachable(peer=peer):
                self.unreachable.append(peer)
                error = UserError(f"cannot reach {peer.name or peer.address}")
                calls, self._calls = self._calls, {}
                return [Answer(request, error) for request in calls.values()]
            case Asked(request=request, question=question):
                return self._asked(request, question, now)
            case TimerFired(timer=timer):
                return [Answer(int(timer.rpartition("/")[2]), Heard(timer))]
            case Stopping():
                self.stopped = True
                return self.last
        return []

    def _asked(self, request: int, question: Struct, now: Instant) -> Sequence[Effect]:
        match question:
            case Call(to=to, text=text):
                self._calls[text] = request
                return [Send(to, Say(text, True))]
            case Keep(values=values):
                kept = [Persist(f"toy/{key}", value) for key, value in values]
                return [*kept, Answer(request, Heard("kept"))]
            case Wake(after=after):
                return [SetTimer(f"toy/wake/{request}", now + after)]
        return []

    def validate(self) -> None:
        """Nothing can be wrong."""

    def view(self) -> Struct:
        """What it heard last."""
        return Heard(self.heard[-1][1] if self.heard else "")


#: Time-outs short enough for tests that wait for them, long enough for a busy machine.
FAST = HostConfig(
    net=NetConfig(
        hello_s=2.0,
        dial_s=3.0,
        dial_again_min_s=0.02,
        dial_again_max_s=0.1,
        sweep_s=0.05,
    ),
    drain_s=1.0,
    answer_s=5.0,
    keys_refresh_s=0.1,
)


@contextlib.asynccontextmanager
async def running(
    home: Path,
    name: str = "p1",
    *,
    toy: Toy | None = None,
    lines: list[str] | None = None,
    **settings: Any,
) -> AsyncIterator[Host]:
    """A host with a toy, in this loop, until the block ends."""
    machine = toy or Toy()

    def build(me: Contact, config: PeerConfig, rng: Rng) -> Peer:
        return Peer(me, [machine], story_lines_max=100)

    log = Log((lines if lines is not None else []).append, peer=name, level="debug")
    wanted = Settings(name=name, home=home, **{"host": FAST, **settings})
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[Host] = loop.create_future()
    task = asyncio.create_task(
        serve(wanted, log, build=build, codec=CODEC, ready=ready.set_result), name=name
    )
    await asyncio.wait([task, ready], return_when=asyncio.FIRST_COMPLETED)
    if not ready.done():
        await task  # raises why it did not start
    host = ready.result()
    try:
        yield host
    finally:
        host.stop()
        await task


async def eventually(condition: Callable[[], Any], what: str = "") -> Any:
    """Wait until it holds; a generous deadline."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + WAIT_S
    while not (found := condition()):
        assert loop.time() < deadline, what or "it never held"
        await asyncio.sleep(0.01)
    return found


def suspend(monkeypatch: pytest.MonkeyPatch, span: int) -> None:
    """The machine has slept for so many microseconds: only the time since its boot has passed."""
    read = time.clock_gettime_ns

    def after(which: int) -> int:
        return read(which) + (span * 1_000 if which == time.CLOCK_BOOTTIME else 0)

    monkeypatch.setattr(time, "clock_gettime_ns", after)
