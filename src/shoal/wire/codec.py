"""Payloads to messages and back, by a table of tags that others fill in.

A message is a `msgspec.Struct` with `array_like=True`: an array of its fields in their order.
`tests/golden/wire` pins the bytes of every message. A minor version may bring two things:

    a new field      at the end and with a default: an older reader leaves it out, a newer one
                     fills it in
    a new message    under a new tag: an older reader passes it over (`knows`)

Nothing else is minor. Another kind of record in a union that exists, another type or meaning of a
field would make a known message unreadable as a whole, with all that stands beside it; it takes a
message with a tag of its own, or another major version. So whoever sends a known tag that cannot
be read is at fault, whatever version it says it has.

Promise    W1  whatever the bytes, `decode` gives a message of the table or raises RemoteError.
           What it builds takes at most 32 times the bytes of the frame, as long as no message has a
           field of any type or holds itself (`tests/golden/test_wire.py` refuses such a table).
Not here   which messages there are (each machine's `messages.py`; `peer/messages.py` joins them).
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from shoal.kernel.errors import LocalError, RemoteError
from shoal.wire.frames import Frame, frame

__all__ = ["Codec"]


class Codec:
    """Encodes and decodes the messages of one table, tag to class."""

    def __init__(self, table: Mapping[int, type[Struct]]) -> None:
        self._tags = {message: tag for tag, message in table.items()}
        if len(self._tags) != len(table):
            raise LocalError("one message class has two tags")
        self._decoders = {tag: msgspec.msgpack.Decoder(table[tag]) for tag in table}
        self._encoder = msgspec.msgpack.Encoder()

    def knows(self, tag: int) -> bool:
        """Whether there is a message with this tag; one of a newer release may have another."""
        return tag in self._decoders

    def encode(self, message: Struct, cause: int) -> bytes:
        """The frame of a message."""
        tag = self._tags.get(type(message))
        if tag is None:
            raise LocalError(
                f"message {type(message).__name__} has no tag",
                hint="add it to MESSAGES of its machine",
            )
        return frame(tag, cause, self._encoder.encode(message))

    def decode(self, one: Frame) -> Struct:
        """The message of a frame."""
        decoder = self._decoders.get(one.tag)
        if decoder is None:
            raise RemoteError(
                f"message with tag {one.tag:#06x} is not known here",
                hint="the sender is newer than this peer, or not of this protocol",
            )
        try:
            message: Struct = decoder.decode(one.payload)
        except (msgspec.DecodeError, ValueError, RecursionError, OverflowError) as error:
            raise RemoteError(
                f"message with tag {one.tag:#06x} cannot be read", detail=str(error)
            ) from error
        return message
