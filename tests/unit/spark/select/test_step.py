"""A select step: what a group commits, member by member, and who fails with whom."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow.parquet as pq
import pytest

from shoal.dataplane.rows import RosterRow
from shoal.log.housekeep import Upkeep
from shoal.log.root import Root
from shoal.log.writer import Writer
from shoal.query.selection import Signature
from shoal.spark.outcome import StepFailed, StepOutcome
from shoal.spark.select import step
from shoal.spark.select.component import SelectComponent
from shoal.spark.select.step import Rosters, SelectWork, run, survives
from tests.unit.spark.small import (
    ABOVE,
    EQUAL,
    INPUT,
    RATIO,
    SECOND,
    Stream,
    Tuple,
    frame,
    opened,
    results,
    row,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Not in order of event time; one has no ratio.
TUPLES: list[Tuple] = [(9, 1, 0.5), (3, 2, 4.0), (7, 1, 3.0), (5, 3, 0.0), (3, 1, None)]


@dataclass
class Bank:
    """Selects of one stream, and what a step of theirs needs."""

    stream: Stream
    commits: ThreadPoolExecutor
    spark: "SparkSession"
    rosters: Rosters

    def select(self, selection: Signature, *rows: RosterRow) -> SelectComponent:
        component = opened(self.stream, selection)
        component.add(rows, None)
        return component

    def works(self, *components: SelectComponent) -> list[SelectWork]:
        """The next step of each over what the stream has."""
        found = []
        for component in components:
            component.feed.poll()
            read = component.next_range()
            assert read is not None
            found.append(component.work(read))
        return found

    def run(self, works: Sequence[SelectWork], tuples: Any = None) -> list[Any]:
        return run(
            self.spark,
            self.rosters,
            works,
            tuples or (lambda: frame(self.spark, TUPLES)),
            timestamp="ts",
            rows_in=len(TUPLES),
            commits=self.commits,
        )


@pytest.fixture
def bank(root: Path, spark: "SparkSession") -> Iterator[Bank]:
    with ThreadPoolExecutor(2) as commits:
        stream = Stream(Root.open(root))
        yield Bank(stream, commits, spark, Rosters(spark))


def brief(bank: Bank, component: SelectComponent) -> list[tuple[int, str]]:
    """Second of the event time and query; every file is in order of (event time, `_id`)."""
    files = sorted(bank.stream.root.table(component.instance).path.glob("e*.parquet"))
    tables = [pq.read_table(file).to_pylist() for file in files]
    for rows in tables:
        keys = [(one["ts"], one["_id"]) for one in rows]
        assert keys == sorted(keys)
    found = [one for rows in tables for one in rows]
    return sorted((int(one["ts"].timestamp()), one["_query"]) for one in found)


@pytest.mark.slow
@pytest.mark.parametrize("arrow_most", [step.ARROW_ROWS_MAX, -1])
def test_a_group_commits_one_by_one(
    bank: Bank, monkeypatch: pytest.MonkeyPatch, arrow_most: int
) -> None:
    """Through Arrow or through Spark: the same rows, under one number, in order (L1, L2, O1)."""
    monkeypatch.setattr(step, "ARROW_ROWS_MAX", arrow_most)
    above = bank.select(ABOVE, row("low", 0.25), row("high", 3.5))
    equal = bank.select(EQUAL, row("nobody", 77))
    ratio = bank.select(RATIO, row("ratio", 0.4, keep=0.999))
    bank.stream.commit(TUPLES, wm=2)
    works = bank.works(above, equal, ratio)
    outcomes = bank.run(works)
    assert [type(outcome) for outcome in outcomes] == [StepOutcome] * 3
    assert brief(bank, above) == [(3, "high"), (3, "low"), (7, "low"), (9, "low")]
    assert brief(bank, equal) == []
    assert brief(bank, ratio) == [(3, "ratio"), (9, "ratio")]
    _check_commits(works, outcomes)
    assert [outcome.rows_out for outcome in outcomes] == [4, 0, 2]
    assert outcomes[2].counters["n/error/ratio"] == 1
    assert works[2].writer.transactions["n/error/ratio"] == 1
    assert not list((bank.stream.root.path / "tables").glob("*/_staging/*"))


class _Gone(BaseException):
    """The process dies here; nobody catches it."""


@pytest.mark.slow
@pytest.mark.parametrize("died", ["adopt_segment", "write_segment"])
def test_what_a_crash_leaves_behind_is_swept(
    bank: Bank, monkeypatch: pytest.MonkeyPatch, died: str
) -> None:
    """Spark has written, and nothing is committed: the next owner's housekeeping finds it."""

    def die(*_: object, **__: object) -> None:
        raise _Gone

    above = bank.select(ABOVE, row("low", 0.25))
    ratio = bank.select(RATIO, row("ratio", 0.4))
    bank.stream.commit(TUPLES)
    with monkeypatch.context() as patch:
        patch.setattr(step, "ARROW_ROWS_MAX", -1)
        patch.setattr(step, died, die)
        patch.setattr(step.shutil, "rmtree", die)
        with pytest.raises(_Gone):
            bank.run(bank.works(above, ratio))
    tables = bank.stream.root.path / "tables"
    left = [path for path in tables.rglob("*.parquet") if "_staging" in path.parts]
    assert left
    upkeep = Upkeep(sweep_every_s=0.0, staging_hours=-1.0)
    for part in (above, ratio):
        writer = Writer.take_over(bank.stream.root, part.instance, owner="next", upkeep=upkeep)
        writer.housekeep(horizon=None)
    assert not [path for path in left if path.exists()]
    assert not list(tables.glob("*/_staging/*")), "nor its folders"


def _check_commits(works: Sequence[SelectWork], outcomes: Sequence[StepOutcome]) -> None:
    for work, outcome in zip(works, outcomes, strict=True):
        found = outcome.commit
        assert (found.step, found.epoch) == (work.writer.step, work.writer.epoch) == (2, 1)
        assert work.transactions.items() <= found.transactions.items()
        assert found.transactions[f"in/{INPUT}"] == 1
        assert found.transactions["wm"] == 2 * SECOND
        assert int(found.info["wall"]) > 0
        assert (outcome.rows_in, outcome.group) == (len(TUPLES), 3)
        assert [s.max_step for s in found.segments] == [2] * len(found.segments)
    total = sum(sum(outcome.seconds.values()) for outcome in outcomes)
    assert sum(outcome.busy for outcome in outcomes) == pytest.approx(total)
    assert outcomes[0].busy > outcomes[1].busy, "whoever has more results pays more"


@pytest.mark.slow
def test_what_was_shed_is_counted_and_added_up(bank: Bank) -> None:
    """S3: every tuple that a row did not look at, over all its steps."""
    many: list[Tuple] = [(n, 1, 1.0) for n in range(400)]
    part = bank.select(EQUAL, row("half", 1, keep=0.5), row("whole", 1))
    lost = 0
    for _ in range(2):
        bank.stream.commit([(1, 1, 1.0)])
        works = bank.works(part)
        (outcome,) = bank.run(works, lambda: frame(bank.spark, many, step=2))
        part.done(upto=works[0].transactions[f"in/{INPUT}"], rows_in=400, rows_out=0)
        lost += outcome.counters["n/shed/half"]
        assert outcome.rows_out == 800 - outcome.counters["n/shed/half"]
        assert list(outcome.counters) == ["n/shed/half"]
    assert 300 < lost < 500
    assert part.writer.transactions["n/shed/half"] == lost


def test_a_job_that_fails_fails_for_all(bank: Bank) -> None:
    """Nothing is committed, and each is told."""

    def tuples() -> Any:
        raise OSError("the disk is gone")

    works = _two(bank)
    outcomes = bank.run(works, tuples)
    assert [(o.instance, o.phase, o.reason, o.fenced) for o in outcomes] == [
        (work.instance, "plan", "the disk is gone", False) for work in works
    ]
    assert [work.writer.step for work in works] == [1, 1]


def test_whoever_is_fenced_fails_alone(bank: Bank) -> None:
    works = _two(bank)
    Writer.take_over(bank.stream.root, works[0].instance, owner="peer-2")
    first, second = bank.run(works)
    assert isinstance(first, StepFailed)
    assert (first.fenced, first.phase) == (True, "commit")
    assert isinstance(second, StepOutcome)


def _two(bank: Bank) -> list[SelectWork]:
    parts = [bank.select(EQUAL, row("a", 1)), bank.select(ABOVE, row("b", 1.0))]
    bank.stream.commit(TUPLES)
    return bank.works(*parts)


def test_history_is_not_what_came_in(bank: Bank) -> None:
    """A back-fill's tuples count as history, or rates would be wrong."""
    bank.stream.commit(TUPLES)
    part = bank.select(EQUAL)
    part.add([row("a", 1)], 0)
    (outcome,) = bank.run([part.fill_work(*part.next_fill())])
    assert (outcome.rows_in, outcome.rows_history, outcome.rows_out) == (0, 5, 3)
    assert f"in/{INPUT}" not in outcome.commit.transactions
    assert outcome.commit.transactions["fill/a/1"] == 1


def test_a_roster_is_built_again_only_when_rows_change(bank: Bank) -> None:
    works = _two(bank)
    meeting = bank.rosters.of(works, timestamp="ts")
    assert bank.rosters.of(works, timestamp="ts") is meeting
    part = bank.select(RATIO, row("c", 1.0))
    before = part.work_at_head()
    known = bank.rosters.of([before], timestamp="ts")
    part.keep("c", 0.5)
    after = part.work_at_head()
    assert bank.rosters.of([after], timestamp="ts") is not known
    assert bank.rosters.of(works, timestamp="ts") is meeting


def test_only_so_many_rosters_are_kept(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step, "ROSTERS_KEPT", 1)
    first, second = _two(bank)
    meeting = bank.rosters.of([first], timestamp="ts")
    bank.rosters.of([second], timestamp="ts")
    assert len(bank.rosters._built) == 1
    assert bank.rosters.of([first], timestamp="ts") is not meeting


def test_a_trial_commits_nothing(bank: Bank) -> None:
    """Some of the rows over the tuples: the error, or None."""
    (work, _) = _two(bank)
    assert (
        survives(bank.spark, work, work.rows, lambda: frame(bank.spark, TUPLES), timestamp="ts")
        is None
    )
    bad = [row("bad", 1, columns=("no_such_column",))]
    error = survives(bank.spark, work, bad, lambda: frame(bank.spark, TUPLES), timestamp="ts")
    assert "no_such_column" in str(cast("Exception", error))
    assert work.writer.step == 1
    assert results(bank.stream.root, work.instance) == []
