"""Each mutant of the directory is found by its checker; the real machine passes where it is found.

A small mesh with the real ring plays a scenario under `sim/checkers/directory.py`. Periods are
short, so that a minute of the invented world is many renewals:

    calm             no faults; publications long after the mesh has formed
    neighbours       two neighbours on the ring crash at once, twice
    rarely renewed   the same, and owners renew so rarely that they cannot hide what is lost
    rough            messages are lost, doubled, and overtake each other
    lossy            every third message is lost, and much is published
    renewed          messages are doubled and overtake each other, and nothing is withdrawn
    ended            peers crash for good, and their leases end
    disks            peers come back with the disks they had, or older ones
    silent           for a while almost nothing arrives
    parted           a partition in the middle
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from shoal.control.directory.config import DirectoryConfig
from shoal.control.directory.machine import DirectoryMachine
from shoal.control.ring.config import RingConfig
from shoal.control.ring.machine import RingMachine
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.kernel.time import SECOND
from shoal.peer.peer import Peer
from shoal.sim.checkers.directory import DirectoryChecker
from shoal.sim.checkers.honest import HonestChecker
from shoal.sim.runs.cast import Cast
from shoal.sim.runs.run import run
from shoal.sim.runs.scenario import Scenario, read
from shoal.sim.world import Factory
from tests.mutants.directory_records import MUTANTS

SHORT = replace(
    DirectoryConfig(),
    renew_period=4 * SECOND,
    lease=24 * SECOND,
    suspect_lease=13 * SECOND,
    tombstone_life=60 * SECOND,
    beat_period=1 * SECOND,
    sync_period=3 * SECOND,
    vouch_life=9 * SECOND,
    learning_max=10 * SECOND,
    watch_period=4 * SECOND,
    watch_lease=13 * SECOND,
    question_timeout=4 * SECOND,
)
RARE = replace(
    DirectoryConfig(),
    renew_period=300 * SECOND,
    lease=1_000 * SECOND,
    suspect_lease=320 * SECOND,
    tombstone_life=2_000 * SECOND,
    learning_max=305 * SECOND,
)
COMMON = """
peers = 9
peers_min = 5
machines = ["ring", "directory"]
weather = { heavy = 0.0 }
workload = { records_per_peer = 3, changes_per_s = 1.0, finds_per_s = 3.0 }
config.ring.successors_max = 4
"""
CRASHES = '[[fault]]\nkind = "crash"\ncount = 2\nwho = "neighbours"\ndown_s = 40\n'
SCENARIOS = {
    "calm": "form_s = 50\nfaults_s = 60" + COMMON,
    "neighbours": "faults_s = 60" + COMMON + CRASHES + "at_s = [5, 40]",
    "rarely renewed": "faults_s = 110" + COMMON + CRASHES + "at_s = [5, 40]",
    "rough": "faults_s = 60"
    + COMMON.replace("weather = { heavy = 0.0 }", "")
    + "[weather]\nloss = 0.05\nduplicate = 0.3\nreorder = 0.3\nheavy = 0.02\n",
    "lossy": "faults_s = 30"
    + COMMON.replace("weather = { heavy = 0.0 }", "").replace(
        "changes_per_s = 1.0", "changes_per_s = 3.0"
    )
    + "[weather]\nloss = 0.3\nduplicate = 0.3\n",
    "renewed": "faults_s = 40"
    + COMMON.replace("weather = { heavy = 0.0 }", "").replace("changes_per_s = 1.0, ", "")
    + "[weather]\nduplicate = 0.3\nreorder = 0.1\nreorder_ms = 6000\n",
    "ended": "faults_s = 120" + COMMON + '[[fault]]\nkind = "crash"\nat_s = [2, 35]\ndown_s = 0\n',
    "disks": "faults_s = 30"
    + COMMON
    + '[[fault]]\nkind = "crash"\nat_s = [5, 12]\ndisk = "old"\ndown_s = 4\n',
    "silent": "faults_s = 40"
    + COMMON
    + '[[fault]]\nkind = "weather"\nat_s = [5]\nspan_s = 12\nrates = { loss = 0.98 }\n',
    "parted": "faults_s = 40" + COMMON + '[[fault]]\nkind = "partition"\nat_s = [5]\nspan_s = 30\n',
}


def _config(scenario: Scenario) -> DirectoryConfig:
    return RARE if scenario.title == "rarely renewed" else SHORT


def _factory(scenario: Scenario) -> Factory:
    ring = RingConfig(**scenario.config["ring"])
    config = _config(scenario)

    def build(me: Contact, seeds: Sequence[str], rng: Rng) -> Peer:
        machines = [
            RingMachine(me, replace(ring, seeds=tuple(seeds)), rng.split("ring")),
            DirectoryMachine(me, config, rng.split("directory")),
        ]
        return Peer(me, machines, story_lines_max=50)

    return build


CAST = Cast(
    factory=_factory,
    checkers=lambda scenario: [HonestChecker(), DirectoryChecker(_config(scenario))],
    hooks={},
)


def played(name: str, seed: int = 1) -> str:
    """What was found wrong in a scenario; empty if nothing."""
    outcome = run(read(f'title = "{name}"\n{SCENARIOS[name]}', name=name), seed, CAST)
    return "" if outcome.failure is None else outcome.failure.what


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_R1_D1_D2_D3_the_real_machine_passes(scenario: str) -> None:
    """Without a mutant nothing is found."""
    assert played(scenario) == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the checker, and for the promise that it breaks."""
    mutant = MUTANTS[name]
    for where, what, by in mutant.replaced:
        monkeypatch.setattr(where, what, by)
    found = played(mutant.scenario)
    assert found.startswith(f"{mutant.promise}: "), found
