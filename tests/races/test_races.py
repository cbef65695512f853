"""A hundred races and crashes of real processes; `python -m tests.races` runs as many as asked."""

from pathlib import Path

import pytest

from tests.races.rounds import COMMIT_POINTS, CRASHES, UPKEEP_POINTS, run

#: Two batches on different seeds: 100 races and crashes at least, some 40 s on two cores.
BATCHES = [(1, 42, 10, 0), (2, 14, 24, 10)]


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "pauses", "crashes", "crowd"), BATCHES)
def test_L1_L2_L3_L4_hold_in_races(
    tmp_path: Path, seed: int, pauses: int, crashes: int, crowd: int
) -> None:
    """Owners pause, die and crowd; readers lag; nothing is lost, doubled or torn."""
    tally = run(tmp_path, seed=seed, pauses=pauses, crashes=crashes, crowd=crowd)
    assert tally.violations == {}, f"python -m tests.races --seed {seed} --count 1"
    assert tally.crashes == crashes
    assert tally.races >= pauses + crowd
    assert tally.fenced >= pauses + crowd
    assert tally.compactions > 0
    died = [name for name in tally.points if name.startswith("crash ")]
    assert len(died) == min(crashes, len(CRASHES)), "an owner has died at each point"
    stopped = [name for name in tally.points if name.startswith("pause ")]
    assert len(stopped) == len((*COMMIT_POINTS, *UPKEEP_POINTS)) + 2, "and one slept at each"


def test_a_hundred_at_least() -> None:
    """The races and crashes that every batch has for certain."""
    assert sum(pauses + crashes + crowd for _, pauses, crashes, crowd in BATCHES) >= 100
    assert max(crashes for _, _, crashes, _ in BATCHES) >= len(CRASHES)


def test_points_are_named_once() -> None:
    """Every point between the first file and the end of a commit has its own name."""
    points = (*COMMIT_POINTS, *UPKEEP_POINTS)
    assert len(dict.fromkeys(points)) == len(points)
