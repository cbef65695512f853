"""The desk of the engine's thread: which components there are, and what is to be done next.

Only the engine's thread comes here, so nothing is locked. Commands change components; outcomes of
turns move them on; `next_work` hands out the next turn.
"""

import functools
from collections.abc import Callable
from concurrent.futures import Executor, Future

from pyspark.sql import SparkSession

from shoal.dataplane import commands as c
from shoal.dataplane.contract import Answer
from shoal.dataplane.reports import (
    ComponentView,
    EngineView,
    Failed,
    FencedOff,
    Report,
    Served,
    StepDone,
    Suspended,
)
from shoal.dataplane.rows import RosterRow
from shoal.kernel.errors import LocalError, ShoalError, UserError
from shoal.kernel.time import MILLISECOND, Instant
from shoal.log.leases import Leases
from shoal.log.root import Root
from shoal.spark.analyze import analyze
from shoal.spark.bench import Bench
from shoal.spark.deliver.crew import Crew
from shoal.spark.feed import Feed
from shoal.spark.frames import all_columns
from shoal.spark.ingest.component import IngestComponent, open_ingest, open_source
from shoal.spark.ingest.judge import event_time
from shoal.spark.outcome import StepFailed, StepOutcome
from shoal.spark.progress import Progress
from shoal.spark.scheduler import Scheduler
from shoal.spark.select.bisect import Guilty
from shoal.spark.select.component import SelectComponent, open_select
from shoal.spark.select.step import Rosters
from shoal.spark.turns import (
    BisectTurn,
    DeliverTurn,
    Finished,
    HousekeepTurn,
    IngestTurn,
    Input,
    SelectTurn,
    TogetherTurn,
    Turn,
)

__all__ = ["GROUP_MOST", "Desk"]

#: Members of one step group at most.
GROUP_MOST = 128
#: Steps of a table between two looks at whether it needs compaction and the like.
HOUSEKEEP_EVERY = 20
#: How often the commits of other peers' streams are looked for.
TAIL_EVERY = 20 * MILLISECOND

_Component = IngestComponent | SelectComponent


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
        self._components: dict[str, _Component] = {}
        self._feeds: dict[str, Feed] = {}
        self._inputs: dict[str, Input] = {}
        self._scheduler = Scheduler()
        self._crew = Crew(root, self._scheduler, feed_of=self._feed, report=report)
        self._ready: dict[str, None] = {}
        self._since_housekeeping: dict[str, int] = {}
        self._waiting: list[tuple[c.Command, Future[Answer]]] = []
        #: Selects whose step in flight has no end yet: what is asked of them waits for it.
        self._undecided: dict[str, None] = {}
        self._tail_at: Instant = 0
        self._steps = 0
        self._promised: dict[str, tuple[int, int]] = {}
        self._reasons: dict[str, str] = {}
        self._progress = Progress()

    # Commands

    def ask(self, command: c.Command, answer: "Future[Answer]", now: Instant) -> None:
        """Carry out a command and answer it; never raises for what the caller did wrong."""
        if any(name in self._undecided for name in _named(command)):
            self._waiting.append((command, answer))
            return
        try:
            found = self._crew.answer(command)
            answer.set_result(self._carry_out(command, now) if found is None else found)
        except ShoalError as error:
            answer.set_exception(error)

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
                component = self._select(command.instance)
                at = component.event_time
                row = component.end(command.query, at=at, now=command.now)
                return {"until": row.until, "cut": row.cut}
            case c.SetKeep():
                row = self._select(command.instance).keep(command.query, command.keep)
                return {"keep": row.keep}
            case c.Analyze():
                return {"cells": analyze(self._session, command.probe)}
            case _:
                raise LocalError(f"command {command!r} is not known to the engine")

    def _start(self, component: c.Component, *, weight: float, now: Instant) -> Answer:
        if component.instance in self._components:
            raise LocalError(f"component {component.instance} runs here already")
        opened: _Component
        match component:
            case c.Ingest():
                opened = open_ingest(
                    self._root, component, owner=self._owner, weight=weight, now=now
                )
                self._inputs[component.instance] = self._input_of(opened)
                self._since_housekeeping[f"{component.instance}.dead"] = 0
            case c.Select():
                feed = self._feed(component.input)
                opened = open_select(self._root, component, feed, owner=self._owner, weight=weight)
                self._known_input(component)
            case _:
                raise LocalError(f"component {component!r} cannot be run")
        self._components[component.instance] = opened
        self._since_housekeeping[component.instance] = 0
        self._scheduler.add(component.instance, weight=weight)
        rows = opened.rows() if isinstance(opened, SelectComponent) else ()
        return {"epoch": opened.writer.epoch, "step": opened.writer.step, "rows": rows}

    def _input_of(self, opened: IngestComponent) -> Input:
        stream = opened.spec.stream
        return Input(
            stream=stream,
            columns=all_columns(stream),
            timestamp=event_time(stream),
            source=None if stream.store else opened.ingest.source,
        )

    def _known_input(self, select: c.Select) -> None:
        """How to read the input of a select whose ingest runs elsewhere."""
        if select.input in self._inputs:
            return
        stream = select.stream
        source = None
        if not stream.store:
            ingest = c.Ingest(instance=select.input, stream=stream)
            source = open_source(self._root, ingest, epoch=None, started=0)
        self._inputs[select.input] = Input(
            stream=stream,
            columns=all_columns(stream),
            timestamp=event_time(stream),
            source=source,
        )

    def _feed(self, instance: str) -> Feed:
        if instance not in self._feeds:
            self._feeds[instance] = Feed.at_head(self._root, instance)
        feed = self._feeds[instance]
        feed.poll()
        return feed

    def _select(self, instance: str) -> SelectComponent:
        component = self._components.get(instance)
        if not isinstance(component, SelectComponent):
            raise LocalError(f"component {instance} does not run here as a select")
        return component

    def _add_rows(self, command: c.AddRows) -> Answer:
        component = self._select(command.instance)
        rows = component.add(command.rows, command.begin)
        self._promised.setdefault(command.instance, (component.version, self._steps))
        return {"roster": component.version, "start": rows[0].start if rows else 0}

    def _replace_row(self, command: c.ReplaceRow) -> Answer:
        source, target = self._select(command.source), self._select(command.target)
        at = max(source.event_time, target.event_time)
        source.end(command.row.query, at=at, now=False)
        rows = target.add([command.row], at)
        self._promised.setdefault(command.target, (target.version, self._steps))
        return {"roster": target.version, "start": rows[0].start}

    def _drop_component(self, instance: str) -> None:
        component = self._components.get(instance)
        if component is None:
            raise LocalError(f"component {instance} does not run here")
        if component.running:
            raise UserError(
                f"component {instance} is in the middle of a step",
                hint="ask again in a moment",
            )
        del self._components[instance]
        self._scheduler.remove(instance)
        self._progress.forget(instance)

    # What is next

    def announced(self, instance: str) -> None:
        """Something was committed to this instance, or pushed to its source."""
        feed = self._feeds.get(instance)
        if feed is not None:
            feed.poll()
        component = self._components.get(instance)
        if isinstance(component, IngestComponent):
            component.look_at = 0

    def next_due(self, now: Instant) -> Instant | None:
        """When there may be something to do without any event."""
        looks = [
            component.look_at
            for component in self._components.values()
            if isinstance(component, IngestComponent) and not component.running
        ]
        others = (self._scheduler.waiting_until(now), self._crew.next_due(now))
        return min([*looks, *(due for due in others if due is not None)], default=None)

    def next_work(self, now: Instant) -> Callable[[], Finished] | None:
        """The next turn, bound to the bench; None if nothing is ready."""
        self._tail(now)
        ready = [name for name, part in self._components.items() if self._is_ready(part, now)]
        name = self._scheduler.next([*ready, *self._crew.ready(now)], now)
        if name is None:
            return self._housekeeping(now)
        if name in self._crew:
            work = self._crew.next_work(name, now)
            if work is None:
                return self.next_work(now)
            return functools.partial(DeliverTurn(instances=(name,), work=work), self._bench)
        turn = self._turn(self._components[name], ready, now)
        for instance in turn.instances:
            self._components[instance].running = True
        return functools.partial(turn, self._bench)

    def _tail(self, now: Instant) -> None:
        if now >= self._tail_at:
            self._tail_at = now + TAIL_EVERY
            for instance, feed in self._feeds.items():
                if instance not in self._components:
                    feed.poll()

    def _is_ready(self, component: _Component, now: Instant) -> bool:
        if component.running:
            return False
        if isinstance(component, IngestComponent):
            return component.look_at <= now and not self._awaited(component)
        return component.position < component.feed.head or component.filling

    def _readers(self, ingest: IngestComponent) -> list[SelectComponent]:
        """The selects that take part in the steps of an ingest that is not stored."""
        return [
            part
            for part in self._components.values()
            if isinstance(part, SelectComponent)
            and part.spec.input == ingest.instance
            and not self._scheduler.turn(part.instance).alone
        ]

    def _awaited(self, ingest: IngestComponent) -> bool:
        """Whether a reader should first come to the head, to take part in the next step."""
        if ingest.spec.stream.store:
            return False
        return any(
            part.running or part.filling or part.position != ingest.writer.step
            for part in self._readers(ingest)
        )

    def _ingest_turn(self, component: IngestComponent, now: Instant) -> Turn:
        readers = [] if component.spec.stream.store else self._readers(component)[:GROUP_MOST]
        if not readers:
            return IngestTurn(instances=(component.instance,), ingest=component.ingest, now=now)
        self._undecided |= dict.fromkeys(part.instance for part in readers)
        return TogetherTurn(
            instances=(component.instance, *(part.instance for part in readers)),
            ingest=component.ingest,
            works=tuple(part.work_at_head() for part in readers),
            now=now,
        )

    def _turn(self, component: _Component, ready: list[str], now: Instant) -> Turn:
        if isinstance(component, IngestComponent):
            return self._ingest_turn(component, now)
        read = component.next_range()
        if read is None or (component.filling and component.fill_is_next()):
            return self._fill_turn(component)
        alone = self._scheduler.turn(component.instance).alone
        members = [component] if alone else self._group(component, ready, now)
        works = tuple(member.work(read) for member in members)
        shared = self._inputs[component.spec.input]
        if self._scheduler.suspects_rows(component.instance):
            return BisectTurn(
                instances=(component.instance,),
                input=shared,
                read=read,
                work=works[0],
                fill=None,
            )
        return SelectTurn(
            instances=tuple(member.instance for member in members),
            input=shared,
            read=read,
            works=works,
            fill=None,
        )

    def _fill_turn(self, component: SelectComponent) -> Turn:
        row, read = component.next_fill()
        work = component.fill_work(row, read)
        kind = BisectTurn if self._scheduler.suspects_rows(component.instance) else SelectTurn
        shared = self._inputs[component.spec.input]
        names = (component.instance,)
        if kind is BisectTurn:
            return BisectTurn(instances=names, input=shared, read=read, work=work, fill=row)
        return SelectTurn(instances=names, input=shared, read=read, works=(work,), fill=row)

    def _group(
        self, first: SelectComponent, ready: list[str], now: Instant
    ) -> list[SelectComponent]:
        """The selects that stand where this one stands: they read the same range in one job."""
        others = [self._components[name] for name in ready if name != first.instance]
        members = [
            other
            for other in others
            if isinstance(other, SelectComponent)
            and other.spec.input == first.spec.input
            and other.position == first.position
            and not self._scheduler.turn(other.instance).alone
            and self._scheduler.turn(other.instance).retry_at <= now
        ]
        return sorted([first, *members[: GROUP_MOST - 1]], key=lambda member: member.instance)

    def _housekeeping(self, now: Instant) -> Callable[[], Finished] | None:
        """Care for the table that has waited longest, when nothing else is to be done."""
        for instance, steps in self._since_housekeeping.items():
            component = self._components.get(instance)
            if steps < HOUSEKEEP_EVERY or component is None or component.running:
                continue
            component.running = True
            self._since_housekeeping[instance] = 0
            writers = [component.writer]
            if isinstance(component, IngestComponent):
                writers.append(component.ingest.dead)
            turn = HousekeepTurn(
                instances=(instance,),
                writers=tuple(writers),
                horizon=self._horizon_of_all(instance, now),
            )
            return functools.partial(turn, self._bench)
        return None

    def _horizon(self, instance: str) -> int | None:
        """The lowest position of this instance that a reader here still needs."""
        needed = [
            component.oldest_needed
            for component in self._components.values()
            if isinstance(component, SelectComponent) and component.spec.input == instance
        ]
        return min(needed, default=None)

    def _horizon_of_all(self, instance: str, now: Instant) -> int | None:
        """The same, counting readers elsewhere: they hold leases."""
        leases = Leases(self._root.folder("readers", instance))
        found = (self._horizon(instance), self._crew.horizon(instance), leases.horizon(now))
        return min((position for position in found if position is not None), default=None)

    # What came of it

    def finished(self, done: Finished, now: Instant) -> None:
        """Take in what a turn gave."""
        if isinstance(done.turn, DeliverTurn):
            self._crew.finished(done.turn.work, done.outcomes, now)
            return
        for instance in done.turn.instances:
            self._undecided.pop(instance, None)
            if instance in self._components:
                self._components[instance].running = False
        if not done.outcomes and isinstance(done.turn, IngestTurn | TogetherTurn):
            self._found_nothing(done.turn, now)
        for outcome in done.outcomes:
            if outcome.instance not in self._components:
                continue
            match outcome:
                case StepOutcome():
                    self._stepped(done.turn, outcome, now)
                case StepFailed():
                    self._failed(outcome, now)
                case Guilty():
                    self._suspend(done.turn, outcome, now)
        self._ask_again(now)

    def _ask_again(self, now: Instant) -> None:
        waiting, self._waiting = self._waiting, []
        for command, answer in waiting:
            self.ask(command, answer, now)

    def _found_nothing(self, turn: IngestTurn | TogetherTurn, now: Instant) -> None:
        instance = turn.instances[0]
        component = self._components.get(instance)
        if isinstance(component, IngestComponent):
            component.found_nothing(now, looked=turn.now)
            self._scheduler.idle(instance)

    def _stepped(self, turn: Turn, outcome: StepOutcome, now: Instant) -> None:
        instance = outcome.instance
        component = self._components[instance]
        self._steps += 1
        self._since_housekeeping[instance] += 1
        self._scheduler.ran(instance, busy=outcome.busy)
        self._progress.observe(outcome, now)
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
        self._report(self._step_done(component, outcome))
        if instance in self._feeds:
            self._feeds[instance].poll()

    def _select_stepped(self, component: SelectComponent, outcome: StepOutcome, upto: int) -> None:
        component.done(upto=upto, rows_in=outcome.rows_in, rows_out=outcome.rows_out)
        self._served(component, outcome)
        self._release(component.spec.input)

    def _served(self, component: SelectComponent, outcome: StepOutcome) -> None:
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

    def _release(self, instance: str) -> None:
        lowest = self._horizon(instance)
        if lowest is not None:
            self._feeds[instance].release(lowest)

    def _failed(self, outcome: StepFailed, now: Instant) -> None:
        if outcome.fenced:
            self._drop_component(outcome.instance)
            self._report(FencedOff(instance=outcome.instance, reason=outcome.reason))
            return
        turn = self._scheduler.failed(outcome.instance, now)
        component = self._components[outcome.instance]
        if isinstance(component, SelectComponent):
            component.undone()
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
        component = self._select(outcome.instance)
        component.undone()
        if not outcome.rows:
            self._scheduler.failed(outcome.instance, now)
            return
        component.suspend(outcome.rows, outcome.reasons)
        self._scheduler.ran(outcome.instance, busy=0.0)
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

    def view(self, *, threads: int) -> EngineView:
        """A read-only picture."""
        return EngineView(
            components=(
                *(self._component_view(part) for part in self._components.values()),
                *self._crew.views(),
            ),
            cycle_seconds=self._progress.cycle().seconds,
            threads=threads,
            steps=self._steps,
        )

    def _component_view(self, component: _Component) -> ComponentView:
        turn = self._scheduler.turn(component.instance)
        writer = component.writer
        select = component if isinstance(component, SelectComponent) else None
        return ComponentView(
            instance=component.instance,
            kind=component.kind,
            state="failing" if turn.failures else "running" if component.running else "waiting",
            epoch=writer.epoch,
            step=writer.step,
            positions={
                key[3:]: value for key, value in writer.transactions.items() if key[:3] == "in/"
            },
            lag=0 if select is None else select.lag,
            watermark=writer.transactions.get("wm"),
            roster_rows=0 if select is None else len(select.rows()),
            roster_version=0 if select is None else select.version,
            failures=turn.failures,
            reason=self._reasons.get(component.instance, "") if turn.failures else "",
            looked=component.looked if isinstance(component, IngestComponent) else 0,
            cost=self._progress.cost(component.instance),
            counters={
                key[2:]: value for key, value in writer.transactions.items() if key[:2] == "n/"
            },
        )

    def _step_done(self, component: _Component, outcome: StepOutcome) -> StepDone:
        commit = outcome.commit
        return StepDone(
            instance=outcome.instance,
            kind=component.kind,
            epoch=commit.epoch,
            step=commit.step,
            positions={
                key[3:]: value for key, value in commit.transactions.items() if key[:3] == "in/"
            },
            rows_in=outcome.rows_in,
            rows_out=outcome.rows_out,
            rows_history=outcome.rows_history,
            roster_rows=outcome.roster_rows,
            roster_version=outcome.roster_version,
            watermark=commit.transactions.get("wm"),
            committed=int(commit.info.get("wall", 0)),
            source_committed=outcome.source_committed,
            busy=outcome.busy,
            seconds=outcome.seconds,
            counters=outcome.counters,
            group=outcome.group,
        )

    def abandon(self) -> None:
        """The engine ends: whoever still waits is told."""
        for _, answer in self._waiting:
            answer.set_exception(LocalError("the engine has stopped"))

    def close(self) -> None:
        """Let go of everything; tables stay as they are."""
        self._crew.close()
        self._components.clear()
        self._feeds.clear()


def _named(command: c.Command) -> tuple[str, ...]:
    """The components whose place a command depends on."""
    match command:
        case c.AddRows() | c.DropRow():
            return (command.instance,)
        case c.ReplaceRow():
            return (command.source, command.target)
        case _:
            return ()
