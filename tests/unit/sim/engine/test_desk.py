"""Whose turn it is on an invented peer, and what comes of a step."""

from dataclasses import replace

import pytest

from shoal.dataplane import commands as c
from shoal.dataplane.reports import Failed, Report, StepDone, Suspended
from shoal.dataplane.scheduler import ATTEMPTS_BEFORE_BISECTION
from shoal.kernel.time import SECOND
from shoal.query.cost import StepCost
from shoal.query.draft import parse_selection
from shoal.query.meaning.evaluate import Installed, analyze
from shoal.sim.engine.config import Costs, EngineConfig
from tests.unit.sim.engine.world import Bench, ingest_of, row_of, select_of, stream_of, tuples

STREAM = stream_of()
FIXED = StepCost(step=0.1, tuple_in=0.0, tuple_out=0.0, history=0.0, roster=0.0)
COSTS = Costs(by_kind={"select": FIXED, "ingest": FIXED})


def test_selects_at_one_place_are_one_step() -> None:
    bench = Bench(costs=COSTS)
    one, other = select_of(STREAM, "value > 1"), select_of(STREAM, "zone = 1")
    bench.start(ingest_of(STREAM), one, other)
    bench.push(tuples(1, 2))
    done = [step for step in bench.run(5) if step.kind == "select"]
    assert [step.group for step in done] == [2, 2]
    assert len(dict.fromkeys(step.committed for step in done)) == 1


def test_at_most_so_many_members() -> None:
    bench = Bench(costs=COSTS, config=EngineConfig(jitter=0.0, group_most=2))
    selects = [select_of(STREAM, "value > 1", name=f"s{n}") for n in range(5)]
    bench.start(ingest_of(STREAM), *selects)
    bench.push(tuples(1, 2))
    done = [step for step in bench.run(5) if step.kind == "select"]
    assert sorted(step.group for step in done) == [1, 2, 2, 2, 2]


def test_a_step_has_at_most_so_many_tuples() -> None:
    bench = Bench(config=EngineConfig(jitter=0.0, rows_per_step=3, batches_per_step=1))
    select = select_of(STREAM, "value > 0")
    bench.start(ingest_of(STREAM), select)
    bench.add(select, row_of("a", STREAM, "value > 0"))
    for n in range(0, 12, 2):
        bench.push(tuples(n, n + 1))
    bench.engine.set_capacity(0.1)
    done = [step.rows_in for step in bench.run(200) if step.kind == "select"]
    assert sum(done) == 12
    assert max(done) <= 3
    assert bench.values(select.instance) == list(range(1, 12))


@pytest.mark.slow
def test_by_weight() -> None:
    """Of two that never have enough, the heavier has more steps."""
    heavy, light = (select_of(STREAM, "value > 1", name=name) for name in ("heavy", "light"))
    config = EngineConfig(jitter=0.0, lanes=1, group_most=1, rows_per_step=1, batches_per_step=1)
    costs = Costs(by_kind={"select": FIXED, "ingest": replace(FIXED, step=0.001)})
    bench = Bench(config=config, costs=costs)
    bench.start(ingest_of(STREAM))
    bench.call(c.Start(component=heavy, weight=3.0))
    bench.call(c.Start(component=light, weight=1.0))
    for n in range(400):
        bench.push(tuples(n))
    steps = [step.instance for step in bench.run(40) if step.kind == "select"]
    late = steps[-100:]
    assert 2.0 < late.count("heavy") / late.count("light") < 4.0


def test_what_a_users_function_raises_is_tried_again_and_then_its_row_suspended() -> None:
    def trap(value: int, x: int) -> bool:
        if x == 13:
            raise ValueError("thirteen\nand more")
        return True

    functions = {"trap": Installed(run=trap, type="BOOLEAN")}
    bench = Bench(functions=functions)
    draft = parse_selection(
        "SELECT value FROM w WHERE trap(value, 13)", STREAM, extra_functions=["trap"]
    )
    found = draft.resolve(analyze(draft.probe, functions))
    component = c.Select(instance="trapped", input="w-1", stream=STREAM, signature=found.signature)
    bench.start(ingest_of(STREAM), component)
    rows = [row_of("good", STREAM, "value > 12"), row_of("bad", STREAM, "value > 13")]
    bench.add(component, *rows)
    bench.push(tuples(20))
    seen: list[Report] = []
    for _ in range(100):
        bench.engine.advance(bench.engine.now + SECOND // 10)
        seen += bench.engine.reports()
    failed = [report for report in seen if isinstance(report, Failed)]
    assert [report.attempts for report in failed] == [1, 1, 2, 3][-len(failed) :]
    assert len(failed) >= ATTEMPTS_BEFORE_BISECTION
    assert failed[-1].reason == "job: ValueError: thirteen"
    (guilty,) = [report for report in seen if isinstance(report, Suspended)]
    assert (guilty.query, guilty.reason) == ("bad", "ValueError: thirteen")
    assert bench.values("trapped") == [20]
    assert bench.view("trapped").failures == 0


def test_commits_of_others_are_noticed() -> None:
    """A select whose ingest runs elsewhere: by and by, or at once if it is announced."""
    here = Bench()
    there = Bench(memory=here.memory, seed=2)
    select = select_of(STREAM, "value > 0")
    here.start(ingest_of(STREAM))
    there.start(select)
    there.add(select, row_of("a", STREAM, "value > 0"))
    here.push(tuples(1))
    here.run(1)
    assert there.view(select.instance).lag == 0
    there.run(1)
    assert there.values(select.instance) == [1]
    here.push(tuples(2))
    here.run(1)
    there.engine.announce("w-1")
    assert there.view(select.instance).lag == 1


def test_removed_is_removed() -> None:
    bench = Bench()
    select = select_of(STREAM, "value > 0")
    bench.start(ingest_of(STREAM), select)
    bench.call(c.Stop(instance=select.instance))
    assert [view.kind for view in bench.engine.view().components] == ["ingest"]
    bench.push(tuples(1))
    assert all(isinstance(step, StepDone) and step.kind == "ingest" for step in bench.run(1))
    with pytest.raises(Exception, match="does not run here"):
        bench.call(c.Stop(instance=select.instance))
