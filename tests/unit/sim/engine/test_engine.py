"""Invented time: what falls due is done, and lag, latency and the joint cycle follow from costs.

The contract itself is tests/conformance/test_sim_engine.py.
"""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shoal.dataplane import commands as c
from shoal.dataplane.reports import Report, StepDone
from shoal.kernel.errors import LocalError, UserError
from shoal.kernel.time import HOUR, SECOND
from shoal.query.cost import Demand, StepCost, cycle_of
from shoal.sim.engine.config import Costs, EngineConfig
from shoal.sim.engine.desk import Desk
from shoal.sim.engine.memory import Volume
from tests.unit.sim.engine.world import (
    BEGIN,
    Bench,
    ingest_of,
    row_of,
    select_of,
    stream_of,
    tuples,
)

STREAM = stream_of()
_ROOT = Path(__file__).parents[4]
_PATHS = (str(_ROOT / "src"), str(_ROOT))
INGEST = StepCost(step=0.05, tuple_in=1e-6, tuple_out=0.0, history=0.0, roster=0.0)
SELECT = StepCost(step=0.1, tuple_in=2e-6, tuple_out=1e-5, history=0.0, roster=1e-4)


def busy(
    rate: int,
    *,
    lanes: int = 1,
    ingest: StepCost = INGEST,
    select: StepCost = SELECT,
    **fields: Any,
) -> tuple[Bench, c.Select]:
    """A peer with a stream at a rate, and one select of two queries."""
    stream = stream_of("rate", rows_per_second=str(rate))
    config = EngineConfig(
        volumes=True, lanes=lanes, selectivity={"a": 0.1, "b": 0.01}, **{"jitter": 0.0, **fields}
    )
    costs = Costs(by_kind={"ingest": ingest, "select": select})
    bench = Bench(config=config, costs=costs, now=BEGIN)
    component = select_of(stream, "value > 0")
    bench.start(ingest_of(stream), component)
    bench.add(component, *(row_of(name, stream, "value > 0") for name in "ab"))
    return bench, component


def cycle_seen(done: list[StepDone], instance: str) -> float:
    """Seconds between two steps of a component, on average, after a while."""
    ends = [step.committed for step in done if step.instance == instance][10:]
    return (ends[-1] - ends[0]) / (len(ends) - 1) / SECOND


@pytest.mark.slow
def test_the_joint_cycle_emerges() -> None:
    """Of components alike, each has its step once in T = sum a / (C - sum b lambda)."""
    rate = 100_000
    alike = StepCost(step=0.1, tuple_in=3.1e-6, tuple_out=0.0, history=0.0, roster=0.0)
    bench, select = busy(rate, ingest=alike, select=alike)
    done = bench.run(120)
    demand = Demand.of(alike, in_per_second=rate, out_per_second=0, history=0, roster=0)
    told = cycle_of([demand, demand], capacity=1.0).seconds
    assert cycle_seen(done, select.instance) == pytest.approx(told, rel=0.05)
    assert bench.engine.view().cycle_seconds == pytest.approx(told, rel=0.15)
    latency = [
        (step.committed - step.source_committed) / SECOND
        for step in done
        if step.instance == select.instance
    ][10:]
    assert max(latency) < 1.1 * told


@pytest.mark.slow
@pytest.mark.parametrize("rate", [20_000, 100_000])
def test_the_cycle_that_is_told_is_the_one_that_comes(rate: int) -> None:
    """Also with two lanes always full, whose steps take twice their work: from reports alone."""
    alike = StepCost(step=0.1, tuple_in=2e-6, tuple_out=0.0, history=0.0, roster=0.0)
    costs = Costs(by_kind={"ingest": alike, "select": alike})
    bench = Bench(config=EngineConfig(volumes=True, lanes=2, jitter=0.1), costs=costs, now=BEGIN)
    stream = stream_of("rate", rows_per_second=str(rate))
    selects = []
    for n in (1, 2):
        select = replace(select_of(stream, "value > 0", name=f"s-{n}"), input=f"w-{n}")
        bench.start(ingest_of(stream, select.input), select)
        bench.add(select, row_of("a", stream, "value > 0"))
        selects.append(select.instance)
    done = bench.run(300)
    told = bench.engine.view().cycle_seconds
    demand = Demand.of(alike, in_per_second=rate, out_per_second=0, history=0, roster=0)
    assert told == pytest.approx(cycle_of([demand] * 4, capacity=1.0).seconds, rel=0.1)
    for name in ("w-1", "w-2", *selects):
        assert cycle_seen(done, name) == pytest.approx(told, rel=0.1)
    assert sum(step.busy for step in done) <= 300, "a second has one second of work"


@pytest.mark.slow
def test_of_components_that_differ_each_has_its_share_of_the_time() -> None:
    """The scheduler shares time by weight, not turns: T of one is a / (C / 2 - b lambda)."""
    bench, select = busy(100_000)
    done = bench.run(120)
    fixed = SELECT.step + 2 * SELECT.roster
    load = 100_000 * (SELECT.tuple_in + 0.11 * SELECT.tuple_out)
    assert cycle_seen(done, select.instance) == pytest.approx(fixed / (0.5 - load), rel=0.05)
    load = 100_000 * INGEST.tuple_in
    assert cycle_seen(done, "w-1") == pytest.approx(INGEST.step / (0.5 - load), rel=0.05)


@pytest.mark.slow
def test_beyond_its_capacity_a_peer_falls_behind_in_the_open() -> None:
    bench, select = busy(400_000)
    bench.run(60)
    behind = bench.view(select.instance).lag
    bench.run(60)
    assert bench.view(select.instance).lag > behind + 10 > 20


@pytest.mark.slow
def test_a_slow_peer_is_slower_and_recovers() -> None:
    bench, select = busy(10_000)
    usual = [s.busy for s in bench.run(30) if s.instance == select.instance][-1]
    bench.engine.set_capacity(0.2)
    slow = [s.busy for s in bench.run(30) if s.instance == select.instance][-1]
    assert slow > 4 * usual
    bench.engine.set_capacity(1.0)
    again = [s.busy for s in bench.run(30) if s.instance == select.instance][-1]
    assert again == pytest.approx(usual, rel=0.2)


@pytest.mark.slow
def test_costs_are_found_out() -> None:
    """The fit sees only steps, whose counts vary; it comes near the truth."""
    costs = Costs(by_kind={"ingest": INGEST, "select": SELECT})
    config = EngineConfig(volumes=True, lanes=1, selectivity={"a": 0.1})
    bench = Bench(config=config, costs=costs)
    select = select_of(STREAM, "value > 0")
    bench.start(ingest_of(STREAM), select)
    bench.add(select, row_of("a", STREAM, "value > 0"))
    for n in range(200):
        bench.push(Volume((n * 7919) % 97 * 2_000, n * SECOND, n * SECOND + 1))
        bench.run(3)
    fitted = bench.view(select.instance).cost
    assert fitted["step"] == pytest.approx(SELECT.step, rel=0.1)
    expected = SELECT.tuple_in + 0.1 * SELECT.tuple_out
    assert fitted["tuple_in"] + 0.1 * fitted["tuple_out"] == pytest.approx(expected, rel=0.1)


@pytest.mark.slow
def test_what_is_counted_is_what_was_there() -> None:
    bench, select = busy(5_000, lanes=2)
    done = bench.run(100)
    taken = sum(step.rows_out for step in done if step.instance == "w-1")
    mine = [step for step in done if step.instance == select.instance]
    consumed = sum(step.rows_in for step in mine)
    assert 0 <= taken - consumed < 5_000
    assert sum(step.rows_out for step in mine) == pytest.approx(0.11 * consumed, rel=0.01)


@pytest.mark.slow
def test_the_same_calls_give_the_same_reports() -> None:
    def play(seed: int) -> list[Report]:
        bench, _ = busy(20_000, lanes=2, jitter=0.3, hiccup_chance=0.1)
        other = Bench(seed=seed, config=EngineConfig(hiccup_chance=0.2))
        other.start(ingest_of(STREAM), select_of(STREAM, "value > 0"))
        found: list[Report] = []
        for n in range(30):
            other.push(tuples(*range(n, n + 20)))
            bench.engine.advance(bench.engine.now + SECOND)
            other.engine.advance(other.engine.now + SECOND // 3)
            found += [*bench.engine.reports(), *other.engine.reports()]
        return found

    assert play(1) == play(1)
    assert play(1) != play(2)


@pytest.mark.slow
def test_the_order_of_hashes_makes_no_difference() -> None:
    """Two interpreters that hash text in two ways see the same."""
    seen = [
        subprocess.run(
            [sys.executable, "-m", "tests.unit.sim.engine.world"],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(_PATHS)},
            cwd=_ROOT,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert len(seen[0]) == 65
    assert seen[0] == seen[1]


@pytest.mark.slow
def test_how_far_time_is_cut_into_pieces_makes_no_difference() -> None:
    coarse, fine = (busy(20_000, lanes=2)[0] for _ in range(2))
    coarse.run(20)
    for _ in range(2_000):
        fine.run(0.01)
    assert [s for s in fine.done if s.committed] == [s for s in coarse.done if s.committed]


def test_it_says_when_something_happens_next() -> None:
    bench = Bench()
    assert bench.engine.next_due() is None
    bench.start(ingest_of(STREAM))
    due = bench.engine.next_due()
    assert due is not None
    assert BEGIN < due <= BEGIN + SECOND // 4
    bench.engine.advance(BEGIN - HOUR)
    assert bench.engine.now == BEGIN


def test_a_crash_leaves_what_is_committed() -> None:
    bench = Bench()
    select = select_of(STREAM, "value > 0")
    bench.start(ingest_of(STREAM), select)
    bench.add(select, row_of("a", STREAM, "value > 0"))
    bench.push(tuples(1, 2))
    bench.run(1)
    bench.push(tuples(3, 4))
    bench.run(0.12)
    bench.engine.crash()
    bench.engine.announce("w-1")
    assert bench.engine.next_due() is None
    with pytest.raises(LocalError):
        bench.engine.view()
    again = Bench(memory=bench.memory, seed=2, now=bench.engine.now)
    for component in (ingest_of(STREAM), select):
        again.call(c.TakeOver(component=component, weight=1.0))
    again.push(tuples(5))
    again.run(2)
    assert again.values(select.instance) == [1, 2, 3, 4, 5]


def test_close_ends_what_is_at_work() -> None:
    bench = Bench()
    bench.start(ingest_of(STREAM))
    bench.push(tuples(1))
    bench.engine.close()
    bench.engine.close()
    assert bench.memory.table("w-1").step == 2
    with pytest.raises(LocalError):
        bench.call(c.Stop(instance="w-1"))


def test_what_is_not_imitated_is_refused() -> None:
    bench = Bench()
    with pytest.raises(LocalError):
        bench.start(c.Deliver(instance="d"))
    with pytest.raises(LocalError):
        bench.call(c.EndDelivery(instance="d", delivery="x"))
    with pytest.raises(LocalError):
        bench.start(ingest_of(stream_of("files", path="/x", format="json")))
    hashed = c.Select(
        instance="s",
        input="w-1",
        stream=STREAM,
        signature=select_of(STREAM, "value > 1").signature,
    )
    object.__setattr__(hashed.signature, "condition", "(xxhash64(s.`value`) > p.p0)")
    with pytest.raises(UserError):
        bench.start(hashed)
    assert bench.engine.view().components == ()


def test_what_never_ends_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.sim.engine.engine.AT_ONCE_MAX", 100)
    bench = Bench()
    bench.start(ingest_of(STREAM))
    monkeypatch.setattr(Desk, "next_due", lambda self, now: now)
    with pytest.raises(LocalError, match="does not get on"):
        bench.run(1)
