"""The owner: creation, take-over, steps, housekeeping and retention."""

import random
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.kernel.errors import Fenced, LocalError, ShoalError, StorageError, UserError
from shoal.log.housekeep import Upkeep
from shoal.log.root import Root
from shoal.log.segment import write_segment
from shoal.log.validate import validate
from shoal.log.writer import Writer
from tests.races.steps import EAGER, INSTANCE, SCHEMA, commit_step, create, write_parts

MERGING = Upkeep(merge_from=4, checkpoint_every=1000)


@pytest.fixture
def opened(root: Path) -> Iterator[Root]:
    opened = Root.open(root)
    create(opened)
    yield opened
    assert validate(opened, INSTANCE) == ()


def owner(opened: Root, upkeep: Upkeep = EAGER) -> Writer:
    return Writer.take_over(opened, INSTANCE, owner="someone", upkeep=upkeep)


def steps(writer: Writer, count: int, parts: int = 1) -> None:
    for _ in range(count):
        commit_step(writer, parts=parts, rng=random.Random(writer.step), trace=str)


def test_created_once_whoever_asks(opened: Root) -> None:
    create(opened)
    with pytest.raises(UserError, match="exists with another schema"):
        Writer.create(opened, INSTANCE, SCHEMA.remove(0), partition_by=["_kind"])
    with pytest.raises(UserError, match="exists with another schema"):
        Writer.create(opened, INSTANCE, SCHEMA)


def test_created_by_many_at_once(root: Path) -> None:
    opened = Root.open(root)
    errors: list[ShoalError] = []
    done: list[bool] = []

    def attempt() -> None:
        try:
            create(opened)
            done.append(True)
        except ShoalError as error:
            errors.append(error)

    threads = [threading.Thread(target=attempt) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert done == [True] * 6
    assert owner(opened).epoch == 1


def test_no_table_no_owner(root: Path) -> None:
    with pytest.raises(LocalError, match="has no table"):
        owner(Root.open(root))


def test_a_new_owner_knows_everything(opened: Root) -> None:
    first = owner(opened)
    steps(first, 7)
    first.housekeep(horizon=None)
    second = owner(opened)
    assert (second.epoch, second.step) == (2, 7)
    assert second.transactions["in/source"] == 7
    assert dict(second.live) == dict(first.live)
    second.validate()
    with pytest.raises(Fenced):
        first.validate()
    with pytest.raises(Fenced):
        steps(first, 1)


def test_a_step_without_rows_moves_the_position(opened: Root) -> None:
    writer = owner(opened)
    commit = writer.commit(
        step=1, segments=[], transactions={"in/source": 41, "wm": -5}, info={"attempt": "0"}
    )
    assert (commit.step, commit.epoch, commit.segments) == (1, 1, ())
    assert commit.info == {"attempt": "0"}
    assert owner(opened).transactions["in/source"] == 41
    assert owner(opened).transactions["wm"] == -5


def test_L2_a_repeated_step_and_a_gap_are_refused(opened: Root) -> None:
    writer = owner(opened)
    steps(writer, 2)
    for step in (1, 2, 4):
        with pytest.raises(LocalError, match="cannot be committed") as caught:
            writer.commit(step=step, segments=[], transactions={})
        assert "does not follow step 2" in caught.value.detail
    writer.validate()


def test_L1_segments_are_looked_at_before_they_are_committed(opened: Root) -> None:
    writer = owner(opened)
    _, (segment, _) = write_parts(writer, parts=2, rng=random.Random(1), trace=str)
    path = writer.table.path / segment.path
    whole = path.read_bytes()
    for wrong, said in (
        (replace(segment, min_step=0), "holds rows of steps 0 to 1"),
        (replace(segment, path=segment.path.replace("e1-", "e2-")), "is not of epoch 1"),
        (replace(segment, bytes=7), "not there whole"),
    ):
        with pytest.raises(LocalError) as caught:
            writer.commit(step=1, segments=[wrong], transactions={})
        assert said in caught.value.detail
    path.write_bytes(whole[:-1])
    with pytest.raises(LocalError, match="cannot be committed"):
        writer.commit(step=1, segments=[segment], transactions={})
    path.unlink()
    with pytest.raises(LocalError, match="cannot be committed"):
        writer.commit(step=1, segments=[segment], transactions={})


@pytest.mark.parametrize("name", ["shoal", "retained", "retained/time"])
def test_the_own_transactions_of_the_log_are_refused(opened: Root, name: str) -> None:
    with pytest.raises(LocalError, match="cannot be committed"):
        owner(opened).commit(step=1, segments=[], transactions={name: 1})


def test_L4_compaction_moves_rows_in_order(opened: Root) -> None:
    writer = owner(opened, MERGING)
    steps(writer, 6, parts=3)
    before = sorted(_rows(writer))
    kept = writer.housekeep(horizon=None)
    assert kept.merged == 12 + 6
    assert sorted(_rows(writer)) == before
    assert len(writer.live) == 2
    for segment in writer.live.values():
        rows = pq.read_table(writer.table.path / segment.path, partitioning=None)
        keys = list(zip(*(rows.column(n).to_pylist() for n in ("_step", "at", "_id")), strict=True))
        assert keys == sorted(keys)
        assert (segment.min_step, segment.max_step) == (1, 6)
    writer.validate()


def test_L3_a_stale_compaction_is_refused(opened: Root) -> None:
    """Two compactions at once would double rows, as the library's own do."""
    old = owner(opened, MERGING)
    steps(old, 6)
    new = owner(opened, MERGING)
    assert new.housekeep(horizon=None).merged == 6
    with pytest.raises(Fenced):
        old.housekeep(horizon=None)


def test_a_compaction_of_files_with_fewer_columns(root: Path) -> None:
    """A select's segment holds only the columns that some row wants."""
    opened = Root.open(root)
    schema = pa.schema([("a", pa.int64()), ("b", pa.string()), ("_step", pa.int64())])
    Writer.create(opened, "some", schema)
    writer = Writer.take_over(opened, "some", owner="someone", upkeep=MERGING)
    for step in range(1, 5):
        columns = {"a": [step], "b": ["x"], "_step": [step]}
        del columns["b" if step % 2 else "a"]
        rows = pa.table(columns)
        segment = write_segment(
            writer.table, rows, epoch=writer.epoch, step=step, part=0, partition={}
        )
        writer.commit(step=step, segments=[segment], transactions={})
    assert writer.housekeep(horizon=None).merged == 4
    (segment,) = writer.live.values()
    merged = pq.read_table(writer.table.path / segment.path).sort_by("_step")
    assert merged.column("a").to_pylist() == [1, None, 3, None]
    assert merged.column("b").to_pylist() == [None, "x", None, "x"]
    assert validate(opened, "some") == ()


@pytest.mark.slow
def test_live_segments_stay_few(opened: Root) -> None:
    writer = owner(opened, Upkeep())
    for _ in range(70):
        steps(writer, 1, parts=3)
        writer.housekeep(horizon=None)
        assert len(writer.live) < 70
    assert len(list(writer.table.log.glob("*.checkpoint.parquet"))) == 3


@pytest.mark.slow
def test_the_log_stays_short_without_housekeeping(opened: Root) -> None:
    """A commit makes the checkpoint itself when it is long overdue."""
    writer = owner(opened, Upkeep(log_entries_kept=1))
    for step in range(1, 104):
        writer.commit(step=step, segments=[], transactions={}, info={"attempt": "0"})
    assert len(list(writer.table.log.glob("*.json"))) < 10
    writer.validate()


def test_retention_removes_whole_segments(opened: Root) -> None:
    writer = owner(opened, MERGING)
    steps(writer, 5)
    writer.housekeep(horizon=None)
    steps(writer, 2)
    assert writer.retain(below_step=3) == 0, "the merged segment holds later rows too"
    assert writer.retain(below_step=6) == 1
    assert writer.transactions["retained"] == 5
    assert sorted(step for step, _ in _rows(writer)) == [6] * 4 + [7] * 4
    writer.validate()


def test_L4_what_has_ended_expires_and_no_more(opened: Root) -> None:
    """By event time, which is a thousand a step here; and never what a reader still needs."""
    writer = owner(opened)
    steps(writer, 6)
    assert writer.expire(before=4_000, horizon=None) == 3
    assert (writer.transactions["retained"], writer.transactions["retained/time"]) == (3, 3_003)
    assert sorted(dict.fromkeys(step for step, _ in _rows(writer))) == [4, 5, 6]
    assert writer.expire(before=9_000, horizon=4) == 1
    assert writer.expire(before=9_000, horizon=4) == 0
    assert sorted(dict.fromkeys(step for step, _ in _rows(writer))) == [5, 6]
    writer.validate()
    assert validate(opened, INSTANCE) == ()


def test_an_earlier_write_of_a_foreign_hand_is_noticed(
    opened: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = owner(opened)
    monkeypatch.setattr(writer, "_transactions", {"in/source": 9})
    with pytest.raises(StorageError, match="is not what its owner wrote"):
        writer.validate()


def test_writers_of_several_instances_in_threads(root: Path) -> None:
    opened = Root.open(root)
    names = [f"c{number}" for number in range(6)]
    for name in names:
        create(opened, name)
    writers = [Writer.take_over(opened, name, owner="x", upkeep=EAGER) for name in names]
    threads = [threading.Thread(target=steps, args=(writer, 5)) for writer in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [writer.step for writer in writers] == [5] * 6
    assert [validate(opened, name) for name in names] == [()] * 6


def _rows(writer: Writer) -> list[tuple[int, int]]:
    rows: list[tuple[int, int]] = []
    for path in writer.live:
        content = pq.read_table(writer.table.path / path, partitioning=None)
        columns = [content.column(name).to_pylist() for name in ("_step", "_id")]
        rows.extend(zip(*columns, strict=True))
    return rows


def test_L3_an_owner_whose_files_were_swept_learns_that_it_is_fenced(opened: Root) -> None:
    """It slept for longer than the grace; that its files are gone is not its caller's mistake."""
    old = owner(opened)
    _, segments = write_parts(old, parts=1, rng=random.Random(1), trace=str)
    steps(owner(opened), 2)
    (old.table.path / segments[0].path).unlink()
    with pytest.raises(Fenced):
        old.commit(step=1, segments=segments, transactions={})


def test_L3_an_owner_whose_segments_were_merged_away_learns_that_it_is_fenced(
    opened: Root,
) -> None:
    """It slept before its own merge; the segments that it wants to merge are swept meanwhile."""
    first = owner(opened, MERGING)
    steps(first, 4)
    second = owner(opened, Upkeep(merge_from=4, sweep_every_s=0.0, grace_s=0.0))
    kept = second.housekeep(horizon=None)
    assert (kept.merged, kept.deleted) == (4, 4)
    with pytest.raises(Fenced):
        first.housekeep(horizon=None)
    steps(second, 1)


def test_a_segment_that_somebody_deleted_is_said_to_be_gone(root: Path) -> None:
    """By its owner, who is not fenced: the files are missing for everybody."""
    opened = Root.open(root)
    create(opened)
    only = owner(opened, MERGING)
    steps(only, 4)
    gone = next(iter(only.live))
    (only.table.path / gone).unlink()
    with pytest.raises(StorageError, match="is gone") as caught:
        only.housekeep(horizon=None)
    assert gone in caught.value.detail
