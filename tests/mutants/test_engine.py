"""Each mutant of the engine is caught by the oracle, and the real engine passes the same scene.

The scene has a tuple at the very instant where one version of a query ends and the next begins,
doubled tuples, late ones, queries that share a signature, and one that sheds.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.mutants.engine_select import MUTANTS
from tests.oracle.checker import check_shed, check_untouched, roster_rows
from tests.spark.setting import Setting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def play(folder: Path, spark: "SparkSession") -> None:
    """The scene, and everything that is promised of it."""
    with Setting(folder, spark, seed=47, files_per_step=64) as setting:
        setting.select({"first": "kwh > 1", "second": "kwh > 2", "turns": "kwh > -20"})
        setting.select({"half": "TRUE", "ends": "kwh > -20"})
        setting.mesh.query("half").keep(0.5)
        setting.round(files=6, rows=60)
        setting.alter("turns", "kwh > -15")
        setting.mesh.query("ends").drop()
        setting.select({"third": "kwh > 3"})
        setting.world.repeat_newest(setting.source, rows=40)
        setting.drain()
        _check(setting)


def _check(setting: Setting) -> None:
    for name in ("first", "second", "third"):
        check_untouched(roster_rows(setting.root, name))
    oracle = setting.check(["first", "second", "third", "turns", "ends"])
    lost = setting.counter("shed/half")
    check_shed(rows=setting.mesh.query("half").to_arrow().num_rows, lost=lost, ok=len(oracle.ok))


def test_Q1_Q2_Q3_O1_S3_the_real_one_passes(tmp_path: Path, spark: "SparkSession") -> None:
    """Without a mutant nothing is found."""
    play(tmp_path, spark)


@pytest.mark.parametrize("mutant", list(MUTANTS), ids=lambda mutant: mutant.__name__)
def test_a_mutant_is_caught(
    tmp_path: Path,
    spark: "SparkSession",
    monkeypatch: pytest.MonkeyPatch,
    mutant: Callable[[pytest.MonkeyPatch], None],
) -> None:
    """By the checker of the promise that it breaks."""
    mutant(monkeypatch)
    with pytest.raises(AssertionError) as caught:
        play(tmp_path, spark)
    named = [MUTANTS[mutant]]
    # A tuple that comes twice breaks them all; the oracle speaks of what it saw first.
    named += ["Q1", "S3"] if named != ["Q1"] and named != ["S3"] else []
    assert any(promise in str(caught.value) for promise in named), str(caught.value)[:500]
