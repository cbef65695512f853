"""What is due, in which commit, and in what pieces: pure arithmetic."""

import random
from dataclasses import replace

import pytest

from shoal.dataplane.rows import ALWAYS, FOREVER
from shoal.log.writer import Commit
from shoal.spark.feed import Range
from shoal.spark.windows.due import (
    Due,
    Extent,
    Wanted,
    cut,
    due_in,
    source_stamp,
    span_of,
    wanted_of,
)
from tests.unit.spark.windows.world import row, window


def commit(step: int, wm: int | None, evmax: int | None = None, **info: str) -> Commit:
    facts = {"wm": wm, "evmax": evmax}
    return Commit(
        version=step,
        epoch=1,
        step=step,
        first_step=step,
        segments=(),
        transactions={key: value for key, value in facts.items() if value is not None},
        info=info,
    )


def due(*marks: tuple[int, int | None], done: int = ALWAYS) -> Due:
    commits = tuple(commit(step, wm) for step, wm in marks)
    after = marks[0][0] - 1
    read = Range(instance="panes-1", after=after, upto=marks[-1][0], commits=commits)
    return Due.of(read, done=done, evmax=ALWAYS)


def wanted(length: int, slide: int, *, after: int = ALWAYS, upto: int = FOREVER) -> Wanted:
    geometry = replace(window(1), length=length, slide=slide)
    return Wanted(window=geometry, after=after, upto=upto)


def test_the_watermark_after_each_commit_never_falls() -> None:
    found = due((7, 58), (8, None), (9, 63), (10, 60), done=59)
    assert found.marks == ((7, 59), (8, 59), (9, 63), (10, 63))
    assert (found.after, found.upto, found.reached) == (6, 10, 63)


def test_no_watermark_yet() -> None:
    found = due((1, None), (2, None))
    assert found.reached == ALWAYS
    assert found.facts(ALWAYS) == {"in/panes-1": 2, "begun": 2}


def test_the_greatest_event_time_and_the_newest_stamp() -> None:
    commits = (commit(1, 5, 9, wall="7"), commit(2, 6, 8, wall="9", source="8"))
    read = Range(instance="panes-1", after=0, upto=2, commits=commits)
    found = Due.of(read, done=ALWAYS, evmax=3)
    assert (found.evmax, found.source_committed) == (9, 8)
    assert source_stamp([]) == source_stamp([commit(1, 1)]) == 0


def test_the_position_of_a_piece() -> None:
    """Q2: a commit counts as consumed only when nothing of it is left."""
    found = due((7, 58), (8, 63), (9, 63), (10, 121), done=59)
    assert [found.position(upto) for upto in (59, 62, 63, 100, 121)] == [7, 7, 9, 9, 10]
    assert [found.mark(step) for step in (6, 7, 8, 9, 10, 11)] == [59, 59, 63, 63, 121, 121]
    assert found.facts(100) == {
        "in/panes-1": 9,
        "begun": 10,
        "reached": 121,
        "wm": 100,
    }


def test_rows_of_one_shape_ask_together() -> None:
    tumbling, sliding = window(10), window(10, 5)
    asked = wanted_of(
        [
            row("a", tumbling, start=5, until=90),
            row("b", tumbling, start=7, until=100),
            row("c", sliding, start=9),
            row("d", tumbling, 3, start=1),
        ]
    )
    assert [(one.window, one.after, one.upto) for one in asked.values()] == [
        (tumbling, 5, 100),
        (sliding, 9, FOREVER),
        (tumbling, 1, FOREVER),
    ]
    assert [shape.parameters for shape in asked] == [(), (), (3,)]


def test_due_is_what_somebody_asks_for() -> None:
    assert due_in([wanted(10, 10)], 9, 10)
    assert not due_in([wanted(10, 10)], 10, 19)
    assert not due_in([wanted(10, 10, after=20)], 9, 20)
    assert not due_in([wanted(10, 10, upto=9)], 9, 20)
    assert not due_in([], 0, 100)
    assert span_of([wanted(10, 10), wanted(30, 10)], 15, 25) == (-10, 20)
    assert span_of([wanted(10, 10)], 11, 19) is None


@pytest.mark.parametrize(
    ("low", "high", "touches"),
    [(10, 19, True), (20, 30, False), (0, 9, False), (None, 9, False), (15, None, True)],
)
def test_a_segment_that_does_not_say_may_hold_anything(
    low: int | None, high: int | None, touches: bool
) -> None:
    assert Extent(rows=1, low=low, high=high).touches(10, 20) == touches
    assert Extent(rows=1, low=None, high=None).touches(10, 20)


def test_a_jump_is_cut_where_rows_become_too_many() -> None:
    asked = [wanted(10, 10)]
    jump = due((1, 1000), done=0)
    extents = [Extent(rows=10, low=start, high=start + 9) for start in range(0, 1000, 10)]
    assert cut(asked, jump, extents, copies=1, rows_max=10_000) == 1000
    piece = cut(asked, jump, extents, copies=1, rows_max=200)
    assert 100 <= piece <= 200
    assert 10 <= cut(asked, jump, extents, copies=20, rows_max=200) < 20
    assert cut(asked, jump, extents, copies=1, rows_max=1) == 10, "one window at least"


def test_where_there_is_little_a_jump_is_one_step() -> None:
    """Fifty years without a tuple, in windows of a second, are no work."""
    asked = [wanted(1, 1)]
    jump = due((1, 50 * 365 * 86_400_000_000))
    extents = [Extent(rows=5, low=0, high=9), Extent(rows=5, low=10**15, high=10**15)]
    assert cut(asked, jump, extents, copies=1, rows_max=100) == jump.reached


@pytest.mark.parametrize("seed", range(20))
def test_Q1_pieces_leave_nothing_out(seed: int) -> None:
    """Whatever the pieces: they follow on one another and end where the watermark is."""
    rng = random.Random(seed)
    slide = rng.randrange(1, 50)
    asked = [wanted(slide * rng.randrange(1, 5), slide, after=rng.randrange(-50, 50))]
    extents = [
        Extent(rows=rng.randrange(100), low=start, high=start + rng.randrange(300))
        for start in rng.choices(range(-100, 1000), k=8)
    ]
    found = due((4, rng.randrange(500)), (5, 1000), done=rng.choice([ALWAYS, 3]))
    while found.done < found.reached:
        upto = cut(asked, found, extents, copies=1, rows_max=50)
        assert found.done < upto <= found.reached
        found = replace(found, done=upto)


def test_Q1_wanted_ends_are_those_of_the_window() -> None:
    some = wanted(10, 5, after=12, upto=30)
    assert list(some.ends(ALWAYS, FOREVER)) == [15, 20, 25, 30]
    assert list(some.ends(20, 26)) == [25]
