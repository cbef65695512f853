"""`python -m shoal` is the command."""

import os
import subprocess
import sys

import pytest

from tests.repo.source import SRC


@pytest.mark.slow
@pytest.mark.parametrize("module", ["shoal", "shoal.cli.main"])
def test_it_can_be_run_as_a_module(module: str) -> None:
    """Where the command is not on the path, or somebody names the file of the command."""
    words = [sys.executable, "-m", module, "sim", "none.toml"]
    done = subprocess.run(
        words,
        env={**os.environ, "PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "error: scenario file 'none.toml' cannot be read" in done.stderr
