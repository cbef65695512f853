"""The same seed gives the same run: in two processes, with two values of PYTHONHASHSEED.

Every scenario is played by fresh interpreters, shortened, and the digests of all events and effects
are compared. A set that is iterated, a clock that is read or a draw that is not from the seed would
show here.
"""

import os
import subprocess
import sys

import pytest

from tests.repo.source import ROOT
from tests.sim.short import NAMES

SEED = 5


def digests(hash_seed: str) -> list[str]:
    """One line for each scenario: its name and digest, from a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.sim.short", str(SEED)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": "src"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")


@pytest.mark.slow
def test_two_hash_seeds_two_processes_equal_digests() -> None:
    one, other = digests("1"), digests("4711")
    assert [line.split()[0] for line in one if line] == NAMES
    assert one == other
    assert len(dict.fromkeys(line.split()[1] for line in one if line)) == len(NAMES)
