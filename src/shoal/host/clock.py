"""The one clock of a host: instants that never go back.

It reads the wall clock once, at the start, and goes on from there by the clock that the kernel
counts up from its boot. Nobody who sets the machine's time moves a peer's time. What passes
while the machine is suspended counts: a peer that was away for hours has to find that it was, or
it would tell others what they have removed and forgotten meanwhile. Python's `time.monotonic` and
asyncio's timers stand still in such a night on Linux, so whoever waits for an instant of this
clock looks at it again every `LOOK_S`.

Not here   how long a connection may be silent or slow: that is asyncio's time, since nobody is at
           fault for what was not done while this machine slept.
"""

import time

from shoal.kernel.time import SECOND, Instant

__all__ = ["LOOK_S", "Clock", "wall_seconds"]

#: How late a timer may be after the machine was suspended. A look costs some microseconds.
LOOK_S = 1.0

#: Where there is no CLOCK_BOOTTIME (macOS), CLOCK_MONOTONIC goes on in a machine that sleeps.
_TICKING = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock:
    """Instants of this process."""

    __slots__ = ("_ahead",)

    def __init__(self) -> None:
        self._ahead = time.time_ns() - time.clock_gettime_ns(_TICKING)

    def now(self) -> Instant:
        """The present instant."""
        return (time.clock_gettime_ns(_TICKING) + self._ahead) // 1_000

    def wait_s(self, at: Instant) -> float:
        """How long to sleep before looking again whether it is that late; nothing if it is."""
        return min(max(0, at - self.now()) / SECOND, LOOK_S)


def wall_seconds() -> int:
    """Whole seconds since 1970 by the machine's clock, which people may set."""
    return int(time.time())
