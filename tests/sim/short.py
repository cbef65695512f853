"""Scenarios made short, for tests that are about the runner and not about promises.

`python -m tests.sim.short SEED` plays all of them and prints names and digests.
"""

import dataclasses
import sys
from pathlib import Path

import msgspec

from shoal.sim.runs.cast import standard
from shoal.sim.runs.faults import Fault
from shoal.sim.runs.run import Outcome, run
from shoal.sim.runs.scenario import Scenario, read_file

FOLDER = Path(__file__).parents[2] / "scenarios"
NAMES = sorted(path.stem for path in FOLDER.glob("*.toml"))
#: Faults last this long; those at given seconds come sooner in proportion.
_FAULTS_S = 15.0


def shortened(name: str) -> Scenario:
    """A scenario of the repository with few peers and little time."""
    scenario = read_file(FOLDER / f"{name}.toml")
    share = _FAULTS_S / scenario.faults_s
    return msgspec.structs.replace(
        scenario,
        peers=min(scenario.peers, 10),
        peers_min=min(scenario.peers_min, 5),
        form_s=8.0,
        faults_s=_FAULTS_S,
        settle_s=5.0,
        require={},
        fault=tuple(_sooner(fault, share) for fault in scenario.fault),
    )


def _sooner(fault: Fault, share: float) -> Fault:
    at_s = tuple(second * share for second in fault.at_s)
    return msgspec.structs.replace(fault, at_s=at_s, every_s=fault.every_s * share)


def play(name: str, seed: int) -> Outcome:
    """One short run, without checkers: they would ask for more time than this has."""
    cast = standard()
    return run(shortened(name), seed, dataclasses.replace(cast, checkers=lambda _: ()), name=name)


def main() -> None:
    """Print the digests of one seed."""
    for name in NAMES:
        outcome = play(name, int(sys.argv[1]))
        failed = f" FAILED {outcome.failure.what}" if outcome.failure else ""
        sys.stdout.write(f"{name} {outcome.digest} {outcome.events}{failed}\n")


if __name__ == "__main__":
    main()
