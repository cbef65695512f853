"""Lanes: steps that run at the same time and share what a peer can do.

Each step has so much work to do. k steps on a peer of capacity C go each at the speed C / k, but
none faster than 1: a step alone does not use more than one second of work in a second. So a
neighbour that comes makes everybody slower, and a queue forms where all lanes are taken.
"""

import math
from dataclasses import dataclass
from typing import Generic, TypeVar

from shoal.kernel.time import SECOND, Instant

__all__ = ["Lanes", "Running"]

Work = TypeVar("Work")


@dataclass(slots=True)
class Running(Generic[Work]):
    """A step at work: what it is, since when, and how many seconds of work are left."""

    work: Work
    began: Instant
    left: float


class Lanes(Generic[Work]):
    """The steps in flight on one peer."""

    def __init__(self, *, count: int, capacity: float, now: Instant) -> None:
        self._count = count
        self._capacity = capacity
        self._now = now
        self.running: list[Running[Work]] = []

    @property
    def free(self) -> bool:
        """Whether one more may begin."""
        return len(self.running) < self._count

    @property
    def speed(self) -> float:
        """Of each of those at work."""
        return min(1.0, self._capacity / max(len(self.running), 1))

    def begin(self, work: Work, *, seconds: float, now: Instant) -> None:
        """One more step, with so many seconds of work."""
        self.pass_time(now)
        self.running.append(Running(work=work, began=now, left=seconds))

    def set_capacity(self, capacity: float, now: Instant) -> None:
        """The peer becomes stronger or weaker; 0: it hangs."""
        self.pass_time(now)
        self._capacity = capacity

    def next_end(self) -> Instant | None:
        """When the next step will be over, if nothing changes."""
        if not self.running or self.speed <= 0:
            return None
        least = min(step.left for step in self.running)
        return self._now + max(0, math.ceil(least / self.speed * SECOND - 1e-6))

    def ended(self, now: Instant) -> list[Running[Work]]:
        """The steps that are over by now, in the order in which they began."""
        end = self.next_end()
        if end is None or end > now:
            self.pass_time(now)
            return []
        self.pass_time(now)
        over = [step for step in self.running if step.left <= 1e-9]
        self.running = [step for step in self.running if step.left > 1e-9]
        return over

    def pass_time(self, now: Instant) -> None:
        """Everybody works on until now."""
        done = (now - self._now) / SECOND * self.speed
        for step in self.running:
            step.left -= done
        self._now = max(self._now, now)
