"""Hostile bytes for the wire: mutated frames and messages of the real table, by the million.

Each input starts from valid frames of every message (tests/samples.py) and is broken with some
knowledge of what it is: bits, lengths, headers of msgpack, pieces swapped, doubled, cut, other
messages' tags. A part is plain noise. What comes out must be messages, the wish for more bytes, or
RemoteError; whatever decodes must encode again to what decodes to the same; and the reader must
hold less than a frame.
"""

import random
import struct
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from shoal.kernel.errors import RemoteError
from shoal.peer.messages import MESSAGES
from shoal.wire.codec import Codec
from shoal.wire.frames import FRAME_BYTES_MAX, HEADER_BYTES, Frame, FrameReader, frame
from tests.samples import samples

__all__ = ["WireFuzzer"]

#: First bytes of msgpack values that promise something: numbers, strings, arrays, maps, extensions.
_PROMISES = bytes.fromhex("c0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedf")
_EDGES = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 1 << 31, (1 << 32) - 1, (1 << 63), (1 << 64) - 1)


class WireFuzzer:
    """Makes inputs from a seed and checks what comes out of them."""

    def __init__(
        self,
        seed: int,
        *,
        codec: type[Codec] = Codec,
        reader: type[FrameReader] = FrameReader,
    ) -> None:
        self._random = random.Random(seed)
        self._codec = codec(MESSAGES)
        self._reader = reader
        self._valid = [
            (tag, self._codec.encode(sample, 1)[HEADER_BYTES:])
            for tag, kind in MESSAGES.items()
            for _, sample in samples(kind)
        ]
        self._breakers: Sequence[Callable[[bytearray], None]] = (
            self._flip,
            self._promise,
            self._length,
            self._cut,
            self._double,
            self._splice,
            self._noise,
        )
        self.counts: Counter[str] = Counter()

    def input(self) -> bytes:
        """Some bytes as a hostile peer would send them: one to three frames, mostly broken."""
        draw = self._random.random()
        if draw < 0.0005:  # more than a frame may have, behind a header that asks for it
            return struct.pack(">IBBHQ", 1 << 30, 1, 0, 0x0101, 1) + bytes(FRAME_BYTES_MAX)
        if draw < 0.05:
            return self._random.randbytes(self._random.randrange(64))
        data = bytearray()
        for _ in range(self._random.choice((1, 1, 1, 2, 3))):
            tag, payload = self._random.choice(self._valid)
            broken = bytearray(payload)
            for _ in range(self._random.choice((0, 1, 1, 2, 4))):
                self._random.choice(self._breakers)(broken)
            if self._random.random() < 0.1:
                tag = self._random.choice(self._valid)[0]
            data += frame(tag, self._random.getrandbits(64), bytes(broken))
        if self._random.random() < 0.15:  # the frame itself, behind the lengths of its payload
            self._random.choice(self._breakers)(data)
        return bytes(data)

    def validate(self, data: bytes) -> list[Struct]:
        """The messages in some bytes; AssertionError or any other error breaks W1."""
        messages = []
        for one in self._frames(data):
            try:
                message = self._codec.decode(one)
            except RemoteError:
                self.counts["messages refused"] += 1
                continue
            self.counts["messages read"] += 1
            messages.append(message)
            self._check_again(message)
        return messages

    def _frames(self, data: bytes) -> list[Frame]:
        """The frames in some bytes: the same at once and in two pieces."""
        half = self._random.randrange(len(data) + 1)
        found, broken = self._fed(data)
        assert (found, broken) == self._fed(data[:half], data[half:]), (
            "cutting changes what is read"
        )
        self.counts["streams broken"] += broken
        return found

    def _fed(self, *pieces: bytes) -> tuple[list[Frame], bool]:
        reader = self._reader()
        found: list[Frame] = []
        for piece in pieces:
            try:
                found += reader.feed(piece)
            except RemoteError:
                break
            assert reader.waiting < FRAME_BYTES_MAX, "the buffer has no bound"
        return found, reader.broken is not None

    def _check_again(self, message: Struct) -> None:
        """What was read can be written, and reads as the same."""
        data = self._codec.encode(message, 0)
        (again,) = FrameReader().feed(data)
        twin = msgspec.msgpack.encode(self._codec.decode(again))
        assert twin == data[HEADER_BYTES:], f"{message} changes on its way"

    # --- how to break bytes ---------------------------------------------------------------------

    def _place(self, data: bytearray) -> int:
        return self._random.randrange(len(data) + 1)

    def _flip(self, data: bytearray) -> None:
        if data:
            data[self._random.randrange(len(data))] ^= 1 << self._random.randrange(8)

    def _promise(self, data: bytearray) -> None:
        """Another kind of value, here or in between."""
        place, value = self._place(data), self._random.choice(_PROMISES)
        data[place : place + self._random.randrange(2)] = bytes([value])

    def _length(self, data: bytearray) -> None:
        """A length or number at an edge."""
        edge = self._random.choice(_EDGES)
        width = self._random.choice((1, 2, 4, 8))
        place = self._place(data)
        data[place : place + width] = (edge % (1 << 8 * width)).to_bytes(width, "big")

    def _cut(self, data: bytearray) -> None:
        low, high = sorted((self._place(data), self._place(data)))
        del data[low : min(high, low + 9)]

    def _double(self, data: bytearray) -> None:
        """A piece many times: nested, repeated, long."""
        low, high = sorted((self._place(data), self._place(data)))
        piece = bytes(data[low : min(high, low + 9)])
        place = self._place(data)
        data[place:place] = piece * self._random.choice((1, 2, 20, 300))

    def _splice(self, data: bytearray) -> None:
        """The end of another message."""
        _, other = self._random.choice(self._valid)
        data[self._place(data) :] = other[self._random.randrange(len(other) + 1) :]

    def _noise(self, data: bytearray) -> None:
        place = self._place(data)
        data[place : place + 3] = self._random.randbytes(self._random.randrange(8))
