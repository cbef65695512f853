"""The invented engine: the contract of dataplane/contract.py on invented time.

    engine = SimEngine(memory, owner="p1", rng=rng.split("engine"))
    engine.call(Start(component=..., weight=1.0), timeout=0)
    memory.push("readings-1", "client", 0, rows); engine.announce("readings-1")
    engine.advance(to=now + SECOND)         runs what falls due
    engine.reports()

Time comes from whoever drives it: `advance` runs everything up to an instant, `next_due` says when
something happens next. There is no thread, no file and no clock, and randomness is an argument:
the same calls in the same order give the same reports. Whatever is durable is in the Memory, so an
engine that is dropped without `close` has crashed, and another one goes on from there.

Selections are evaluated on tuples (query/meaning); with `config.volumes` streams are counts, for
simulations of a thousand peers.

Promises   L1 L2 L3 (through the tables of its memory), Q1 Q2 Q3, S3; tests/conformance holds it
           to them by the suite that Spark's engine passes.
Not here   deliveries to sinks, sources of files, windows: refused with LocalError. Types that only
           Spark knows, and functions that query/meaning leaves out: refused with UserError.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import replace

from shoal.dataplane import commands as c
from shoal.dataplane.contract import Answer
from shoal.dataplane.reports import EngineView, Report
from shoal.kernel.errors import LocalError
from shoal.kernel.rng import Rng
from shoal.kernel.time import Instant
from shoal.query.meaning.evaluate import Installed, analyze
from shoal.sim.engine.config import Costs, EngineConfig
from shoal.sim.engine.desk import Desk
from shoal.sim.engine.memory import Commit, Item, Memory
from shoal.sim.engine.parts.ingest import open_ingest, reread
from shoal.sim.engine.parts.matter import Matter, Tuples, Volumes
from shoal.sim.engine.parts.select import SelectComponent, open_select
from shoal.sim.engine.steps import Part

__all__ = ["AT_ONCE_MAX", "SimEngine"]

#: Things that may happen at one instant; more would be a defect that never ends.
AT_ONCE_MAX = 100_000


class SimEngine:
    """Runs components in memory, on the time it is given."""

    def __init__(
        self,
        memory: Memory,
        *,
        owner: str,
        rng: Rng,
        now: Instant,
        config: EngineConfig | None = None,
        costs: Costs | None = None,
        functions: Mapping[str, Installed] | None = None,
    ) -> None:
        self._memory = memory
        #: Who it is, for whoever looks at several of them.
        self.owner = owner
        self._now = now
        self._config = config or EngineConfig()
        self._config.check()
        self._functions = dict(functions or {})
        self._reports: deque[Report] = deque(maxlen=self._config.reports_most)
        self._stopped = ""
        self._matter: Matter = Tuples(self._functions, self._reread)
        if self._config.volumes:
            otherwise = self._config.selectivity_otherwise
            self._matter = Volumes(self._config.selectivity, otherwise)
        self._desk = Desk(
            rng=rng,
            config=self._config,
            costs=costs or Costs(),
            matter=self._matter,
            report=self._reports.append,
            now=now,
        )

    # The contract

    def call(self, command: c.Command, *, timeout: float) -> Answer:
        """Carry out one command; durable when it returns. It takes no time here."""
        del timeout
        self._check_running()
        answer = self._carry_out(command)
        self._desk.dispatch(self._now)
        return answer

    def announce(self, instance: str) -> None:
        """Something may have been added to what this component reads."""
        if not self._stopped:
            self._desk.announced(instance)
            self._desk.dispatch(self._now)

    def reports(self) -> tuple[Report, ...]:
        """What happened since the last call, oldest first."""
        taken = tuple(self._reports)
        self._reports.clear()
        return taken

    def view(self) -> EngineView:
        """The engine's present state."""
        self._check_running()
        return self._desk.view(self._now)

    def close(self) -> None:
        """End after the steps that are running, at the time at which they end."""
        if self._stopped:
            return
        self._stopped = "closed"
        while (due := self._desk.lanes.next_end()) is not None:
            self._desk.finish(due)

    # The time

    @property
    def now(self) -> Instant:
        """The instant up to which everything has happened."""
        return self._now

    def next_due(self) -> Instant | None:
        """When something happens next, if nobody asks for anything; None: never."""
        return None if self._stopped else self._desk.next_due(self._now)

    def advance(self, to: Instant) -> None:
        """Run everything that falls due up to this instant; a clock set back stands still."""
        if self._stopped:
            return
        at_once = 0
        while (due := self._desk.next_due(self._now)) is not None and due <= to:
            at_once = at_once + 1 if due == self._now else 0
            if at_once > AT_ONCE_MAX:
                raise LocalError(
                    "an invented engine does not get on", detail=repr(self._desk.parts)
                )
            self._now = due
            self._desk.finish(due)
            self._desk.dispatch(due)
        self._now = max(self._now, to)

    def set_capacity(self, capacity: float) -> None:
        """The peer becomes stronger or weaker from now on; 0: it hangs."""
        self._desk.lanes.set_capacity(capacity, self._now)

    def crash(self) -> None:
        """The process is gone: steps in flight come to nothing, what is committed stays."""
        self._stopped = "crashed"

    def validate(self) -> None:
        """Raise LocalError if a component contradicts itself or its table."""
        for part in self._desk.parts.values():
            part.table.validate()
            if isinstance(part, SelectComponent):
                part.validate()
        self._desk.scheduler.validate()

    # Commands

    def _check_running(self) -> None:
        if self._stopped:
            raise LocalError("the engine has stopped", detail=self._stopped)

    def _carry_out(self, command: c.Command) -> Answer:
        match command:
            case c.Start():
                return self._start(command.component, weight=command.weight)
            case c.TakeOver():
                instance = command.component.instance
                table = self._memory.tables.get(instance)
                if table is None or not table.epoch:
                    raise LocalError(f"instance {instance} has no table")
                return self._start(command.component, weight=command.weight)
            case c.Stop():
                self._desk.remove(command.instance)
                return {}
            case c.Analyze():
                return {"cells": analyze(command.probe, self._functions)}
            case _:
                return self._change_rows(command)

    def _change_rows(self, command: c.Command) -> Answer:
        desk = self._desk
        match command:
            case c.AddRows():
                component = desk.select(command.instance)
                rows = component.add(command.rows, command.begin)
                desk.promise(component)
                return {"roster": component.version, "start": rows[0].start if rows else 0}
            case c.ReplaceRow():
                source, target = desk.select(command.source), desk.select(command.target)
                at = max(source.event_time, target.event_time)
                row = replace(command.row, keep=source.share(command.row.query))
                target.check([row])
                source.end(row.query, at=at, now=False)
                rows = target.add([row], at)
                desk.promise(target)
                return {"roster": target.version, "start": rows[0].start}
            case c.DropRow():
                component = desk.select(command.instance)
                row = component.end(command.query, at=component.event_time, now=command.now)
                return {"until": row.until, "cut": row.cut}
            case c.SetKeep():
                row = desk.select(command.instance).keep(command.query, command.keep)
                return {"keep": row.keep}
            case c.SetWeight():
                row = desk.select(command.instance).weigh(command.query, command.weight)
                return {"weight": row.weight}
            case _:
                raise LocalError(
                    f"command {type(command).__name__} cannot be carried out",
                    detail="an invented engine has no sinks",
                )

    def _start(self, component: c.Component, *, weight: float) -> Answer:
        if component.instance in self._desk.parts:
            raise LocalError(f"component {component.instance} runs here already")
        part: Part
        match component:
            case c.Ingest():
                part = open_ingest(
                    self._memory, component, weight=weight, now=self._now, config=self._config
                )
            case c.Select():
                self._matter.check(component)
                part = open_select(self._memory, component, weight=weight)
            case _:
                raise LocalError(
                    f"component {component.instance} cannot be run",
                    detail="an invented engine has neither sinks nor windows",
                )
        self._desk.add(part)
        rows = part.rows() if isinstance(part, SelectComponent) else ()
        return {"epoch": part.epoch, "step": part.step, "rows": rows}

    def _reread(self, spec: c.Select, commit: Commit) -> tuple[Item, ...]:
        return reread(self._memory, spec.input, spec.stream, commit, self._config)
