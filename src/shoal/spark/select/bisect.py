"""Bisection: which rows of a roster make a step fail, found by halving. Pure but for its callback.

First nobody: if the step fails for an empty roster, the rows are not to blame and the component
goes on waiting. Then halves, and halves of the halves that fail. With g guilty rows of n it takes
about 2 g log2 n trials; a round stops at `GUILTY_MOST`, and the next failure starts another.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shoal.dataplane.rows import RosterRow
from shoal.spark.outcome import first_words

__all__ = ["GUILTY_MOST", "Guilty", "bisect"]

#: Rows suspended in one round at most: beyond it, it is the data or the machine that is ill.
GUILTY_MOST = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Guilty:
    """The rows that fail by themselves, and why. None: the rows are not to blame."""

    instance: str
    rows: tuple[RosterRow, ...]
    reasons: tuple[str, ...]
    trials: int


def bisect(
    instance: str,
    rows: Sequence[RosterRow],
    survives: Callable[[Sequence[RosterRow]], Exception | None],
) -> Guilty:
    """The rows whose step fails without the others."""
    trials = 1
    found: list[tuple[RosterRow, str]] = []
    if survives(()) is None:
        suspects = [tuple(rows)]
        while suspects and len(found) < GUILTY_MOST:
            some = suspects.pop()
            trials += 1
            error = survives(some)
            if error is None:
                continue
            if len(some) == 1:
                found.append((some[0], first_words(error)))
                continue
            middle = len(some) // 2
            suspects += [some[middle:], some[:middle]]
    return Guilty(
        instance=instance,
        rows=tuple(row for row, _ in found),
        reasons=tuple(reason for _, reason in found),
        trials=trials,
    )
