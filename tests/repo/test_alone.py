"""Purity is proven, not promised: the pure side runs where nothing else can be imported.

The contracts of `.importlinter` read imports; this runs them, also those of the libraries the pure
side uses, in an interpreter that refuses Spark, sockets, threads and event loops.
"""

import os
import subprocess
import sys

import pytest

from tests.repo.source import ROOT, SRC, pure_modules

#: What reads SQL with sqlglot, which logs, and a logger has a lock of threading.
_WITH_SQLGLOT = ("shoal.query.sql", "shoal.query.draft", "shoal.query.windows.draft")


def _alone(*names: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": f"{SRC}{os.pathsep}{ROOT}"}
    return subprocess.run(
        [sys.executable, str(ROOT / "tests" / "repo" / "alone.py"), *names],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
def test_the_pure_side_alone() -> None:
    """Every module of it can be imported, and whole peers live."""
    names = [m.name for m in pure_modules() if not m.name.startswith(_WITH_SQLGLOT)]
    done = _alone(*names)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{len(names)} modules\n"


@pytest.mark.parametrize("name", ["threading", "asyncio", "socket", "tests.golden.test_machines"])
def test_what_is_refused_is_refused(name: str) -> None:
    """Also when it is wanted by something in between (pytest wants threads)."""
    done = _alone(name)
    assert done.returncode != 0
    assert "is refused: the pure side does without it" in done.stderr
