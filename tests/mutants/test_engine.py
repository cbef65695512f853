"""Each mutant of the engine is caught by the check of its promise, and the real engine passes all.

Each promise has a scene and a check of its own, so that none is found broken by another's. The
world has a tuple at the very instant where one version of a query ends and the next begins,
doubled tuples, late ones, queries that share a signature, and one that sheds.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from shoal.dataplane.reports import Failed
from shoal.kernel.errors import StorageError
from shoal.log.writer import Writer
from tests.mutants.engine_select import MUTANTS
from tests.oracle.checker import check_same, check_shed, check_untouched
from tests.spark.setting import Setting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

Bags = Mapping[str, "Counter[Any]"]


def right_and_in_order(folder: Path, spark: "SparkSession") -> None:
    """Q1 and O1: DuckDB's answer over intervals that are the table's."""
    with Setting(folder, spark, seed=47, files_per_step=64) as setting:
        setting.select({"first": "kwh > 1", "second": "kwh > 2", "turns": "kwh > -20"})
        setting.select({"ends": "kwh > -20", "goes": "kwh > -20"})
        setting.round(files=6, rows=60)
        setting.alter("turns", "kwh > -15")
        setting.alter("goes", "kwh > -15")
        setting.end("ends")
        setting.end("goes", now=True)
        setting.select({"third": "kwh > 3"})
        setting.world.repeat_newest(setting.source, rows=40)
        setting.drain()
        oracle = setting.check()
        setting.check_intervals(oracle)


def the_same_in_other_steps(folder: Path, spark: "SparkSession") -> None:
    """Q2: one world in one step a round, and in one step a file with a crash between."""
    large = _steps(folder / "large", spark, files_per_step=64, crash=False)
    small = _steps(folder / "small", spark, files_per_step=1, crash=True)
    check_same(large, small, promise="Q2")


def _steps(folder: Path, spark: "SparkSession", *, files_per_step: int, crash: bool) -> Bags:
    """What queries gave; with this lateness no tuple is late, whatever the steps of the source."""
    options = {"files_per_step": files_per_step, "lateness": "300 days"}
    with (
        pytest.MonkeyPatch.context() as patch,
        Setting(folder, spark, seed=53, **options) as setting,  # type: ignore[arg-type]
    ):
        if files_per_step == 1:
            patch.setattr("shoal.spark.select.component.ROWS_PER_STEP", 1)
        setting.select({"some": "kwh > 1", "all": "TRUE"})
        setting.round(files=5, rows=60)
        setting.alter("some", "kwh > 2")
        if crash:
            _fail_once(setting, patch)
        else:
            setting.round(files=1, rows=60)
        setting.round(files=5, rows=60)
        return setting.bags(["some", "all"])


def _fail_once(setting: Setting, patch: pytest.MonkeyPatch) -> None:
    """A commit of a select fails, and the mesh is closed and opened again."""
    commit = Writer.commit

    def fail(writer: Writer, **facts: Any) -> Any:
        if writer.instance.startswith("select"):
            raise StorageError("the disk is gone")
        return commit(writer, **facts)

    with patch.context() as failing:
        failing.setattr(Writer, "commit", fail)
        setting.world.drop(setting.source, files=1, rows=60)
        setting.wait_for(Failed)
    setting.reopen()


def the_same_whoever_changes(folder: Path, spark: "SparkSession") -> None:
    """Q3: two queries are left alone, while others beside them change or nobody does."""
    calm = _left_alone(folder / "calm", spark, changes=False)
    busy = _left_alone(folder / "busy", spark, changes=True)
    check_same(calm, busy, promise="Q3")


def _left_alone(folder: Path, spark: "SparkSession", *, changes: bool) -> Bags:
    with Setting(folder, spark, seed=59) as setting:
        names = ["first", "second"]
        setting.select({"first": "kwh > 1"})
        setting.select({"second": "kwh > 2"})
        setting.select({"turns": "kwh > -20", "ends": "kwh > -20"})
        setting.round(files=3, rows=60)
        before = [setting.rows_of(name) for name in names]
        if changes:
            setting.select({"third": "kwh > 3"})
            setting.alter("turns", "kwh > -15")
            setting.end("ends")
            for name, rows in zip(names, before, strict=True):
                check_untouched(rows, setting.rows_of(name))
        setting.round(files=3, rows=60)
        return setting.bags(names)


def what_was_shed_is_counted(folder: Path, spark: "SparkSession") -> None:
    """S3: what a query got and what it did not make all there was."""
    with Setting(folder, spark, seed=61) as setting:
        setting.select({"whole": "kwh > 1", "half": "TRUE"})
        setting.mesh.query("half").keep(0.5)
        setting.round(files=6, rows=60)
        ok = sum(1 for judged in setting.judged() if judged.kind == "ok")
        rows = setting.mesh.query("half").to_arrow().num_rows
        check_shed(rows=rows, lost=setting.counter("shed/half"), ok=ok)


CHECKS: Mapping[str, Callable[[Path, "SparkSession"], None]] = {
    "Q1": right_and_in_order,
    "Q2": the_same_in_other_steps,
    "Q3": the_same_whoever_changes,
    "O1": right_and_in_order,
    "S3": what_was_shed_is_counted,
}


@pytest.mark.parametrize("check", list(dict.fromkeys(CHECKS.values())), ids=lambda c: c.__name__)
def test_Q1_Q2_Q3_O1_S3_the_real_one_passes(
    tmp_path: Path, spark: "SparkSession", check: Callable[[Path, "SparkSession"], None]
) -> None:
    """Without a mutant nothing is found."""
    check(tmp_path, spark)


@pytest.mark.parametrize("mutant", list(MUTANTS), ids=lambda mutant: mutant.__name__)
def test_a_mutant_is_caught(
    tmp_path: Path,
    spark: "SparkSession",
    monkeypatch: pytest.MonkeyPatch,
    mutant: Callable[[pytest.MonkeyPatch], None],
) -> None:
    """By the check of the promise that it breaks, which says so."""
    mutant(monkeypatch)
    with pytest.raises(AssertionError) as caught:
        CHECKS[MUTANTS[mutant]](tmp_path, spark)
    found = re.search(r"\b(Q1|Q2|Q3|O1|S3):", str(caught.value))
    assert found, str(caught.value)[:500]
    assert found.group(1) == MUTANTS[mutant], str(caught.value)[:500]
