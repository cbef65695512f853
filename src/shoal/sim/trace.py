"""What happened, as text for people and as a digest for comparing runs.

    at            peer      event because     what
    12.000350     p3         #209 p7#88       Step from p7 > Stepped to p7; ring/round in 1.8 s
                                              . ring: successor p9 -> p4
    12.400000     -                           partition: p1, p4

One line for each event that a peer handled: the instant of the world, the peer and the number of
its event, the event of the other peer that made it send what arrived, then the event and, behind
`>`, what the peer asked for. Lines with a dot are the peer's own notes. Lines without a peer, or
without a number, are what happened to the world.

The digest is SHA-256 over all events and effects in their order, not over the text. Equal digests
mean equal runs.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from shoal.kernel.effects import Answer, CancelTimer, Effect, Persist, Send, SetTimer
from shoal.kernel.events import Asked, Received, Started, TimerFired, Unreachable
from shoal.kernel.time import SECOND
from shoal.sim.loop import Loop, Watcher
from shoal.sim.node import Node

__all__ = ["Digest", "Several", "TextTrace"]

_BLOCK = 1 << 16
#: How much of one message is shown.
_SHOWN = 90


class Digest:
    """A watcher that only compares."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._block = bytearray()
        self._encode = msgspec.msgpack.Encoder(enc_hook=str).encode

    def event(self, world: Loop, node: Node, event: Any, effects: Sequence[Any]) -> None:
        kinds = [type(event).__name__]
        if type(event) is Received:
            kinds.append(type(event.message).__name__)
        for effect in effects:
            kinds.append(type(effect).__name__)
            if type(effect) is Send:
                kinds.append(type(effect.message).__name__)
        self._add(self._encode((world.now, node.index, kinds, event, effects)))

    def said(self, world: Loop, node: Node | None, what: str) -> None:
        self._add(self._encode((world.now, -1 if node is None else node.index, what)))

    def hexdigest(self) -> str:
        """The digest so far."""
        self._hash.update(self._block)
        self._block.clear()
        return self._hash.hexdigest()

    def _add(self, data: bytes) -> None:
        self._block += data
        if len(self._block) > _BLOCK:
            self._hash.update(self._block)
            self._block.clear()


class Several:
    """More than one watcher."""

    def __init__(self, watchers: Sequence[Watcher]) -> None:
        self._watchers = watchers

    def event(self, world: Loop, node: Node, event: Struct, effects: Sequence[Effect]) -> None:
        for watcher in self._watchers:
            watcher.event(world, node, event, effects)

    def said(self, world: Loop, node: Node | None, what: str) -> None:
        for watcher in self._watchers:
            watcher.said(world, node, what)


class TextTrace:
    """A watcher that writes lines."""

    HEAD = f"{'at':13} {'peer':8} {'event':>6} {'because':11} what"

    def __init__(self, write: Callable[[str], None], *, only: Sequence[str] = ()) -> None:
        self._write = write
        self._only = tuple(only)
        #: Notes of each peer that have been written: its story's count.
        self._told: dict[str, int] = {}
        write(self.HEAD)

    def event(self, world: Loop, node: Node, event: Any, effects: Sequence[Any]) -> None:
        if self._only and node.name not in self._only:
            return
        peer = node.peer
        assert peer is not None
        because = ""
        if type(event) is Received:
            because = f"{event.sender.name}#{event.cause}"
        now = node.local(world.now)
        done = "; ".join(_effect(effect, now) for effect in effects)
        what = f"{_event(event)} > {done}" if done else _event(event)
        self._line(world, node.name, f"#{peer.event}", because, what)
        life = f"{node.name}/{node.starts}"
        fresh = peer.story.told - self._told.get(life, 0)
        self._told[life] = peer.story.told
        for line in list(peer.story)[-fresh:] if fresh else ():
            self._write(f"{'':42}. {line.thing}: {line.what}")

    def said(self, world: Loop, node: Node | None, what: str) -> None:
        if not self._only or node is None or node.name in self._only:
            self._line(world, "-" if node is None else node.name, "", "", what)

    def _line(self, world: Loop, peer: str, number: str, because: str, what: str) -> None:
        seconds, micros = divmod(world.now, SECOND)
        self._write(f"{seconds:6}.{micros:06d} {peer:8} {number:>6} {because:11} {what}")


def _event(event: Any) -> str:
    match event:
        case Received():
            return f"{_short(event.message)} from {event.sender.name}"
        case TimerFired():
            return f"timer {event.timer}"
        case Started():
            return f"Started with {len(event.stored)} stored values"
        case Unreachable():
            return f"Unreachable {event.peer.name or event.peer.address}"
        case Asked():
            return f"asked {_short(event.question)}"
    return type(event).__name__


def _effect(effect: Any, now: int) -> str:
    match effect:
        case Send():
            return f"{type(effect.message).__name__} to {effect.to.name or effect.to.address}"
        case SetTimer():
            return f"{effect.timer} in {(effect.at - now) / SECOND:.3f} s"
        case CancelTimer():
            return f"no {effect.timer}"
        case Persist():
            return f"persist {effect.key}"
        case Answer():
            return f"answer {_short(effect.result)}"
    return type(effect).__name__


def _short(thing: Any) -> str:
    """A message in few words: names for contacts, the first digits of keys."""
    if not isinstance(thing, Struct):
        return str(thing).partition("\n")[0][:_SHOWN]
    fields = [f"{name}={_value(getattr(thing, name))}" for name in thing.__struct_fields__]
    text = f"{type(thing).__name__}({' '.join(fields)})"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 4] + "...)"


def _value(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()[:8]
    if isinstance(value, tuple | list):
        return f"[{' '.join(_value(item) for item in value)}]"
    name = getattr(value, "name", None)
    if isinstance(name, str):
        return name
    return type(value).__name__ if isinstance(value, Struct) else str(value)
