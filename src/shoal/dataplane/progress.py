"""The numbers of a peer: what each component's steps cost, how fast its input comes, its cycle.

Measured here, fitted in query/cost.py. The unit is busy seconds of this peer: a turn's wall time,
shared with the turns that ran beside it (overlap.py), divided among the members of its group. One
second of wall time has one of them, because steps that run side by side share the same cores.

What counts    every step that was committed: of an ingest, of a select, of a deliver component,
               whose steps take workers and cores from the others like anybody's. And the care for
               a component's tables (checkpoints, compaction): it falls due after so many steps, so
               it is a part of what each step costs whatever is in it, and stands in the fixed term
               of the cycle beside the fitted one. It is no sample of the fit, which would take it
               for a step of many seconds now and then.
What does not  looks at a source that has nothing, which a busy peer does not take; steps that
               failed, and the search for the rows they failed by.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from shoal.dataplane.reports import StepDone
from shoal.kernel.time import SECOND, Instant
from shoal.query.cost import PRIOR, CostFit, Cycle, Demand, StepCost, StepSample, cycle_of

__all__ = ["CAPACITY", "Progress"]

#: Busy seconds in a second.
CAPACITY = 1.0
#: Seconds over which rates are averaged: a few cycles, so that one burst is not a trend.
RATE_OVER = 30.0
#: Steps over which care is averaged: it comes after 20 to 60 of them (spark/choose.py).
CARE_OVER = 200


@dataclass(slots=True)
class _Measured:
    """One component: its fitted cost, and its rates in tuples a second."""

    fit: CostFit = field(default_factory=CostFit)
    #: What was fitted when this many steps had been seen: fitting takes a millisecond.
    cost: StepCost = PRIOR
    cost_of: int = 0
    in_rate: float = 0.0
    out_rate: float = 0.0
    roster: int = 0
    last: Instant = 0
    #: Seconds since the first step; until they are `RATE_OVER`, rates are plain averages.
    timed: float = 0.0
    #: Busy seconds of care for each step, and those since the last one.
    care: float = 0.0
    cared: float = 0.0

    def fitted(self) -> StepCost:
        """The cost after the last step."""
        if self.cost_of != self.fit.samples:
            self.cost, self.cost_of = self.fit.cost(), self.fit.samples
        return self.cost


class Progress:
    """What the steps of an engine's components have shown so far."""

    def __init__(self) -> None:
        self._measured: dict[str, _Measured] = {}

    def observe(self, done: StepDone, now: Instant) -> None:
        """Learn from a committed step."""
        measured = self._measured.setdefault(done.instance, _Measured())
        measured.fit.observe(
            StepSample(
                seconds=done.busy,
                tuples_in=done.rows_in,
                tuples_out=done.rows_out,
                history=done.rows_history,
                roster=done.roster_rows,
            )
        )
        measured.roster = done.roster_rows
        measured.care += (measured.cared - measured.care) / min(measured.fit.samples, CARE_OVER)
        measured.cared = 0.0
        if measured.last:
            passed = max((now - measured.last) / SECOND, 1e-6)
            measured.timed += passed
            share = min(1.0, passed / min(RATE_OVER, measured.timed))
            measured.in_rate += share * (done.rows_in / passed - measured.in_rate)
            measured.out_rate += share * (done.rows_out / passed - measured.out_rate)
        measured.last = now

    def cared(self, instance: str, busy: float) -> None:
        """Its tables were cared for; its next steps count for it."""
        measured = self._measured.get(instance)
        if measured is not None:
            measured.cared += busy

    def forget(self, instance: str) -> None:
        """The component does not run here any more."""
        self._measured.pop(instance, None)

    def cost(self, instance: str) -> Mapping[str, float]:
        """The five fitted terms of a component and its care, in seconds; empty before a step."""
        measured = self._measured.get(instance)
        if measured is None:
            return {}
        cost = measured.fitted()
        return {
            "step": cost.step,
            "tuple_in": cost.tuple_in,
            "tuple_out": cost.tuple_out,
            "history": cost.history,
            "roster": cost.roster,
            "care": measured.care,
            "error": measured.fit.error,
        }

    def rates(self, instance: str, now: Instant) -> Mapping[str, float]:
        """Tuples a second, in and out; they fall off while nothing comes.

        Empty before the second step: one step alone says nothing of time.
        """
        measured = self._measured.get(instance)
        if measured is None or not measured.timed:
            return {}
        silence = max((now - measured.last) / SECOND, RATE_OVER)
        share = RATE_OVER / silence
        return {"in": measured.in_rate * share, "out": measured.out_rate * share}

    def cycle(self) -> Cycle:
        """How long until every component has had its step again, at the present rates."""
        return cycle_of([_demand(one) for one in self._measured.values()], capacity=CAPACITY)


def _demand(measured: _Measured) -> Demand:
    demand = Demand.of(
        measured.fitted(),
        in_per_second=measured.in_rate,
        out_per_second=measured.out_rate,
        history=0,
        roster=measured.roster,
    )
    return replace(demand, fixed=demand.fixed + measured.care)
