"""A small run of the benchmark of seeds, and what is kept of the large scenarios."""

import json
from pathlib import Path

import pytest

from benchmarks.seeds.__main__ import main as seeds


@pytest.mark.slow
def test_seeds(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Two seeds, and a large scenario that is small; what is kept has the digest of each."""
    large = tmp_path / "large"
    large.mkdir()
    (large / "big.toml").write_text('title = "x"\npeers = 3\npeers_min = 2\nfaults_s = 1\n')
    kept = tmp_path / "seeds.json"
    assert seeds(["--seeds", "1..2", "--keep"], large=large, result=kept) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (found["runs"], found["failed"], found["large_runs"]) == (2, 0, 3)
    rows = json.loads(kept.read_text())["large"]
    assert [(row["scenario"], row["seed"], row["ok"]) for row in rows] == [
        ("big", seed, True) for seed in (1, 2, 3)
    ]
    assert len({row["digest"] for row in rows}) == 3
