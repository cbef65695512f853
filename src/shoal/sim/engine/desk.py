"""What runs on an invented peer: whose turn it is, what a step costs, and what came of it.

    ready ─▶ scheduler ─▶ a step begins: range, rows and results are fixed
                              │  its work passes through the lanes
                              ▼
                          it ends: committed, fenced off, or failed and tried again

The turns are chosen as spark/choose.py chooses them: selects that stand at the same place of one
stream go together as one step group, a component that failed goes alone, and after three failures
alone its rows are tried one by one. What is left out: care for tables, which cost nothing here,
and the common step of a stream that is not stored and its selects (its selects read it again).

`busy` is the wall time of a step, shared with the steps beside it (dataplane/overlap.py) and then
among its members, as Spark's engine measures it. On a peer of capacity 1 it is the work that was
done, however many lanes are full.
"""

import math
from collections.abc import Callable, Mapping, Sequence

from shoal.dataplane.overlap import Overlap
from shoal.dataplane.progress import Progress
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
from shoal.dataplane.scheduler import ATTEMPTS_BEFORE_BISECTION, Scheduler
from shoal.kernel.errors import Fenced, LocalError, UserError
from shoal.kernel.rng import Rng
from shoal.kernel.time import SECOND, Instant
from shoal.sim.engine.config import Costs, EngineConfig
from shoal.sim.engine.lanes import Lanes
from shoal.sim.engine.memory import Commit
from shoal.sim.engine.parts.ingest import IngestComponent
from shoal.sim.engine.parts.matter import Matter, Outcome, Trouble
from shoal.sim.engine.parts.select import Range, SelectComponent, SelectWork
from shoal.sim.engine.steps import (
    IngestStep,
    Part,
    SelectStep,
    Step,
    Trial,
    parts_of,
    positions_of,
    price_ingest,
    price_select,
    told,
)

__all__ = ["Desk"]

#: Rows suspended in one round at most.
GUILTY_MOST = 16
#: The exponent of the heavy tail of hiccups.
HICCUP_SHAPE = 1.5


class Desk:
    """Components, turns and steps of one invented engine."""

    def __init__(
        self,
        *,
        rng: Rng,
        config: EngineConfig,
        costs: Costs,
        matter: Matter,
        report: Callable[[Report], None],
        now: Instant,
    ) -> None:
        self.parts: dict[str, Part] = {}
        self.scheduler = Scheduler()
        #: The steps at work, each with its number in the overlap.
        self.lanes: Lanes[tuple[Step, int]] = Lanes(
            count=config.lanes, capacity=config.capacity, now=now
        )
        self.steps = 0
        self._rng = rng
        self._config = config
        self._costs = costs
        self._matter = matter
        self._report = report
        self._progress = Progress()
        self._overlap = Overlap()
        self._reasons: dict[str, str] = {}
        #: The roster version that was acknowledged last, and how many steps had been done then.
        self._promised: dict[str, tuple[int, int]] = {}
        self._tail_at: Instant = now

    # What is there

    def add(self, part: Part) -> None:
        """A component runs here from now on."""
        self.parts[part.instance] = part
        self.scheduler.add(part.instance, weight=part.weight)

    def remove(self, instance: str) -> None:
        """A component no longer runs here; its table stays as it is."""
        part = self.parts.get(instance)
        if part is None:
            raise LocalError(f"component {instance} does not run here")
        if part.running:
            raise UserError(
                f"component {instance} is in the middle of a step", hint="ask again in a moment"
            )
        if isinstance(part, SelectComponent) and part.table.epoch == part.epoch:
            part.release()
        del self.parts[instance]
        self.scheduler.remove(instance)
        self._progress.forget(instance)
        self._promised.pop(instance, None)

    def select(self, instance: str) -> SelectComponent:
        """The select of this instance; an error if none runs here."""
        part = self.parts.get(instance)
        if not isinstance(part, SelectComponent):
            raise LocalError(f"component {instance} does not run here as a select")
        return part

    def promise(self, component: SelectComponent) -> None:
        """Rows were accepted: `Served` tells when a step first covers them."""
        self._promised.setdefault(component.instance, (component.version, self.steps))

    def announced(self, instance: str) -> None:
        """Something was committed to this instance, or brought to its source."""
        part = self.parts.get(instance)
        if isinstance(part, IngestComponent):
            part.look_at = 0
        self._learn(instance)

    def _learn(self, instance: str) -> None:
        for part in self.parts.values():
            if isinstance(part, SelectComponent) and part.spec.input == instance:
                part.head = part.source.step

    # What is next

    def next_due(self, now: Instant) -> Instant | None:
        """When something happens without anybody asking."""
        found = [self.lanes.next_end()]
        if self.lanes.free:
            found += [
                part.look_at
                for part in self.parts.values()
                if isinstance(part, IngestComponent) and not part.running
            ]
            found.append(self.scheduler.waiting_until(now))
            found.append(self._tail_at if self._reads_others() else None)
        due = [max(at, now) for at in found if at is not None]
        return min(due, default=None)

    def _reads_others(self) -> bool:
        return any(
            isinstance(part, SelectComponent) and part.spec.input not in self.parts
            for part in self.parts.values()
        )

    def dispatch(self, now: Instant) -> None:
        """Begin whatever can begin."""
        if now >= self._tail_at and self._reads_others():
            self._tail_at = now + self._config.tail_every
            for part in self.parts.values():
                if isinstance(part, SelectComponent) and part.spec.input not in self.parts:
                    part.head = part.source.step
        while self.lanes.free:
            ready = [name for name, part in self.parts.items() if self._is_ready(part, now)]
            name = self.scheduler.next(ready, now)
            if name is None:
                return
            part = self.parts[name]
            if isinstance(part, IngestComponent):
                self._look(part, now)
            else:
                self._begin_select(part, ready, now)

    def _is_ready(self, part: Part, now: Instant) -> bool:
        if part.running:
            return False
        return part.look_at <= now if isinstance(part, IngestComponent) else part.ready

    def _look(self, part: IngestComponent, now: Instant) -> None:
        """A step of an ingest begins, or there is nothing and it looks again later."""
        try:
            work = part.look(now)
            if work is None:
                moved = part.found_nothing(now)
                self.scheduler.idle(part.instance)
                if moved is not None:
                    self._ingested(part, moved, counters={}, busy=0.0, now=now)
                return
        except Fenced as error:
            self._fence(part.instance, error)
            return
        part.running = True
        step = IngestStep(part, work)
        self._begin(step, self._jittered(price_ingest(step, self._costs)), now)

    def _begin_select(self, part: SelectComponent, ready: Sequence[str], now: Instant) -> None:
        rows_max = self._config.rows_per_step
        read = part.next_range(rows_max)
        if read is None or (part.filling and part.fill_is_next()):
            row, read = part.next_fill(rows_max)
            works: tuple[SelectWork, ...] = (part.fill_work(row, read),)
            suspected = part.fill_failures >= ATTEMPTS_BEFORE_BISECTION
        else:
            alone = self.scheduler.turn(part.instance).alone
            members = [part] if alone else self._group(part, ready, now)
            works = tuple(member.work(read) for member in members)
            suspected = self.scheduler.suspects_rows(part.instance)
        for work in works:
            work.component.running = True
        if suspected:
            self._begin_trial(works[0], read, now)
            return
        outcomes: list[Outcome] = []
        reason = ""
        try:
            outcomes = [self._compute(work, work.rows, read) for work in works]
        except Trouble as error:
            reason, outcomes = f"job: {error.reason}", []
        step = SelectStep(read, works, tuple(outcomes), reason)
        self._begin(step, self._jittered(price_select(step, self._costs, self._config)), now)

    def _begin_trial(self, work: SelectWork, read: Range, now: Instant) -> None:
        """Each row alone: those that raise are guilty, unless the step fails without any row."""
        guilty: list[tuple[RosterRow, str]] = []
        for row in work.rows:
            if len(guilty) >= GUILTY_MOST:
                break
            try:
                self._compute(work, (row,), read)
            except Trouble as error:
                guilty.append((row, error.reason))
        nothing = tuple(Outcome(rows=0, results=()) for _ in (work,))
        once = price_select(SelectStep(read, (work,), nothing, ""), self._costs, self._config)
        rounds = 1 + 2 * len(guilty) * math.ceil(math.log2(len(work.rows) + 1))
        self._begin(Trial(work, tuple(guilty)), once * rounds, now)

    def _begin(self, step: Step, seconds: float, now: Instant) -> None:
        self.lanes.begin((step, self._overlap.begin(now)), seconds=seconds, now=now)

    def _compute(self, work: SelectWork, rows: Sequence[RosterRow], read: Range) -> Outcome:
        return self._matter.select(work.component.spec, rows, read.commits)

    def _group(
        self, first: SelectComponent, ready: Sequence[str], now: Instant
    ) -> list[SelectComponent]:
        """The selects that stand where this one stands: they read the same range in one job."""
        members = [first]
        for name in ready:
            part = self.parts[name]
            if not isinstance(part, SelectComponent) or part is first:
                continue
            turn = self.scheduler.turn(name)
            same = part.spec.input == first.spec.input and part.position == first.position
            if same and part.head >= first.head and not turn.alone and turn.retry_at <= now:
                members.append(part)
        return members[: self._config.group_most]

    # What it costs

    def _jittered(self, seconds: float) -> float:
        jitter = self._config.jitter
        if jitter:
            seconds *= 1.0 + jitter * (2.0 * self._rng.uniform() - 1.0)
        if self._config.hiccup_chance and self._rng.chance(self._config.hiccup_chance):
            seconds *= self._rng.pareto(HICCUP_SHAPE)
        return seconds

    # What came of it

    def finish(self, now: Instant) -> None:
        """Take in the steps that are over."""
        for over in self.lanes.ended(now):
            step, number = over.work
            busy = self._overlap.end(number, now) * (now - over.began) / SECOND
            for part in parts_of(step):
                part.running = False
                if part.instance in self.parts:
                    self.scheduler.idle(part.instance)
            match step:
                case IngestStep():
                    self._end_ingest(step, over.began, busy, now)
                case SelectStep():
                    self._end_select(step, busy, now)
                case Trial():
                    self._end_trial(step, now)

    def _end_ingest(self, step: IngestStep, began: Instant, busy: float, now: Instant) -> None:
        part = step.component
        try:
            commit = part.commit(step.work, began, now)
        except Fenced as error:
            self._fence(part.instance, error)
            return
        judged = step.work.judged
        counts = {"in": step.work.batch.rows, "late": judged.late_rows, "dead": judged.dead_rows}
        counted = {key: n for key, n in counts.items() if n}
        self._ingested(part, commit, counters=counted, busy=busy, now=now)

    def _ingested(
        self,
        part: IngestComponent,
        commit: Commit,
        *,
        counters: Mapping[str, int],
        busy: float,
        now: Instant,
    ) -> None:
        self._learn(part.instance)
        done = told(
            part,
            commit,
            rows_in=counters.get("in", 0),
            rows_out=commit.rows,
            busy=busy,
            counters=counters,
        )
        self._stepped(part, done, now)

    def _end_select(self, step: SelectStep, busy: float, now: Instant) -> None:
        if not step.outcomes:
            for work in step.works:
                self._fail(work, step.reason, now)
            return
        weights = [
            1 + len(work.rows) + outcome.rows
            for work, outcome in zip(step.works, step.outcomes, strict=True)
        ]
        for work, outcome, weight in zip(step.works, step.outcomes, weights, strict=True):
            share = busy * weight / sum(weights)
            try:
                commit = work.component.commit(work, outcome, now)
            except Fenced as error:
                self._fence(work.component.instance, error)
                continue
            self._selected(step, work, outcome, commit, share, now)

    def _selected(
        self,
        step: SelectStep,
        work: SelectWork,
        outcome: Outcome,
        commit: Commit,
        busy: float,
        now: Instant,
    ) -> None:
        part, rows = work.component, step.read.rows
        if work.fill is not None:
            part.filled(work.fill, step.read.upto)
        else:
            part.done(step.read.upto)
        done = told(
            part,
            commit,
            rows_in=0 if work.fill is not None else rows,
            rows_out=outcome.rows,
            rows_history=rows if work.fill is not None else 0,
            roster_rows=len(work.rows),
            roster_version=work.roster_version,
            source_committed=work.source_committed,
            busy=busy,
            counters={f"n/{key}": n for key, n in outcome.counters.items()},
            group=len(step.works),
        )
        self._stepped(part, done, now)
        promised = self._promised.get(part.instance)
        if promised is not None and work.fill is None and work.roster_version >= promised[0]:
            del self._promised[part.instance]
            self._report(
                Served(
                    instance=part.instance,
                    roster_version=work.roster_version,
                    steps=self.steps - promised[1],
                )
            )

    def _stepped(self, part: Part, done: StepDone, now: Instant) -> None:
        self.steps += 1
        self.scheduler.ran(part.instance, busy=done.busy)
        if self.steps % self._config.fit_every == 0:
            self._progress.observe(done, now)
        self._report(done)

    def _fail(self, work: SelectWork, reason: str, now: Instant) -> None:
        part = work.component
        part.undone()
        if work.fill is not None:
            part.fill_failures += 1
        turn = self.scheduler.failed(part.instance, now)
        self._reasons[part.instance] = reason
        self._report(
            Failed(
                instance=part.instance,
                attempts=turn.failures,
                reason=reason,
                retry_at=turn.retry_at,
            )
        )

    def _end_trial(self, step: Trial, now: Instant) -> None:
        part = step.work.component
        part.undone()
        if not step.guilty:
            self.scheduler.failed(part.instance, now)
            return
        try:
            part.suspend([row for row, _ in step.guilty], [reason for _, reason in step.guilty])
        except Fenced as error:
            self._fence(part.instance, error)
            return
        self.scheduler.ran(part.instance, busy=0.0)
        for row, reason in step.guilty:
            self._report(
                Suspended(
                    instance=part.instance,
                    query=row.query,
                    version=row.version,
                    step=part.position,
                    reason=reason,
                )
            )

    def _fence(self, instance: str, error: Fenced) -> None:
        self.remove(instance)
        self._report(FencedOff(instance=instance, reason=error.what))

    # What there is to see

    def view(self, now: Instant) -> EngineView:
        """A read-only picture."""
        return EngineView(
            components=tuple(self._view_of(part, now) for part in self.parts.values()),
            cycle_seconds=self._progress.cycle().seconds,
            threads=0,
            steps=self.steps,
        )

    def _view_of(self, part: Part, now: Instant) -> ComponentView:
        turn = self.scheduler.turn(part.instance)
        select = part if isinstance(part, SelectComponent) else None
        return ComponentView(
            instance=part.instance,
            kind=part.kind,
            state="failing" if turn.failures else "running" if part.running else "waiting",
            epoch=part.epoch,
            step=part.step,
            positions=positions_of(part.transactions),
            lag=0 if select is None else select.lag,
            watermark=part.transactions.get("wm"),
            roster_rows=0 if select is None else select.row_count,
            roster_version=0 if select is None else select.version,
            failures=turn.failures,
            reason=self._reasons.get(part.instance, "") if turn.failures else "",
            looked=part.looked if isinstance(part, IngestComponent) else 0,
            retained=0,
            rates=self._progress.rates(part.instance, now),
            cost=self._progress.cost(part.instance),
            counters={
                key[2:]: value for key, value in part.transactions.items() if key[:2] == "n/"
            },
        )
