"""An ingest step: one commit under its number, whatever fails on the way; nothing counted twice."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from shoal.kernel.errors import StorageError
from shoal.log.writer import Writer
from shoal.spark.ingest import step, take
from shoal.spark.ingest.step import Ingest
from shoal.spark.outcome import StepFailed, StepOutcome
from tests.unit.spark.ingest.world import SECOND, Shelf, Tuple, ingest_of, ok, rows_of, stream_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

NOW = 1_000 * SECOND
TORN: Tuple = (None, None, "{torn")


def run(spark: "SparkSession", ingest: Ingest, now: int = NOW) -> StepOutcome:
    outcome = step.run(spark, "s", ingest, now)
    assert isinstance(outcome, StepOutcome), outcome
    return outcome


def facts(ingest: Ingest, *names: str) -> list[int | None]:
    return [ingest.writer.transactions.get(name) for name in names]


def test_steps_go_through_the_source(root: Path, spark: "SparkSession") -> None:
    shelf = Shelf(
        ("n", [*ok(100 * SECOND, 90 * SECOND), TORN]),
        ("n", ok(110 * SECOND)),
        ("n", ok(95 * SECOND)),
    )
    ingest = ingest_of(root, shelf, stream_of(lateness=10 * SECOND))
    first = run(spark, ingest)
    assert (first.rows_in, first.rows_out, first.counters) == (4, 3, {"in": 4, "dead": 1})
    assert (first.commit.step, first.busy > 0) == (1, True)
    assert sorted(first.seconds) == ["commit", "job", "plan"]
    assert facts(ingest, "in/source", "wm", "evmax", "rows") == [
        2,
        100 * SECOND,
        110 * SECOND,
        3,
    ]
    assert int(first.commit.info["wall"]) > 0
    assert shelf.released == 2
    second = run(spark, ingest)
    assert second.counters == {"in": 1, "late": 1}
    assert facts(ingest, "in/from", "in/source", "n/in", "n/late", "n/dead") == [2, 3, 5, 1, 1]
    assert facts(ingest, "wm", "evmax", "rows") == [100 * SECOND, 110 * SECOND, 0]
    assert step.run(spark, "s", ingest, NOW) is None
    kinds = [(row["_step"], row["_kind"], row["a"]) for row in rows_of(ingest.writer)]
    assert kinds == [(1, "ok", 100), (1, "ok", 90), (1, "ok", 110), (2, "late", 95)]


def test_S3_dead_letters_say_where_when_and_why(root: Path, spark: "SparkSession") -> None:
    ingest = ingest_of(root, Shelf(("n", [TORN]), ("m", ok(9_999 * SECOND))), stream_of())
    outcome = run(spark, ingest)
    assert (outcome.rows_out, outcome.commit.segments) == (0, ())
    first, second = rows_of(ingest.dead)
    assert (first["reason"], first["content"], first["split"]) == ("malformed", "{torn", "n")
    assert (second["reason"], second["split"]) == ("ahead of the clock", "m")
    assert [row["ingest_step"] for row in (first, second)] == [1, 1]
    assert first["ingested"].timestamp() == NOW / SECOND
    assert facts(ingest, "wm", "evmax") == [None, None]


def test_L2_a_step_that_stopped_after_its_dead_letters_is_repeated_as_it_was(
    root: Path, spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same range and the same ingest clock, although there is more and time has passed."""
    late: list[tuple[str, list[Tuple]]] = [("n", [TORN, *ok(NOW + 3_600 * SECOND)])]
    shelf = Shelf(*late)
    ingest = ingest_of(root, shelf, stream_of())
    commit = Writer.commit

    def stop(writer: Writer, **how: Any) -> Any:
        if writer.instance == "s" and "in/source" in how["transactions"]:
            raise StorageError("the disk is gone")
        return commit(writer, **how)

    with monkeypatch.context() as patch:
        patch.setattr(Writer, "commit", stop)
        failed = step.run(spark, "s", ingest, NOW)
    assert isinstance(failed, StepFailed)
    assert (failed.phase, failed.fenced) == ("commit", False)
    shelf.lists.append(("n", [TORN]))
    again = ingest_of(root, shelf, stream_of())
    outcome = run(spark, again, NOW + 60 * SECOND)
    assert outcome.counters == {"in": 2, "dead": 1}
    assert facts(again, "in/source", "clock") == [1, NOW]
    assert len(rows_of(again.dead)) == 1
    run(spark, again, NOW + 60 * SECOND)
    assert [row["ingest_step"] for row in rows_of(again.dead)] == [1, 2]
    assert facts(again, "in/source", "clock", "n/dead") == [2, NOW + 60 * SECOND, 2]


def test_L3_an_owner_that_was_replaced_says_so(root: Path, spark: "SparkSession") -> None:
    shelf = Shelf(("n", ok(SECOND)))
    old = ingest_of(root, shelf, stream_of())
    new = ingest_of(root, shelf, stream_of())
    failed = step.run(spark, "s", old, NOW)
    assert isinstance(failed, StepFailed)
    assert failed.fenced
    assert run(spark, new).rows_out == 1


def test_after_a_failure_parts_go_one_by_one(root: Path, spark: "SparkSession") -> None:
    shelf = Shelf(("n", ok(SECOND)), ("n", ok(2 * SECOND)), ("n", ok(3 * SECOND)))
    ingest = ingest_of(root, shelf, stream_of())
    shelf.broken[2] = None
    failed = step.run(spark, "s", ingest, NOW)
    assert isinstance(failed, StepFailed)
    assert (failed.phase, failed.reason) == ("plan", "list 2 cannot be read")
    ingest.cautious = True
    assert run(spark, ingest).commit.transactions["in/source"] == 1
    assert not ingest.cautious
    ingest.cautious = True
    assert isinstance(step.run(spark, "s", ingest, NOW), StepFailed)
    ingest.unreadable = "it is torn"
    assert run(spark, ingest).counters == {"in": 1, "dead": 1}
    (letter,) = rows_of(ingest.dead)
    assert (letter["reason"], letter["content"]) == ("unreadable: it is torn", "list 2 to 2")
    assert (ingest.cautious, ingest.unreadable) == (False, "")
    assert run(spark, ingest).rows_out == 1
    assert facts(ingest, "in/source", "n/in") == [3, 3]


def test_a_clock_that_is_set_back_stands_still(root: Path, spark: "SparkSession") -> None:
    """So no tuple is ahead of it that was not before."""
    shelf = Shelf(("n", ok(SECOND)), ("n", ok(NOW + 3_600 * SECOND)))
    shelf.per_step = 1
    ingest = ingest_of(root, shelf, stream_of())
    run(spark, ingest)
    assert run(spark, ingest, NOW - 500 * SECOND).counters == {"in": 1}
    assert facts(ingest, "clock") == [NOW]


def test_a_stream_without_event_time_gets_one_that_grows(root: Path, spark: "SparkSession") -> None:
    shelf = Shelf(("n", ok(0)), ("n", ok(0)))
    shelf.per_step = 1
    ingest = ingest_of(root, shelf, stream_of("a INT", timestamp=""))
    run(spark, ingest)
    run(spark, ingest, NOW - 5)
    times = [row["_ts"].timestamp() * SECOND for row in rows_of(ingest.writer)]
    assert times == [NOW, NOW + 1]


def test_without_data_an_idle_split_is_left_behind(root: Path, spark: "SparkSession") -> None:
    """The watermark moves by a commit of its own, also where it was not far behind."""
    shelf = Shelf(("slow", ok(10 * SECOND)))
    ingest = ingest_of(root, shelf, stream_of())
    run(spark, ingest, NOW)
    ahead = 10 * SECOND + 9 * SECOND // 10
    shelf.lists.append(("fast", ok(ahead)))
    run(spark, ingest, NOW + SECOND)
    assert facts(ingest, "wm") == [10 * SECOND]
    assert step.run(spark, "s", ingest, NOW + 2 * SECOND) is None
    moved = run(spark, ingest, NOW + 5 * SECOND)
    assert (moved.rows_in, moved.rows_out, moved.commit.segments) == (0, 0, ())
    assert facts(ingest, "wm", "in/source", "rows", "evmax") == [ahead, 2, 0, ahead]
    assert step.run(spark, "s", ingest, NOW + 60 * SECOND) is None


def test_a_stream_that_is_not_stored_keeps_counts_only(root: Path, spark: "SparkSession") -> None:
    shelf = Shelf(("n", [*ok(100 * SECOND, 101 * SECOND), TORN]))
    ingest = ingest_of(root, shelf, stream_of(store=False))
    outcome = run(spark, ingest)
    assert (outcome.rows_out, outcome.commit.segments) == (2, ())
    assert facts(ingest, "rows", "n/dead", "wm") == [2, 1, 101 * SECOND]
    assert facts(ingest, "judge/ahead", "judge/stamp", "in/from") == [NOW + 3_600 * SECOND, NOW, 0]


@pytest.mark.parametrize("bytes_max", [0, 1 << 30])
def test_large_batches_are_written_by_spark(
    root: Path, spark: "SparkSession", monkeypatch: pytest.MonkeyPatch, bytes_max: int
) -> None:
    monkeypatch.setattr(step, "ARROW_BYTES_MAX", bytes_max)
    written: list[str] = []
    for name in ("through_arrow", "through_spark"):
        way = getattr(take, name)

        def noted(*args: Any, way: Any = way, name: str = name) -> Any:
            written.append(name)
            return way(*args)

        monkeypatch.setattr(take, name, noted)
    ingest = ingest_of(root, Shelf(("n", ok(SECOND))), stream_of())
    assert run(spark, ingest).rows_out == 1
    assert written == ["through_arrow" if bytes_max else "through_spark"]
