"""What is merged, trimmed and deleted, and what is left alone."""

import json
import os
import random
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from shoal.kernel.time import SECOND
from shoal.log.entries import Mark, lowest_version, newest_version, read_entry
from shoal.log.housekeep import Sweeper, Upkeep, ended_below, plan_merge, trim
from shoal.log.root import Root, TableDir
from shoal.log.segment import Segment
from shoal.log.validate import validate
from shoal.log.writer import Writer
from tests.races.steps import INSTANCE, commit_step, create

UPKEEP = Upkeep(merge_from=3, merge_classes=(100, 1000), merge_bytes_max=2000)
KEEPING = Upkeep(merge_from=1000, checkpoint_every=1000)


def segment(step: int, size: int, kind: str = "ok") -> Segment:
    return Segment(
        path=f"{kind}-{step}",
        rows=1,
        bytes=size,
        partition={"_kind": kind},
        stats="{}",
        min_step=step,
        max_step=step,
    )


def planned(*segments: Segment, upkeep: Upkeep = UPKEEP) -> list[str]:
    return [chosen.path for chosen in plan_merge(segments, upkeep)]


def test_a_merge_is_due_per_partition_and_size() -> None:
    small = [segment(step, 10) for step in (3, 1, 2)]
    assert planned(*small) == ["ok-1", "ok-2", "ok-3"]
    assert planned(*small[:2]) == []
    assert planned(small[0], small[1], segment(2, 10, "late")) == []
    assert planned(small[0], small[1], segment(2, 100)) == []
    assert planned(*(segment(step, 1000) for step in range(9))) == [], "large ones stay"


def test_a_merge_is_bounded() -> None:
    assert planned(*(segment(step, 900) for step in range(5))) == ["ok-0", "ok-1"]
    tight = replace(UPKEEP, merge_bytes_max=1)
    assert planned(*(segment(step, 900) for step in range(5)), upkeep=tight) == ["ok-0", "ok-1"]


def timed(step: int, latest: int | None, *, upto: int | None = None) -> Segment:
    """A segment whose statistics say that it ends at this second, or say nothing."""
    said = {} if latest is None else {"at": f"1970-01-01T00:00:{latest:02}.000000Z"}
    stats = json.dumps({"maxValues": said})
    return replace(segment(step, 10), stats=stats, max_step=upto or step)


def test_what_has_ended_goes_from_the_oldest_step_on() -> None:
    def below(*live: Segment) -> int:
        return ended_below(live, column="at", before=10 * SECOND)

    assert below() == 0
    assert below(timed(1, 3), timed(2, 9)) == 3
    assert below(timed(2, 9), timed(1, 3), timed(3, 10)) == 3
    assert below(timed(1, 10), timed(2, 3)) == 0, "one that stays keeps all that come after it"
    assert below(timed(1, 3), timed(2, None), timed(3, 3)) == 2, "nothing is known of it"
    assert below(timed(1, 3), timed(1, 9, upto=4), timed(3, 12)) == 2
    assert below(timed(1, 3, upto=1 << 62)) == 0


@dataclass(slots=True)
class Clock:
    """A clock that is set."""

    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def writer(root: Path) -> Writer:
    opened = Root.open(root)
    create(opened)
    writer = Writer.take_over(opened, INSTANCE, owner="someone", upkeep=KEEPING)
    for _ in range(4):
        commit_step(writer, parts=1, rng=random.Random(writer.step), trace=str)
    return writer


def file(table: TableDir, name: str) -> Path:
    path = table.path / "_kind=ok" / name
    path.write_bytes(b"left by a crash")
    return path


def test_orphans_of_crashed_steps_are_swept(writer: Writer) -> None:
    """Only names of steps that have passed, only after the grace, only below the horizon."""
    table, clock = writer.table, Clock()
    sweeper = Sweeper(table=table, upkeep=Upkeep(grace_s=10, sweep_every_s=5), clock_s=clock)
    orphan = file(table, "e1-s3-0-abcd0123.parquet")
    lagging = file(table, "e1-s4-0-abcd0123.parquet")
    running = file(table, "e1-s5-0-abcd0123.parquet")
    later_owner = file(table, "e2-s1-0-abcd0123.parquet")
    foreign = file(table, "part-0.parquet")

    def sweep(horizon: int | None) -> int:
        return sweeper.sweep(live=writer.live, mark=Mark(1, 4), horizon=horizon)

    assert sweeper.due()
    assert sweep(3) == 0, "first seen"
    assert not sweeper.due()
    clock.now_s = 9.0
    assert sweep(3) == 0, "within the grace"
    clock.now_s = 20.0
    assert sweeper.due()
    assert sweep(3) == 1
    assert not orphan.exists()
    assert lagging.exists()
    assert sweep(None) == 1
    assert all(path.exists() for path in (running, later_owner, foreign))
    assert not lagging.exists()
    assert all((table.path / path).exists() for path in writer.live)


def test_what_crashed_steps_staged_is_cleared(writer: Writer) -> None:
    table = writer.table
    old, young = table.staging / "old", table.staging / "young"
    for folder in (old, young):
        folder.mkdir(parents=True)
        (folder / "part-0.parquet").write_bytes(b"x")
    (table.staging / "stray").write_bytes(b"x")
    for path in (old, table.staging / "stray"):
        os.utime(path, (0, 0))
    Sweeper(table=table, upkeep=Upkeep()).sweep(live=writer.live, mark=Mark(1, 4), horizon=None)
    assert [path.name for path in table.staging.iterdir()] == ["young"]


def test_trimming_moves_entries_and_then_forgets_them(writer: Writer) -> None:
    table = writer.table
    writer._fence.checkpoint()
    newest = newest_version(table)
    leftover = table.log / f"{1:020d}.json#1"
    leftover.write_bytes(b"x")
    trim(table, below=4, upkeep=Upkeep(), now_s=table.entry(0).stat().st_mtime)
    assert sorted(path.name[:20] for path in table.history.iterdir()) == [
        f"{version:020d}" for version in range(4)
    ]
    assert not leftover.exists()
    assert newest_version(table) == newest
    assert all(read_entry(table, version) for version in range(newest + 1))
    trim(table, below=4, upkeep=Upkeep(), now_s=table.entry(4).stat().st_mtime + 90_000)
    assert [path.name for path in table.history.iterdir()] == ["lowest.json"]
    assert lowest_version(table) == 4
    assert newest_version(table) == newest


def test_a_stray_below_the_history_only_goes(writer: Writer) -> None:
    table = writer.table
    writer._fence.checkpoint()
    now_s = table.entry(4).stat().st_mtime
    trim(table, below=3, upkeep=Upkeep(), now_s=now_s)
    kept = table.entry_kept(2).read_bytes()
    table.entry(2).write_bytes(b"a writer that slept put this here")
    trim(table, below=3, upkeep=Upkeep(), now_s=now_s)
    assert not table.entry(2).exists()
    assert table.entry_kept(2).read_bytes() == kept


def test_nothing_due_is_nothing_done(writer: Writer, root: Path) -> None:
    first = writer.housekeep(horizon=None)
    again = writer.housekeep(horizon=None)
    assert (first.checkpointed, first.merged, first.deleted) == (False, 0, 0)
    assert again == first
    assert validate(Root.open(root), INSTANCE) == ()
