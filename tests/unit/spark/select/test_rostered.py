"""Rows of a component: how they end, are suspended, forgotten, and outlive their owner."""

from pathlib import Path

import pytest

from shoal.dataplane.rows import FOREVER
from shoal.kernel.errors import LocalError
from shoal.log.root import Root
from shoal.query.windows.plan import Shape
from shoal.query.windows.shape import Window
from shoal.spark.select.rostered import begin_at_head
from tests.unit.spark.small import (
    ABOVE,
    SECOND,
    Stream,
    opened,
    row,
    served,
)


@pytest.fixture
def stream(root: Path) -> Stream:
    return Stream(Root.open(root))


def test_an_ended_row_is_served_until_the_watermark_has_passed(stream: Stream) -> None:
    """What is due within the lateness still appears; then the row is out of the step."""
    component = opened(stream)
    component.add([row("a", 1.0)], None)
    stream.commit([(5, 1, 1.0)], wm=1)
    served(component)
    assert component.end("a", at=component.event_time, now=False).until == 5 * SECOND
    stream.commit([(4, 1, 1.0)], wm=5)
    assert [r.until for r in served(component)[1].rows] == [5 * SECOND]
    stream.commit([(8, 1, 1.0)], wm=6)
    assert len(served(component)[1].rows) == 1, "the watermark of the step before counts"
    stream.commit([(9, 1, 1.0)])
    assert served(component)[1].rows == ()


def test_an_end_is_never_put_off(stream: Stream) -> None:
    component = opened(stream)
    component.add([row("a", 1.0)], None)
    component.end("a", at=3 * SECOND, now=False)
    assert component.end("a", at=9 * SECOND, now=False).until == 3 * SECOND


def test_dropped_now_is_out_of_the_next_step(stream: Stream) -> None:
    stream.commit([(5, 1, 1.0)])
    component = opened(stream)
    component.add([row("a", 1.0)], None)
    assert component.end("a", at=component.event_time, now=True).cut == 1
    stream.commit([(5, 1, 1.0)])
    assert served(component)[1].rows == ()


def test_dropped_now_ends_its_back_fill_for_good(stream: Stream) -> None:
    """A restart does not take up what was dropped (Q2)."""
    for second in range(1, 4):
        stream.commit([(second, 1, 1.0)])
    component = opened(stream)
    component.add([row("a", 1.0)], SECOND)
    component.end("a", at=component.event_time, now=True)
    assert not component.filling
    assert not opened(stream).filling


def test_a_name_is_served_once(stream: Stream) -> None:
    component = opened(stream)
    component.add([row("a", 1.0)], None)
    with pytest.raises(LocalError, match="in the roster"):
        component.add([row("a", 2.0)], None)
    component.add([row("a", 2.0, version=2)], None)
    assert [r.version for r in component.rows()] == [1, 2]
    with pytest.raises(LocalError, match="not in the roster"):
        component.end("b", at=0, now=False)


def test_one_change_leaves_the_others_alone(stream: Stream) -> None:
    """Q3, and the newest version is the one that changes."""
    component = opened(stream)
    component.add([row("a", 1.0), row("b", 1.0), row("b", 2.0, version=2)], None)
    before = {r.identity: r for r in component.rows()}
    component.keep("b", 0.5)
    after = {r.identity: r for r in component.rows()}
    assert [key for key in before if before[key] != after[key]] == [("b", 2)]
    assert after["b", 2].keep == 0.5


def test_a_share_that_is_none_is_refused(stream: Stream) -> None:
    component = opened(stream)
    component.add([row("a", 1.0)], None)
    with pytest.raises(LocalError, match="keeps 0"):
        component.keep("a", 0.0)
    assert component.rows()[0].keep == 1.0


def test_a_query_has_another_weight(stream: Stream) -> None:
    """The component has the greatest of those that still count."""
    component = opened(stream)
    component.add([row("a", 1.0), row("b", 1.0)], None)
    component.weigh("b", 4.0)
    assert component.weight == 4.0
    component.weigh("b", 0.5)
    assert component.weight == 1.0
    with pytest.raises(LocalError, match="weighs"):
        component.weigh("b", -1.0)
    with pytest.raises(LocalError, match="not in the roster"):
        component.weigh("c", 1.0)


def test_rows_are_the_same_object_until_one_changes(stream: Stream) -> None:
    """What was built from them is kept as long."""
    component = opened(stream)
    component.add([row("a", 1.0)], None)
    stream.commit([(5, 1, 1.0)])
    _, first = served(component)
    stream.commit([(6, 1, 1.0)])
    _, second = served(component)
    assert first.rows is second.rows
    component.keep("a", 0.5)
    stream.commit([(7, 1, 1.0)])
    _, third = served(component)
    assert [r.keep for r in third.rows] == [0.5]


def test_suspended_rows_are_served_no_more(stream: Stream) -> None:
    component = opened(stream)
    component.add([row("a", 1.0), row("b", 1.0)], None)
    stream.commit([(5, 1, 1.0)])
    _, work = served(component)
    component.suspend([work.rows[0]], ["three is not to be had"])
    stream.commit([(6, 1, 1.0)])
    _, work = served(component)
    assert [r.query for r in work.rows] == ["b"]
    (gone,) = [r for r in opened(stream).rows() if r.suspended]
    assert (gone.query, gone.suspended, gone.cut) == ("a", "three is not to be had", 1)


def test_a_row_can_be_suspended_for_its_history(stream: Stream) -> None:
    """What the step of the history was given is not what the roster says of the row."""
    for second in range(1, 4):
        stream.commit([(second, 1, 1.0)])
    component = opened(stream)
    component.add([row("a", 1.0)], SECOND)
    work = component.fill_work(*component.next_fill())
    component.suspend(work.rows, ["bad"])
    assert not component.filling
    (gone,) = component.rows()
    assert (gone.since, gone.fill, gone.suspended) == (3, 3, "bad")
    component.validate()
    assert not opened(stream).filling


def test_suspending_forgets_nothing_that_was_said_meanwhile(stream: Stream) -> None:
    """The rows were suspected for a while, and the user dropped one."""
    component = opened(stream)
    component.add([row("a", 1.0)], None)
    stream.commit([(5, 1, 1.0)])
    _, work = served(component)
    component.end("a", at=5 * SECOND, now=False)
    component.suspend(work.rows, ["bad"])
    (gone,) = component.rows()
    assert (gone.until, gone.suspended) == (5 * SECOND, "bad")


def test_rows_survive_a_restart(stream: Stream) -> None:
    component = opened(stream)
    rows = component.add([row("a", 1.0), row("b", 2.5)], None)
    again = opened(stream)
    assert again.rows() == rows
    assert again.version > component.version, "a take-over is a version of its own"
    assert again.row_count == 2


def test_many_rows_that_are_over_are_forgotten(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.spark.select.rostered.PRUNE_AT", 2)
    component = opened(stream)
    component.add([row("a", 1.0), row("b", 1.0), row("c", 1.0)], None)
    for name in ("a", "b"):
        component.end(name, at=3 * SECOND, now=False)
    stream.commit([(5, 1, 1.0)], wm=4)
    served(component)
    assert [r.query for r in component.rows()] == ["c"]
    assert [r.query for r in opened(stream).rows()] == ["c"]


def test_a_row_live_before_its_time_is_noticed(stream: Stream) -> None:
    component = opened(stream)
    component.add([row("a", 1.0)], None)
    component.planned = -1
    with pytest.raises(LocalError, match="is live since"):
        component.validate()


def test_rows_never_end_by_themselves(stream: Stream) -> None:
    component = opened(stream, ABOVE)
    (added,) = component.add([row("a", 1.0)], None)
    assert (added.until, added.cut) == (FOREVER, FOREVER)


def test_a_row_of_windows_is_no_selection(stream: Stream) -> None:
    shape = Shape(window=Window(length=1, slide=1, offset=0), parameters=())
    with pytest.raises(LocalError, match="is of windows"):
        opened(stream).add([row("a", 1.0, shape=shape)], None)


def test_a_beginning_is_said_once(stream: Stream) -> None:
    component = opened(stream)
    stream.commit([(5, 1, 1.0)], wm=4)
    begin_at_head(stream.root, component.writer, stream.instance)
    assert component.writer.transactions[f"in/{stream.instance}"] == 0
    assert component.watermark is None
