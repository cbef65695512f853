"""A mesh that is killed at random moments loses nothing and answers nothing twice."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.system.kills import Killing, judge

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("seed", "store", "kind"), [(1, True, "json"), (2, False, "csv")])
def test_Q2_O1_after_kills(
    tmp_path: Path, spark: "SparkSession", seed: int, store: bool, kind: str
) -> None:
    """Three kills each; `python -m tests.system.kills` does more."""
    killing = Killing(tmp_path, seed=seed, store=store, kind=kind)
    for _ in range(3):
        killing.life()
    figures = judge(killing, spark, store=store, kind=kind)
    assert figures.kills == 3
