"""A hundred races and crashes of real processes; `python -m tests.races` runs as many as asked."""

from pathlib import Path

import pytest

from tests.races.rounds import COMMIT_POINTS, CRASHES, UPKEEP_POINTS, run

#: Two batches on different seeds: 100 races and crashes at least, some 40 s on two cores.
BATCHES = [(1, 42, 10, 0, 0), (2, 14, 20, 8, 10)]


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "pauses", "crashes", "moments", "crowd"), BATCHES)
def test_L1_L2_L3_L4_hold_in_races(
    tmp_path: Path, seed: int, pauses: int, crashes: int, moments: int, crowd: int
) -> None:
    """Owners pause, die and crowd; readers lag; nothing is lost, doubled or torn."""
    tally = run(tmp_path, seed=seed, pauses=pauses, crashes=crashes, moments=moments, crowd=crowd)
    assert tally.violations == {}, f"python -m tests.races --seed {seed} --count 1"
    assert (tally.crashes, tally.moments) == (crashes + moments, moments)
    assert tally.nameless >= moments // 2, "owners have died before their entry had its name"
    assert tally.races >= pauses + crowd
    assert tally.fenced >= pauses + crowd
    assert tally.compactions > 0
    died = [name for name in tally.points if name.startswith("crash ")]
    assert len(died) == min(crashes, len(CRASHES)), "an owner has died at each point"
    stopped = [name for name in tally.points if name.startswith("pause ")]
    assert len(stopped) == len((*COMMIT_POINTS, *UPKEEP_POINTS)) + 2, "and one slept at each"


def test_a_hundred_at_least() -> None:
    """The races and crashes that every batch has for certain."""
    assert sum(sum(batch[1:]) for batch in BATCHES) >= 104
    assert max(crashes for _, _, crashes, _, _ in BATCHES) >= len(CRASHES)


def test_points_are_named_once() -> None:
    """Every point between the first file and the end of a commit has its own name."""
    points = (*COMMIT_POINTS, *UPKEEP_POINTS)
    assert len(dict.fromkeys(points)) == len(points)
