"""Frames: where one message ends and the next begins in a stream of bytes.

    length u32 | major u8 | minor u8 | tag u16 | cause u64 | payload

Big-endian; `length` counts what follows it. `tag` says which message the payload is, `cause` is
the number of the sender's event that made it send (`kernel/story.py`). Another major version is
refused with a reason; a newer minor version is read as ours (`codec.py` says what it may bring).

Promise    W1  whatever the bytes, and however they were cut, the outcome is the same frames, then
           the wish for more bytes, or RemoteError; the buffer never holds more than one frame of
           the greatest length beside what was fed last.
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

    __slots__ = ("_broken", "_buffer")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._broken: RemoteError | None = None

    @property
    def waiting(self) -> int:
        """Bytes of a frame that is not whole yet."""
        return len(self._buffer)

    @property
    def broken(self) -> RemoteError | None:
        """What ended the stream: nothing behind it can be read. The connection is closed."""
        return self._broken

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that these bytes complete.

        Where the stream breaks, the frames before are still given, and `broken` says why; to feed
        a broken stream raises that RemoteError.
        """
        if self._broken is not None:
            raise self._broken
        buffer = self._buffer
        buffer += data
        found: list[Frame] = []
        start = 0
        while len(buffer) - start >= HEADER_BYTES:
            length, major, minor, tag, cause = _HEADER.unpack_from(buffer, start)
            if (broken := _wrong(length, major, minor)) is not None:
                self._broken = broken
                start = len(buffer)
                break
            end = start + _LENGTH_BYTES + length
            if len(buffer) < end:
                break
            payload = bytes(buffer[start + HEADER_BYTES : end])
            found.append(Frame(tag=tag, cause=cause, payload=payload, minor=minor))
            start = end
        del buffer[:start]
        if self._broken is not None and not found:
            raise self._broken
        return found


def _wrong(length: int, major: int, minor: int) -> RemoteError | None:
    """Why no frame can begin like this."""
    if major != MAJOR:
        return RemoteError(
            f"frame of protocol version {major}.{minor} cannot be read",
            detail=f"this peer speaks {MAJOR}.{MINOR}; another major number is another protocol",
            hint="run one release of Shoal on all peers of a mesh",
        )
    if not HEADER_BYTES - _LENGTH_BYTES <= length <= FRAME_BYTES_MAX - _LENGTH_BYTES:
        return RemoteError(
            f"frame says that it has {length} bytes",
            detail=f"between {HEADER_BYTES - _LENGTH_BYTES} and {FRAME_BYTES_MAX} are allowed",
        )
    return None
