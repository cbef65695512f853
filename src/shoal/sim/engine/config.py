"""What an invented peer is like: how strong it is, and what its steps cost.

The truth of a component's cost is the table here; what an engine reports is what was measured, and
what it tells of costs is fitted from that, as everywhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from shoal.kernel.errors import LocalError
from shoal.kernel.time import MILLISECOND, SECOND
from shoal.query.cost import PRIOR, StepCost

__all__ = ["Costs", "EngineConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """The true cost of steps: of one component by its instance, else of all of its kind."""

    by_kind: Mapping[str, StepCost] = field(default_factory=dict)
    by_instance: Mapping[str, StepCost] = field(default_factory=dict)

    def of(self, kind: str, instance: str) -> StepCost:
        """What a component's steps cost in seconds of work."""
        found = self.by_instance.get(instance) or self.by_kind.get(kind)
        return PRIOR if found is None else found


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """Tunables of an invented engine; those without a word on it are Spark's engine's."""

    #: Seconds of work in a second; above 0 (0 later, by `set_capacity`: a peer that hangs).
    capacity: float = 1.0
    #: Steps that run at the same time, sharing the capacity, each at most at speed 1; 1 to 64.
    lanes: int = 2
    #: A step takes up to this share more or less than its cost; 0 to 0.9. Prototypes on a quiet
    #: machine varied by about a tenth (a guess from DESIGN.md section 8's figures).
    jitter: float = 0.1
    #: One step in so many takes a multiple of its cost, drawn from a heavy tail; 0 to 1.
    hiccup_chance: float = 0.0
    #: Of the fixed cost, what each further member of a step group adds: 40 predicates took
    #: 7.7 s as 40 steps and 1.15 s as one job (DESIGN.md section 8); 0 to 1.
    member_share: float = 0.13
    #: Tuples of one step at most, unless one commit alone has more; 1 and up.
    rows_per_step: int = 1_000_000
    #: Pushed batches of one step at most; 1 and up.
    batches_per_step: int = 256
    #: Members of one step group at most; 1 and up.
    group_most: int = 128
    #: Microseconds before a source that had nothing is asked again; doubles up to the longest.
    poll_first: int = 20 * MILLISECOND
    poll_most: int = SECOND // 4
    #: Microseconds between looks at the commits of other peers; what is announced comes at once.
    tail_every: int = 20 * MILLISECOND
    #: Of so many steps one is used to fit the cost, which takes longer than all else; 1 and up.
    fit_every: int = 1
    #: Reports kept for whoever asks; older ones are dropped.
    reports_most: int = 20_000
    #: True: streams are counts of tuples, and selections a share of them.
    volumes: bool = False
    #: With `volumes`: the share of tuples that a query's row lets through, by query.
    selectivity: Mapping[str, float] = field(default_factory=dict)
    selectivity_otherwise: float = 0.01

    def check(self) -> None:
        """Raise LocalError unless every value is within its bounds."""
        wrong = [
            name
            for name, fine in (
                ("capacity", self.capacity > 0),
                ("lanes", 1 <= self.lanes <= 64),
                ("jitter", 0 <= self.jitter <= 0.9),
                ("hiccup_chance", 0 <= self.hiccup_chance <= 1),
                ("member_share", 0 <= self.member_share <= 1),
                ("rows_per_step", self.rows_per_step >= 1),
                ("batches_per_step", self.batches_per_step >= 1),
                ("group_most", self.group_most >= 1),
                ("poll_first", 0 < self.poll_first <= self.poll_most),
                ("tail_every", self.tail_every > 0),
                ("fit_every", self.fit_every >= 1),
                ("reports_most", self.reports_most >= 1),
                ("selectivity", all(0 <= share <= 1 for share in self.selectivity.values())),
                ("selectivity_otherwise", 0 <= self.selectivity_otherwise <= 1),
            )
            if not fine
        ]
        if wrong:
            raise LocalError(f"engine setting {wrong[0]} is out of range", detail=repr(self))
