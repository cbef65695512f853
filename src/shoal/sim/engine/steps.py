"""Steps of an invented engine: what they are, what they cost, and what is told of them.

    seconds of work = a + b n_in + c n_out + h n_history + r n_roster

of the component's true cost (config.py). A step group reads and plans once; each further member
adds its results, its history, its rows and a share of its fixed cost. The selects of a stream that
is not stored read it again, and pay for that.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from shoal.dataplane.reports import StepDone
from shoal.dataplane.rows import RosterRow
from shoal.kernel.time import Instant
from shoal.sim.engine.config import Costs, EngineConfig
from shoal.sim.engine.memory import Commit
from shoal.sim.engine.parts.ingest import IngestComponent, IngestWork
from shoal.sim.engine.parts.matter import Outcome
from shoal.sim.engine.parts.select import Range, SelectComponent, SelectWork

__all__ = [
    "IngestStep",
    "Part",
    "SelectStep",
    "Step",
    "Trial",
    "parts_of",
    "positions_of",
    "price_ingest",
    "price_select",
    "told",
]

Part = IngestComponent | SelectComponent


@dataclass(frozen=True, slots=True)
class IngestStep:
    """A batch of a source on its way to a commit."""

    component: IngestComponent
    work: IngestWork


@dataclass(frozen=True, slots=True)
class SelectStep:
    """A range of a stream on its way to one commit for each member of a step group."""

    read: Range
    works: tuple[SelectWork, ...]
    #: One for each of `works`; none if the step fails.
    outcomes: tuple[Outcome, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Trial:
    """A step that finds the rows which fail by themselves."""

    work: SelectWork
    guilty: tuple[tuple[RosterRow, str], ...]


Step = IngestStep | SelectStep | Trial


def price_ingest(step: IngestStep, costs: Costs) -> float:
    """Seconds of work of an ingest's step."""
    return costs.of("ingest", step.component.instance).seconds(
        tuples_in=step.work.batch.rows,
        tuples_out=step.work.judged.ok_rows,
        history=0,
        roster=0,
    )


def price_select(step: SelectStep, costs: Costs, config: EngineConfig) -> float:
    """Seconds of work: one job reads and plans once, and each member adds a little."""
    known = [costs.of("select", work.component.instance) for work in step.works]
    live = 0 if step.works[0].fill is not None else step.read.rows
    history = step.read.rows - live
    read = [cost.seconds(tuples_in=live, tuples_out=0, history=0, roster=0) for cost in known]
    most = max(range(len(read)), key=read.__getitem__)
    total = read[most]
    for at, (work, cost) in enumerate(zip(step.works, known, strict=True)):
        out = step.outcomes[at].rows if step.outcomes else 0
        own = cost.seconds(tuples_in=0, tuples_out=out, history=history, roster=len(work.rows))
        total += own - cost.step + (0 if at == most else config.member_share * cost.step)
    stream = step.works[0].component.spec
    if not stream.stream.store:
        total += costs.of("ingest", stream.input).tuple_in * step.read.rows
    return total


def parts_of(step: Step) -> list[Part]:
    """The components that a step works for."""
    match step:
        case IngestStep():
            return [step.component]
        case SelectStep():
            return [work.component for work in step.works]
        case Trial():
            return [step.work.component]


def told(
    part: Part,
    commit: Commit,
    *,
    rows_in: int,
    rows_out: int,
    busy: float,
    counters: Mapping[str, int],
    rows_history: int = 0,
    roster_rows: int = 0,
    roster_version: int = 0,
    source_committed: Instant = 0,
    group: int = 1,
) -> StepDone:
    """What is reported of a step."""
    return StepDone(
        instance=part.instance,
        kind=part.kind,
        epoch=commit.epoch,
        step=commit.step,
        positions=positions_of(commit.transactions),
        rows_in=rows_in,
        rows_out=rows_out,
        rows_history=rows_history,
        roster_rows=roster_rows,
        roster_version=roster_version,
        watermark=commit.transactions.get("wm"),
        committed=commit.wall,
        source_committed=source_committed,
        busy=busy,
        seconds={"job": busy},
        counters=counters,
        group=group,
    )


def positions_of(transactions: Mapping[str, int]) -> dict[str, int]:
    """Where a commit stands in its inputs."""
    return {key[3:]: value for key, value in transactions.items() if key[:3] == "in/"}
