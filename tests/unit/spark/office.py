"""A desk without Spark: its commands, its clock, and workers whose steps find nothing."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, cast

from shoal.dataplane import commands as c
from shoal.dataplane.reports import (
    Report,
)
from shoal.dataplane.scheduler import BACKOFF_MOST
from shoal.kernel.time import SECOND
from shoal.log.root import Root
from shoal.spark.desk import Desk
from shoal.spark.outcome import StepFailed, StepOutcome
from shoal.spark.select.step import SelectWork
from shoal.spark.turns import Finished, PanesTurn, RollUpTurn, SelectTurn, Turn
from tests.unit.spark.small import row, spec

NAME = spec().instance


class Office:
    """A desk, its clock, and workers whose steps find nothing."""

    def __init__(self, root: Root, commits: ThreadPoolExecutor) -> None:
        self.root = root
        self.reports: list[Report] = []
        self.now = 1000 * SECOND
        self.desk = Desk(
            cast("Any", None), root, owner="peer-1", commits=commits, report=self.reports.append
        )

    def ask(self, command: c.Command) -> "Future[Any]":
        answer: Future[Any] = Future()
        self.desk.ask(command, answer, self.now)
        return answer

    def call(self, command: c.Command) -> Any:
        return self.ask(command).result(timeout=0)

    def start(self, component: c.Component) -> Any:
        return self.call(c.Start(component=component, weight=1.0))

    def add(self, *queries: str, begin: int | None = None) -> Any:
        rows = tuple(row(query, 1.0) for query in queries)
        return self.call(c.AddRows(instance=NAME, rows=rows, begin=begin))

    def turn(self) -> Turn | None:
        """The next turn, a little later than the last."""
        self.now += SECOND // 10
        work = self.desk.next_work(self.now)
        return None if work is None else cast("Turn", cast("partial[Any]", work).func)

    def end(self, turn: Turn, outcomes: Sequence[Any]) -> None:
        self.desk.finished(Finished(turn=turn, outcomes=tuple(outcomes)), self.now)

    def step(self) -> SelectTurn:
        """One step of selects, well done."""
        turn = self.turn()
        assert isinstance(turn, SelectTurn)
        self.end(turn, [committed(work) for work in turn.works])
        return turn

    def fail(self, *, reason: str = "[CAST] no") -> Turn:
        """One turn that comes to nothing, its back-off over."""
        turn = self.turn()
        assert turn is not None
        failed = [
            StepFailed(instance=name, phase="job", cause=ValueError(reason))
            for name in turn.instances
        ]
        self.end(turn, failed)
        self.now += BACKOFF_MOST
        return turn

    def view(self, instance: str = NAME) -> Any:
        found = self.desk.view(self.now, threads=1).components
        return next((view for view in found if view.instance == instance), None)

    def told(self, kind: type[Report]) -> list[Any]:
        return [report for report in self.reports if isinstance(report, kind)]


def committed(work: SelectWork, **transactions: int) -> StepOutcome:
    """A step that found nothing."""
    commit = work.writer.commit(
        step=work.writer.step + 1,
        segments=[],
        transactions={**work.transactions, **transactions},
    )
    return StepOutcome(
        instance=work.instance,
        commit=commit,
        rows_in=1,
        rows_out=0,
        roster_rows=len(work.rows),
        roster_version=work.roster_version,
        busy=0.1,
    )


def made(turn: Turn) -> StepOutcome:
    """A step of panes or of a roll-up that found nothing."""
    assert isinstance(turn, PanesTurn | RollUpTurn)
    if isinstance(turn, PanesTurn):
        writer, facts = turn.work.writer, dict(turn.work.transactions)
    else:
        work = turn.work
        due = {work.fill: work.due.reached} if work.fill else work.due.facts(work.due.reached)
        writer, facts = work.select.writer, {**work.select.transactions, **due}
    commit = writer.commit(step=writer.step + 1, segments=[], transactions=facts)
    return StepOutcome(
        instance=turn.instances[0],
        commit=commit,
        rows_in=1,
        rows_out=0,
        roster_version=0 if isinstance(turn, PanesTurn) else turn.work.select.roster_version,
        busy=0.1,
    )
