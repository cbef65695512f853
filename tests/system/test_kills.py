"""A mesh that is killed at random moments loses nothing and answers nothing twice."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.system.kills import Killing, judge

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("seed", "store", "kind", "lives"),
    [
        (1, True, "json", ("in step", "in command", "after files")),
        (2, False, "csv", ("in step", "after files")),
        (3, True, "push", ("in step", "in command")),
    ],
)
def test_Q2_O1_after_kills(
    tmp_path: Path, spark: "SparkSession", seed: int, store: bool, kind: str, lives: tuple[str, ...]
) -> None:
    """A few kills each; `python -m tests.system.kills` does more."""
    killing = Killing(tmp_path, seed=seed, store=store, kind=kind)
    for life in lives:
        killing.life(life)
    figures = judge(killing, spark, store=store, kind=kind)
    assert figures.kills == len(lives)
    assert (figures.resent > 0) == (kind == "push")
