"""Each mutant of the invented engine is caught by a test of the conformance suite.

By one that has the promise in its name, or, where the mutant is so broken that others see it
first, at least by one.
"""

from collections.abc import Callable

import pytest

from tests.conformance import test_sim_engine
from tests.conformance.engine_suite import EngineSuite
from tests.conformance.test_sim_engine import SimUnderTest
from tests.mutants.engine_sim import MUTANTS

pytestmark = pytest.mark.slow

_TESTS = [name for name in dir(EngineSuite) if name.startswith("test_")]


def failing() -> list[str]:
    """The tests of the suite that fail now."""
    failed = []
    for name in _TESTS:
        under = SimUnderTest()
        try:
            getattr(test_sim_engine.TestSimEngine(), name)(under)
        except (Exception, pytest.fail.Exception):  # noqa: BLE001 - however it fails
            failed.append(name)
    return failed


def test_the_real_one_passes() -> None:
    assert len(_TESTS) > 20
    assert not failing()


@pytest.mark.parametrize("mutant", list(MUTANTS), ids=lambda mutant: mutant.__name__)
def test_a_mutant_is_caught(
    monkeypatch: pytest.MonkeyPatch, mutant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    mutant(monkeypatch)
    monkeypatch.setattr("tests.conformance.test_sim_engine.PATIENCE", 20_000_000)
    failed = failing()
    assert [name for name in failed if f"_{MUTANTS[mutant]}_" in name], failed
