"""Batches: changes of values as bytes, one batch behind the other, that may be cut off anywhere.

    magic 4 | number u64 | length u32 | crc32 u32 | [[key, value or nil], ...]

Big-endian. A batch counts as a whole or not at all; numbers run on without a gap. What stands
behind the last whole batch is a torn end: a write that the power cut off. A whole batch behind
something that is none is not: then what was acknowledged is damaged.

Not here   files and when they are synced (host/disk); the invented disk (sim/).
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import DecodeError, Struct, msgpack

__all__ = ["Change", "Replay", "batch", "replay"]

#: A key and its value; None removes it.
Change = tuple[str, bytes | None]

_MAGIC: Final = b"SHL1"
_HEAD = struct.Struct(">4sQII")
_CHANGES = msgpack.Decoder(list[tuple[str, bytes | None]])
_ENCODER = msgpack.Encoder()


class Replay(Struct, frozen=True):
    """What some bytes hold."""

    #: The changes of all whole batches, in order; the number of the last; where it ends.
    changes: list[Change]
    number: int
    end: int
    #: What is wrong, if something is that no loss of power explains.
    damage: str = ""


def batch(number: int, changes: Sequence[Change]) -> bytes:
    """The bytes of one batch."""
    payload = _ENCODER.encode(changes)
    crc = zlib.crc32(payload, zlib.crc32(struct.pack(">QI", number, len(payload))))
    return _HEAD.pack(_MAGIC, number, len(payload), crc) + payload


def replay(data: bytes, number: int | None) -> Replay:
    """The whole batches from the start on; the first one is behind `number`, or any if None."""
    changes: list[Change] = []
    position, last = 0, number
    while (found := _batch_at(data, position)) is not None:
        if last is not None and found.number != last + 1:
            return Replay(changes, last, position, f"batch {last + 1} is missing")
        last = found.number
        changes += found.changes
        position = found.end
    last = last or 0
    for later in _positions(data, _MAGIC, position + 1):
        behind = _batch_at(data, later)
        if behind is not None and behind.number > last:
            what = f"batch {last + 1} is damaged, later ones are whole"
            return Replay(changes, last, position, what)
    return Replay(changes, last, position)


class _Found(Struct, frozen=True):
    """A whole batch, and where it ends."""

    number: int
    changes: list[Change]
    end: int


def _batch_at(data: bytes, position: int) -> _Found | None:
    """The whole and sound batch that begins there, if one does."""
    start = position + _HEAD.size
    if len(data) < start:
        return None
    magic, number, length, crc = _HEAD.unpack_from(data, position)
    payload = data[start : start + length]
    if magic != _MAGIC or len(payload) < length:
        return None
    if zlib.crc32(payload, zlib.crc32(struct.pack(">QI", number, length))) != crc:
        return None
    try:
        return _Found(number, _CHANGES.decode(payload), start + length)
    except DecodeError:
        return None


def _positions(data: bytes, mark: bytes, start: int) -> Iterator[int]:
    position = data.find(mark, start)
    while position >= 0:
        yield position
        position = data.find(mark, position + 1)
