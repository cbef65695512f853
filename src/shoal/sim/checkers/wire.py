"""What peers say to each other survives the wire: bytes and back give the same message.

In the simulator messages are handed over as they are. This checker sends the first of every kind,
and some of the others, through the real codec and frames: whatever has no tag, does not fit a frame
or comes back as something else is found here and not on the first real host.

Not checked   bytes of other versions or of strangers: tests/golden/wire and tests/fuzz.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from shoal.kernel.effects import Effect, Send
from shoal.kernel.errors import ShoalError
from shoal.peer.messages import MESSAGES
from shoal.sim.checkers.checker import Checker, Violation
from shoal.sim.node import Node
from shoal.wire.codec import Codec
from shoal.wire.frames import FrameReader

__all__ = ["WireChecker"]


class WireChecker(Checker):
    """Encodes and decodes one message in `every`."""

    name = "wire"

    def __init__(self, *, every: int = 32, messages: Mapping[int, type[Struct]] = MESSAGES) -> None:
        self._codec = Codec(messages)
        self._every = every
        self._count = 0
        self._seen: dict[type[Struct], None] = {}

    def after_event(self, node: Node, event: Struct, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if type(effect) is Send:
                self._count += 1
                if not self._count % self._every or type(effect.message) not in self._seen:
                    self._check(node, effect.message)

    def _check(self, node: Node, message: Any) -> None:
        self._seen[type(message)] = None
        try:
            (one,) = FrameReader().feed(self._codec.encode(message, cause=self._count))
            back = self._codec.decode(one)
        except ShoalError as error:
            what = f"{type(message).__name__} of {node.name}: {error.what} ({error.detail})"
            raise Violation("wire", what) from error
        if back != message or type(back) is not type(message) or one.cause != self._count:
            raise Violation("wire", f"{message!r} of {node.name} comes back as {back!r}")

    def figures(self) -> dict[str, float]:
        return {"message_kinds": float(len(self._seen))}
