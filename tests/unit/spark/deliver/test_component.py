"""A deliver component: who goes when, how long it backs off, and what there is to see.

What ends up in sinks, and what kills, stalls and replaced owners do to it, is in test_step.py.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.dataplane import commands as c
from shoal.dataplane.reports import Failed, Suspended
from shoal.spark.deliver import component as module
from shoal.spark.deliver.component import ATTEMPTS_MAX, BACKOFF_FIRST
from tests.unit.spark.deliver.world import GROUP, TABLE, World, content


@pytest.fixture
def world(root: Path) -> Iterator[World]:
    made = World(root)
    made.commit([], rows=0)
    yield made
    made.close()


def files(path: Path) -> c.Sink:
    return c.Sink(kind="files", options={"path": str(path), "format": "json"})


def spoil(folder: Path) -> None:
    """Take a sink's folder away."""
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def test_a_sink_that_fails_is_tried_less_and_less_and_then_no_more(
    world: World, tmp_path: Path
) -> None:
    world.add({"bad": files(tmp_path / "bad")})
    spoil(tmp_path / "bad")
    world.commit(["bad"], rows=1)
    waits = []
    for _ in range(ATTEMPTS_MAX - 1):
        world.serve()
        failed = world.reports[-1]
        assert isinstance(failed, Failed)
        waits.append(failed.retry_at - world.now)
        assert world.view("bad").state == "failing"
        world.pass_time(failed.retry_at - world.now)
    # A turn of this world takes ten milliseconds, so a wait was a little longer.
    for wait, doubled in zip(waits, (BACKOFF_FIRST << n for n in range(20)), strict=False):
        assert doubled - 20_000 <= wait <= doubled
    world.serve()
    assert isinstance(world.reports[-1], Suspended)
    before = len(world.reports)
    world.pass_time(3_600_000_000)
    world.serve()
    assert len(world.reports) == before
    assert world.component.lag == 0


def test_a_sink_that_is_gone_at_the_start_stops_nobody(world: World, tmp_path: Path) -> None:
    sinks = {"bad": files(tmp_path / "bad"), "good": files(tmp_path / "good")}
    world.add(sinks)
    world.close()
    spoil(tmp_path / "bad")
    (tmp_path / "bad").write_text("a file")
    world.add({})
    world.commit(sinks, rows=1)
    world.serve()
    assert world.view("bad").state == "suspended"
    assert "cannot prepare" in world.view("bad").reason
    assert content(sinks["good"]) == world.expected("good")
    whole = world.component.views()[0]
    assert (whole.roster_rows, whole.counters, whole.epoch) == (2, {"suspended": 1}, 2)
    (tmp_path / "bad").unlink()
    world.crew.answer(c.ResumeDelivery(instance=GROUP, delivery="bad-0a0b0c0d"))
    world.serve()
    assert content(sinks["bad"]) == world.expected("bad")
    assert [view.instance for view in world.component.views()] == [GROUP]


def test_lanes_take_turns(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is far behind does not keep those at the head waiting, nor they it."""
    monkeypatch.setattr(module, "ROWS_PER_STEP", 2)
    world.add({"a": files(tmp_path / "a")})
    spoil(tmp_path / "a")
    for _ in range(4):
        world.commit(["a", "b"], rows=1)
    world.poll()
    while not isinstance(world.reports[-1] if world.reports else None, Failed):
        world.turn()
    (tmp_path / "a").mkdir()
    world.add({"b": files(tmp_path / "b")})
    for _ in range(4):
        world.commit(["a", "b"], rows=1)
    world.pass_time(BACKOFF_FIRST)
    world.poll()
    served = []
    while world.turn():
        positions = [
            world.component._position(world.component.book.accounts[n], TABLE) for n in (1, 2)
        ]
        served.append(tuple(positions))
    assert served[-1] == (9, 9)
    first = next(at for at, (a, b) in enumerate(served) if b > 5)
    assert served[first][0] < 9
    assert content(files(tmp_path / "a")) == world.expected("a")
    assert content(files(tmp_path / "b")) == world.expected("b")[4:]


def test_what_is_known_is_not_added_again(world: World, tmp_path: Path) -> None:
    sinks = {"q": files(tmp_path / "q")}
    world.add(sinks)
    number = world.component.book._log.number
    world.add(sinks)
    assert world.component.book._log.number == number
    assert len(world.component.book.accounts) == 1
    world.add(sinks, version=2)
    assert list(world.component.book.accounts[1].pieces[TABLE].versions) == [1, 2]


def test_the_lag_counts_commits_of_the_slowest(world: World, tmp_path: Path) -> None:
    world.add({"q": files(tmp_path / "q")})
    assert (world.component.lag, world.component.horizon(TABLE)) == (0, 1)
    for _ in range(3):
        world.commit(["q"], rows=1)
    world.poll()
    assert world.component.lag == 3
    world.serve()
    assert (world.component.lag, world.component.horizon(TABLE)) == (0, 4)
