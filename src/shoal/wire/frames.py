"""Frames: where one message ends and the next begins in a stream of bytes.

    length u32 | major u8 | minor u8 | tag u16 | cause u64 | payload

Big-endian; `length` counts what follows it. `tag` says which message the payload is, `cause` is
the number of the sender's event that made it send (`kernel/story.py`). Another major version is
refused with a reason; a newer minor version is read as ours, because fields are only ever added.

Promises   whatever the bytes, the outcome is a frame, the wish for more bytes, or RemoteError; the
           buffer never holds more than one frame of the greatest length beside what was fed last.
Not here   what a payload means (`wire/codec.py`).
"""

import struct

from msgspec import Struct

from shoal.kernel.errors import LocalError, RemoteError

__all__ = ["FRAME_BYTES_MAX", "HEADER_BYTES", "MAJOR", "MINOR", "Frame", "FrameReader", "frame"]

MAJOR = 1
MINOR = 0
#: The longest frame. A hand-over of records is cut into pieces below it; a guess with room.
FRAME_BYTES_MAX = 1 << 20

_HEADER = struct.Struct(">IBBHQ")
HEADER_BYTES = _HEADER.size
_LENGTH_BYTES = 4
_CAUSE_MAX = (1 << 64) - 1


class Frame(Struct, frozen=True, gc=False):
    """One message, still as bytes."""

    tag: int
    cause: int
    payload: bytes
    minor: int = MINOR


def frame(tag: int, cause: int, payload: bytes) -> bytes:
    """The bytes of one frame."""
    length = HEADER_BYTES - _LENGTH_BYTES + len(payload)
    if length + _LENGTH_BYTES > FRAME_BYTES_MAX:
        raise LocalError(
            f"message with tag {tag:#06x} is too long for a frame",
            detail=f"{length} bytes of at most {FRAME_BYTES_MAX}",
            hint="whoever made the message has to cut it into pieces",
        )
    return _HEADER.pack(length, MAJOR, MINOR, tag, cause & _CAUSE_MAX) + payload


class FrameReader:
    """Cuts a stream of bytes into frames; one for each connection."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    @property
    def waiting(self) -> int:
        """Bytes of a frame that is not whole yet."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that these bytes complete; RemoteError ends the connection."""
        buffer = self._buffer
        buffer += data
        found: list[Frame] = []
        start = 0
        while len(buffer) - start >= HEADER_BYTES:
            length, major, minor, tag, cause = _HEADER.unpack_from(buffer, start)
            _check(length, major, minor)
            end = start + _LENGTH_BYTES + length
            if len(buffer) < end:
                break
            payload = bytes(buffer[start + HEADER_BYTES : end])
            found.append(Frame(tag=tag, cause=cause, payload=payload, minor=minor))
            start = end
        del buffer[:start]
        return found


def _check(length: int, major: int, minor: int) -> None:
    if major != MAJOR:
        raise RemoteError(
            f"frame of protocol version {major}.{minor} cannot be read",
            detail=f"this peer speaks {MAJOR}.{MINOR}; another major number is another protocol",
            hint="run one release of Shoal on all peers of a mesh",
        )
    if not HEADER_BYTES - _LENGTH_BYTES <= length <= FRAME_BYTES_MAX - _LENGTH_BYTES:
        raise RemoteError(
            f"frame says that it has {length} bytes",
            detail=f"between {HEADER_BYTES - _LENGTH_BYTES} and {FRAME_BYTES_MAX} are allowed",
        )
