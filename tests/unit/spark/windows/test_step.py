"""Steps of panes, coarser panes and roll-ups: what they commit, in what pieces, and who fails."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow.parquet as pq
import pytest

from shoal.dataplane.rows import RosterRow
from shoal.kernel.ids import ORDINAL_BITS
from shoal.spark.outcome import StepFailed
from shoal.spark.select.bisect import Guilty
from shoal.spark.turns import RollUpTurn
from shoal.spark.windows import step as module
from shoal.spark.windows.panes import PanesComponent
from shoal.spark.windows.rollup import RollUpComponent
from shoal.spark.windows.step import KnownShapes
from tests.unit.spark.windows.world import (
    PANES,
    PLAIN,
    ROLL_UP,
    SECOND,
    Lab,
    panes_spec,
    roll_up_spec,
    row,
    signature,
    window,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FINE = f"panes-{SECOND}"
COARSE = replace(PANES, pane=10 * SECOND, name="v1 panes of 10 s over readings")


@pytest.fixture
def lab(root: Path, spark: "SparkSession") -> Iterator[Lab]:
    with Lab(root, spark) as found:
        yield found


def turn(roller: RollUpComponent, *, suspects: bool = False) -> RollUpTurn:
    roller.feed.poll()
    assert roller.ready
    return RollUpTurn(
        instances=(roller.instance,), work=roller.work(), fill=None, suspects=suspects
    )


@pytest.mark.slow
def test_panes_and_windows_of_some_commits(lab: Lab) -> None:
    panes, roller = lab.panes(), lab.roller()
    roller.add([row("a", window(10), 100, 0), row("b", window(10, 5), 5, 1)], None)
    lab.stream.commit([(1, 1, 1.0), (2, 2, 2.0), (11, None, 3.0), (12, 4, 13.0)], wm=2)
    lab.stream.commit([(13, 1, 1.0), (14, 2, 2.0), (31, 1, 3.0)], late=[(1, 1, 9.0)], wm=21)
    (made,) = lab.make(panes)
    assert (made.rows_in, made.rows_out) == (7, 7)
    assert [one["_id"] for one in lab.rows(FINE)] == [2 << ORDINAL_BITS | n for n in range(7)]
    (rolled,) = lab.roll(roller)
    assert (rolled.rows_out, rolled.counters) == (6, {"n/error/a": 1, "n/error/b": 2})
    assert lab.results("a") == [
        (0, 10, 1, 1, 1.0, 1.0),
        (0, 10, 2, 1, 2.0, 2.0),
        (10, 20, 1, 2, 14.0, 7.0),
        (10, 20, 2, 1, 2.0, 2.0),
    ]
    assert lab.results("b") == [(10, 20, 1, 2, 14.0, 7.0), (5, 15, 1, 2, 14.0, 7.0)]
    found = lab.rows("rollup-1")
    assert [one["_step"] for one in found] == [2] * 6
    assert sum(one["_errors"] for one in found if one["_query"] == "b") == 2
    assert rolled.commit.transactions["wm"] == 21 * SECOND
    assert roller.writer.transactions["n/error/a"] == 1
    (segment,) = rolled.commit.segments
    assert segment.latest("_time") == 20 * SECOND - 1


@pytest.mark.slow
def test_O1_inside_a_commit_by_event_time_and_identity(lab: Lab) -> None:
    panes, roller = lab.panes(), lab.roller()
    roller.add([row(q, window(length), 100, 0) for q, length in (("a", 10), ("b", 5))], None)
    lab.stream.commit([(second, second, 1.0) for second in range(40)], wm=30)
    lab.make(panes)
    lab.roll(roller)
    (segment,) = roller.writer.live.values()
    table = pq.read_table(roller.writer.table.path / segment.path)
    keys = list(zip(table["_time"].to_pylist(), table["_id"].to_pylist(), strict=True))
    assert len(keys) > 20
    assert keys == sorted(keys)


@pytest.mark.slow
def test_Q2_in_pieces_as_at_once(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A jump of the watermark, as one step or as many; the same windows, the same identities."""
    panes = lab.panes()
    first, second = lab.roller(), lab.roller(roll_up_spec(instance="rollup-2"))
    for roller in (first, second):
        roller.add([row("a", window(10, 5), 100, 0), row("b", window(20), 3, 0)], None)
    lab.stream.commit([(s, s, s / 4) for s in range(60)], wm=50)
    lab.make(panes)
    assert len(lab.roll(first)) == 1
    monkeypatch.setattr(module, "ROWS_COMBINED", 40)
    pieces = lab.roll(second)
    assert len(pieces) > 3
    marks = [one.commit.transactions["wm"] for one in pieces]
    assert marks == sorted(dict.fromkeys(marks))
    assert marks[-1] == 50 * SECOND

    def found(instance: str) -> list[Any]:
        rows = lab.rows(instance)
        return sorted((one["_query"], one["window_end"], one["_id"], one["a1"]) for one in rows)

    assert len(found("rollup-1")) > 20
    assert found("rollup-1") == found("rollup-2")


@pytest.mark.slow
def test_Q2_coarser_panes_give_the_same_windows(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is made once, and in pieces where there is much."""
    monkeypatch.setattr(module, "ROWS_COMBINED", 30)
    fine = lab.panes()
    coarse = lab.panes(panes_spec(COARSE, finer=FINE))
    over = replace(roll_up_spec(replace(ROLL_UP, panes=COARSE), "rollup-2"), input="panes-10000000")
    first, second = lab.roller(), lab.roller(over)
    for roller in (first, second):
        roller.add([row("a", window(20, 10), 100, 0)], None)
    for start in range(0, 80, 4):
        lab.stream.commit([(start + n, n, 1.0) for n in range(4)], wm=start)
        if start % 3 == 0:
            lab.make(fine)
            lab.make(coarse)
    lab.make(fine)
    lab.make(coarse)
    lab.roll(first)
    lab.roll(second)
    assert len(lab.results("a")) > 10
    assert lab.results("a") == lab.results("a", "rollup-2")
    begins = [(one["_p"], one["k0"], one["f0"]) for one in lab.rows("panes-10000000")]
    assert len(begins) == len(dict.fromkeys(begins))


def test_where_no_pane_lies_there_is_no_job(root: Path) -> None:
    """Nothing here has a session."""
    with Lab(root, cast("Any", None)) as lab:
        panes, roller = lab.panes(), lab.roller()
        assert isinstance(panes, PanesComponent)
        coarse = lab.panes(panes_spec(COARSE, finer=FINE))
        roller.add([row("a", window(10), 100, 0)], None)
        writer = panes.writer
        writer.commit(step=writer.step + 1, segments=[], transactions={"wm": 99 * SECOND})
        (rolled,) = lab.roll(roller)
        assert (rolled.rows_out, roller.watermark) == (0, 99 * SECOND)
        (made,) = lab.make(coarse)
        assert (made.rows_out, coarse.watermark) == (0, 99 * SECOND)


@pytest.mark.slow
def test_whoever_was_fenced_says_so(lab: Lab) -> None:
    panes, roller = lab.panes(), lab.roller()
    roller.add([row("a", window(10), 100, 0)], None)
    lab.stream.commit([(1, 1, 1.0), (31, 1, 1.0)], wm=21)
    panes.feed.poll()
    lab.panes()
    read = panes.next_range() if isinstance(panes, PanesComponent) else None
    assert isinstance(panes, PanesComponent)
    assert read is not None
    failed = module.make_panes(
        lab.bench.session, panes.work(read), lambda: lab.input.frame(lab.bench, read)
    )
    assert isinstance(failed, StepFailed)
    assert (failed.fenced, failed.phase) == (True, "commit")
    lab.make(lab.panes())
    old = turn(roller)
    lab.roller()
    (failed,) = old(lab.bench).outcomes
    assert isinstance(failed, StepFailed)
    assert failed.fenced


WHERE_RAISES = replace(ROLL_UP, where=signature("(CAST(p.p0 AS INT) > s.`f0`)", "STRING"))
HAVING_RAISES = replace(
    PLAIN,
    having=signature("(s.`_shape` = p.p0) AND (CAST(p.p1 AS INT) > s.`a0`)", "BIGINT", "STRING"),
)


def _where(query: str, constant: str) -> RosterRow:
    plain = row(query, window(10), above=0)
    assert plain.shape is not None
    shape = replace(plain.shape, parameters=(constant,))
    return replace(plain, shape=shape, parameters=(shape.number, 0))


def _having(query: str, constant: str) -> RosterRow:
    plain = row(query, window(10))
    return replace(plain, parameters=(*plain.parameters, constant))


@pytest.mark.slow
@pytest.mark.parametrize("clause", ["where", "having"])
def test_Q3_constants_that_raise_are_found(lab: Lab, clause: str) -> None:
    """Of WHERE and of HAVING; the others go on."""
    roll_up = WHERE_RAISES if clause == "where" else HAVING_RAISES
    make = _where if clause == "where" else _having
    panes, roller = lab.panes(), lab.roller(roll_up_spec(roll_up))
    roller.add([make("a", "7"), make("bad", "x"), make("c", "9")], None)
    lab.stream.commit([(1, 1, 1.0), (31, 1, 1.0)], wm=21)
    lab.make(panes)
    (failed,) = turn(roller)(lab.bench).outcomes
    assert isinstance(failed, StepFailed)
    assert failed.phase == "job"
    roller.undone()
    (found,) = turn(roller, suspects=True)(lab.bench).outcomes
    assert isinstance(found, Guilty)
    assert [one.query for one in found.rows] == ["bad"]
    roller.suspend(found.rows, found.reasons)
    lab.roll(roller)
    assert len(lab.results("a")) == len(lab.results("c")) == 1


@pytest.mark.slow
def test_nobody_is_guilty_of_a_file_that_is_gone(lab: Lab) -> None:
    panes, roller = lab.panes(), lab.roller()
    roller.add([row("a", window(10), 100, 0)], None)
    lab.stream.commit([(1, 1, 1.0), (31, 1, 1.0)], wm=21)
    lab.make(panes)
    (path,) = lab.root.table(FINE).path.glob("e*.parquet")
    path.rename(path.with_suffix(".away"))
    (failed,) = turn(roller)(lab.bench).outcomes
    assert isinstance(failed, StepFailed)
    roller.undone()
    (found,) = turn(roller, suspects=True)(lab.bench).outcomes
    assert isinstance(found, Guilty)
    assert found.rows == ()
    path.with_suffix(".away").rename(path)
    lab.roll(roller)
    assert len(lab.results("a")) == 1


@pytest.mark.slow
def test_shapes_are_kept_until_the_rows_change(lab: Lab) -> None:
    writer = lab.panes().writer
    roller = lab.roller()
    roller.add([row("a", window(10), 100, 0)], None)
    writer.commit(step=writer.step + 1, segments=[], transactions={"wm": 0})
    known = KnownShapes()
    roller.feed.poll()
    first = known.of(lab.bench.session, roller.work())
    assert known.of(lab.bench.session, roller.work()) is first
    roller.add([row("b", window(20), 100, 0)], None)
    assert known.of(lab.bench.session, roller.work()) is not first
