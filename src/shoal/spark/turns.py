"""Turns: the pieces of work that run on a worker thread. Each ends in a `Finished`, never raises.

A turn holds what the engine's thread fixed for it, and touches no component: what came of it goes
back as data.
"""

import functools
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from shoal.dataplane.rows import RosterRow
from shoal.kernel.errors import Fenced, ShoalError
from shoal.kernel.time import Instant
from shoal.log.reader import Reader
from shoal.log.writer import Writer
from shoal.query.catalog import Column, StreamDef
from shoal.spark import frames, together
from shoal.spark.bench import Bench
from shoal.spark.deliver import step as deliver_step
from shoal.spark.deliver.step import Delivered, DeliverWork
from shoal.spark.deliver.upkeep import Kept, UpkeepWork, keep_up
from shoal.spark.feed import Range
from shoal.spark.ingest import step as ingest_step
from shoal.spark.ingest.source import Source
from shoal.spark.outcome import Laps, StepFailed, StepOutcome, first_words
from shoal.spark.select import step as select_step
from shoal.spark.select.bisect import Guilty, bisect
from shoal.spark.select.step import SelectWork
from shoal.spark.windows import step as windows_step
from shoal.spark.windows.step import CoarserWork, PanesWork, RollUpWork

__all__ = [
    "BisectTurn",
    "Care",
    "CoarserTurn",
    "DeliverTurn",
    "Finished",
    "HousekeepTurn",
    "IngestTurn",
    "Input",
    "PanesTurn",
    "RollUpTurn",
    "SelectTurn",
    "TogetherTurn",
    "Turn",
    "UnreadTurn",
]

Outcome = StepOutcome | StepFailed | Guilty | Delivered | Kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A turn and what came of it. `cared`: wall time of a turn that cared for something."""

    turn: "Turn"
    outcomes: tuple[Outcome, ...]
    cared: float = 0.0

    def shared(self, share: float) -> "Finished":
        """The same with so much of its time: the rest was that of turns beside it."""
        outcomes = tuple(_shared(outcome, share) for outcome in self.outcomes)
        return replace(self, outcomes=outcomes, cared=self.cared * share)


def _shared(outcome: Outcome, share: float) -> Outcome:
    if not isinstance(outcome, StepOutcome | Delivered):
        return outcome
    seconds = {phase: spent * share for phase, spent in outcome.seconds.items()}
    if isinstance(outcome, Delivered):
        return replace(outcome, seconds=seconds)
    return replace(outcome, busy=outcome.busy * share, seconds=seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """How to read a range of a select's input: from its segments, or from its source."""

    stream: StreamDef
    columns: tuple[Column, ...]
    timestamp: str
    source: Source | None

    def frame(self, bench: Bench, read: Range) -> DataFrame:
        if self.source is None:
            return frames.stored(bench.session, bench.root, self.columns, read)
        return frames.unstored(bench.session, self.source, self.stream, read)


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestTurn:
    """One step of an ingest."""

    instances: tuple[str, ...]
    ingest: ingest_step.Ingest
    now: Instant

    def __call__(self, bench: Bench) -> Finished:
        outcome = ingest_step.run(bench.session, self.instances[0], self.ingest, self.now)
        return Finished(turn=self, outcomes=() if outcome is None else (outcome,))


@dataclass(frozen=True, slots=True, kw_only=True)
class TogetherTurn:
    """One step of an ingest that is not stored, and of the selects at its head."""

    instances: tuple[str, ...]
    ingest: ingest_step.Ingest
    works: tuple[SelectWork, ...]
    now: Instant

    def __call__(self, bench: Bench) -> Finished:
        name, *_ = self.instances
        outcomes = together.run(bench, name, self.ingest, self.works, self.now)
        return Finished(turn=self, outcomes=tuple(outcomes))


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectTurn:
    """One step of a group of selects; `fill` where it is a row's back-fill."""

    instances: tuple[str, ...]
    input: Input
    read: Range
    works: tuple[SelectWork, ...]
    fill: RosterRow | None

    def __call__(self, bench: Bench) -> Finished:
        outcomes = select_step.run(
            bench.session,
            bench.rosters,
            self.works,
            functools.partial(self.input.frame, bench, self.read),
            timestamp=self.input.timestamp,
            rows_in=self.read.rows,
            commits=bench.commits,
        )
        return Finished(turn=self, outcomes=tuple(outcomes))


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectTurn:
    """Find the rows that make a select's step fail."""

    instances: tuple[str, ...]
    input: Input
    read: Range
    work: SelectWork
    fill: RosterRow | None

    def __call__(self, bench: Bench) -> Finished:
        survives = functools.partial(
            select_step.survives,
            bench.session,
            self.work,
            tuples=functools.partial(self.input.frame, bench, self.read),
            timestamp=self.input.timestamp,
        )
        found = bisect(self.instances[0], self.work.rows, survives)
        return Finished(turn=self, outcomes=(found,))


@dataclass(frozen=True, slots=True, kw_only=True)
class PanesTurn:
    """One step of panes over a range of tuples."""

    instances: tuple[str, ...]
    input: Input
    read: Range
    work: PanesWork

    def __call__(self, bench: Bench) -> Finished:
        tuples = functools.partial(self.input.frame, bench, self.read)
        return Finished(
            turn=self, outcomes=(windows_step.make_panes(bench.session, self.work, tuples),)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CoarserTurn:
    """One step of panes that are made of finer ones."""

    instances: tuple[str, ...]
    work: CoarserWork

    def __call__(self, bench: Bench) -> Finished:
        done = windows_step.make_coarser(bench.session, bench.root, self.work)
        return Finished(turn=self, outcomes=(done,))


@dataclass(frozen=True, slots=True, kw_only=True)
class RollUpTurn:
    """One step of a roll-up, of a row's history where there is a `fill`.

    With `suspects` no step: find the rows that make it fail.
    """

    instances: tuple[str, ...]
    work: RollUpWork
    fill: RosterRow | None
    suspects: bool

    def __call__(self, bench: Bench) -> Finished:
        if self.suspects:
            found = windows_step.find_guilty(bench.session, bench.root, self.work)
            return Finished(turn=self, outcomes=(found,))
        outcomes = windows_step.roll_up(
            bench.session,
            bench.root,
            self.work,
            rosters=bench.rosters,
            shapes=bench.shapes,
            commits=bench.commits,
        )
        return Finished(turn=self, outcomes=tuple(outcomes))


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadTurn:
    """A step that has nothing to run on, because its range cannot be read.

    With a row: what it lacks of its history is gone for good, which harms nobody else.
    """

    instances: tuple[str, ...]
    cause: ShoalError
    row: RosterRow | None

    def __call__(self, bench: Bench) -> Finished:
        (name,) = self.instances
        outcome: Outcome = StepFailed(instance=name, phase="plan", cause=self.cause)
        if self.row is not None:
            reasons = (first_words(self.cause),)
            outcome = Guilty(instance=name, rows=(self.row,), reasons=reasons, trials=0)
        return Finished(turn=self, outcomes=(outcome,))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverTurn:
    """One step of a deliver component, or its upkeep."""

    instances: tuple[str, ...]
    work: DeliverWork | UpkeepWork

    def __call__(self, bench: Bench) -> Finished:
        if isinstance(self.work, UpkeepWork):
            clock = Laps()
            kept = keep_up(bench.root, self.work)
            return Finished(turn=self, outcomes=(kept,), cared=clock.total())
        done = deliver_step.run(bench.session, bench.root, self.work)
        return Finished(turn=self, outcomes=(done,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Care:
    """What one table needs: see log/housekeep.py. `before` None: everything is kept."""

    writer: Writer
    #: The lowest position that any reader needs.
    horizon: int | None
    #: Rows that ended before this event time may go.
    before: Instant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HousekeepTurn:
    """Retention, checkpoint, compaction and cleaning of one component's tables."""

    instances: tuple[str, ...]
    cares: tuple[Care, ...]
    #: Selects that are not asked for history while some of it goes.
    readers: tuple[str, ...]
    #: The source of a stream that is not stored: what its log forgets, nobody can read there.
    source: Source | None

    def __call__(self, bench: Bench) -> Finished:
        clock = Laps()
        try:
            for care in self.cares:
                if care.before is not None:
                    care.writer.expire(before=care.before, horizon=care.horizon)
                care.writer.housekeep(horizon=care.horizon)
            self._forget(bench)
        except Exception as error:  # noqa: BLE001 - a worker hands every failure to the engine
            failed = StepFailed(
                instance=self.instances[0],
                phase="housekeep",
                cause=error,
                fenced=isinstance(error, Fenced),
            )
            return Finished(turn=self, outcomes=(failed,), cared=clock.total())
        return Finished(turn=self, outcomes=(), cared=clock.total())

    def _forget(self, bench: Bench) -> None:
        oldest = Reader.oldest(bench.root, self.instances[0]) if self.source is not None else None
        if self.source is not None and oldest is not None:
            self.source.forget(oldest.transactions.get("in/from", 0))


Turn = (
    IngestTurn
    | TogetherTurn
    | SelectTurn
    | BisectTurn
    | PanesTurn
    | CoarserTurn
    | RollUpTurn
    | UnreadTurn
    | DeliverTurn
    | HousekeepTurn
)
