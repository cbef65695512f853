"""The desk of the engine's thread: which components there are, and what is to be done next.

Only the engine's thread comes here, so nothing is locked. Commands change components; outcomes of
turns move them on; `next_work` hands out the next turn.
"""

import functools
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import replace

from pyspark.sql import SparkSession

from shoal.dataplane import commands as c
from shoal.dataplane.contract import Answer
from shoal.dataplane.overlap import Overlap
from shoal.dataplane.progress import Progress
from shoal.dataplane.reports import (
    ComponentView,
    EngineView,
    Failed,
    FencedOff,
    Report,
    Served,
    Suspended,
)
from shoal.dataplane.rows import RosterRow
from shoal.kernel.errors import LocalError, ShoalError
from shoal.kernel.time import Instant
from shoal.log.root import Root
from shoal.spark.analyze import analyze
from shoal.spark.bench import Bench
from shoal.spark.choose import Chooser
from shoal.spark.deliver.crew import Crew
from shoal.spark.floor import Floor, Part
from shoal.spark.ingest.component import IngestComponent, open_ingest
from shoal.spark.outcome import StepFailed, StepOutcome
from shoal.spark.select.bisect import Guilty
from shoal.spark.select.component import SelectComponent, open_select
from shoal.spark.select.rostered import Rostered
from shoal.spark.select.step import Rosters
from shoal.spark.turns import (
    DeliverTurn,
    Finished,
    HousekeepTurn,
    IngestTurn,
    PanesTurn,
    RollUpTurn,
    SelectTurn,
    TogetherTurn,
    Turn,
)
from shoal.spark.views import component_view, step_done
from shoal.spark.windows.panes import CoarserComponent, PanesComponent, open_panes
from shoal.spark.windows.rollup import RollUpComponent, open_roll_up

__all__ = ["Desk"]


class Desk:
    """Components, feeds and the scheduler of one engine."""

    def __init__(
        self,
        session: SparkSession,
        root: Root,
        *,
        owner: str,
        commits: Executor,
        report: Callable[[Report], None],
    ) -> None:
        self._session = session
        self._root = root
        self._owner = owner
        self._report = report
        self._bench = Bench(session=session, root=root, rosters=Rosters(session), commits=commits)
        self._floor = Floor(root, owner=owner, report=report)
        self._progress = Progress()
        self._crew = Crew(
            root,
            self._floor.scheduler,
            self._progress,
            feed_of=self._floor.feed,
            report=report,
        )
        self._chooser = Chooser(self._floor, self._crew)
        self._overlap = Overlap()
        #: The turns that run, and their numbers in the overlap.
        self._running: list[tuple[Turn, int]] = []
        self._waiting: list[tuple[c.Command, Future[Answer]]] = []
        self._reasons: dict[str, str] = {}
        #: The roster version that was acknowledged last, and how many steps had been done then.
        self._promised: dict[str, tuple[int, int]] = {}
        self._steps = 0

    # Commands

    def ask(self, command: c.Command, answer: "Future[Answer]", now: Instant) -> None:
        """Carry out a command and answer it; never raises for what the caller did wrong."""
        if self._must_wait(command):
            self._waiting.append((command, answer))
            return
        try:
            found = self._crew.answer(command)
            answer.set_result(self._carry_out(command, now) if found is None else found)
        except ShoalError as error:
            answer.set_exception(error)

    def _must_wait(self, command: c.Command) -> bool:
        """Whether a step in flight has to end before this command can be carried out."""
        if isinstance(command, c.Stop):
            part = self._floor.parts.get(command.instance)
            return part is not None and part.running
        return any(name in self._floor.undecided for name in _named(command))

    def _carry_out(self, command: c.Command, now: Instant) -> Answer:
        match command:
            case c.Start():
                return self._start(command.component, weight=command.weight, now=now)
            case c.TakeOver():
                table = self._root.table(command.component.instance)
                if not table.exists():
                    raise LocalError(f"instance {command.component.instance} has no table")
                return self._start(command.component, weight=command.weight, now=now)
            case c.Stop():
                self._drop_component(command.instance)
                return {}
            case c.AddRows():
                return self._add_rows(command)
            case c.ReplaceRow():
                return self._replace_row(command)
            case c.DropRow():
                component = self._floor.select(command.instance)
                at = component.event_time
                row = component.end(command.query, at=at, now=command.now)
                self._floor.weigh(component)
                return {"until": row.until, "cut": row.cut}
            case c.SetKeep() | c.SetWeight():
                return self._set(command)
            case c.Analyze():
                return {"cells": analyze(self._session, command.probe)}
            case _:
                raise LocalError(f"command {command!r} is not known to the engine")

    def _start(self, component: c.Component, *, weight: float, now: Instant) -> Answer:
        if component.instance in self._floor.parts:
            raise LocalError(f"component {component.instance} runs here already")
        opened: Part
        match component:
            case c.Ingest():
                opened = open_ingest(
                    self._root, component, owner=self._owner, weight=weight, now=now
                )
            case c.Select():
                feed = self._floor.feed(component.input)
                opened = open_select(self._root, component, feed, owner=self._owner, weight=weight)
            case c.Panes():
                feed = self._floor.feed(component.input)
                opened = open_panes(self._root, component, feed, owner=self._owner, weight=weight)
            case c.RollUp():
                feed = self._floor.feed(component.input)
                opened = open_roll_up(self._root, component, feed, owner=self._owner, weight=weight)
            case _:
                raise LocalError(f"component {component!r} cannot be run")
        self._floor.add(opened)
        rows = opened.rows() if isinstance(opened, Rostered) else ()
        return {"epoch": opened.writer.epoch, "step": opened.writer.step, "rows": rows}

    def _add_rows(self, command: c.AddRows) -> Answer:
        component = self._floor.select(command.instance)
        rows = component.add(command.rows, command.begin)
        self._floor.weigh(component)
        self._promised.setdefault(command.instance, (component.version, self._steps))
        return {"roster": component.version, "start": rows[0].start if rows else 0}

    def _replace_row(self, command: c.ReplaceRow) -> Answer:
        source, target = self._floor.select(command.source), self._floor.select(command.target)
        at = max(source.event_time, target.event_time)
        # What the target would refuse is refused before the old row has ended.
        row = replace(command.row, keep=source.share(command.row.query))
        target.check([row])
        source.end(row.query, at=at, now=False)
        rows = target.add([row], at)
        for component in (source, target):
            self._floor.weigh(component)
        self._promised.setdefault(command.target, (target.version, self._steps))
        return {"roster": target.version, "start": rows[0].start}

    def _set(self, command: c.SetKeep | c.SetWeight) -> Answer:
        component = self._floor.select(command.instance)
        if isinstance(command, c.SetKeep):
            return {"keep": component.keep(command.query, command.keep).keep}
        row = component.weigh(command.query, command.weight)
        self._floor.weigh(component)
        return {"weight": row.weight}

    def _drop_component(self, instance: str) -> None:
        if instance not in self._floor.parts:
            raise LocalError(f"component {instance} does not run here")
        self._floor.remove(instance)
        self._progress.forget(instance)

    # What is next

    def next_due(self, now: Instant) -> Instant | None:
        """When there may be something to do without any event."""
        return self._chooser.next_due(now)

    def next_work(self, now: Instant) -> Callable[[], Finished] | None:
        """The next turn, bound to the bench; None if nothing is ready."""
        turn = self._chooser.next_turn(now)
        if turn is None:
            return None
        self._running.append((turn, self._overlap.begin(now)))
        return functools.partial(turn, self._bench)

    def announced(self, instance: str) -> None:
        """Something was committed to this instance, or pushed to its source."""
        if instance in self._floor.feeds:
            self._floor.poll(instance)
        component = self._floor.parts.get(instance)
        if isinstance(component, IngestComponent):
            component.look_at = 0

    # What came of it

    def finished(self, done: Finished, now: Instant) -> None:
        """Take in what a turn gave."""
        done = done.shared(self._share(done.turn, now))
        self._over(done.turn)
        self._progress.cared(done.turn.instances[0], done.cared)
        if isinstance(done.turn, DeliverTurn):
            self._crew.finished(done.turn.work, done.outcomes, now)
            return
        if not done.outcomes and isinstance(done.turn, IngestTurn | TogetherTurn):
            self._found_nothing(done.turn, now)
        for outcome in done.outcomes:
            if outcome.instance not in self._floor.parts:
                continue
            match outcome:
                case StepOutcome():
                    self._stepped(done.turn, outcome, now)
                case StepFailed():
                    self._failed(done.turn, outcome, now)
                case Guilty():
                    self._suspend(done.turn, outcome, now)
        self._release(done.turn)
        self._ask_again(now)

    def _share(self, turn: Turn, now: Instant) -> float:
        """The share of its time that a turn had to itself."""
        (place,) = [at for at, (known, _) in enumerate(self._running) if known is turn]
        _, number = self._running.pop(place)
        return self._overlap.end(number, now)

    def _over(self, turn: Turn) -> None:
        """Its components may be chosen again, and asked."""
        for instance in turn.instances:
            self._floor.scheduler.idle(instance)
            self._floor.undecided.pop(instance, None)
            if instance in self._floor.parts:
                self._floor.parts[instance].running = False
        if isinstance(turn, HousekeepTurn):
            for instance in turn.readers:
                self._floor.undecided.pop(instance, None)

    def _ask_again(self, now: Instant) -> None:
        waiting, self._waiting = self._waiting, []
        for command, answer in waiting:
            self.ask(command, answer, now)

    def _found_nothing(self, turn: IngestTurn | TogetherTurn, now: Instant) -> None:
        instance = turn.instances[0]
        component = self._floor.parts.get(instance)
        if isinstance(component, IngestComponent):
            component.found_nothing(now, looked=turn.now)

    def _stepped(self, turn: Turn, outcome: StepOutcome, now: Instant) -> None:
        instance = outcome.instance
        component = self._floor.parts[instance]
        self._steps += 1
        self._floor.uncared[instance] += 1
        self._floor.scheduler.ran(instance, busy=outcome.busy)
        done = step_done(component, outcome)
        self._progress.observe(done, now)
        match component, turn:
            case IngestComponent(), IngestTurn() | TogetherTurn():
                component.found_something(turn.now)
            case SelectComponent(), TogetherTurn():
                reached = outcome.commit.transactions[f"in/{component.spec.input}"]
                self._select_stepped(component, outcome, reached)
            case SelectComponent(), SelectTurn(fill=RosterRow() as row):
                component.filled(row, turn.read.upto)
            case SelectComponent(), SelectTurn():
                self._select_stepped(component, outcome, turn.read.upto)
            case PanesComponent(), PanesTurn():
                component.done(turn.work, outcome)
            case CoarserComponent(), _:
                component.done(outcome)
            case RollUpComponent(), RollUpTurn(fill=RosterRow() as row):
                component.filled_by(row, turn.work, outcome)
            case RollUpComponent(), _:
                component.done(outcome)
                self._served(component, outcome)
        self._report(done)
        if instance in self._floor.feeds:
            self._floor.poll(instance)

    def _select_stepped(self, component: SelectComponent, outcome: StepOutcome, upto: int) -> None:
        component.done(upto=upto, rows_in=outcome.rows_in, rows_out=outcome.rows_out)
        self._served(component, outcome)

    def _release(self, turn: Turn) -> None:
        """Once for all members of a group: each release looks at every reader of the input."""
        parts = [self._floor.parts.get(name) for name in turn.instances]
        read = [
            part.spec.input
            for part in parts
            if part is not None and not isinstance(part, IngestComponent)
        ]
        for instance in dict.fromkeys(read):
            self._floor.release(instance)

    def _served(self, component: Rostered, outcome: StepOutcome) -> None:
        promised = self._promised.get(component.instance)
        if promised is not None and outcome.roster_version >= promised[0]:
            del self._promised[component.instance]
            self._report(
                Served(
                    instance=component.instance,
                    roster_version=outcome.roster_version,
                    steps=self._steps - promised[1],
                )
            )

    def _failed(self, from_turn: Turn, outcome: StepFailed, now: Instant) -> None:
        if outcome.fenced:
            self._drop_component(outcome.instance)
            self._report(FencedOff(instance=outcome.instance, reason=outcome.reason))
            return
        turn = self._floor.scheduler.failed(outcome.instance, now)
        component = self._floor.parts[outcome.instance]
        if isinstance(component, Rostered):
            component.undone()
            if isinstance(from_turn, SelectTurn | RollUpTurn) and from_turn.fill is not None:
                component.fill_failures += 1
        elif isinstance(component, IngestComponent):
            component.failed(outcome, turn.failures)
        self._reasons[outcome.instance] = f"{outcome.phase}: {outcome.reason}"
        self._report(
            Failed(
                instance=outcome.instance,
                attempts=turn.failures,
                reason=self._reasons[outcome.instance],
                retry_at=turn.retry_at,
            )
        )

    def _suspend(self, turn: Turn, outcome: Guilty, now: Instant) -> None:
        component = self._floor.select(outcome.instance)
        component.undone()
        if not outcome.rows:
            self._floor.scheduler.failed(outcome.instance, now)
            return
        component.suspend(outcome.rows, outcome.reasons)
        self._floor.scheduler.ran(outcome.instance, busy=0.0)
        for row, reason in zip(outcome.rows, outcome.reasons, strict=True):
            self._report(
                Suspended(
                    instance=outcome.instance,
                    query=row.query,
                    version=row.version,
                    step=component.position,
                    reason=reason,
                )
            )

    # What there is to see

    def view(self, now: Instant, *, threads: int) -> EngineView:
        """A read-only picture."""
        return EngineView(
            components=(
                *(self._view_of(part, now) for part in self._floor.parts.values()),
                *self._crew.views(now),
            ),
            cycle_seconds=self._progress.cycle().seconds,
            threads=threads,
            steps=self._steps,
        )

    def lagging(self, asked: Instant, now: Instant) -> ComponentView | None:
        """A component that has not yet answered all that was there at this instant."""
        for part in self._floor.parts.values():
            behind = part.looked < asked if isinstance(part, IngestComponent) else part.lag > 0
            if behind:
                return self._view_of(part, now)
        return next((view for view in self._crew.views(now) if view.lag > 0), None)

    def _view_of(self, part: Part, now: Instant) -> ComponentView:
        reads = part.instance if isinstance(part, IngestComponent) else part.spec.input
        return component_view(
            part,
            self._floor.scheduler.turn(part.instance),
            reason=self._reasons.get(part.instance, ""),
            unread=self._floor.unread.get(reads, ""),
            cost=self._progress.cost(part.instance),
            rates=self._progress.rates(part.instance, now),
        )

    def abandon(self) -> None:
        """The engine ends: whoever still waits is told."""
        for _, answer in self._waiting:
            answer.set_exception(LocalError("the engine has stopped"))

    def close(self) -> None:
        """Let go of everything; tables stay as they are."""
        self._crew.close()
        self._floor.parts.clear()
        self._floor.feeds.clear()


def _named(command: c.Command) -> tuple[str, ...]:
    """The components whose place a command depends on."""
    match command:
        case c.AddRows() | c.DropRow():
            return (command.instance,)
        case c.ReplaceRow():
            return (command.source, command.target)
        case _:
            return ()
