"""Timers by name on one heap; setting one anew replaces it."""

import heapq

from shoal.kernel.time import Instant

__all__ = ["Timers"]

#: Entries on the heap that were replaced or cancelled, beside as many that count, before it is
#: built anew.
_STALE_MIN = 1_000


class Timers:
    """When each timer is to fire."""

    def __init__(self) -> None:
        self._at: dict[str, Instant] = {}
        self._heap: list[tuple[Instant, str]] = []

    def set(self, timer: str, at: Instant) -> None:
        """Fire then, and not when it was set for before."""
        self._at[timer] = at
        heapq.heappush(self._heap, (at, timer))
        if len(self._heap) > 2 * len(self._at) + _STALE_MIN:
            self._heap = [(at, timer) for timer, at in self._at.items()]
            heapq.heapify(self._heap)

    def cancel(self, timer: str) -> None:
        """Forget it, if there is one."""
        self._at.pop(timer, None)

    def next(self) -> Instant | None:
        """When the earliest fires."""
        while self._heap and self._at.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def due(self, now: Instant) -> str | None:
        """Take the earliest out if its instant has come."""
        at = self.next()
        if at is None or at > now:
            return None
        timer = heapq.heappop(self._heap)[1]
        del self._at[timer]
        return timer

    def __len__(self) -> int:
        return len(self._at)
