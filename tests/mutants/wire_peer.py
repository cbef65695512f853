"""Broken variants of the wire and of the peer; what watches them must catch them.

any_length        believes any length                                  breaks W1
ForgetfulReader   loses what was not whole yet                         breaks W1
LooseCodec        lets errors of the library through                   breaks W1
SilentPeer        ends without telling who still waits                 breaks P1
TrustingPeer      passes on whatever machines answer                   breaks P1
"""

import msgspec
from msgspec import Struct

from shoal.kernel.effects import Answer, Effect
from shoal.kernel.errors import RemoteError
from shoal.kernel.events import Stopping
from shoal.kernel.time import Instant
from shoal.peer.machine import Machine
from shoal.peer.peer import Peer, State
from shoal.wire.codec import Codec
from shoal.wire.frames import HEADER_BYTES, MAJOR, Frame, FrameReader

__all__ = ["ForgetfulReader", "LooseCodec", "SilentPeer", "TrustingPeer", "any_length"]


def any_length(length: int, major: int, minor: int) -> RemoteError | None:
    """W1: looks at the version only; in place of `_wrong` of the frames."""
    return RemoteError("another protocol") if major != MAJOR or length < HEADER_BYTES - 4 else None


class ForgetfulReader(FrameReader):
    """W1: what one call did not use up is gone at the next."""

    def feed(self, data: bytes) -> list[Frame]:
        self._buffer.clear()
        return super().feed(data)


class LooseCodec(Codec):
    """W1: knows of one error of the library, not of the others."""

    def decode(self, one: Frame) -> Struct:
        decoder = self._decoders.get(one.tag)
        if decoder is None:
            raise RemoteError("message is not known here")
        try:
            message: Struct = decoder.decode(one.payload)
        except msgspec.DecodeError as error:
            raise RemoteError("message cannot be read") from error
        return message


class SilentPeer(Peer):
    """P1: says good-bye to peers, and nothing to whoever waits for an answer."""

    def _stopping(self, event: Stopping, now: Instant) -> list[Effect]:
        effects = self._for_all(event, now)
        self._enter(State.ENDED)
        return effects


class TrustingPeer(Peer):
    """P1: does not look whether the question still waits."""

    def _settle(self, machine: Machine, answer: Answer) -> None:
        self._unanswered.pop(answer.request, None)
