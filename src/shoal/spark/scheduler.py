"""Whose turn it is: fair between components by weight, patient with those that fail.

Pure: time is an argument, and nothing here knows Spark. Each component has a *pass*, its busy
time divided by its weight; the ready component with the lowest pass is next, and the others that
read the same range go with it in one step group. A component that was idle comes back at the
lowest pass of those at work, so that it cannot claim the time it did not use.

A step that fails is tried again after a back-off that doubles. The first failure of a group
makes its members go alone; the third of a component alone asks for a bisection of its roster.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from shoal.kernel.time import MILLISECOND, SECOND, Instant

__all__ = ["ATTEMPTS_BEFORE_BISECTION", "BACKOFF_FIRST", "BACKOFF_MOST", "Scheduler", "Turn"]

#: First wait after a failure; doubles with each one more.
BACKOFF_FIRST = 100 * MILLISECOND
#: Longest wait: a healed disk is noticed within this.
BACKOFF_MOST = 30 * SECOND
#: Failures of a component alone before its rows are suspected. One may be chance, two a hiccup.
ATTEMPTS_BEFORE_BISECTION = 3


@dataclass(slots=True, kw_only=True)
class Turn:
    """What the scheduler remembers of one component."""

    weight: float
    passed: float
    failures: int = 0
    retry_at: Instant = 0
    alone: bool = False


class Scheduler:
    """Picks the next component, and remembers who had how much."""

    def __init__(self) -> None:
        self._turns: dict[str, Turn] = {}

    def add(self, instance: str, *, weight: float) -> None:
        floor = min((turn.passed for turn in self._turns.values()), default=0.0)
        self._turns[instance] = Turn(weight=max(weight, 1e-6), passed=floor)

    def remove(self, instance: str) -> None:
        self._turns.pop(instance, None)

    def turn(self, instance: str) -> Turn:
        return self._turns[instance]

    def next(self, ready: Iterable[str], now: Instant) -> str | None:
        """The component whose turn it is among those that are ready and not waiting."""
        able = [name for name in ready if self._turns[name].retry_at <= now]
        return min(able, key=lambda name: (self._turns[name].passed, name), default=None)

    def waiting_until(self, now: Instant) -> Instant | None:
        """When the next component that backs off may run again."""
        later = [turn.retry_at for turn in self._turns.values() if turn.retry_at > now]
        return min(later, default=None)

    def ran(self, instance: str, *, busy: float) -> None:
        """A step was committed; `busy` seconds of it are this component's."""
        turn = self._turns[instance]
        floor = min(other.passed for other in self._turns.values())
        turn.passed = max(turn.passed, floor) + busy / turn.weight
        turn.failures = 0
        turn.retry_at = 0
        turn.alone = False

    def idle(self, instance: str) -> None:
        """There was nothing to do; unused time is not saved up."""
        turn = self._turns[instance]
        turn.passed = max(turn.passed, min(other.passed for other in self._turns.values()))

    def failed(self, instance: str, now: Instant) -> Turn:
        """A step failed: alone from now on, and not before the back-off is over."""
        turn = self._turns[instance]
        turn.failures = turn.failures + 1 if turn.alone else 1
        wait = min(BACKOFF_MOST, BACKOFF_FIRST << min(turn.failures - 1, 20))
        turn.retry_at = now + wait
        turn.alone = True
        return turn

    def suspects_rows(self, instance: str) -> bool:
        turn = self._turns[instance]
        return turn.alone and turn.failures >= ATTEMPTS_BEFORE_BISECTION

    def validate(self) -> None:
        """Weights are positive and passes finite; raises AssertionError otherwise."""
        for name, turn in self._turns.items():
            assert turn.weight > 0, name
            assert 0 <= turn.passed < float("inf"), name
