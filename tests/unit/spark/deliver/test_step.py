"""Deliver steps: exactly once, in order, whoever fails or stalls beside (mostly without Spark)."""

import os
import random
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from shoal.dataplane import commands as c
from shoal.dataplane.reports import Failed, FencedOff, Suspended
from shoal.kernel.errors import LocalError, UserError
from shoal.query.windows.plan import Output
from shoal.spark.deliver import component as component_module
from shoal.spark.deliver import step
from tests.unit.spark.deliver import crash
from tests.unit.spark.deliver.world import (
    COLUMNS,
    GROUP,
    SECOND,
    World,
    content,
    four_sinks,
    wait_for,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = ("p", "j", "l", "d")
TS = Output(name="ts", expression="s.`ts`", type="TIMESTAMP")


@pytest.fixture
def world(root: Path) -> Any:
    made = World(root)
    made.commit([], rows=0)
    yield made
    made.close()


def files(path: Path, form: str = "json") -> c.Sink:
    return c.Sink(kind="files", options={"path": str(path), "format": form})


def lines(path: Path) -> c.Sink:
    return c.Sink(kind="jsonl", options={"path": str(path)})


def test_O1_every_sink_holds_the_results_in_order(world: World, tmp_path: Path) -> None:
    sinks = four_sinks(tmp_path)
    world.commit(QUERIES, rows=3)
    world.add(sinks)
    for rows in (4, 0, 2):
        world.commit(QUERIES, rows=rows)
        world.serve()
    for query, sink in sinks.items():
        assert content(sink) == world.expected(query)[3:]


def test_a_step_serves_all_who_stand_together(world: World, tmp_path: Path) -> None:
    """A hundred sinks: one read, two appends to the book; without rows none."""
    sinks = {f"q{n}": files(tmp_path / f"q{n}") for n in range(100)}
    world.add(sinks)
    world.commit(sinks, rows=1)
    world.serve()
    assert world.log == [100]
    before = world.component.book._log.number
    world.commit(sinks, rows=1)
    world.serve()
    assert world.log == [100, 100]
    assert world.component.book._log.number == before + 2
    world.commit(["somebody_else"], rows=5)
    world.commit([], rows=0)
    world.serve()
    assert world.component.book._log.number == before + 2
    assert world.component.lag == 0
    assert all(content(sinks[q]) == world.expected(q) for q in ("q0", "q99"))


def test_L2_a_restart_repeats_nothing(world: World, tmp_path: Path) -> None:
    sinks = four_sinks(tmp_path)
    world.add(sinks)
    for _ in range(3):
        world.commit(QUERIES, rows=2)
        world.serve()
        world.close()
        world.add(sinks)
    world.serve()
    assert all(content(sink) == world.expected(query) for query, sink in sinks.items())


def test_L2_a_write_without_its_done_is_repeated_in_place(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The book hears of the plan and not of the end, and more is committed meanwhile."""
    sinks = four_sinks(tmp_path)
    world.add(sinks)
    world.commit(QUERIES, rows=2)
    world.poll()

    def deaf(*_: Any) -> None:
        raise OSError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(world.component.book, "done", deaf)
        while not any(isinstance(r, Failed) for r in world.reports):
            world.turn()
    world.close()
    world.commit(QUERIES, rows=3)
    world.add(sinks)
    world.serve()
    assert all(content(sink) == world.expected(query) for query, sink in sinks.items())


def test_L3_an_owner_that_was_replaced_writes_nothing_more(world: World, tmp_path: Path) -> None:
    sinks = four_sinks(tmp_path)
    world.add(sinks)
    other = World(world.root.path)
    other.add(sinks)
    world.commit(QUERIES, rows=2)
    world.serve()
    assert isinstance(world.reports[-1], FencedOff)
    assert all(content(sink) == [] for sink in sinks.values())
    other.serve()
    other.close()
    assert all(content(sink) == world.expected(query) for query, sink in sinks.items())


def test_L3_an_owner_that_slept_after_its_plan_does_no_harm(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It planned, slept, was replaced, and then writes: at the same place, the same rows."""
    sinks = four_sinks(tmp_path)
    world.add(sinks)
    world.commit(QUERIES, rows=2)
    world.poll()
    other = World(world.root.path)
    plan = type(world.component.book).plan

    def sleepy(book: Any, *args: Any) -> None:
        plan(book, *args)
        if book.epoch == 1:
            other.add(sinks)
            other.serve()

    monkeypatch.setattr(type(world.component.book), "plan", sleepy)
    while world.turn():
        pass
    world.commit(QUERIES, rows=3)
    other.serve()
    other.close()
    assert all(content(sink) == world.expected(query) for query, sink in sinks.items())


def test_Q3_a_sink_that_fails_is_suspended_alone_and_resumed(world: World, tmp_path: Path) -> None:
    sinks = {"bad": files(tmp_path / "bad"), "good": lines(tmp_path / "good.jsonl")}
    world.add(sinks)
    world.commit(sinks, rows=2)
    world.serve()
    for file in (tmp_path / "bad").iterdir():
        file.rename(tmp_path / file.name)
    (tmp_path / "bad").rmdir()
    world.commit(sinks, rows=1)
    world.serve()
    assert world.view("bad").state == "failing"
    assert "its folder is gone" in world.view("bad").reason
    assert content(sinks["good"]) == world.expected("good")
    for _ in range(component_module.ATTEMPTS_MAX):
        world.pass_time(30 * SECOND)
        world.serve()
    (suspended,) = [r for r in world.reports if isinstance(r, Suspended)]
    assert suspended.query == "bad"
    assert "hint:" in suspended.reason
    assert world.view("bad").state == "suspended"
    world.commit(sinks, rows=4)
    world.serve()
    assert content(sinks["good"]) == world.expected("good")
    assert world.component.lag == 0
    world.crew.answer(c.ResumeDelivery(instance=GROUP, delivery="bad-0a0b0c0d"))
    world.serve()
    assert world.view("bad") is None
    assert content(sinks["bad"]) == world.expected("bad")[2:]


def test_Q3_a_slow_sink_holds_nobody_up(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sinks = {"slow": files(tmp_path / "slow"), "quick": files(tmp_path / "quick")}
    world.add(sinks)
    gate = threading.Event()
    sink = world.component._standing[1].sink
    write = sink._fill
    monkeypatch.setattr(step, "SLOW_S", 0.5)
    monkeypatch.setattr(sink, "_fill", lambda *args: (gate.wait(60), write(*args)))
    try:
        for _ in range(3):
            world.commit(sinks, rows=2)
            serve_also_the_slow(world, 2)
            assert content(sinks["quick"]) == world.expected("quick")
        assert world.view("slow").state == "slow"
        assert content(sinks["slow"]) == []
        assert world.component.lag == 3
    finally:
        gate.set()
    serve_also_the_slow(world, 1)
    assert world.view("slow") is None
    assert content(sinks["slow"]) == world.expected("slow")


def serve_also_the_slow(world: World, number: int) -> None:
    """Serve, and wait for a delivery where the machine itself was slow."""
    world.serve()
    while (busy := world.component._standing[number].busy) is not None:
        wait_for(busy)
        world.serve()


def test_json_lines_may_be_moved_away_but_not_changed(world: World, tmp_path: Path) -> None:
    sinks = {"l": lines(tmp_path / "out" / "l.jsonl")}
    path = tmp_path / "out" / "l.jsonl"
    world.add(sinks)
    world.commit(sinks, rows=2)
    world.serve()
    path.rename(tmp_path / "old.jsonl")
    world.commit(sinks, rows=3)
    world.serve()
    assert content(lines(tmp_path / "old.jsonl")) == world.expected("l")[:2]
    assert content(sinks["l"]) == world.expected("l")[2:]
    with path.open("a") as file:
        file.write("not ours\n")
    world.commit(sinks, rows=1)
    world.serve()
    assert "changed by somebody else" in world.view("l").reason


def test_json_lines_go_on_after_what_a_file_held(world: World, tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    path.write_text('{"before": 1}\n')
    world.add({"l": lines(path)})
    world.commit(["l"], rows=2)
    world.serve()
    assert path.read_text().startswith('{"before": 1}\n{"ts"')
    assert len(path.read_text().splitlines()) == 3


def test_a_full_disk_leaves_no_part_of_a_file(world: World, tmp_path: Path) -> None:
    """ENOSPC at the sync: nothing is seen, the error says what to do, and it heals by itself."""
    sinks = {"f": files(tmp_path / "f"), "l": lines(tmp_path / "l.jsonl")}
    world.add(sinks)
    real = os.fsync
    full = True

    def fsync(descriptor: int) -> None:
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        if full and name.startswith(str(tmp_path)) and not name.startswith(str(world.root.path)):
            raise OSError(28, os.strerror(28))
        real(descriptor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        world.commit(sinks, rows=2)
        world.serve()
        assert list((tmp_path / "f").iterdir()) == []
        assert "free space on its disk" in world.view("f").reason
        full = False
        world.pass_time(30 * SECOND)
        world.serve()
    assert all(content(sink) == world.expected(query) for query, sink in sinks.items())


def test_pieces_come_in_order_across_tables(world: World, tmp_path: Path) -> None:
    """O1 across an alter that moved the query to another component."""
    sinks = {"l": lines(tmp_path / "l.jsonl")}
    world.add(sinks)
    world.commit(sinks, rows=2)
    world.commit([], rows=0, table="select-b")
    world.add(sinks, table="select-b", version=2)
    world.commit(sinks, rows=3, table="select-b", version=2)
    world.commit(sinks, rows=1)
    world.serve()
    both = world.expected("l") + world.expected("l", table="select-b")
    assert content(sinks["l"]) == both
    world.commit(sinks, rows=3, table="select-b", version=2)
    world.serve()
    assert content(sinks["l"]) == world.expected("l") + world.expected("l", table="select-b")


def test_an_ended_delivery_is_closed_when_all_has_come(world: World, tmp_path: Path) -> None:
    world.add({"f": files(tmp_path / "f")})
    world.commit(["f"], rows=2)
    world.crew.answer(c.EndDelivery(instance=GROUP, delivery="f-0a0b0c0d"))
    world.serve()
    world.pass_time(60 * SECOND)
    world.serve()
    assert content(files(tmp_path / "f")) == world.expected("f")
    assert world.component.book.accounts == {}


def test_a_lease_keeps_what_a_delivery_needs(world: World, tmp_path: Path) -> None:
    from shoal.log.leases import Leases
    from tests.unit.spark.deliver.world import TABLE

    world.add({"f": files(tmp_path / "f")})
    world.serve()
    leases = Leases(world.root.folder("readers", TABLE))
    assert leases.horizon(world.now) == 1
    world.commit(["f"], rows=1)
    world.serve()
    world.pass_time(60 * SECOND)
    world.serve()
    assert leases.horizon(world.now) == 2


def test_two_queries_do_not_share_a_file_of_lines(world: World, tmp_path: Path) -> None:
    world.add({"a": lines(tmp_path / "l.jsonl")})
    with pytest.raises(UserError, match="taken by query a"):
        world.add({"b": lines(tmp_path / "l.jsonl")})
    with pytest.raises(LocalError, match="not known"):
        world.crew.answer(c.EndDelivery(instance=GROUP, delivery="nobody"))


def test_the_columns_of_each_version_and_no_others(world: World, tmp_path: Path) -> None:
    sink = files(tmp_path / "f")
    world.add({"f": sink})
    narrow = c.Delivery(
        delivery="f-0a0b0c0d",
        query="f",
        version=2,
        input="select-0123456789ab",
        columns=COLUMNS[:2],
        timestamp="ts",
        sink=sink,
    )
    world.crew.answer(c.AddDeliveries(instance=GROUP, deliveries=(narrow,)))
    world.commit(["f"], rows=2)
    world.commit(["f"], rows=2, version=2)
    world.serve()
    found = [row.get("kwh") for row in content(sink)]
    assert found == [0.125, 0.0, None, None]


@pytest.mark.slow
def test_Q3_select_lists_are_computed_for_sinks_and_what_raises_stops_only_its_own(
    world: World, tmp_path: Path, spark: "SparkSession"
) -> None:
    """One that raises backs off; the others stand where they would without it."""
    texts = {
        "good": ("(s.`kwh` * 8D)", "DOUBLE"),
        "same": ("(s.`kwh` * 8D)", "DOUBLE"),
        "bad": ("CASE WHEN s.`meter` = 2 THEN raise_error('no') ELSE s.`meter` END", "INT"),
    }
    world.session = spark
    sinks = {name: files(tmp_path / name) for name in texts}
    for name, (text, kind) in texts.items():
        outputs = (Output(name="made", expression=text, type=kind), TS)
        world.add({name: sinks[name]}, outputs=outputs)
    world.commit(["good", "same", "bad"], rows=2)
    world.serve()
    assert [row["made"] for row in content(sinks["bad"])] == [1, 0]
    world.commit(["good", "same", "bad"], rows=3)
    world.serve()
    for name in ("good", "same"):
        found = content(sinks[name])
        assert [row["made"] for row in found] == [1.0, 0.0, 2.0, 1.0, 0.0]
        assert list(found[0]) == ["made", "ts", "_version", "_step", "_id"]
    assert [row["made"] for row in content(sinks["bad"])] == [1, 0]
    assert "select list" in world.view("bad").reason


@pytest.mark.slow
def test_L2_after_ten_kills_every_sink_is_right(tmp_path: Path) -> None:
    """kill -9 before a chosen call; `python -m tests.unit.spark.deliver.crash` has many more."""
    assert crash.run(tmp_path, kills=10, rng=random.Random(3)) >= 5
