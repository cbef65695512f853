"""Broken variants of selection, ingest and delivery of results; the oracle must catch each.

Each is a function that patches the real thing; `MUTANTS` says which promise it breaks.

inclusive_start     a tuple at the very start of a row's interval counts         breaks Q1
endless_until       a row goes on after its end                                  breaks Q1
neighbours_constant a row has the constants of the row before it                 breaks Q1
lenient_judge       nothing is ever late                                         breaks Q1
generous_end        a dropped query goes on for a second of event time           breaks Q1
uncut_versions      DROP NOW leaves what an earlier version still owes           breaks Q1
early_cut           DROP NOW takes back the last commit                          breaks Q1
repeated_commit     a step reads the last commit of the step before again        breaks Q2
merging_step        equal tuples of one step become one                          breaks Q2
shared_change       adding a row gives its constants to another                  breaks Q3
ending_too_many     ending a row ends another one, too                           breaks Q3
unsorted_results    rows of a commit come as they were found                     breaks O1
uncounted_shedding  what was not looked at is not counted                        breaks S3
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import shoal.cli.local
import shoal.spark.select.plan
import shoal.spark.select.step
from shoal.dataplane.rows import FOREVER, RosterRow
from shoal.log.watermark import SplitClocks
from shoal.spark.select.component import SelectComponent
from shoal.spark.select.index import Member

__all__ = ["MUTANTS"]

Patch = pytest.MonkeyPatch


def inclusive_start(patch: Patch) -> None:
    """Q1: `>=` where the rule says `>`."""
    _change_intervals(patch, "> p._start", ">= p._start")


def endless_until(patch: Patch) -> None:
    """Q1: the end of the interval is not looked at, while the row is still served."""
    _change_intervals(patch, "<= p._until", "IS NOT NULL")


def _change_intervals(patch: Patch, old: str, new: str) -> None:
    real = shoal.spark.select.plan._intervals

    def mutant(timestamp: str) -> list[str]:
        return [text.replace(old, new) for text in real(timestamp)]

    patch.setattr(shoal.spark.select.plan, "_intervals", mutant)


def neighbours_constant(patch: Patch) -> None:
    """Q1: off by one when constants are written beside rows."""
    real = shoal.spark.select.step.build_roster

    def mutant(spark: Any, members: Sequence[Member], *args: Any) -> Any:
        shifted = [
            replace(
                member,
                rows=tuple(
                    replace(row, parameters=member.rows[n - 1].parameters)
                    for n, row in enumerate(member.rows)
                ),
            )
            for member in members
        ]
        return real(spark, shifted, *args)

    patch.setattr(shoal.spark.select.step, "build_roster", mutant)


def lenient_judge(patch: Patch) -> None:
    """Q1: the watermark never moves."""
    patch.setattr(SplitClocks, "_minimum", lambda *_: None)


def generous_end(patch: Patch) -> None:
    """Q1: what nobody has seen yet still counts."""
    _change_ends(patch, lambda row: replace(row, until=min(row.until + 1_000_000, FOREVER)))


def early_cut(patch: Patch) -> None:
    """Q1: what was served is not the query's any more."""
    _change_ends(patch, lambda row: replace(row, cut=row.cut - (row.cut < FOREVER)))


def _change_ends(patch: Patch, change: Callable[[RosterRow], RosterRow]) -> None:
    real = SelectComponent.end

    def mutant(self: SelectComponent, query: str, *, at: int, now: bool) -> RosterRow:
        ended = change(real(self, query, at=at, now=now))
        self._put([ended])
        return ended

    patch.setattr(SelectComponent, "end", mutant)


def uncut_versions(patch: Patch) -> None:
    """Q1: only the newest version is cut."""
    real = SelectComponent.end

    def mutant(self: SelectComponent, query: str, *, at: int, now: bool) -> RosterRow:
        before = [row for row in self.rows() if row.query == query]
        ended = real(self, query, at=at, now=now)
        self._put([row for row in before if row.identity != ended.identity])
        return ended

    patch.setattr(SelectComponent, "end", mutant)


def repeated_commit(patch: Patch) -> None:
    """Q2: the position is one short of what was served."""
    real = SelectComponent.done

    def mutant(self: SelectComponent, *, upto: int, rows_in: int, rows_out: int) -> None:
        real(self, upto=upto, rows_in=rows_in, rows_out=rows_out)
        if rows_in:
            self.position = self.planned = upto - 1
            # Once is enough: otherwise it would never come to an end.
            patch.setattr(SelectComponent, "done", real)

    patch.setattr(SelectComponent, "done", mutant)


def merging_step(patch: Patch) -> None:
    """Q2: duplicates are dropped, but only those that meet in one step."""
    real = shoal.spark.select.step._from_arrow

    def mutant(arrow: pa.Table, *args: Any) -> Any:
        keys = [name for name in arrow.column_names if name not in ("_id", "_step")]
        seen: dict[str, int] = {}
        for number, row in enumerate(arrow.select(keys).to_pylist()):
            seen.setdefault(repr(row), number)
        return real(arrow.take(list(seen.values())), *args)

    patch.setattr(shoal.spark.select.step, "_from_arrow", mutant)


def shared_change(patch: Patch) -> None:
    """Q3: the first row takes the newcomer's constants."""
    real = SelectComponent.add

    def mutant(self: SelectComponent, rows: Sequence[RosterRow], begin: int | None) -> Any:
        accepted = real(self, rows, begin)
        first = self.rows()[0]
        if first.identity != accepted[-1].identity:
            self._put([replace(first, parameters=accepted[-1].parameters)])
        return accepted

    patch.setattr(SelectComponent, "add", mutant)


def ending_too_many(patch: Patch) -> None:
    """Q3: the row beside it ends with it."""
    real = SelectComponent.end

    def mutant(self: SelectComponent, query: str, *, at: int, now: bool) -> RosterRow:
        ended = real(self, query, at=at, now=now)
        other = next((row for row in self.rows() if row.until == FOREVER), None)
        if other is not None:
            self._put([replace(other, until=ended.until)])
        return ended

    patch.setattr(SelectComponent, "end", mutant)


def unsorted_results(patch: Patch) -> None:
    """O1: a reader that relies on the order of files."""
    real = shoal.cli.local.read_rows

    def mutant(*args: Any, **options: Any) -> pa.Table:
        return real(*args, **options).sort_by([("_id", "descending")])

    patch.setattr(shoal.cli.local, "read_rows", mutant)


def uncounted_shedding(patch: Patch) -> None:
    """S3: tuples are dropped in silence."""

    def mutant(self: object, works: Sequence[object]) -> list[dict[str, int]]:
        return [{} for _ in works]

    patch.setattr(shoal.spark.select.step.Shedding, "by_query", mutant)


MUTANTS: Mapping[Callable[[Patch], None], str] = {
    inclusive_start: "Q1",
    endless_until: "Q1",
    neighbours_constant: "Q1",
    lenient_judge: "Q1",
    generous_end: "Q1",
    uncut_versions: "Q1",
    early_cut: "Q1",
    repeated_commit: "Q2",
    merging_step: "Q2",
    shared_change: "Q3",
    ending_too_many: "Q3",
    unsorted_results: "O1",
    uncounted_shedding: "S3",
}
