"""What an engine reports. Reports are data; they say what happened, never what to do about it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from shoal.kernel.time import Instant

__all__ = [
    "ComponentView",
    "EngineView",
    "Failed",
    "FencedOff",
    "Report",
    "Served",
    "StepDone",
    "Suspended",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDone:
    """One step of one component, committed.

    `busy` is the wall time of the whole job, shared with the jobs that ran beside it, divided
    among the group's components by rows out; `seconds` splits it: plan, job, write, commit.
    `rows_history` is what back-fill read. A deliver component has no number of its own for a step:
    `step` is the one that it has brought to its sinks.
    """

    instance: str
    kind: str
    epoch: int
    step: int
    positions: Mapping[str, int] = field(hash=False)
    rows_in: int
    rows_out: int
    rows_history: int
    roster_rows: int
    roster_version: int
    watermark: Instant | None
    #: Wall time of the step's commit, and of the newest source commit that it consumed.
    committed: Instant
    source_committed: Instant
    busy: float
    seconds: Mapping[str, float] = field(hash=False)
    counters: Mapping[str, int] = field(hash=False)
    group: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A step did not happen; it is tried again at `retry_at`."""

    instance: str
    attempts: int
    reason: str
    retry_at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspended:
    """A row makes the step fail, so it is no longer served, from `step` of its input on."""

    instance: str
    query: str
    version: int
    step: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FencedOff:
    """Another owner has taken the component over; it has stopped here."""

    instance: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The first step that covers a roster version: `steps` steps began after the answer."""

    instance: str
    roster_version: int
    steps: int


Report = StepDone | Failed | Suspended | FencedOff | Served


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentView:
    """A read-only picture of one component."""

    instance: str
    kind: str
    state: str
    epoch: int
    step: int
    positions: Mapping[str, int] = field(hash=False)
    #: Commits of the input not yet consumed.
    lag: int
    watermark: Instant | None
    roster_rows: int
    roster_version: int
    failures: int
    reason: str
    #: An ingest: everything that its source had at this instant is committed.
    looked: Instant
    #: Steps up to this one may have lost rows to retention; 0 where everything is kept.
    retained: int
    #: Panes and roll-ups: windows that begin earlier are not shown; None where all are.
    whole: Instant | None = None
    #: Tuples a second, "in" and "out", over the last steps; empty before the second step.
    rates: Mapping[str, float] = field(hash=False)
    #: Fitted cost of a step (query/cost.py): fixed, per tuple in, out, of history, per row; and
    #: the care for its tables, for each step.
    cost: Mapping[str, float] = field(hash=False)
    counters: Mapping[str, int] = field(hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineView:
    """A read-only picture of an engine: its components and the joint cycle they need."""

    components: tuple[ComponentView, ...]
    cycle_seconds: float
    threads: int
    steps: int
