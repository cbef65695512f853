"""Pictures of components and steps: what is shown is what the tables and the turn say."""

from pathlib import Path

import pytest

from shoal.dataplane.scheduler import Turn
from shoal.log.root import Root
from shoal.spark.feed import Feed
from shoal.spark.outcome import StepOutcome
from shoal.spark.select.component import SelectComponent
from shoal.spark.views import component_view, step_done
from shoal.spark.windows.panes import open_panes
from shoal.spark.windows.rollup import open_roll_up
from tests.unit.spark.small import INPUT, SECOND, Stream, opened, row
from tests.unit.spark.windows import world


@pytest.fixture
def component(root: Path) -> SelectComponent:
    stream = Stream(Root.open(root))
    component = opened(stream)
    component.add([row("a", 1.0)], None)
    stream.commit([(5, 1, 1.0)], wm=3)
    component.feed.poll()
    return component


def turn(failures: int = 0) -> Turn:
    return Turn(weight=1.0, passed=0.0, failures=failures)


def stepped(component: SelectComponent, counters: dict[str, int]) -> StepOutcome:
    read = component.next_range()
    assert read is not None
    work = component.work(read)
    totals = {f"n/{key}": n for key, n in counters.items()}
    commit = work.writer.commit(
        step=work.writer.step + 1,
        segments=[],
        transactions={**work.transactions, **totals},
        info={"wall": "77"},
    )
    component.done(upto=read.upto, rows_in=1, rows_out=0)
    return StepOutcome(
        instance=component.instance,
        commit=commit,
        rows_in=1,
        rows_out=0,
        roster_rows=1,
        source_committed=work.source_committed,
        counters=counters,
    )


def test_a_component_that_is_behind(component: SelectComponent) -> None:
    view = component_view(
        component, turn(), reason="an old one", unread="", cost={"step": 0.1}, rates={"in": 2.0}
    )
    assert (view.kind, view.state, view.reason) == ("select", "waiting", "")
    assert (view.lag, view.positions, view.watermark) == (1, {INPUT: 0}, None)
    assert (view.epoch, view.step) == (component.writer.epoch, component.writer.step)
    assert (view.roster_rows, view.roster_version) == (1, component.version)
    assert (view.cost, view.rates, view.retained) == ({"step": 0.1}, {"in": 2.0}, 0)


def test_a_component_after_a_step(component: SelectComponent) -> None:
    stepped(component, {"error/a": 3})
    view = component_view(component, turn(), reason="", unread="", cost={}, rates={})
    assert (view.lag, view.positions, view.watermark) == (0, {INPUT: 1}, 3 * SECOND)
    assert view.counters == {"error/a": 3}


def test_failing_comes_before_running(component: SelectComponent) -> None:
    component.running = True
    assert (
        component_view(component, turn(), reason="x", unread="", cost={}, rates={}).state
        == "running"
    )
    failing = component_view(component, turn(2), reason="job: no", unread="", cost={}, rates={})
    assert (failing.state, failing.failures, failing.reason) == ("failing", 2, "job: no")


def test_whoever_cannot_read_is_failing(component: SelectComponent) -> None:
    view = component_view(component, turn(), reason="", unread="no disk", cost={}, rates={})
    assert (view.state, view.failures, view.reason) == ("failing", 0, "no disk")


def test_a_step_is_reported_with_its_stamps(component: SelectComponent) -> None:
    """From the two stamps whoever watches tells the latency."""
    done = step_done(component, stepped(component, {"error/a": 3}))
    assert (done.committed, done.source_committed) == (77, 1)
    assert (done.positions, done.watermark) == ({INPUT: 1}, 3 * SECOND)
    assert (done.step, done.epoch) == (component.writer.step, component.writer.epoch)
    assert done.counters == {"error/a": 3}
    assert (done.rows_in, done.rows_out, done.roster_rows, done.group) == (1, 0, 1, 1)


def test_panes_and_roll_ups_say_from_when_they_are_whole(root: Path) -> None:
    """And how far time has come, also where no window was due."""
    stream = Stream(Root.open(root))
    for second in (1, 5, 9):
        stream.commit([(second, 1, 1.0)], wm=second)
    stream.writer.retain(below_step=3)
    panes = open_panes(stream.root, world.panes_spec(), stream.feed(), owner="peer-1", weight=1.0)
    panes.writer.commit(step=2, segments=[], transactions={"wm": 3 * SECOND})
    feed = Feed.at_head(stream.root, panes.instance)
    roller = open_roll_up(
        stream.root, world.roll_up_spec(world.PLAIN), feed, owner="peer-1", weight=1.0
    )
    roller.add([world.row("a", world.window(10))], None)
    panes.writer.commit(step=3, segments=[], transactions={"wm": 8 * SECOND})
    feed.poll()
    assert not roller.ready
    views = [
        component_view(part, turn(), reason="", unread="", cost={}, rates={})
        for part in (panes, roller)
    ]
    assert [view.kind for view in views] == ["panes", "roll-up"]
    assert [view.watermark for view in views] == [8 * SECOND] * 2
    assert [view.lag for view in views] == [1, 0]
    assert [view.roster_rows for view in views] == [0, 1]
    assert [view.whole for view in views] == [5 * SECOND + 1, None], "no step has looked yet"
