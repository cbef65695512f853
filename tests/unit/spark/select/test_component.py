"""A select component: which tuples a row counts, what a step commits, and what a restart keeps."""

from dataclasses import replace
from pathlib import Path

import pytest

from shoal.dataplane.rows import ALWAYS
from shoal.kernel.errors import UserError
from shoal.log.root import Root
from shoal.spark.select.component import result_schema
from tests.unit.spark.small import (
    SECOND,
    STREAM,
    Stream,
    committed,
    filled,
    opened,
    row,
    served,
)


@pytest.fixture
def stream(root: Path) -> Stream:
    return Stream(Root.open(root))


def test_a_new_one_starts_at_the_head_for_good(stream: Stream) -> None:
    """A restart before the first step starts no later: what came in between is still due."""
    stream.commit([(1, 1, 1.0)], wm=0)
    first = opened(stream)
    assert (first.position, first.event_time) == (1, SECOND)
    stream.commit([(9, 1, 1.0)])
    again = opened(stream)
    assert again.writer.epoch == first.writer.epoch + 1
    assert (again.position, again.event_time) == (1, SECOND)
    assert again.lag == 1


def test_a_new_one_over_an_empty_stream(stream: Stream) -> None:
    component = opened(stream)
    assert (component.position, component.event_time) == (0, ALWAYS)
    assert component.next_range() is None
    assert component.add([row("a", 1.0)], None)[0].start == ALWAYS


def test_a_row_counts_from_what_was_consumed(stream: Stream) -> None:
    """Q1: also a step in flight has fixed its rows, so its tuples have gone by."""
    component = opened(stream)
    stream.commit([(5, 1, 1.0)])
    component.feed.poll()
    read = component.next_range()
    assert read is not None
    work = component.work(read)
    (added,) = component.add([row("a", 1.0)], None)
    assert (added.start, added.since) == (5 * SECOND, read.upto)
    assert work.rows == ()
    committed(work)
    component.done(upto=read.upto, rows_in=1, rows_out=0)
    stream.commit([(6, 1, 1.0)])
    _, work = served(component)
    assert [r.identity for r in work.rows] == [("a", 1)]
    component.validate()


def test_a_step_that_failed_is_repeated_with_what_is_asked_now(stream: Stream) -> None:
    """The row that came meanwhile sees none of the step's tuples when it is repeated."""
    component = opened(stream)
    stream.commit([(5, 1, 1.0)])
    component.feed.poll()
    read = component.next_range()
    assert read is not None
    component.work(read)
    component.add([row("a", 1.0)], None)
    component.undone()
    repeated, work = served(component)
    assert repeated.upto == read.upto
    assert [r.since for r in work.rows] == [read.upto]


def test_a_commit_says_where_it_is(stream: Stream) -> None:
    """Positions, watermark, greatest event time and roster version survive the loss of a peer."""
    component = opened(stream)
    component.add([row("a", 1.0)], None)
    stream.commit([(5, 1, 1.0)], wm=2)
    stream.commit([])
    _, work = served(component)
    assert work.transactions == {
        f"in/{component.spec.input}": 2,
        "roster": component.version,
        "wm": 2 * SECOND,
        "evmax": 5 * SECOND,
    }
    assert work.source_committed == 2, "the newest wall stamp of the range"


def test_a_start_in_the_past_is_served_by_steps_of_its_own(stream: Stream) -> None:
    """Live from here on, and back-filled up to here: no tuple twice, none left out."""
    for second in range(1, 4):
        stream.commit([(second, 1, 1.0)])
    component = opened(stream)
    (back,) = component.add([row("a", 1.0)], SECOND)
    assert (back.start, back.since, back.fill) == (SECOND, 3, 3)
    assert component.filling
    assert (component.lag, component.oldest_needed) == (3, 0)
    work = filled(component)
    (alone,) = work.rows
    assert (alone.since, alone.cut, alone.start) == (0, 3, SECOND)
    assert work.transactions == {"fill/a/1": 3}, "its place in the input stays where it is"
    assert work.rows_history == 3
    assert component.lag == 0


def test_back_fill_goes_on_after_a_restart(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.spark.select.component.ROWS_PER_STEP", 1)
    for second in range(1, 4):
        stream.commit([(second, 1, 1.0)])
    component = opened(stream)
    component.add([row("a", 1.0)], SECOND)
    assert filled(component).transactions == {"fill/a/1": 1}
    again = opened(stream)
    assert again.filling
    assert filled(again).transactions == {"fill/a/1": 2}
    assert filled(again).transactions == {"fill/a/1": 3}
    assert not again.filling


def test_live_steps_and_back_fill_take_turns(stream: Stream) -> None:
    component = opened(stream)
    assert [component.fill_is_next() for _ in range(4)] == [True, False, True, False]


def test_a_start_in_the_future_needs_no_history(stream: Stream) -> None:
    stream.commit([(5, 1, 1.0)])
    component = opened(stream)
    (later,) = component.add([row("a", 1.0)], 50 * SECOND)
    assert (later.start, later.fill) == (50 * SECOND, 0)
    assert not component.filling


def test_history_that_is_gone_is_refused(stream: Stream) -> None:
    stream.commit([(5, 1, 1.0)])
    stream.commit([(6, 1, 1.0)])
    stream.writer.retain(below_step=2)
    component = opened(stream)
    with pytest.raises(UserError, match="no longer reaches back"):
        component.add([row("a", 1.0)], SECOND)
    assert component.rows() == ()


def test_Q1_history_that_is_left_is_served(stream: Stream) -> None:
    """A start that lies behind all that is gone: from the first step that is left, once."""
    for second in (5, 6, 7, 8):
        stream.commit([(second, 1, 1.0)])
    stream.writer.retain(below_step=3)
    component = opened(stream)
    with pytest.raises(UserError, match="it begins at 1970-01-01T00:00:06Z"):
        component.add([row("a", 1.0)], 5 * SECOND)
    (accepted,) = component.add([row("a", 1.0)], 6 * SECOND)
    assert (accepted.start, accepted.fill) == (6 * SECOND, 4)
    assert [component.next_fill()[1].after, component.oldest_needed] == [2, 2]
    again = opened(stream)
    assert again.next_fill()[1].after == 2, "also after a restart"
    stream.writer.retain(below_step=5)
    assert not component._to_fill([replace(accepted, start=9 * SECOND)]), "nothing is left to fill"


def test_results_expected_go_up_at_once_and_down_slowly(stream: Stream) -> None:
    """A step that turns out too large for Arrow is worse than one that was not needed."""
    component = opened(stream)
    stream.commit([(5, 1, 1.0)] * 4)
    served(component, rows_out=4)
    assert component.rows_rate == 1.0
    assert component.work_at_head().rows_expected == 4
    stream.commit([(6, 1, 1.0)] * 4)
    served(component, rows_out=0)
    assert component.rows_rate == 0.5


def test_the_step_at_the_head_leaves_its_end_open(stream: Stream) -> None:
    component = opened(stream)
    component.add([row("a", 1.0)], None)
    work = component.work_at_head()
    assert work.transactions == {"roster": component.version}
    assert [r.query for r in work.rows] == ["a"]


def test_the_columns_of_results() -> None:
    assert result_schema(STREAM).names == [
        "_query",
        "_version",
        "ts",
        "meter",
        "kwh",
        "_step",
        "_id",
    ]
