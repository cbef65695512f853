"""Components that make panes: where they begin, what is whole, when tuples pass through."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from shoal.dataplane.rows import ALWAYS
from shoal.kernel.errors import LocalError
from shoal.log.writer import Writer
from shoal.spark.outcome import StepOutcome
from shoal.spark.windows import panes as module
from shoal.spark.windows.panes import CoarserComponent, PanesComponent
from shoal.spark.windows.step import panes_schema
from tests.unit.spark.windows.world import COUNT, PANES, SECOND, Lab, panes_spec

COARSE = replace(PANES, pane=10 * SECOND, name="v1 panes of 10 s over readings")
FINE = f"panes-{SECOND}"


@pytest.fixture
def lab(root: Path) -> Lab:
    """Without Spark: steps find nothing."""
    return Lab(root, cast("Any", None))


def step(panes: PanesComponent, *, rows_out: int = 0) -> dict[str, int]:
    """One step, as a worker would that found so much."""
    panes.feed.poll()
    read = panes.next_range()
    assert read is not None
    work = panes.work(read)
    commit = panes.writer.commit(
        step=panes.writer.step + 1, segments=[], transactions=work.transactions
    )
    done = StepOutcome(
        instance=panes.instance, commit=commit, rows_in=work.rows_in, rows_out=rows_out
    )
    panes.done(work, done)
    return dict(work.transactions)


def over_stream(lab: Lab, **changes: Any) -> PanesComponent:
    found = lab.panes(replace(panes_spec(), **changes))
    assert isinstance(found, PanesComponent)
    return found


def over_panes(lab: Lab) -> CoarserComponent:
    found = lab.panes(panes_spec(COARSE, finer=FINE))
    assert isinstance(found, CoarserComponent)
    return found


def test_a_new_one_begins_with_the_stream(lab: Lab) -> None:
    """A query that is added at once counts from the stream's head nevertheless."""
    lab.stream.commit([(1, 1, 1.0)], wm=0)
    lab.stream.commit([(9, 1, 1.0)])
    panes = over_stream(lab)
    assert (panes.position, panes.lag, panes.ready) == (0, 2, True)
    assert (panes.watermark, panes.whole) == (None, ALWAYS)
    assert panes.writer.transactions["evmax"] == 9 * SECOND
    facts = step(panes)
    assert facts == {"in/readings-0123456789ab": 2, "wm": 0, "evmax": 9 * SECOND}
    assert (panes.lag, panes.ready, panes.watermark) == (0, False, 0)


def test_the_watermark_goes_on_where_a_commit_says_nothing(lab: Lab) -> None:
    panes = over_stream(lab)
    lab.stream.commit([(20, 1, 1.0)], wm=10)
    step(panes)
    lab.stream.writer.commit(step=2, segments=[], transactions={"rows": 0})
    assert step(panes)["wm"] == 10 * SECOND


def test_what_retention_took_is_not_whole(lab: Lab) -> None:
    for second in (1, 5, 9):
        lab.stream.commit([(second, 1, 1.0)], wm=second)
    lab.stream.writer.retain(below_step=3)
    panes = over_stream(lab)
    assert (panes.position, panes.whole) == (2, 5 * SECOND + 1)
    again = over_stream(lab)
    assert (again.position, again.whole) == (2, 5 * SECOND + 1)


def test_a_stream_that_is_not_stored_begins_now(lab: Lab) -> None:
    """What its source still has cannot be told."""
    lab.stream.commit([(5, 1, 1.0)], wm=1)
    unstored = replace(panes_spec().stream, store=False)
    panes = over_stream(lab, stream=unstored)
    assert (panes.position, panes.whole) == (1, 5 * SECOND + 1)


def test_a_stream_without_tuples_is_whole_from_the_start(lab: Lab) -> None:
    unstored = replace(panes_spec().stream, store=False)
    assert over_stream(lab, stream=unstored).whole == ALWAYS


def test_history_comes_in_bounded_steps(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_PER_STEP", 2)
    for second in range(5):
        lab.stream.commit([(second, 1, 1.0)])
    panes = over_stream(lab)
    assert [step(panes)["in/readings-0123456789ab"] for _ in range(3)] == [2, 4, 5]


def test_tuples_pass_where_grouping_saves_little(lab: Lab) -> None:
    """Measured from the steps that group; tried again now and then."""
    panes = over_stream(lab)
    grouped = []
    for n in range(module.TRY_EVERY + 3):
        lab.stream.commit([(n, 1, 1.0), (n, 2, 1.0)])
        panes.feed.poll()
        read = panes.next_range()
        assert read is not None
        grouped.append(panes.work(read).grouped)
        step(panes, rows_out=2)
    assert [n for n, group in enumerate(grouped) if group] == [0, module.TRY_EVERY + 1]


@pytest.mark.parametrize(("rows_out", "passes"), [(1, False), (2, True)])
def test_the_share_decides(lab: Lab, rows_out: int, passes: bool) -> None:
    panes = over_stream(lab)
    lab.stream.commit([(1, 1, 1.0), (1, 1, 1.0)])
    step(panes, rows_out=rows_out)
    lab.stream.commit([(2, 1, 1.0)])
    panes.feed.poll()
    read = panes.next_range()
    assert read is not None
    assert panes.work(read).grouped != passes


def test_what_has_no_partial_of_one_tuple_is_always_grouped(lab: Lab) -> None:
    (partial,) = COUNT.partials
    sketch = replace(COUNT, partials=(replace(partial, each=""),))
    panes = over_stream(lab, panes=replace(PANES, measures=(sketch,)))
    for second in (1, 2):
        lab.stream.commit([(second, 1, 1.0)])
        panes.feed.poll()
        read = panes.next_range()
        assert read is not None
        assert panes.work(read).grouped
        panes._grouping.saw(rows_in=1, rows_out=1, grouped=True)


def test_coarser_panes_come_when_they_are_complete(lab: Lab) -> None:
    fine = over_stream(lab)
    lab.stream.commit([(5, 1, 1.0)], wm=0)
    step(fine)
    coarse = over_panes(lab)
    assert (coarse.position, coarse.whole) == (0, ALWAYS)
    assert coarse.ready
    due = coarse.work().due
    assert (due.done, due.reached) == (ALWAYS, 0)
    lazy = coarse.writer.commit(step=2, segments=[], transactions=due.facts(0))
    coarse.done(StepOutcome(instance=coarse.instance, commit=lazy, rows_in=0, rows_out=0))
    for second, ready in ((9, False), (12, True)):
        lab.stream.commit([(second + 5, 1, 1.0)], wm=second)
        step(fine)
        coarse.feed.poll()
        assert coarse.ready == ready
    assert coarse.work().due.done == 9 * SECOND
    assert coarse.needs_from == -1 * SECOND


def test_coarser_panes_are_as_whole_as_finer_ones(lab: Lab) -> None:
    for second in (1, 5, 9):
        lab.stream.commit([(second, 1, 1.0)], wm=second)
    lab.stream.writer.retain(below_step=3)
    step(over_stream(lab))
    coarse = over_panes(lab)
    assert coarse.whole == 5 * SECOND + 1
    assert coarse.writer.transactions["evmax"] == 9 * SECOND


def test_panes_keep_to_what_they_were_made_of(lab: Lab) -> None:
    over_stream(lab)
    over_panes(lab)
    Writer.create(lab.root, "other-1", panes_schema(PANES))
    with pytest.raises(LocalError, match="do not read"):
        lab.panes(replace(panes_spec(COARSE, finer=FINE), input="other-1"))
