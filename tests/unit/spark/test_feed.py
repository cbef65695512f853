"""A feed gives every commit once, in order, from memory or from the log (L4)."""

import random
from pathlib import Path

import pyarrow as pa
import pytest

from shoal.dataplane.rows import ALWAYS, FOREVER
from shoal.log.housekeep import Upkeep
from shoal.log.root import Root
from shoal.log.segment import write_segment
from shoal.log.writer import Writer
from shoal.spark.feed import Feed, Lost
from tests.races.steps import commit_step, create

INSTANCE = "readings"
_SCHEMA = pa.schema([("a", pa.int64()), ("_step", pa.int64()), ("_id", pa.int64())])


def table(root: Path, *, upkeep: Upkeep | None = None) -> tuple[Root, Writer]:
    opened = Root.open(root)
    Writer.create(opened, INSTANCE, _SCHEMA)
    options = {} if upkeep is None else {"upkeep": upkeep}
    return opened, Writer.take_over(opened, INSTANCE, owner="test", **options)


def commit(writer: Writer, *, rows: int) -> None:
    step = writer.step + 1
    segments = []
    if rows:
        data = pa.table(
            {"a": [step] * rows, "_step": [step] * rows, "_id": list(range(rows))}, schema=_SCHEMA
        )
        segments = [
            write_segment(writer.table, data, epoch=writer.epoch, step=step, part=0, partition={})
        ]
    writer.commit(step=step, segments=segments, transactions={"evmax": step})


def walk(feed: Feed, after: int, *, rows_max: int, upto: int | None = None) -> list[list[int]]:
    """The steps of each range until there is none."""
    found = []
    while (read := feed.next_range(after, rows_max=rows_max, upto_most=upto)) is not None:
        assert read.after == after
        after = read.upto
        found.append([c.step for c in read.commits])
    return found


def test_L4_what_was_forgotten_comes_from_the_log_as_it_is_now(root: Path) -> None:
    """Files that a compaction has replaced are not asked for again."""
    upkeep = Upkeep(merge_from=2, grace_s=0.0, sweep_every_s=0.0)
    opened, writer = table(root, upkeep=upkeep)
    for _ in range(3):
        commit(writer, rows=2)
    feed = Feed(opened, INSTANCE, after=0)
    feed.poll()
    writer.housekeep(horizon=None)
    old = feed.next_range(0, rows_max=100)
    assert old is not None
    assert not any((writer.table.path / s.path).exists() for c in old.commits for s in c.segments)
    feed.forget()
    assert feed.head == 3
    read = feed.next_range(0, rows_max=100)
    assert read is not None
    assert (read.upto, feed.next_range(3, rows_max=100)) == (3, None)
    assert all((writer.table.path / s.path).exists() for c in read.commits for s in c.segments)
    commit(writer, rows=1)
    feed.poll()
    assert walk(feed, 3, rows_max=100) == [[4]]


@pytest.mark.parametrize("released", [0, 3, 7])
def test_L4_ranges_are_bounded_by_rows_and_leave_nothing_out(root: Path, released: int) -> None:
    """At least one commit a range; what memory has let go of comes from the log."""
    opened, writer = table(root)
    for rows in (5, 0, 9, 1, 1, 0, 4):
        commit(writer, rows=rows)
    feed = Feed(opened, INSTANCE, after=0)
    assert feed.poll()
    assert not feed.poll()
    feed.release(released)
    assert walk(feed, 0, rows_max=6) == [[1, 2], [3], [4, 5, 6, 7]]
    assert walk(feed, 2, rows_max=1, upto=4) == [[3], [4]]
    assert walk(feed, 7, rows_max=6) == []


def test_L4_a_feed_at_the_head(root: Path) -> None:
    """It begins with the newest commit and still answers for what was before."""
    opened, writer = table(root)
    for _ in range(4):
        commit(writer, rows=1)
    feed = Feed.at_head(opened, INSTANCE)
    feed.poll()
    assert feed.head == 4
    assert walk(feed, 1, rows_max=10) == [[2, 3, 4]]


def test_L4_memory_is_bounded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound the oldest are forgotten, and read again when asked for."""
    monkeypatch.setattr("shoal.spark.feed.FEED_MAX", 3)
    opened, writer = table(root)
    feed = Feed(opened, INSTANCE, after=0)
    for _ in range(8):
        commit(writer, rows=1)
        feed.poll()
    assert len(feed._commits) == 3
    assert walk(feed, 0, rows_max=2) == [[1, 2], [3, 4], [5, 6], [7, 8]]


def test_L4_history_beyond_the_log(root: Path) -> None:
    """The log was trimmed and forgotten: a range still ends where it was asked to end."""
    upkeep = Upkeep(checkpoint_every=2, log_entries_kept=0, history_hours=0.0)
    opened, writer = table(root, upkeep=upkeep)
    for _ in range(9):
        commit(writer, rows=1)
        writer.housekeep(horizon=None)
    feed = Feed.at_head(opened, INSTANCE)
    feed.poll()
    read = feed.next_range(0, rows_max=100, upto_most=5)
    assert read is not None
    assert read.upto <= 5
    steps = [s.min_step for c in read.commits for s in c.segments if s.min_step <= read.upto]
    assert sorted(steps) == list(range(1, read.upto + 1))


def test_L4_a_long_history_comes_in_pieces(root: Path) -> None:
    """Although one commit stands for all of it: whole segments, in the order of steps."""
    upkeep = Upkeep(checkpoint_every=2, log_entries_kept=0, history_hours=0.0)
    opened, writer = table(root, upkeep=upkeep)
    for _ in range(9):
        commit(writer, rows=2)
        writer.housekeep(horizon=None)
    feed = Feed.at_head(opened, INSTANCE)
    feed.poll()
    after, found = 0, []
    while (read := feed.next_range(after, rows_max=5)) is not None:
        after = read.upto
        steps = [s.min_step for c in read.commits for s in c.segments]
        found.append([step for step in sorted(steps) if read.after < step <= read.upto])
        assert read.commits[-1].transactions["evmax"] == 9
    assert found == [[1, 2], [3, 4], [5, 6], [7, 8], [9]]


def test_a_piece_does_not_say_a_watermark(root: Path) -> None:
    """It is that of the end, and pieces are amid."""
    upkeep = Upkeep(checkpoint_every=2, log_entries_kept=0, history_hours=0.0)
    opened, writer = table(root, upkeep=upkeep)
    for step in range(1, 5):
        commit(writer, rows=1)
        writer.commit(step=writer.step + 1, segments=[], transactions={"wm": step})
        writer.housekeep(horizon=None)
    feed = Feed.at_head(opened, INSTANCE)
    feed.poll()
    read = feed.next_range(0, rows_max=2)
    assert read is not None
    assert (read.upto, read.rows, "wm" in read.commits[0].transactions) == (3, 2, False)
    whole = feed.next_range(0, rows_max=10)
    assert whole is not None
    assert whole.commits[-1].transactions["wm"] == 4


def test_nothing_is_lost_yet(root: Path) -> None:
    """What retention removed is known."""
    opened, writer = table(root)
    for _ in range(3):
        commit(writer, rows=1)
    feed = Feed.at_head(opened, INSTANCE)
    assert feed.lost() == Lost(step=0, time=ALWAYS)
    writer.retain(below_step=3)
    assert feed.lost() == Lost(step=2, time=FOREVER), "a table without an event time cannot say"


def test_what_is_lost_has_an_event_time(root: Path) -> None:
    """So a query may begin in what is left of the past."""
    opened = Root.open(root)
    create(opened, INSTANCE)
    writer = Writer.take_over(opened, INSTANCE, owner="someone")
    for number in range(3):
        commit_step(writer, parts=1, rng=random.Random(number), trace=str)
    writer.retain(below_step=3)
    assert Feed.at_head(opened, INSTANCE).lost() == Lost(step=2, time=2_003)
