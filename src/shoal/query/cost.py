"""What a step costs, learned from steps; how long a peer's cycle is; what a change would bring.

    seconds of a step  =  a + b n_in + c n_out + h n_history + r n_roster

Source     DESIGN.md section 8; the cycle is the form that Synergy (section 3) takes from queueing.
Promises   fitted coefficients are never negative and never above their bounds; steps that are
           all alike do not change what is known of the differences between steps; one wild
           measurement moves the fit no further than a few usual errors.
Not here   measuring (`spark/`), and decisions (`control/`).

The fit is recursive least squares with directional forgetting: a new step makes the fit forget
only in the direction of that step's own counts, so collinear or constant counts neither blow it
up nor let it drift. Where nothing was seen yet, the prior stands.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shoal.kernel.errors import LocalError

__all__ = ["PRIOR", "CostFit", "Cycle", "Demand", "StepCost", "StepSample", "cycle_of"]

#: Share of what is known along a step's direction that is kept: a memory of some 100 steps.
KEEP = 0.99
#: Usual errors beyond which a measurement is cut; a guess, tested with one outlier in ten.
CUT = 3.0
#: Steps before cutting begins: the usual error is not known earlier.
CUT_AFTER = 8
#: Weight of one step in the usual error.
ERROR_SHARE = 0.05
#: Least usual error, seconds: a clock and a scheduler are no better.
ERROR_MIN_S = 0.0005
#: Rounds of coordinate descent; five coefficients settle in far fewer.
ROUNDS = 60

#: Counts are measured in these units, so that all five coefficients are of one size.
_UNITS = (1.0, 1e5, 1e4, 1e6, 1e4)
#: Weight of the prior, in steps; small, so that a few steps outweigh it.
_PRIOR_WEIGHT = 0.01
#: Bounds: an hour per step, a second per tuple or row.
_HIGHEST = (3600.0, 1.0, 1.0, 1.0, 1.0)
_SIZE = len(_UNITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSample:
    """One step as it was measured: seconds of the peer's capacity, and what it worked on."""

    seconds: float
    tuples_in: int
    tuples_out: int
    history: int
    roster: int

    def validate(self) -> None:
        """Raise LocalError unless this can have been measured."""
        counts = (self.tuples_in, self.tuples_out, self.history, self.roster)
        if not math.isfinite(self.seconds) or self.seconds < 0 or min(counts) < 0:
            raise LocalError("step sample out of range", detail=repr(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    """The five coefficients, in seconds: per step, and per one of each count."""

    step: float
    tuple_in: float
    tuple_out: float
    history: float
    roster: float

    def seconds(
        self, *, tuples_in: float, tuples_out: float, history: float, roster: float
    ) -> float:
        """The projected cost of one step.

        >>> cost = StepCost(step=0.1, tuple_in=1e-6, tuple_out=0.0, history=0.0, roster=0.0)
        >>> cost.seconds(tuples_in=100_000, tuples_out=0, history=0, roster=0)
        0.2
        """
        return (
            self.step
            + self.tuple_in * tuples_in
            + self.tuple_out * tuples_out
            + self.history * history
            + self.roster * roster
        )

    def validate(self) -> None:
        """Raise LocalError unless every coefficient is within its bounds."""
        values = (self.step, self.tuple_in, self.tuple_out, self.history, self.roster)
        for value, highest in zip(values, _HIGHEST, strict=True):
            if not 0 <= value <= highest:
                raise LocalError("step cost out of range", detail=repr(self))


#: Before any step was seen: prototypes on two cores, DESIGN.md section 8.
PRIOR = StepCost(step=0.1, tuple_in=3e-7, tuple_out=1e-6, history=1e-7, roster=1e-6)


class CostFit:
    """The fitted cost of one component.

    Kept are, in scaled units, what is known (`_known`, a symmetric matrix that is large along
    directions that were seen) and the best coefficients without bounds (`_best`).
    """

    def __init__(self, prior: StepCost = PRIOR) -> None:
        prior.validate()
        values = (prior.step, prior.tuple_in, prior.tuple_out, prior.history, prior.roster)
        self._best = [value * unit for value, unit in zip(values, _UNITS, strict=True)]
        self._known = [
            [_PRIOR_WEIGHT if row == column else 0.0 for column in range(_SIZE)]
            for row in range(_SIZE)
        ]
        self._error = 0.0
        #: Steps seen so far.
        self.samples = 0

    @property
    def error(self) -> float:
        """The usual difference between a step and its projection, in seconds."""
        return max(self._error, ERROR_MIN_S)

    def observe(self, sample: StepSample) -> None:
        """Learn from one step."""
        sample.validate()
        counts = (1, sample.tuples_in, sample.tuples_out, sample.history, sample.roster)
        seen = [count / unit for count, unit in zip(counts, _UNITS, strict=True)]
        surprise = self._cut(sample.seconds - _dot(seen, self._best))
        self._forget(seen)
        for row in range(_SIZE):
            for column in range(_SIZE):
                self._known[row][column] += seen[row] * seen[column]
        change = _solve(self._known, [value * surprise for value in seen])
        self._best = [value + delta for value, delta in zip(self._best, change, strict=True)]
        self.samples += 1

    def cost(self) -> StepCost:
        """The coefficients within their bounds that fit best."""
        highest = [bound * unit for bound, unit in zip(_HIGHEST, _UNITS, strict=True)]
        scaled = _nearest_within(self._known, self._best, highest)
        step, tuple_in, tuple_out, history, roster = (
            min(value / unit, bound)
            for value, unit, bound in zip(scaled, _UNITS, _HIGHEST, strict=True)
        )
        return StepCost(
            step=step, tuple_in=tuple_in, tuple_out=tuple_out, history=history, roster=roster
        )

    def validate(self) -> None:
        """Raise LocalError unless the state is finite, symmetric and positive."""
        self.cost().validate()
        flat = [value for row in self._known for value in row] + self._best + [self._error]
        if not all(map(math.isfinite, flat)) or self._error < 0:
            raise LocalError("cost fit is not finite", detail=repr(self._best))
        for row in range(_SIZE):
            if self._known[row][row] <= 0:
                raise LocalError("cost fit has lost what it knew", detail=repr(self._known))

    def _cut(self, surprise: float) -> float:
        """The surprise, limited to a few usual errors; and the usual error with it.

        A lasting change is learned none the less: the usual error grows with each cut.
        """
        size = abs(surprise)
        if self.samples < CUT_AFTER:
            self._error += (size - self._error) / (self.samples + 1)
            return surprise
        limit = CUT * self.error
        kept = min(size, limit)
        self._error += ERROR_SHARE * (kept - self._error)
        return math.copysign(kept, surprise)

    def _forget(self, seen: Sequence[float]) -> None:
        """Forget a share of what is known along this direction, and nothing across it."""
        along = [_dot(row, seen) for row in self._known]
        total = _dot(along, seen)
        if total <= 1.0:
            # Less than one step is known here: there is nothing to forget yet.
            return
        for row in range(_SIZE):
            for column in range(_SIZE):
                lost = along[row] * along[column] / total
                self._known[row][column] -= (1 - KEEP) * lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What one component asks of its peer: seconds per step, and seconds per second of input."""

    fixed: float
    load: float

    @classmethod
    def of(
        cls,
        cost: StepCost,
        *,
        in_per_second: float,
        out_per_second: float,
        history: float,
        roster: float,
    ) -> "Demand":
        """From fitted coefficients and rates; history and roster are per step."""
        return cls(
            fixed=cost.seconds(tuples_in=0, tuples_out=0, history=history, roster=roster),
            load=cost.tuple_in * in_per_second + cost.tuple_out * out_per_second,
        )

    def without_row(self, cost: StepCost, *, out_per_second: float) -> "Demand":
        """What is left if one row is removed: its output and its place in the roster go.

        This is little; what only that row needs is for the caller to add.
        """
        return Demand(
            fixed=max(self.fixed - cost.roster, 0.0),
            load=max(self.load - cost.tuple_out * out_per_second, 0.0),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """The joint cycle of a peer: how long until every component has had its step again."""

    seconds: float

    @property
    def wait_mean(self) -> float:
        """Seconds that a tuple waits for its step, on average."""
        return self.seconds / 2

    @property
    def wait_worst(self) -> float:
        """Seconds that a tuple waits for its step, at worst."""
        return self.seconds

    @property
    def keeps_up(self) -> bool:
        """Whether the peer can do the work at all."""
        return math.isfinite(self.seconds)


def cycle_of(demands: Iterable[Demand], *, capacity: float) -> Cycle:
    """T = sum of fixed / (capacity - sum of loads); infinite if the capacity does not suffice.

    `capacity` is in seconds of work per second, in the unit in which steps were measured.

    >>> cycle_of([Demand(fixed=0.1, load=0.25), Demand(fixed=0.2, load=0.25)], capacity=1.0)
    Cycle(seconds=0.6000000000000001)
    """
    listed = list(demands)
    spare = capacity - math.fsum(demand.load for demand in listed)
    fixed = math.fsum(demand.fixed for demand in listed)
    if not listed:
        return Cycle(seconds=0.0)
    return Cycle(seconds=fixed / spare if spare > 0 else math.inf)


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(left, right, strict=True))


def _solve(matrix: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    """The solution of a symmetric positive system, by Cholesky's factors."""
    lower = [[0.0] * _SIZE for _ in range(_SIZE)]
    for row in range(_SIZE):
        for column in range(row + 1):
            rest = matrix[row][column] - _dot(lower[row][:column], lower[column][:column])
            if row == column:
                lower[row][row] = math.sqrt(max(rest, 1e-12))
            else:
                lower[row][column] = rest / lower[column][column]
    half: list[float] = []
    for row in range(_SIZE):
        half.append((right[row] - _dot(lower[row][:row], half)) / lower[row][row])
    solution = [0.0] * _SIZE
    for row in reversed(range(_SIZE)):
        done = math.fsum(lower[at][row] * solution[at] for at in range(row + 1, _SIZE))
        solution[row] = (half[row] - done) / lower[row][row]
    return solution


def _nearest_within(
    known: Sequence[Sequence[float]], best: Sequence[float], highest: Sequence[float]
) -> list[float]:
    """Of the points within bounds, the one that costs least in the measure of what is known."""
    point = [min(max(value, 0.0), top) for value, top in zip(best, highest, strict=True)]
    for _ in range(ROUNDS):
        for at in range(_SIZE):
            off = math.fsum(
                known[at][other] * (point[other] - best[other])
                for other in range(_SIZE)
                if other != at
            )
            point[at] = min(max(best[at] - off / known[at][at], 0.0), highest[at])
    return point
