"""What waits to be sent to one peer: bounded, the oldest dropped first, and counted.

The oldest and not the newest, because what a machine says now makes what it said before stale,
and because every message may be lost anyway.

Promises   H4  never more frames or bytes for one peer, nor bytes for all, than may wait.
"""

from collections import deque

from msgspec import Struct

from shoal.kernel.errors import LocalError

__all__ = ["Outbox", "Total"]


class Total(Struct):
    """Bytes and drops of all outboxes of a host together."""

    bytes_max: int
    bytes: int = 0
    dropped: int = 0


class Outbox:
    """Frames in the order they were given."""

    __slots__ = ("_bytes_max", "_frames", "_frames_max", "_total", "bytes", "dropped")

    def __init__(self, *, frames_max: int, bytes_max: int, total: Total) -> None:
        self._frames: deque[bytes] = deque()
        self._frames_max = frames_max
        self._bytes_max = bytes_max
        self._total = total
        self.bytes = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._frames)

    def put(self, frame: bytes) -> None:
        """Add a frame at the end; drop from the front what no longer fits."""
        self._frames.append(frame)
        self.bytes += len(frame)
        self._total.bytes += len(frame)
        while self._frames and (
            len(self._frames) > self._frames_max
            or self.bytes > self._bytes_max
            or self._total.bytes > self._total.bytes_max
        ):
            self._pop()
            self.dropped += 1
            self._total.dropped += 1

    def take(self, bytes_max: int) -> bytes:
        """The oldest frames together, about this many bytes and at least one frame."""
        taken = []
        size = 0
        while self._frames and size < bytes_max:
            taken.append(self._pop())
            size += len(taken[-1])
        return b"".join(taken)

    def drop(self) -> int:
        """Forget everything; return how many frames that were."""
        count = len(self._frames)
        self._total.bytes -= self.bytes
        self._frames.clear()
        self.bytes = 0
        self.dropped += count
        self._total.dropped += count
        return count

    def validate(self) -> None:
        """H4: what waits is counted rightly and within its bounds."""
        total, size = self._total, sum(map(len, self._frames))
        within = len(self._frames) <= self._frames_max and size <= self._bytes_max
        if not within or total.bytes > total.bytes_max or not size == self.bytes <= total.bytes:
            raise LocalError(
                f"H4: {len(self._frames)} frames of {size} bytes wait", detail=repr(total)
            )

    def _pop(self) -> bytes:
        frame = self._frames.popleft()
        self.bytes -= len(frame)
        self._total.bytes -= len(frame)
        return frame
