"""A failing scenario gets smaller and still fails in the same way."""

import pytest

from shoal.sim.runs.faults import Clock, Crash, Partition, Pause
from shoal.sim.runs.run import run
from shoal.sim.runs.shrink import shrink
from tests.unit.sim.runs.toys import NobodyUnreachable, toy_cast, toy_scenario

LARGE = toy_scenario(
    Pause(every_s=5.0, span_s=2.0),
    Clock(every_s=5.0, leap_s=3.0),
    Partition(at_s=(5.0,), span_s=10.0),
    Crash(at_s=(12.0,), down_s=5.0),
    peers=12,
    faults_s=40.0,
)


@pytest.mark.slow
def test_one_fault_and_few_peers_are_left() -> None:
    cast = toy_cast(lambda: [NobodyUnreachable()])
    said: list[str] = []
    smallest, outcome = shrink(LARGE, 1, cast, say=said.append)
    assert outcome.failure is not None
    assert outcome.failure.what.startswith("X2")
    assert len(smallest.fault) == 1
    assert smallest.peers <= 4
    assert smallest.faults_s < 20
    assert said
    assert run(smallest, 1, cast) == outcome


def test_what_does_not_fail_stays_as_it_is() -> None:
    smallest, outcome = shrink(LARGE, 1, toy_cast())
    assert outcome.ok
    assert smallest == LARGE


def test_the_number_of_tries_is_bounded() -> None:
    runs = []

    def checkers() -> list[NobodyUnreachable]:
        runs.append(1)
        return [NobodyUnreachable()]

    cast = toy_cast(checkers)
    shrink(LARGE, 1, cast, tries_max=5)
    assert len(runs) <= 7
