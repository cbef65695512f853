"""Interaction scripts of machines: each does today what its file says (`tests/scripts.py`)."""

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.scripts import Cast, run_script

SCRIPTS = Path(__file__).parent / "machines"


def _names() -> list[str]:
    return sorted(str(path.relative_to(SCRIPTS)) for path in SCRIPTS.rglob("*.txt"))


@pytest.mark.parametrize("name", _names())
def test_the_story_is_the_same(name: str, golden: Callable[[str, str], None]) -> None:
    """Commands and what they give, to the letter."""
    golden(f"machines/{name}", _run(name))


@pytest.mark.parametrize("name", _names())
def test_no_command_is_wrong(name: str) -> None:
    """A mistake in a script is not written down as if it were what happens."""
    lines = _run(name).splitlines()
    wrong = [line for line in lines if line.startswith(("error: ", "LocalError: ", "UserError: "))]
    assert not wrong or "mistakes" in name


def _run(name: str) -> str:
    cast = importlib.import_module(f"tests.casts.{Path(name).parts[0]}").CAST
    assert isinstance(cast, Cast)
    return run_script((SCRIPTS / name).read_text(encoding="utf-8"), cast)
