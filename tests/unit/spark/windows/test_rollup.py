"""A roll-up: which windows a row is given, what a step commits, and what a restart keeps.

Nothing here needs Spark: steps find nothing, as where no pane lies.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from shoal.dataplane.rows import ALWAYS, FOREVER, RosterRow
from shoal.kernel.errors import LocalError, UserError
from shoal.log.writer import Commit
from shoal.query.windows.plan import Shape
from shoal.spark.outcome import StepOutcome
from shoal.spark.windows.panes import PanesComponent
from shoal.spark.windows.rollup import RollUpComponent, windows_schema
from shoal.spark.windows.step import RollUpWork
from tests.unit.spark.windows.world import PLAIN, ROLL_UP, SECOND, Lab, panes_spec, row, window

TEN = window(10)


def committed(instance: str, commit: Commit) -> StepOutcome:
    return StepOutcome(instance=instance, commit=commit, rows_in=0, rows_out=0)


class Desk(Lab):
    """A lab without Spark: panes and roll-up only move on."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, cast("Any", None), PLAIN)
        self.made = self.panes()
        assert isinstance(self.made, PanesComponent)

    def advance(self, *seconds: int, lateness: int = 5) -> None:
        """Commits of panes, each with a tuple of this time."""
        made = self.made
        for second in seconds:
            self.stream.commit([(second, 1, 1.0)], wm=second - lateness)
            made.feed.poll()
            read = made.next_range()
            assert read is not None
            facts = made.work(read).transactions
            done = made.writer.commit(step=made.writer.step + 1, segments=[], transactions=facts)
            made.done(made.work(read), committed(made.instance, done))

    def serve(self, roller: RollUpComponent, *, upto: int | None = None) -> RollUpWork:
        """The next step, up to the end of what is due or to some second in it."""
        roller.feed.poll()
        assert roller.ready
        fill = roller.fill_row if roller.fill_is_due else None
        work = roller.fill_work() if fill is not None else roller.work()
        self.commit(roller, work, fill, upto)
        return work

    def commit(
        self,
        roller: RollUpComponent,
        work: RollUpWork,
        fill: RosterRow | None,
        upto: int | None = None,
    ) -> None:
        reached = work.due.reached if upto is None else upto * SECOND
        facts = {work.fill: reached} if work.fill else work.due.facts(reached)
        writer = roller.writer
        commit = writer.commit(
            step=writer.step + 1,
            segments=[],
            transactions={**work.select.transactions, **facts},
        )
        outcome = committed(roller.instance, commit)
        if fill is None:
            roller.done(outcome)
        else:
            roller.filled_by(fill, work, outcome)


@pytest.fixture
def desk(root: Path) -> Desk:
    return Desk(root)


def names(work: RollUpWork) -> list[str]:
    return [one.query for one in work.select.rows]


def test_a_new_one_begins_where_its_panes_are(desk: Desk) -> None:
    desk.advance(3, 18)
    roller = desk.roller()
    assert (roller.position, roller.watermark) == (3, 13 * SECOND)
    assert roller.event_time == 18 * SECOND
    assert not roller.ready
    again = desk.roller()
    assert (again.position, again.watermark) == (3, 13 * SECOND)


def test_Q1_a_row_counts_from_what_was_consumed(desk: Desk) -> None:
    """Also where the watermark is further, because time passes without tuples."""
    desk.advance(18)
    roller = desk.roller()
    (first,) = roller.add([row("a", TEN)], None)
    assert (first.start, first.since, first.fill) == (18 * SECOND, 2, 0)
    assert first.columns == tuple(c.name for c in PLAIN.columns())
    desk.advance(19, lateness=-20)
    desk.serve(roller)
    (second,) = roller.add([row("b", TEN)], None)
    assert (second.start, second.since) == (39 * SECOND, 3)


def test_steps_are_there_when_a_window_is(desk: Desk) -> None:
    roller = desk.roller()
    roller.add([row("a", TEN)], None)
    desk.advance(5)
    desk.serve(roller)
    desk.advance(6, 9, 14)
    roller.feed.poll()
    assert not roller.ready
    assert (roller.lag, roller.position, roller.watermark) == (0, 5, 9 * SECOND)
    desk.advance(16)
    work = desk.serve(roller)
    assert (work.due.done, work.due.reached) == (9 * SECOND, 11 * SECOND)
    assert (roller.lag, roller.ready) == (0, False)


def test_a_row_that_joins_during_a_step_counts_from_its_end(desk: Desk) -> None:
    roller = desk.roller()
    roller.add([row("a", TEN)], None)
    desk.advance(17)
    roller.feed.poll()
    assert roller.ready
    work = roller.work()
    (late,) = roller.add([row("b", TEN)], None)
    assert (names(work), late.since, late.start) == (["a"], 2, 17 * SECOND)
    desk.commit(roller, work, None)
    desk.advance(26)
    assert names(desk.serve(roller)) == ["a", "b"]


def test_Q2_pieces_belong_to_whom_they_began_with(desk: Desk) -> None:
    """A row that joins between two pieces of a commit begins after it, and with all history."""
    roller = desk.roller()
    roller.add([row("a", TEN)], None)
    desk.advance(45)
    desk.serve(roller, upto=20)
    assert (roller.position, roller.planned, roller.watermark) == (1, 2, 20 * SECOND)
    (late, past) = [roller.add([row(q, TEN)], b)[0] for q, b in (("b", None), ("c", 5 * SECOND))]
    assert (late.since, late.start) == (2, 45 * SECOND)
    assert (past.since, past.start, past.fill) == (2, 5 * SECOND, 40 * SECOND)
    for one in (roller, desk.roller()):
        one.feed.poll()
        assert (one.position, one.planned) == (1, 2)
    roller = one
    steps = [desk.serve(roller) for _ in range(2)]
    assert sorted(bool(step.fill) for step in steps) == [False, True]
    assert not roller.ready


def test_Q1_history_in_pieces(desk: Desk) -> None:
    """A start in the past: its windows up to now, one piece after the other, also later on."""
    desk.advance(45)
    roller = desk.roller()
    (past,) = roller.add([row("a", TEN)], 5 * SECOND)
    assert (past.start, past.fill, roller.lag) == (5 * SECOND, 40 * SECOND, 1)
    work = desk.serve(roller, upto=22)
    assert (work.due.done, work.due.reached) == (5 * SECOND, 40 * SECOND)
    (alone,) = work.select.rows
    assert (alone.since, alone.cut) == (0, FOREVER)
    again = desk.roller()
    work = desk.serve(again)
    assert (work.due.done, work.due.reached) == (22 * SECOND, 40 * SECOND)
    assert (again.filling, again.ready, desk.roller().filling) == (False, False, False)


def test_history_that_is_not_whole_is_refused(desk: Desk) -> None:
    desk.advance(45)
    roller = desk.roller()
    made = desk.made.writer
    made.commit(step=made.step + 1, segments=[], transactions={"whole": 20 * SECOND})
    with pytest.raises(UserError, match="not whole") as error:
        roller.add([row("a", TEN)], 5 * SECOND)
    assert "1970-01-01T00:00:20Z" in str(error.value)
    assert roller.rows() == ()
    assert roller.add([row("a", TEN)], 20 * SECOND)[0].fill == 40 * SECOND


def test_a_start_that_is_still_to_come(desk: Desk) -> None:
    desk.advance(18)
    roller = desk.roller()
    (later,) = roller.add([row("a", TEN)], 60 * SECOND)
    assert (later.start, later.fill) == (60 * SECOND, 0)
    desk.advance(64)
    roller.feed.poll()
    assert not roller.ready
    desk.advance(75)
    roller.feed.poll()
    assert roller.ready


def test_a_dropped_row_gets_what_is_due(desk: Desk) -> None:
    """Up to its end, and then it is over; with `now` nothing more."""
    roller = desk.roller()
    roller.add([row("a", TEN), row("b", TEN)], None)
    desk.advance(21)
    desk.serve(roller)
    ended = roller.end("a", at=roller.event_time, now=False)
    assert ended.until == 21 * SECOND
    roller.end("b", at=roller.event_time, now=True)
    desk.advance(26)
    assert names(desk.serve(roller)) == ["a"]
    desk.advance(36)
    roller.feed.poll()
    assert not roller.ready


def test_panes_are_held_for_the_longest_window(desk: Desk) -> None:
    roller = desk.roller()
    assert roller.needs_from == ALWAYS
    roller.add([row("a", TEN), row("b", window(60, 10))], None)
    desk.advance(45)
    desk.serve(roller)
    assert roller.needs_from == -20 * SECOND
    roller.end("b", at=roller.event_time, now=False)
    desk.advance(55)
    desk.serve(roller)
    desk.advance(65)
    desk.serve(roller)
    assert roller.needs_from == 50 * SECOND
    roller.add([row("c", TEN)], 15 * SECOND)
    assert roller.needs_from == 5 * SECOND


def test_what_a_roll_up_does_not_serve(desk: Desk) -> None:
    roller = desk.roller()
    mine = row("a", TEN)
    wrong = [
        replace(mine, shape=None),
        replace(mine, parameters=(7,)),
        row("a", replace(TEN, slide=SECOND // 2)),
    ]
    for one in wrong:
        with pytest.raises(LocalError):
            roller.add([one], None)
    with pytest.raises(UserError, match="share of the tuples"):
        roller.add([replace(mine, keep=0.5)], None)
    roller.add([mine], None)
    with pytest.raises(UserError, match="share of the tuples"):
        roller.keep("a", 0.5)
    assert roller.rows()[0].keep == 1.0


def test_shapes_of_one_number_are_refused(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a row joins, and when a component starts."""
    roller = desk.roller()
    mine = row("a", TEN)
    roller.add([mine], None)
    monkeypatch.setattr(Shape, "number", property(lambda self: mine.parameters[0]))
    with pytest.raises(LocalError, match="cannot be told from others"):
        roller.add([row("b", window(20))], None)
    roller.add([row("c", TEN)], None)
    monkeypatch.setattr(RollUpComponent, "_check_row", lambda self, row: None)
    roller.add([row("b", window(20))], None)
    with pytest.raises(LocalError, match="cannot be told from others"):
        desk.roller()


def test_a_failed_step_is_repeated_with_its_rows(desk: Desk) -> None:
    """Q2: who joined meanwhile is there, and gets nothing of what was before."""
    roller = desk.roller()
    roller.add([row("a", TEN)], None)
    desk.advance(17)
    roller.feed.poll()
    assert roller.ready
    roller.work()
    roller.add([row("b", TEN)], None)
    roller.undone()
    work = desk.serve(roller)
    assert [(one.query, one.since) for one in work.select.rows] == [("a", 1), ("b", 2)]


def test_Q2_a_repeated_step_goes_by_the_watermark_amid_it(desk: Desk) -> None:
    """Who joined or left while it failed has the windows that it would have had."""
    roller = desk.roller()
    roller.add([row("a", TEN), row("b", TEN)], None)
    desk.advance(25)
    roller.feed.poll()
    assert roller.ready
    roller.work()
    roller.add([row("c", TEN)], 5 * SECOND)
    roller.end("b", at=roller.event_time, now=True)
    roller.undone()
    desk.advance(45)
    desk.serve(roller, upto=0)
    roller.feed.poll()
    (a, b, c) = roller.work().select.rows
    assert (a.start, a.until) == (ALWAYS, FOREVER)
    assert (b.until, b.cut) == (20 * SECOND, FOREVER)
    assert (c.start, c.until) == (20 * SECOND, FOREVER)
    assert roller.fill_row.fill == 20 * SECOND


def test_a_suspended_row_is_served_no_more(desk: Desk) -> None:
    roller = desk.roller()
    roller.add([row("a", TEN), row("b", TEN)], None)
    desk.advance(17)
    roller.feed.poll()
    assert roller.ready
    work = roller.work()
    roller.undone()
    roller.suspend(work.select.rows[:1], ["it raises"])
    assert names(desk.serve(roller)) == ["b"]


def test_columns_of_the_results() -> None:
    schema = windows_schema(ROLL_UP)
    assert schema.names[:4] == ["_query", "_version", "window_start", "window_end"]
    assert schema.names[-4:] == ["_time", "_errors", "_step", "_id"]


def test_a_row_needs_windows_of_whole_panes(desk: Desk) -> None:
    spec = panes_spec()
    assert spec.panes.pane == SECOND
    roller = desk.roller()
    with pytest.raises(LocalError, match="whole panes"):
        roller.add([row("a", replace(TEN, offset=SECOND // 4))], None)
