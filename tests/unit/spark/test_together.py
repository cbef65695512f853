"""Ingest and select as one job give what the two steps give one after the other."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from shoal.dataplane import commands as c
from shoal.log.root import Root
from shoal.log.writer import Writer
from shoal.query.catalog import SourceDef
from shoal.query.selection import Signature
from shoal.spark.bench import Bench
from shoal.spark.feed import Feed
from shoal.spark.frames import unstored
from shoal.spark.ingest import step as ingest_step
from shoal.spark.ingest.component import IngestComponent, open_ingest
from shoal.spark.outcome import StepFailed, StepOutcome
from shoal.spark.select.component import SelectComponent, open_select
from shoal.spark.select.step import Rosters
from shoal.spark.turns import Input, SelectTurn, TogetherTurn
from tests.unit.spark.small import (
    ABOVE,
    EQUAL,
    INPUT,
    SECOND,
    STREAM,
    matched,
    results,
    row,
    spec,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = 1000 * SECOND


class Mill:
    """A stream of files that is not stored, and selects of it."""

    def __init__(self, root: Path, spark: "SparkSession", commits: ThreadPoolExecutor) -> None:
        self.root = Root.open(root)
        self.bench = Bench(session=spark, root=self.root, rosters=Rosters(spark), commits=commits)
        self._folder = root.parent / "in"
        self._folder.mkdir()
        options = {"path": str(self._folder), "format": "json"}
        source = SourceDef(kind="files", options=options)
        self.stream = replace(STREAM, store=False, source=source)
        wanted = c.Ingest(instance=INPUT, stream=self.stream)
        self.part: IngestComponent = open_ingest(
            self.root, wanted, owner="peer-1", weight=1.0, now=NOW
        )
        self.feed = Feed.at_head(self.root, INPUT)
        self.feed.poll()
        self.files = 0

    def select(self, selection: Signature, *rows: object) -> SelectComponent:
        wanted = replace(spec(selection), stream=self.stream)
        part = open_select(self.root, wanted, self.feed, owner="peer-1", weight=1.0)
        part.add(rows, None)  # type: ignore[arg-type]
        return part

    def bring(self, *tuples: tuple[int | None, int, float]) -> None:
        """One file: second of the event time, meter, kwh."""
        lines = []
        for second, meter, kwh in tuples:
            stamp = None if second is None else datetime.fromtimestamp(second, UTC).isoformat()
            lines.append(json.dumps({"ts": stamp, "meter": meter, "kwh": kwh}))
        self.files += 1
        (self._folder / f"{self.files}.json").write_text("\n".join(lines))

    def step(self, *parts: SelectComponent) -> list[object]:
        works = tuple(part.work_at_head() for part in parts)
        turn = TogetherTurn(
            instances=(INPUT, *(part.instance for part in parts)),
            ingest=self.part.ingest,
            works=works,
            now=NOW,
        )
        return list(turn(self.bench).outcomes)


@pytest.fixture
def mill(root: Path, spark: "SparkSession") -> Iterator[Mill]:
    with ThreadPoolExecutor(2) as commits:
        yield Mill(root, spark, commits)


def test_nothing_is_no_step(mill: Mill) -> None:
    assert mill.step(mill.select(ABOVE)) == []
    assert mill.part.writer.step == 1


@pytest.mark.slow
def test_one_job_for_all_and_a_commit_for_each(mill: Mill) -> None:
    """Late and dead tuples are counted and are nobody's result; then history reads the same."""
    part = mill.select(ABOVE, row("a", 1.0))
    mill.bring((500, 1, 2.0), (505, 2, 0.5))
    mill.step(part)
    part.done(upto=mill.part.writer.step, rows_in=2, rows_out=1)
    mill.bring((510, 1, 3.0), (100, 1, 9.0), (None, 1, 9.0), (511, 7, 4.0))
    indexed, selected = mill.step(part)
    assert isinstance(indexed, StepOutcome)
    assert isinstance(selected, StepOutcome)
    assert dict(indexed.counters) == {"in": 4, "late": 1, "dead": 1}
    assert indexed.commit.segments == ()
    assert (selected.rows_in, selected.rows_out) == (2, 2)
    assert indexed.busy > 0, "reading and judging is the ingest's part of the job"
    assert (indexed.group, selected.group) == (2, 2)
    for outcome in (indexed, selected):
        assert sum(outcome.seconds.values()) == pytest.approx(outcome.busy)
    # By what each had in hand: four tuples, against one row and two results.
    assert indexed.busy / selected.busy == pytest.approx(5 / 4)
    facts = selected.commit.transactions
    assert facts[f"in/{INPUT}"] == indexed.commit.step == 3
    assert (facts["evmax"], facts["wm"]) == (511 * SECOND, 501 * SECOND)
    assert selected.source_committed == int(indexed.commit.info["wall"])
    found = results(mill.root, part.instance)
    assert [(one["kwh"], one["_step"]) for one in found] == [(2.0, 2), (3.0, 3), (4.0, 3)]
    letters = list(mill.root.table(f"{INPUT}.dead").path.glob("*.parquet"))
    assert len(letters) == 1
    _check_history(mill, found)


def _check_history(mill: Mill, found: list[dict[str, object]]) -> None:
    """Q2: the source, judged again as recorded, gives the same tuples with the same identity."""
    mill.feed.poll()
    behind = mill.select(EQUAL)
    behind.add([row("back", 1)], 0)
    _, read = behind.next_fill()
    source = mill.part.ingest.source
    frame = unstored(mill.bench.session, source, mill.stream, read)
    assert frame.columns == ["ts", "meter", "kwh", "_step", "_id"]
    tuples = {one["_id"]: (one["_step"], one["kwh"]) for one in frame.collect()}
    assert sorted(kwh for _, kwh in tuples.values()) == [0.5, 2.0, 3.0, 4.0]
    assert {one["_id"] for one in found} < set(tuples)
    known = Input(stream=mill.stream, columns=STREAM.columns, timestamp="ts", source=source)
    fill, read = behind.next_fill()
    turn = SelectTurn(
        instances=(behind.instance,),
        input=known,
        read=read,
        works=(behind.fill_work(fill, read),),
        fill=fill,
    )
    (outcome,) = turn(mill.bench).outcomes
    assert isinstance(outcome, StepOutcome)
    assert [one["kwh"] for one in results(mill.root, behind.instance)] == [2.0, 3.0]


@pytest.mark.slow
def test_what_was_indexed_is_not_lost_with_the_select(mill: Mill) -> None:
    """The index is first: a select that could not commit finds the range, and reads it again."""
    part = mill.select(ABOVE, row("a", 1.0))
    mill.bring((500, 1, 2.0))
    Writer.take_over(mill.root, part.instance, owner="peer-2")
    indexed, failed = mill.step(part)
    assert isinstance(indexed, StepOutcome)
    assert isinstance(failed, StepFailed)
    assert failed.fenced
    again = mill.select(ABOVE)
    mill.feed.poll()
    read = again.next_range()
    assert read is not None
    frame = unstored(mill.bench.session, mill.part.ingest.source, mill.stream, read)
    assert [one["kwh"] for one in frame.collect()] == [2.0]


@pytest.mark.slow
def test_a_source_that_cannot_be_read_fails_for_all(
    mill: Mill, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [mill.select(ABOVE, row("a", 1.0)), mill.select(EQUAL, row("b", 1))]
    mill.bring((500, 1, 2.0))

    def broken(*_: object, **__: object) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(ingest_step, "frame_of", broken)
    outcomes = mill.step(*parts)
    assert [(o.instance, o.reason) for o in outcomes if isinstance(o, StepFailed)] == [
        (name, "the disk is gone") for name in (INPUT, *(part.instance for part in parts))
    ]
    monkeypatch.undo()
    assert all(isinstance(outcome, StepOutcome) for outcome in mill.step(*parts))
    assert matched(results(mill.root, parts[1].instance)) == [("b", 0)]


@pytest.mark.slow
def test_an_ingest_that_was_fenced_commits_nothing_of_anybody(mill: Mill) -> None:
    part = mill.select(ABOVE, row("a", 1.0))
    mill.bring((500, 1, 2.0))
    Writer.take_over(mill.root, INPUT, owner="peer-2")
    (failed,) = mill.step(part)
    assert isinstance(failed, StepFailed)
    assert (failed.instance, failed.fenced) == (INPUT, True)
    assert part.writer.step == 1
