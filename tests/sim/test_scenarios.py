"""Fifty seeds over all scenarios hold what is promised, and what a scenario is about does happen.

A failure prints the command that repeats it.
"""

from collections import Counter

import pytest

from shoal.sim.runs.many import command
from shoal.sim.runs.run import Outcome
from shoal.sim.runs.scenario import read_file
from tests.sim.played import FILES, NAMES, SEEDS, played, seeds_for

pytestmark = pytest.mark.slow

LARGE = FILES[0].parent / "large"

#: What must have happened somewhere in fifty runs: every kind of trouble that the simulator has.
PROBES = (
    # the network: eleven kinds (delay is always on)
    "heavy",
    "loss",
    "duplicate",
    "reorder",
    "clog one direction",
    "clog pair",
    "swizzle",
    "partition",
    "partition, asymmetric",
    "isolate one",
    # hosts
    "crash for good",
    "crash, same disk",
    "crash, empty disk",
    "crash, old disk",
    "crash, another disk",
    "leave and come back",
    "crash of 9 any at once",
    "crash with writes kept",
    "an old disk that differs",
    "crash of 2 neighbours at once",
    "pause",
    "slow",
    "restart",
    # the overlay
    "churn burst",
    "join",
    "leave",
    "join after Broadcast",
    "corrupt successor list wiped",
    "corrupt fingers stale",
    # storage and clocks
    "crash with writes lost",
    "crash with writes torn",
    "clock leaps forward",
    "clock leaps back",
    "clock drifts",
    "weather",
)


@pytest.mark.parametrize("name", NAMES)
def test_everything_holds(name: str) -> None:
    """Safety under faults, liveness after them, with three seeds."""
    failed = [outcome for outcome in played(name) if outcome.failure is not None]
    assert not failed, "\n".join(
        f"{outcome.failure.what}\n    {command(f'scenarios/{name}.toml', outcome.seed)}"
        for outcome in failed
        if outcome.failure is not None
    )


def test_fifty_seeds_are_played_and_no_scenario_is_left_out() -> None:
    assert sorted(seed for name in NAMES for seed in seeds_for(name)) == list(SEEDS)
    assert len(SEEDS) == 50
    assert all(seeds_for(name) for name in NAMES)


def test_every_kind_of_trouble_really_happened() -> None:
    """A fault that never happens tests nothing."""
    total: Counter[str] = Counter()
    for name in NAMES:
        for outcome in played(name):
            total.update(outcome.probes)
    missing = [probe for probe in PROBES if not total[probe]]
    assert not missing, f"never happened in {len(SEEDS)} runs: {missing}"


@pytest.mark.parametrize("name", NAMES)
def test_questions_are_asked_and_mostly_answered(name: str) -> None:
    """A run in which nobody asks anything, or nobody answers, would prove little."""
    scenario = read_file(FILES[NAMES.index(name)])
    meant = scenario.workload.lookups_per_s * scenario.faults_s
    assert meant > 10
    for outcome in played(name):
        assert outcome.figures["lookups"] > meant / 3
        assert outcome.figures["lookups_unanswered"] < outcome.figures["lookups"] / 2


def test_broadcasts_are_judged_one_by_one() -> None:
    """G1, each peer once, is asked only where nothing was disturbed: that must have been so."""
    judged = {name: sum(_judged(outcome) for outcome in played(name)) for name in NAMES}
    assert sum(judged.values()) > 0, judged


def _judged(outcome: Outcome) -> float:
    return outcome.figures.get("broadcasts_judged", 0.0)


def test_the_papers_network_has_its_size() -> None:
    """Too large to be played here; it can be read, and asks for what the papers have."""
    scenario = read_file(LARGE / "transit_stub_500.toml")
    assert (scenario.topology, scenario.peers) == ("transit-stub", 500)
