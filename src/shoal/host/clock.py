"""The one clock of a host: instants that never go back.

It reads the wall clock once, at the start, and goes on from there by the monotonic clock. Nobody
who sets the machine's time moves a peer's time; a process that was stopped sees a leap forward.
"""

import time

from shoal.kernel.time import SECOND, Instant

__all__ = ["Clock", "wall_seconds"]


class Clock:
    """Instants of this process."""

    __slots__ = ("_ahead",)

    def __init__(self) -> None:
        self._ahead = time.time_ns() - time.monotonic_ns()

    def now(self) -> Instant:
        """The present instant."""
        return (time.monotonic_ns() + self._ahead) // 1_000

    def seconds_until(self, at: Instant) -> float:
        """How long it is until then; nothing if it is past."""
        return max(0, at - self.now()) / SECOND


def wall_seconds() -> int:
    """Whole seconds since 1970 by the machine's clock, which people may set."""
    return int(time.time())
