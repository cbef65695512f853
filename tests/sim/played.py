"""Scenarios of the repository, played once for a whole test run, and mutants played in them.

Seed n plays scenario n modulo the number of scenarios, as in benchmarks/seeds.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

from shoal.sim.runs.cast import Cast, standard
from shoal.sim.runs.many import scenario_files
from shoal.sim.runs.run import Outcome, run
from shoal.sim.runs.scenario import Scenario, read_file
from shoal.sim.world import Factory

FILES = scenario_files(Path(__file__).parents[2] / "scenarios")
NAMES = [path.stem for path in FILES]
#: As many as `make test` can afford; two thousand are played by benchmarks/seeds.
SEEDS = range(1, 51)


def seeds_for(name: str) -> list[int]:
    """The seeds that play a scenario in `make test`."""
    return [seed for seed in SEEDS if NAMES[seed % len(NAMES)] == name]


@cache
def played(name: str) -> tuple[Outcome, ...]:
    """What came of a scenario with its seeds."""
    scenario = read_file(FILES[NAMES.index(name)])
    return tuple(run(scenario, seed, standard(), name=name) for seed in seeds_for(name))


def caught(
    factory: Callable[[Scenario], Factory],
    name: str,
    seeds: Iterable[int],
    *,
    cast: Cast | None = None,
) -> str:
    """Play a mutant until something is found: what was found, or nothing.

    `factory` builds the peers of the mutant as `standard().factory` builds the real ones.
    """
    mutants = replace(cast or standard(), factory=factory)
    scenario = read_file(FILES[NAMES.index(name)])
    for seed in seeds:
        outcome = run(scenario, seed, mutants, name=name)
        if outcome.failure is not None:
            return outcome.failure.what
    return ""
