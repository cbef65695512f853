"""Rows of an invented select: intervals, history, ends, and what outlives the owner."""

import pytest

from shoal.dataplane import commands as c
from shoal.dataplane.rows import FOREVER
from shoal.kernel.errors import Fenced, LocalError, UserError
from shoal.kernel.time import SECOND
from shoal.sim.engine.memory import Memory
from shoal.sim.engine.parts.select import PRUNE_AT, open_select
from tests.unit.sim.engine.world import Bench, ingest_of, row_of, select_of, stream_of, tuples

STREAM = stream_of()
SPEC = select_of(STREAM, "value > 0")


def bench_with(*values: int) -> Bench:
    bench = Bench()
    bench.start(ingest_of(STREAM), SPEC)
    bench.push(tuples(*values))
    bench.run(1)
    return bench


def test_Q1_a_row_counts_from_what_is_consumed_and_what_is_at_work() -> None:
    bench = bench_with(1, 2, 3)
    bench.push(tuples(9))
    bench.run(0.15)
    answer = bench.call(
        c.AddRows(instance=SPEC.instance, rows=(row_of("a", STREAM, "value > 0"),), begin=None)
    )
    assert answer["start"] == 9 * SECOND
    bench.push(tuples(9, 10))
    bench.run(2)
    assert bench.values(SPEC.instance) == [10]


def test_a_new_component_starts_at_the_head_and_says_so() -> None:
    bench = Bench()
    bench.start(ingest_of(STREAM))
    bench.push(tuples(1))
    bench.run(1)
    component = open_select(bench.memory, SPEC, weight=1.0)
    assert component.position == bench.memory.table("w-1").step
    again = open_select(bench.memory, SPEC, weight=1.0)
    assert (again.position, again.step, again.epoch) == (component.position, 1, 2)


def test_history_that_retention_has_taken_is_refused() -> None:
    bench = bench_with(1, 2)
    bench.push(tuples(3))
    bench.run(1)
    bench.memory.table("w-1").retain(2)
    with pytest.raises(UserError, match="no longer reaches back"):
        bench.add(SPEC, row_of("a", STREAM, "value > 0"), begin=0)
    bench.add(SPEC, row_of("b", STREAM, "value > 0"))


def test_history_in_the_making_is_kept() -> None:
    bench = bench_with(1, 2)
    component = open_select(bench.memory, SPEC, weight=1.0)
    component.add([row_of("a", STREAM, "value > 0")], 0)
    bench.memory.table("w-1").retain(100)
    assert bench.memory.table("w-1").forgotten == 0
    row, read = component.next_fill(1)
    component.filled(row, read.upto)
    assert component.filling
    assert component.lag == 1
    row, read = component.next_fill(1)
    component.filled(row, read.upto)
    bench.memory.table("w-1").retain(100)
    assert bench.memory.table("w-1").forgotten == 2


def test_one_name_is_one_row_until_it_ends() -> None:
    bench = bench_with(1)
    bench.add(SPEC, row_of("a", STREAM, "value > 0"))
    with pytest.raises(LocalError):
        bench.add(SPEC, row_of("a", STREAM, "value > 5"))
    bench.call(c.DropRow(instance=SPEC.instance, query="a", now=True))
    bench.add(SPEC, row_of("a", STREAM, "value > 5"))


@pytest.mark.slow
def test_rows_that_are_over_are_forgotten_when_they_are_many() -> None:
    bench = bench_with(1)
    rows = [row_of(f"q{n}", STREAM, "value > 0") for n in range(PRUNE_AT)]
    bench.add(SPEC, *rows, row_of("stays", STREAM, "value > 0"))
    for row in rows:
        bench.call(c.DropRow(instance=SPEC.instance, query=row.query, now=False))
    bench.push(tuples(100))
    bench.run(1)
    bench.push(tuples(101))
    bench.run(1)
    assert bench.view(SPEC.instance).roster_rows == 1
    assert bench.values(SPEC.instance) == [100, 101]


def test_L3_a_former_owner_changes_no_rows() -> None:
    bench = bench_with(1)
    first = open_select(bench.memory, SPEC, weight=1.0)
    open_select(bench.memory, SPEC, weight=1.0)
    for change in (
        lambda: first.add([row_of("a", STREAM, "value > 0")], None),
        lambda: first.suspend([], []),
    ):
        with pytest.raises(Fenced):
            change()


def test_a_query_has_another_weight() -> None:
    component = open_select(bench_with(1).memory, SPEC, weight=1.0)
    component.add([row_of("a", STREAM, "value > 0")], None)
    assert component.weigh("a", 4.0).weight == 4.0
    assert [row.weight for row in component.rows()] == [4.0]


def test_suspended_rows_stay_to_be_seen_but_are_not_served() -> None:
    bench = bench_with(1)
    component = open_select(bench.memory, SPEC, weight=1.0)
    (row,) = component.add([row_of("a", STREAM, "value > 0")], None)
    component.suspend([row], ["it raised"])
    (kept,) = open_select(bench.memory, SPEC, weight=1.0).rows()
    assert (kept.suspended, kept.until) == ("it raised", FOREVER)
    assert kept.cut == component.position


def test_without_an_input_there_is_nothing_to_read() -> None:
    component = open_select(Memory(), SPEC, weight=1.0)
    assert (component.position, component.ready, component.lag) == (0, False, 0)
    assert component.next_range(10) is None
    component.validate()
