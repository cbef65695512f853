"""A smaller scenario that still fails: fewer faults, fewer peers, a shorter time, less work.

One change at a time is tried, the coarse ones first; it is kept if the run still fails in the same
way, until no change helps or `tries_max` runs are used up. The result is for people to read and for
tests/sim/regressions.

Never shorter  the time to form and to settle: whoever gets too little of it fails in another way.
The same way   the same promise, or the same kind of error: a smaller run that fails otherwise is
               another story.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from shoal.sim.network import Weather
from shoal.sim.runs.cast import Cast
from shoal.sim.runs.run import Outcome, run
from shoal.sim.runs.scenario import Scenario, Workload

__all__ = ["shrink"]

_PEERS_LEAST = 3
_SECONDS_LEAST = 2.0
_replace = msgspec.structs.replace


def shrink(
    scenario: Scenario,
    seed: int,
    cast: Cast,
    *,
    tries_max: int = 200,
    validate_every: int = 16,
    say: Callable[[str], None] | None = None,
) -> tuple[Scenario, Outcome]:
    """The smallest scenario found, and how it fails; the given one if it does not fail."""
    smallest, outcome = scenario, run(scenario, seed, cast, validate_every=validate_every)
    if outcome.failure is None:
        return smallest, outcome
    sign = _sign(outcome)
    changes = _smaller(smallest)
    for _ in range(tries_max):
        what, smaller = next(changes, ("", None))
        if smaller is None:
            break
        tried = run(smaller, seed, cast, validate_every=validate_every)
        if tried.failure is not None and _sign(tried) == sign:
            smallest, outcome = smaller, tried
            changes = _smaller(smallest)
            if say is not None:
                say(f"{what}: still fails after {tried.events:,} events")
    return smallest, outcome


def _sign(outcome: Outcome) -> str:
    """What failed, without names and numbers: the promise or the class of the error."""
    assert outcome.failure is not None
    return outcome.failure.what.partition(":")[0]


def _smaller(scenario: Scenario) -> Iterator[tuple[str, Scenario]]:
    """Changes that make a scenario smaller, the ones that save most first."""
    if scenario.require:
        yield "nothing required", _replace(scenario, require={})
    for index in range(len(scenario.fault)):
        rest = scenario.fault[:index] + scenario.fault[index + 1 :]
        yield f"without fault {index + 1}", _replace(scenario, fault=rest)
    for peers in _downwards(scenario.peers, _PEERS_LEAST):
        if scenario.losses_max < peers:
            least = min(scenario.peers_min, peers)
            yield f"{peers} peers", _replace(scenario, peers=peers, peers_min=least)
    for seconds in _downwards(scenario.faults_s, _SECONDS_LEAST):
        yield f"faults for {seconds:g} s", _replace(scenario, faults_s=seconds)
    yield from _plainer(scenario)


def _plainer(scenario: Scenario) -> Iterator[tuple[str, Scenario]]:
    """Changes that leave out what surrounds the failure."""
    if scenario.weather != Weather(heavy=0.0):
        yield "calm weather", _replace(scenario, weather=Weather(heavy=0.0))
    for field in msgspec.structs.fields(Workload):
        if getattr(scenario.workload, field.name):
            less = msgspec.structs.replace(scenario.workload, **{field.name: 0})
            yield f"no {field.name}", _replace(scenario, workload=less)
    if scenario.topology != "uniform":
        yield "uniform", _replace(scenario, topology="uniform")
    if len(scenario.machines) > 1:
        yield "fewer machines", _replace(scenario, machines=scenario.machines[:-1])


def _downwards(value: Any, least: Any) -> Iterator[Any]:
    """Half, three quarters, and one less, down to the least."""
    for smaller in dict.fromkeys((value // 2, value * 3 // 4, value - 1)):
        if least <= smaller < value:
            yield smaller
