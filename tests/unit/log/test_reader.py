"""Readers: every row once, from any position, whatever the owner does meanwhile."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.kernel.errors import LocalError, StorageError
from shoal.log.entries import Mark, newest_version
from shoal.log.housekeep import Upkeep
from shoal.log.reader import PastHorizon, Reader
from shoal.log.root import Root
from shoal.log.validate import validate
from shoal.log.writer import Writer
from tests.races.steps import INSTANCE, commit_step, create, read_all

KEPT = Upkeep(merge_from=4, checkpoint_every=5, log_entries_kept=2)
#: Nothing is kept longer than it must be: entries, and files that were merged away.
FORGETFUL = Upkeep(
    merge_from=4,
    checkpoint_every=5,
    log_entries_kept=2,
    history_hours=-1,
    sweep_every_s=0,
    grace_s=0,
)


@pytest.fixture
def opened(root: Path) -> Iterator[Root]:
    opened = Root.open(root)
    create(opened)
    yield opened
    assert validate(opened, INSTANCE) == ()


def owner(opened: Root, upkeep: Upkeep = KEPT) -> Writer:
    return Writer.take_over(opened, INSTANCE, owner="someone", upkeep=upkeep)


def steps(writer: Writer, count: int) -> None:
    for _ in range(count):
        commit_step(writer, parts=1, rng=random.Random(writer.step), trace=str)
        writer.housekeep(horizon=None)


def numbers(opened: Root, reader: Reader) -> list[int]:
    """The steps of the rows handed out, four rows a step."""
    rows = read_all(opened, reader)
    assert all(len(found) == 4 for found in rows.values())
    return sorted(rows)


def test_commits_in_order_and_no_more_than_asked(opened: Root) -> None:
    writer = owner(opened)
    reader = Reader(opened, INSTANCE, after=0)
    assert reader.poll(commits_max=9) == ()
    steps(writer, 3)
    first = reader.poll(commits_max=2)
    assert [(c.step, c.first_step, c.epoch) for c in first] == [(1, 1, 1), (2, 2, 1)]
    assert first[0].transactions["in/source"] == 1
    assert reader.position == 2
    assert [c.step for c in reader.poll(commits_max=2)] == [3]
    assert reader.poll(commits_max=2) == ()


@pytest.mark.parametrize("after", [0, 1, 7, 19, 20])
def test_L4_from_any_position(opened: Root, after: int) -> None:
    steps(owner(opened), 10)
    steps(owner(opened), 10)
    assert numbers(opened, Reader(opened, INSTANCE, after=after)) == list(range(after + 1, 21))


@pytest.mark.parametrize("upkeep", [KEPT, FORGETFUL], ids=["kept", "forgetful"])
def test_L4_a_reader_that_lags_across_compactions(opened: Root, upkeep: Upkeep) -> None:
    writer = owner(opened, upkeep)
    reader = Reader(opened, INSTANCE, after=0)
    seen: list[int] = []
    for count in (1, 3, 9, 2, 14, 0, 5):
        steps(writer, count)
        seen += numbers(opened, reader)
    assert seen == list(range(1, 35))


def test_L4_a_leap_stands_for_many_steps(opened: Root) -> None:
    writer = owner(opened, FORGETFUL)
    reader = Reader(opened, INSTANCE, after=0)
    steps(writer, 3)
    reader.poll(commits_max=1)
    steps(writer, 20)
    (leap,) = reader.poll(commits_max=1)
    assert (leap.first_step, leap.step) == (2, 23)
    assert leap.transactions["in/source"] == 23
    assert all(segment.max_step >= 2 for segment in leap.segments)


def test_segments_between_leave_out_what_cannot_match(opened: Root) -> None:
    writer = owner(opened)
    steps(writer, 7)
    reader = Reader(opened, INSTANCE, after=0)
    spans = [(s.min_step, s.max_step) for s in reader.segments_between(0, 7)]
    assert spans == [(1, 7)] or spans[0][0] == 1
    assert all(s.min_step <= 6 and s.max_step > 5 for s in reader.segments_between(5, 6))
    assert reader.segments_between(7, 9) == ()


def test_a_reader_past_the_horizon_is_told_how_to_go_on(opened: Root) -> None:
    writer = owner(opened, FORGETFUL)
    lagging = Reader(opened, INSTANCE, after=0)
    steps(writer, 1)
    lagging.poll(commits_max=1)
    steps(writer, 3)
    assert writer.retain(below_step=4) == 0
    steps(writer, 1)
    assert writer.retain(below_step=writer.step) > 0
    steps(writer, 9)
    retained = writer.transactions["retained"]
    with pytest.raises(PastHorizon, match="past the horizon") as caught:
        lagging.poll(commits_max=99)
    assert caught.value.retained == retained
    assert f"after={retained}" in caught.value.hint
    with pytest.raises(PastHorizon):
        lagging.segments_between(retained - 1, 14)
    assert numbers(opened, Reader(opened, INSTANCE, after=retained)) == [
        step for step in range(1, 15) if step > retained
    ]


def test_the_head_has_all_transactions(opened: Root) -> None:
    head = Reader.head(opened, INSTANCE)
    assert head is not None
    assert (head.epoch, head.step) == (0, 0)
    writer = owner(opened)
    writer.commit(step=1, segments=[], transactions={"client/a": 5}, info={"attempt": "0"})
    steps(writer, 12)
    head = Reader.head(opened, INSTANCE)
    assert head is not None
    assert (head.epoch, head.step, head.transactions["client/a"]) == (1, 13, 5)
    assert Reader.head(opened, "absent") is None


def test_a_reader_of_nothing_is_refused(opened: Root) -> None:
    with pytest.raises(LocalError, match="has no table"):
        Reader(opened, "absent", after=0)
    steps(owner(opened), 1)
    ahead = Reader(opened, INSTANCE, after=5)
    with pytest.raises(LocalError, match="starts after its last step"):
        ahead.poll(commits_max=1)


def test_a_torn_entry_is_waited_for(opened: Root) -> None:
    """After a power loss: not there until somebody takes over and mends it."""
    writer = owner(opened)
    steps(writer, 2)
    reader = Reader(opened, INSTANCE, after=1)
    path = writer.table.entry(newest_version(writer.table))
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    assert reader.poll(commits_max=9) == ()
    path.write_bytes(whole)
    assert numbers(opened, reader) == [2]


def test_a_broken_run_is_not_believed(opened: Root) -> None:
    writer = owner(opened)
    steps(writer, 3)
    path = writer.table.entry(3)
    whole = path.read_text()
    for mark in (Mark(0, 2), Mark(1, 3), Mark(2, 2)):
        reader = Reader(opened, INSTANCE, after=0)
        reader.poll(commits_max=1)
        path.write_text(whole.replace(str(Mark(1, 2).pack()), str(mark.pack())))
        with pytest.raises(StorageError, match="does not run on"):
            reader.poll(commits_max=9)
        path.write_text(whole)
