"""Whose turn it is: fair between components by weight, patient with those that fail.

What engines share: time is an argument, and nothing here runs anything. Each component has a
*pass*, its busy time divided by its weight; the ready component with the lowest pass is next, and
the others that read the same range go with it in one step group. A component that was idle comes
back at the lowest pass of those at work, so that it cannot claim the time it did not use.

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
        #: Those that were ready or at work when somebody was last chosen, and their lowest pass.
        self._active: dict[str, None] = {}
        self._at_work: dict[str, None] = {}
        self._floor = 0.0

    def add(self, instance: str, *, weight: float) -> None:
        self._turns[instance] = Turn(weight=max(weight, 1e-6), passed=0.0)

    def weigh(self, instance: str, weight: float) -> None:
        """From now on its time counts so much less; what it has had stays as it was counted."""
        self._turns[instance].weight = max(weight, 1e-6)

    def remove(self, instance: str) -> None:
        self._turns.pop(instance, None)
        for known in (self._active, self._at_work):
            known.pop(instance, None)

    def turn(self, instance: str) -> Turn:
        return self._turns[instance]

    def next(self, ready: Iterable[str], now: Instant) -> str | None:
        """The component whose turn it is among those that are ready and not waiting."""
        able = [name for name in ready if self._turns[name].retry_at <= now]
        self._welcome(able)
        found = min(able, key=lambda name: (self._turns[name].passed, name), default=None)
        if found is not None:
            self._at_work[found] = None
        return found

    def _welcome(self, able: list[str]) -> None:
        """Who comes back from having nothing to do starts no lower than those at work."""
        active = dict.fromkeys([*able, *self._at_work])
        stayed = [self._turns[name].passed for name in active if name in self._active]
        self._floor = max(self._floor, min(stayed, default=0.0))
        for name in active:
            if name not in self._active:
                self._turns[name].passed = max(self._turns[name].passed, self._floor)
        self._active = active or self._active

    def waiting_until(self, now: Instant) -> Instant | None:
        """When the next component that backs off may run again."""
        later = [turn.retry_at for turn in self._turns.values() if turn.retry_at > now]
        return min(later, default=None)

    def ran(self, instance: str, *, busy: float) -> None:
        """A step was committed; `busy` seconds of it are this component's."""
        turn = self._turns[instance]
        turn.passed += busy / turn.weight
        self._at_work.pop(instance, None)
        turn.failures = 0
        turn.retry_at = 0
        turn.alone = False

    def idle(self, instance: str) -> None:
        """Its turn is over, whatever came of it; unused time is not saved up."""
        self._at_work.pop(instance, None)

    def failed(self, instance: str, now: Instant) -> Turn:
        """A step failed: alone from now on, and not before the back-off is over."""
        turn = self._turns[instance]
        self._at_work.pop(instance, None)
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
