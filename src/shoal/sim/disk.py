"""A simulated disk: what one peer has persisted, and what a crash makes of the writes under way.

A write takes time. Until it is done it is *pending*, and a crash decides its fate:

    lost    nothing that was pending is there afterwards
    torn    a beginning of its bytes is there, the rest is not, or is zeros where the file had got
            its length already. A start reads these bytes as a host's store does, with the same
            code (`wire/batches.py`): whole batches count, the torn end is cut off
    kept    all of it is there, though nobody was told

Each write is a batch of its own here; a host makes one of neighbouring ones. So what can be torn
there from each other never is, and more can here.

A restart may also find the disk of an earlier moment (`old`), of which a copy is kept now and
then, or an empty one.

Not here   who waits for the write (`loop.py`); the real store (host/).
"""

from collections import deque

from shoal.kernel.rng import Rng
from shoal.kernel.time import MILLISECOND
from shoal.wire.batches import Change, batch, replay

__all__ = ["WRITE_TIME", "Disk"]

#: How long a durable write takes on average. A guess: one sync of a small file on a solid disk.
WRITE_TIME = 2 * MILLISECOND


class Disk:
    """The durable values of one peer."""

    __slots__ = ("_old", "_pending", "_rng", "incarnation", "mended", "values", "written")

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self.values: dict[str, bytes] = {}
        #: The incarnation of the last start. A host takes the greater of what it has stored and of
        #: its wall clock, so it grows whatever the disk says.
        self.incarnation = 0
        self.written = 0
        #: Bytes of a torn end that the last crash left and the next start cuts off.
        self.mended = 0
        self._pending: deque[Change] = deque()
        self._old: dict[str, bytes] = {}

    @property
    def pending(self) -> int:
        """Writes that are under way."""
        return len(self._pending)

    def begin(self, key: str, value: bytes | None) -> int:
        """A write begins; returns how long it takes."""
        self._pending.append((key, value))
        return 1 + int(self._rng.exponential(WRITE_TIME))

    def finish(self) -> None:
        """The oldest write under way is durable."""
        self._apply(*self._pending.popleft())

    def crash(self, fate: str) -> int:
        """Decide what becomes of the writes under way; returns how many did not survive."""
        under_way = len(self._pending)
        self.mended = 0
        if fate == "torn" and under_way:
            data = self._torn()
            found = replay(data, self.written)
            self.mended = len(data) - found.end
            for change in found.changes:
                self._apply(*change)
            self._pending.clear()
            return under_way - len(found.changes)
        while self._pending and fate == "kept":
            self.finish()
        self._pending.clear()
        return 0 if fate == "kept" else under_way

    def _torn(self) -> bytes:
        """What the power leaves of the bytes under way: not all of them."""
        data = b"".join(
            batch(number, [change]) for number, change in enumerate(self._pending, self.written + 1)
        )
        cut = self._rng.below(len(data))
        return data[:cut] + (bytes(len(data) - cut) if self._rng.chance(0.5) else b"")

    def remember(self) -> None:
        """Keep a copy that a restart with an old disk will find."""
        self._old = dict(self.values)

    def restore(self) -> bool:
        """Go back to the copy; whether that changed anything."""
        changed = self._old != self.values
        self.values = dict(self._old)
        return changed

    def wipe(self) -> None:
        """Another disk, with nothing on it."""
        self.values = {}
        self._old = {}

    def _apply(self, key: str, value: bytes | None) -> None:
        self.written += 1
        if value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = value
