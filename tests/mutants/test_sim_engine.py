"""Each mutant of the invented engine is caught by the test of the conformance suite that is for it.

By its assertions: an engine that breaks down in another way is not caught, it is only broken.
"""

from collections.abc import Callable

import pytest

from tests.conformance.engine_suite import EngineSuite
from tests.conformance.test_sim_engine import SimUnderTest
from tests.mutants.engine_sim import MUTANTS

pytestmark = pytest.mark.slow


def play(test: str) -> None:
    """One test of the suite."""
    getattr(EngineSuite(), test)(SimUnderTest())


@pytest.mark.parametrize("test", list(dict.fromkeys(MUTANTS.values())))
def test_the_real_one_passes(test: str) -> None:
    play(test)


@pytest.mark.parametrize("mutant", list(MUTANTS), ids=lambda mutant: mutant.__name__)
def test_a_mutant_is_caught(
    monkeypatch: pytest.MonkeyPatch, mutant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    mutant(monkeypatch)
    monkeypatch.setattr("tests.conformance.test_sim_engine.PATIENCE", 20_000_000)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        play(MUTANTS[mutant])


@pytest.mark.parametrize("mutant", list(MUTANTS), ids=lambda mutant: mutant.__name__)
def test_the_test_has_the_promise_in_its_name(
    mutant: Callable[[pytest.MonkeyPatch], None],
) -> None:
    promise, _, _ = (mutant.__doc__ or "").partition(":")
    assert f"_{promise}_" in MUTANTS[mutant]
