"""What a run once found stays away: each regression is played again, with several seeds.

A file is a small scenario and a table `found` that says what it was (tools/track_record.py).
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from shoal.sim.runs.cast import standard
from shoal.sim.runs.many import seeds_of
from shoal.sim.runs.run import run
from shoal.sim.runs.scenario import read
from tests.repo.source import ROOT

FILES = sorted((Path(__file__).parent / "regressions").glob("*.toml"))


def parts(path: Path) -> tuple[str, dict[str, Any]]:
    """The scenario as text, and what it was."""
    text = path.read_text(encoding="utf-8")
    scenario = re.sub(r"^\[found\]\n(?:[^\[\n].*\n|\n)*", "", text, flags=re.MULTILINE)
    return scenario, tomllib.loads(text)["found"]


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_stays_away(path: Path) -> None:
    """No seed of a regression fails."""
    text, found = parts(path)
    scenario = read(text, name=path.stem)
    for seed in seeds_of(found["seeds"]):
        outcome = run(scenario, seed, standard(), name=path.stem)
        assert outcome.ok, f"{path.name} seed {seed}: {outcome.failure}"


def test_there_are_regressions() -> None:
    """The simulator has found something; if this list is empty, something is wrong with it."""
    assert FILES


def test_the_track_record_is_fresh() -> None:
    """`python tools/track_record.py` writes docs/track-record.md."""
    done = subprocess.run(
        [sys.executable, "tools/track_record.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
