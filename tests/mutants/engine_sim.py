"""Broken variants of the invented engine; the conformance suite must catch each.

Each is a function that patches the real thing; `MUTANTS` says which test must fail, one that has
the broken promise in its name. That the suite catches them says as much about the suite that
Spark's engine passes.

unfenced_table      any epoch may commit                                         breaks L3
unfenced_roster     any epoch may put rows                                       breaks L3
repeated_number     a step's number is reported twice                            breaks L2
repeated_commit     a step reads the last commit of the step before again        breaks Q2
forgotten_fill      a new owner does not go on with history                      breaks Q2
restarting_fill     a new owner begins history again                             breaks Q2
inclusive_start     a tuple at the very start of a row's interval counts         breaks Q1
endless_until       a row goes on after its end                                  breaks Q1
null_is_true        a condition that is NULL is a match                          breaks Q1
late_is_ok          nothing is ever late                                         breaks Q1
ahead_is_ok         nothing is ahead of the clock                                breaks Q1
shared_change       ending a row ends another one, too                           breaks Q3
all_suspended       when one row fails, its neighbours are suspended with it     breaks Q3
forgetful_roster    a share is not durable                                       breaks Q3
uncounted_shedding  what was not looked at is not counted                        breaks S3
uncounted_errors    what could not be evaluated is not counted                   breaks S3
unsorted_results    rows of a commit come as they were found                     breaks O1
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from shoal.dataplane.rows import FOREVER, RosterRow
from shoal.log.watermark import SplitClocks
from shoal.sim.engine import desk
from shoal.sim.engine.memory import Commit, RosterBook, Table
from shoal.sim.engine.parts import matter
from shoal.sim.engine.parts.matter import Outcome, Tuples
from shoal.sim.engine.parts.select import SelectComponent

__all__ = ["MUTANTS"]

Patch = pytest.MonkeyPatch


def unfenced_table(patch: Patch) -> None:
    """L3: who comes too late takes the next number and goes on."""
    real = Table.append

    def mutant(self: Table, commit: Commit) -> None:
        real(self, replace(commit, epoch=self.epoch, step=self.step + 1))

    patch.setattr(Table, "append", mutant)


def unfenced_roster(patch: Patch) -> None:
    """L3: a former owner's rows are accepted, and lost."""
    patch.setattr(RosterBook, "_check", lambda *_: None)


def repeated_number(patch: Patch) -> None:
    """L2: every second step is told twice."""
    real = desk.Desk._stepped

    def mutant(self: desk.Desk, part: Any, done: Any, now: int) -> None:
        real(self, part, done, now)
        if done.step % 2:
            self._report(done)

    patch.setattr(desk.Desk, "_stepped", mutant)


def repeated_commit(patch: Patch) -> None:
    """Q2: the position is one short of what was served; once, or it would never come to an end."""
    real = SelectComponent.done

    def mutant(self: SelectComponent, upto: int) -> None:
        real(self, upto)
        if not vars(self).setdefault("repeated", False):
            self.__dict__["repeated"] = True
            self.position = self.planned = upto - 1

    patch.setattr(SelectComponent, "done", mutant)


def forgotten_fill(patch: Patch) -> None:
    """Q2: what a former owner left of history is taken to be served."""
    patch.setattr(SelectComponent, "_filled", lambda self, row: FOREVER)


def restarting_fill(patch: Patch) -> None:
    """Q2: history is served from the beginning, whatever was served before."""
    patch.setattr(SelectComponent, "_filled", lambda self, row: 0)


def inclusive_start(patch: Patch) -> None:
    """Q1: `>=` where the rule says `>`."""
    _change_rows(patch, lambda row: replace(row, start=row.start - 1))


def endless_until(patch: Patch) -> None:
    """Q1: the end of the interval is not looked at, while the row is still served."""
    _change_rows(patch, lambda row: replace(row, until=FOREVER))


def _change_rows(patch: Patch, change: Callable[[RosterRow], RosterRow]) -> None:
    real = Tuples.select

    def mutant(self: Tuples, spec: Any, rows: Sequence[RosterRow], commits: Any) -> Outcome:
        return real(self, spec, [change(row) for row in rows], commits)

    patch.setattr(Tuples, "select", mutant)


def null_is_true(patch: Patch) -> None:
    """Q1: a match is whatever is not FALSE."""
    real = matter.evaluate.condition

    def mutant(*args: Any) -> Any:
        run = real(*args)
        return lambda s, p: run(s, p) is not False

    patch.setattr(matter.evaluate, "condition", mutant)


def late_is_ok(patch: Patch) -> None:
    """Q1: the watermark never moves."""
    patch.setattr(SplitClocks, "_minimum", lambda *_: None)


def ahead_is_ok(patch: Patch) -> None:
    """Q1: there is no limit ahead of the clock."""
    patch.setattr(SplitClocks, "ahead_limit", lambda *_: FOREVER)
    real = SplitClocks.advanced

    def mutant(self: SplitClocks, rule: Any, highest: Any, **rest: Any) -> SplitClocks:
        limit = rest["now"]
        return real(self, rule, {k: min(v, limit) for k, v in highest.items()}, **rest)

    patch.setattr(SplitClocks, "advanced", mutant)


def shared_change(patch: Patch) -> None:
    """Q3: the row beside it ends with it."""
    real = SelectComponent.end

    def mutant(self: SelectComponent, query: str, *, at: int, now: bool) -> RosterRow:
        ended = real(self, query, at=at, now=now)
        other = [row for row in self.rows() if row.until == FOREVER]
        self._put([replace(row, until=ended.until) for row in other[-1:]])
        return ended

    patch.setattr(SelectComponent, "end", mutant)


def all_suspended(patch: Patch) -> None:
    """Q3: one bad row takes the others with it."""
    real = SelectComponent.suspend

    def mutant(self: SelectComponent, rows: Any, reasons: Any) -> None:
        real(self, self.rows(), [reasons[0]] * len(self.rows()))

    patch.setattr(SelectComponent, "suspend", mutant)


def forgetful_roster(patch: Patch) -> None:
    """Q3: a new owner looks at all tuples again."""
    real = RosterBook.claim

    def mutant(self: RosterBook, epoch: int) -> tuple[RosterRow, ...]:
        return tuple(replace(row, keep=1.0) for row in real(self, epoch))

    patch.setattr(RosterBook, "claim", mutant)


def uncounted_shedding(patch: Patch) -> None:
    """S3: tuples are dropped in silence."""
    _uncount(patch, "shed/")


def uncounted_errors(patch: Patch) -> None:
    """S3: what could not be evaluated is no match, in silence."""
    _uncount(patch, "error/")


def _uncount(patch: Patch, prefix: str) -> None:
    real = Tuples.select

    def mutant(self: Tuples, *args: Any) -> Outcome:
        found = real(self, *args)
        found.counters = {
            name: 0 if name.startswith(prefix) else n for name, n in found.counters.items()
        }
        return found

    patch.setattr(Tuples, "select", mutant)


def unsorted_results(patch: Patch) -> None:
    """O1: results are as they were found."""
    real = Tuples.select

    def mutant(self: Tuples, *args: Any) -> Outcome:
        found = real(self, *args)
        found.results = tuple(sorted(found.results, key=lambda result: result.id))
        return found

    patch.setattr(Tuples, "select", mutant)


MUTANTS: Mapping[Callable[[Patch], None], str] = {
    unfenced_table: "test_L3_a_second_engine_fences_the_first",
    unfenced_roster: "test_L3_a_second_engine_fences_the_first",
    repeated_number: "test_L2_steps_are_reported_once_in_order",
    repeated_commit: "test_Q2_rows_outlive_their_owner",
    forgotten_fill: "test_Q2_a_new_owner_in_the_middle_of_it",
    restarting_fill: "test_Q1_Q2_back_fill",
    inclusive_start: "test_Q1_a_start_that_is_still_to_come",
    endless_until: "test_Q1_replace",
    null_is_true: "test_Q1_null_is_not_true",
    late_is_ok: "test_Q1_late_and_dead_tuples_are_nobodys",
    ahead_is_ok: "test_Q1_late_and_dead_tuples_are_nobodys",
    shared_change: "test_Q1_Q3_drop",
    all_suspended: "test_Q3_a_row_that_fails_is_suspended",
    forgetful_roster: "test_Q3_what_was_acknowledged_outlives_the_owner",
    uncounted_shedding: "test_S3_keep",
    uncounted_errors: "test_S3_errors_are_null_and_counted",
    unsorted_results: "test_O1_a_commit_is_in_order",
}
