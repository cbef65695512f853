"""What waits for the peer: one bounded queue of events, and who is held back while it is full.

    connections, timers, questions ──▶ Inbox ──▶ Peer.handle, one after the other

Only connections are held back: `full` tells them to stop reading, and `on_room` is called when
they may go on. Whatever the host itself puts in is bounded by what it is for.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from shoal.kernel.events import Event, Received

__all__ = ["Inbox"]


class Inbox:
    """Events in order of arrival, with the bytes that each holds."""

    def __init__(self, *, events_max: int, bytes_max: int) -> None:
        self._events: deque[tuple[Event, int]] = deque()
        self._events_max = events_max
        self._bytes_max = bytes_max
        self._bytes = 0
        self._was_full = False
        #: Set while something waits, or when the loop has to look at something else.
        self.ready = asyncio.Event()
        self.on_room: Callable[[], None] = lambda: None

    def put(self, event: Event, size: int = 0) -> None:
        """Add an event behind the others."""
        self._events.append((event, size))
        self._bytes += size
        self.ready.set()

    def take(self) -> Event | None:
        """The oldest event."""
        if not self._events:
            return None
        event, size = self._events.popleft()
        self._bytes -= size
        self._tell_of_room()
        return event

    def drop_messages(self) -> int:
        """Forget what other peers have sent; returns how many messages that were."""
        kept = [one for one in self._events if not isinstance(one[0], Received)]
        dropped = len(self._events) - len(kept)
        self._events = deque(kept)
        self._bytes = sum(size for _, size in kept)
        self._tell_of_room()
        return dropped

    @property
    def full(self) -> bool:
        """Whether connections should not be read; `on_room` follows a yes."""
        full = len(self._events) >= self._events_max or self._bytes >= self._bytes_max
        self._was_full = self._was_full or full
        return full

    @property
    def waiting(self) -> int:
        """How many events wait."""
        return len(self._events)

    def _tell_of_room(self) -> None:
        half = len(self._events) * 2 <= self._events_max and self._bytes * 2 <= self._bytes_max
        if self._was_full and half:
            self._was_full = False
            self.on_room()
