"""Turns run on a worker: they read what they were given and end in data, whatever happens."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from shoal.kernel.errors import StorageError
from shoal.log.housekeep import Upkeep
from shoal.log.reader import Reader
from shoal.log.root import Root
from shoal.log.writer import Writer
from shoal.spark.bench import Bench
from shoal.spark.feed import Range
from shoal.spark.outcome import StepFailed, StepOutcome
from shoal.spark.select.bisect import Guilty
from shoal.spark.select.component import SelectComponent
from shoal.spark.select.step import Rosters
from shoal.spark.turns import BisectTurn, Care, HousekeepTurn, Input, SelectTurn
from tests.unit.spark.small import ABOVE, STREAM, Stream, matched, opened, results, row, signature

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INPUT_OF = Input(stream=STREAM, columns=STREAM.columns, timestamp="ts", source=None)


@pytest.fixture
def bench(root: Path, spark: "SparkSession") -> Iterator[Bench]:
    with ThreadPoolExecutor(2) as commits:
        opened_root = Root.open(root)
        yield Bench(session=spark, root=opened_root, rosters=Rosters(spark), commits=commits)


@pytest.fixture
def stream(bench: Bench) -> Stream:
    return Stream(bench.root)


def next_range(component: SelectComponent) -> Range:
    component.feed.poll()
    read = component.next_range()
    assert read is not None
    return read


@pytest.mark.slow
def test_a_select_reads_its_range_and_commits(bench: Bench, stream: Stream) -> None:
    part = opened(stream)
    part.add([row("a", 1.0)], None)
    stream.commit([(1, 1, 0.5), (2, 1, 2.0)], late=[(0, 1, 9.0)])
    stream.commit([(3, 1, 3.0)])
    read = next_range(part)
    turn = SelectTurn(
        instances=(part.instance,),
        input=INPUT_OF,
        read=read,
        works=(part.work(read),),
        fill=None,
    )
    done = turn(bench)
    assert done.turn is turn
    (outcome,) = done.outcomes
    assert isinstance(outcome, StepOutcome)
    assert (outcome.rows_in, outcome.rows_out) == (3, 2)
    assert matched(results(bench.root, part.instance)) == [("a", 0), ("a", 1)]
    assert not list((bench.root.path / "tables").glob("*/_staging/*"))


@pytest.mark.slow
def test_bisection_finds_the_row_and_commits_nothing(bench: Bench, stream: Stream) -> None:
    """A constant that the predicate cannot take, among others that it can."""
    raising = signature("(CAST(p.p0 AS INT) = s.`meter`)", "STRING")
    part = opened(stream, raising)
    part.add([row(f"q{n}", str(n)) for n in range(3)] + [row("bad", "x")], None)
    stream.commit([(1, 1, 0.5)])
    read = next_range(part)
    turn = BisectTurn(
        instances=(part.instance,), input=INPUT_OF, read=read, work=part.work(read), fill=None
    )
    (found,) = turn(bench).outcomes
    assert isinstance(found, Guilty)
    assert [one.query for one in found.rows] == ["bad"]
    assert "CAST_INVALID_INPUT" in found.reasons[0]
    assert part.writer.step == 1


@pytest.mark.slow
def test_nobody_is_guilty_of_a_stream_that_cannot_be_read(bench: Bench, stream: Stream) -> None:
    part = opened(stream)
    part.add([row("a", 1.0)], None)
    commit = stream.commit([(1, 1, 0.5)])
    (bench.root.table(stream.instance).path / commit.segments[0].path).unlink()
    read = next_range(part)
    turn = BisectTurn(
        instances=(part.instance,), input=INPUT_OF, read=read, work=part.work(read), fill=None
    )
    (found,) = turn(bench).outcomes
    assert isinstance(found, Guilty)
    assert (found.rows, found.trials) == ((), 1)


@pytest.mark.slow
def test_care_is_for_every_table_of_a_component(bench: Bench, stream: Stream) -> None:
    """And a failure is an outcome like any other."""
    Stream(bench.root, "other", STREAM)
    other = Writer.take_over(bench.root, "other", owner="ingest")
    for _ in range(20):
        stream.commit([])
        other.commit(step=other.step + 1, segments=[], transactions={})
    both = (stream.writer, other)
    cares = tuple(Care(writer=writer, horizon=None, before=None) for writer in both)
    turn = HousekeepTurn(instances=(stream.instance,), cares=cares, readers=(), source=None)
    assert turn(bench).outcomes == ()
    for writer in both:
        assert list(writer.table.log.glob("*.checkpoint.parquet"))

    class Full:
        def housekeep(self, *, horizon: int | None) -> None:
            raise StorageError("no space", detail="", hint="")

    ill = Care(writer=Full(), horizon=None, before=None)  # type: ignore[arg-type]
    turn = replace(turn, cares=(ill,))
    (failed,) = turn(bench).outcomes
    assert isinstance(failed, StepFailed)
    assert (failed.instance, failed.phase, failed.fenced) == (
        stream.instance,
        "housekeep",
        False,
    )


@pytest.mark.slow
def test_care_lets_go_of_files_that_nobody_can_read_any_more(bench: Bench, stream: Stream) -> None:
    """Of a stream that is not stored, once its log has forgotten how they were judged."""
    forgotten: list[int] = []

    class Source:
        def forget(self, upto: int) -> None:
            forgotten.append(upto)

    upkeep = Upkeep(checkpoint_every=2, log_entries_kept=0, history_hours=-1)
    writer = Writer.take_over(bench.root, stream.instance, owner="ingest", upkeep=upkeep)
    turn = HousekeepTurn(
        instances=(stream.instance,),
        cares=(Care(writer=writer, horizon=None, before=None),),
        readers=(),
        source=Source(),  # type: ignore[arg-type]
    )
    for number in range(9):
        writer.commit(step=writer.step + 1, segments=[], transactions={"in/from": number})
        assert turn(bench).outcomes == ()
    assert forgotten == sorted(forgotten)
    oldest = Reader.oldest(bench.root, stream.instance)
    assert oldest is not None
    assert 0 < forgotten[-1] == oldest.step - 1


def test_a_turn_that_finds_nothing_is_over_too(bench: Bench, stream: Stream) -> None:
    part = opened(stream, ABOVE)
    stream.commit([])
    read = next_range(part)
    turn = SelectTurn(
        instances=(part.instance,),
        input=INPUT_OF,
        read=read,
        works=(part.work(read),),
        fill=None,
    )
    (outcome,) = turn(bench).outcomes
    assert isinstance(outcome, StepOutcome)
    assert (outcome.rows_in, outcome.rows_out, outcome.commit.segments) == (0, 0, ())
