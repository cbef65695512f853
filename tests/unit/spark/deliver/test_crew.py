"""The crew: who answers which command, and what is left when a component goes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.dataplane import commands as c
from shoal.dataplane.reports import Failed, StepDone
from shoal.kernel.errors import LocalError
from shoal.log.leases import Leases
from shoal.spark.deliver import step
from shoal.spark.deliver.upkeep import UPKEEP_EVERY, Kept, UpkeepWork
from tests.property.streams import READINGS
from tests.unit.spark.deliver.world import COLUMNS, GROUP, SECOND, TABLE, World, content

OTHER = "deliver-other"
START = c.Start(component=c.Deliver(instance=GROUP), weight=1.0)


@pytest.fixture
def world(root: Path) -> Iterator[World]:
    made = World(root)
    made.commit([], rows=0)
    yield made
    made.close()


def lines(path: Path) -> c.Sink:
    return c.Sink(kind="jsonl", options={"path": str(path)})


def test_it_answers_what_is_for_a_deliver_component_only(world: World) -> None:
    crew = world.crew
    assert GROUP in crew
    assert crew.answer(c.Stop(instance="select-1")) is None
    assert crew.answer(c.Analyze(probe="SELECT 1")) is None
    ingest = c.Ingest(instance="s", stream=READINGS)
    assert crew.answer(c.Start(component=ingest, weight=1.0)) is None
    again = c.TakeOver(component=c.Deliver(instance=OTHER), weight=1.0)
    assert crew.answer(again) == {"epoch": 1}


def test_what_does_not_run_here_cannot_be_asked(world: World) -> None:
    with pytest.raises(LocalError, match="runs here already"):
        world.crew.answer(START)
    for command in (
        c.AddDeliveries(instance=OTHER, deliveries=()),
        c.EndDelivery(instance=OTHER, delivery="q"),
        c.ResumeDelivery(instance=OTHER, delivery="q"),
    ):
        with pytest.raises(LocalError, match="does not run here"):
            world.crew.answer(command)


def test_a_component_that_was_stopped_is_gone_and_comes_back(world: World, tmp_path: Path) -> None:
    sink = lines(tmp_path / "q.jsonl")
    world.add({"q": sink})
    world.commit(["q"], rows=2)
    crew = world.crew
    work = _first_step(world)
    crew.answer(c.Stop(instance=GROUP))
    assert GROUP not in crew
    assert crew.ready(world.now) == []
    assert crew.horizon(TABLE) is None
    crew.finished(work, [], world.now)
    assert crew.answer(START) == {"epoch": 2}
    world.serve()
    assert content(sink) == world.expected("q")


def _first_step(world: World) -> Any:
    world.poll()
    while True:
        work = world.crew.next_work(GROUP, world.now)
        if not isinstance(work, UpkeepWork):
            return work
        world.crew.finished(work, [Kept(instance=GROUP)], world.now)


def test_a_step_is_reported_and_what_it_takes_is_learned(world: World, tmp_path: Path) -> None:
    world.add({"q": lines(tmp_path / "q.jsonl"), "r": lines(tmp_path / "r.jsonl")})
    world.commit(["q", "other"], rows=2)
    world.serve()
    (done,) = [report for report in world.reports if isinstance(report, StepDone)]
    assert (done.instance, done.kind, done.epoch, done.step) == (GROUP, "deliver", 1, 2)
    assert (done.rows_in, done.rows_out, done.roster_rows) == (4, 2, 2)
    assert done.positions == {TABLE: 2}
    assert done.busy == pytest.approx(sum(done.seconds.values()))
    assert done.busy > 0
    (view,) = world.crew.views(world.now)
    assert view.cost["step"] > 0
    assert world.progress.cycle().seconds > 0
    world.crew.answer(c.Stop(instance=GROUP))
    assert world.progress.cycle().seconds == 0, "what does not run here takes no time"


def test_a_step_that_brought_nobody_forward_is_none(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def torn(*_: object, **__: object) -> None:
        raise OSError("no file")

    world.add({"q": lines(tmp_path / "q.jsonl")})
    world.commit(["q"], rows=2)
    world.poll()
    with monkeypatch.context() as patch:
        patch.setattr(step, "read_rows", torn)
        while world.turn():
            pass
    assert [report for report in world.reports if isinstance(report, Failed)]
    assert not [report for report in world.reports if isinstance(report, StepDone)]


def test_a_component_at_work_is_not_given_more(world: World, tmp_path: Path) -> None:
    world.add({"q": lines(tmp_path / "q.jsonl")})
    world.commit(["q"], rows=2)
    crew = world.crew
    assert _first_step(world) is not None
    world.pass_time(10 * UPKEEP_EVERY)
    assert crew.ready(world.now) == []
    assert crew.next_due(world.now) is None


def test_the_horizon_is_that_of_the_slowest(world: World, tmp_path: Path) -> None:
    crew = world.crew
    crew.answer(c.Start(component=c.Deliver(instance=OTHER), weight=1.0))
    assert crew.horizon(TABLE) is None
    world.add({"q": lines(tmp_path / "q.jsonl")})
    world.commit(["q"], rows=2)
    world.serve()
    assert crew.horizon(TABLE) == 2
    assert crew.horizon("another") is None
    world.commit(["q"], rows=2)
    behind = c.Delivery(
        delivery="r-1",
        query="r",
        version=1,
        input=TABLE,
        columns=COLUMNS,
        timestamp="ts",
        sink=lines(tmp_path / "r.jsonl"),
    )
    crew.answer(c.AddDeliveries(instance=OTHER, deliveries=(behind,)))
    assert crew.horizon(TABLE) == 2


def test_upkeep_comes_now_and_then_and_its_failure_is_told(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert world.crew.next_due(world.now) is None
    world.add({"q": lines(tmp_path / "q.jsonl")})
    world.serve()
    due = world.crew.next_due(world.now)
    assert due is not None
    assert world.now < due <= world.now + UPKEEP_EVERY
    assert world.crew.ready(due - 1) == []
    assert world.crew.ready(due) == [GROUP]

    def full(*_: object, **__: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(Leases, "register", full)
    world.pass_time(due - world.now)
    world.serve()
    (failed,) = [report for report in world.reports if isinstance(report, Failed)]
    assert (failed.instance, failed.reason) == (GROUP, "upkeep: the disk is full")
    assert failed.retry_at > world.now - SECOND
