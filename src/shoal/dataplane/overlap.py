"""How much of its own time a turn had to itself, where turns run side by side.

    a  ├──────────┼─────┤            2 s alone and 1 s beside b:  2.5 of its 3 seconds
    b             ├─────┼──────────┤ 1 s beside a and 2 s alone:  2.5 of its 3 seconds

Turns that run at the same time are taken to share the peer equally: two planners wait for each
other, and two jobs wait for the same cores. So whatever runs, all turns together are given one
second for each second in which anything ran. Which of them really used a core is not seen here.

Time is an argument, and a clock that is set back stands still.
"""

from shoal.kernel.errors import LocalError
from shoal.kernel.time import Instant

__all__ = ["Overlap"]


class Overlap:
    """The turns that run now. `_shared` grows by dt / n while n of them run."""

    def __init__(self) -> None:
        self._running: dict[int, tuple[Instant, float]] = {}
        self._shared = 0.0
        self._now: Instant = 0
        self._begun = 0

    def begin(self, now: Instant) -> int:
        """One more turn; the number by which it ends."""
        self._pass_time(now)
        self._begun += 1
        self._running[self._begun] = (self._now, self._shared)
        return self._begun

    def end(self, number: int, now: Instant) -> float:
        """A turn is over: the share of its time that was its own, above 0 and at most 1."""
        self._pass_time(now)
        if number not in self._running:
            raise LocalError(f"turn {number} does not run", detail=repr(list(self._running)))
        beside = len(self._running)
        began, shared = self._running.pop(number)
        if self._now <= began:
            # No time has passed on this clock; whoever is here shares whatever there was.
            return 1.0 / beside
        return min(1.0, (self._shared - shared) / (self._now - began))

    def _pass_time(self, now: Instant) -> None:
        if self._running and now > self._now:
            self._shared += (now - self._now) / len(self._running)
        self._now = max(self._now, now)
