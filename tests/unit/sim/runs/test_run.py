"""One run: phases, verdicts, what is required, and that a seed decides everything."""

import pytest

from shoal.sim.checkers.checker import Checker, Violation
from shoal.sim.runs.cast import Cast
from shoal.sim.runs.faults import Clock, Crash, Partition, Pause
from shoal.sim.runs.run import run
from shoal.sim.runs.scenario import Scenario
from tests.unit.sim.runs.toys import NobodyUnreachable, crashing_peer, toy_cast, toy_scenario

FAULTS = (
    Crash(every_s=4.0, down_s=2.0),
    Pause(every_s=5.0, span_s=2.0),
    Partition(at_s=(5.0,), span_s=3.0),
    Clock(every_s=5.0, leap_s=3.0),
)


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    scenario = toy_scenario(*FAULTS)
    one, again, other = (run(scenario, seed, toy_cast()) for seed in (1, 1, 2))
    assert one == again
    assert one.ok
    assert one.digest != other.digest
    assert one.probes["pause"] > 0


def test_a_violation_is_the_outcome_and_says_where() -> None:
    outcome = run(toy_scenario(*FAULTS), 1, toy_cast(lambda: [NobodyUnreachable()]))
    assert outcome.failure is not None
    assert outcome.failure.what.startswith("X2: p")
    assert outcome.failure.at_s > 0
    assert 0 < outcome.failure.events <= outcome.events


def test_without_faults_the_same_checker_is_content() -> None:
    assert run(toy_scenario(), 1, toy_cast(lambda: [NobodyUnreachable()])).ok


def test_a_defect_of_a_machine_is_the_outcome_with_its_traceback() -> None:
    cast = Cast(factory=lambda _: crashing_peer, checkers=lambda _: (), hooks={})
    outcome = run(toy_scenario(), 1, cast)
    assert outcome.failure is not None
    assert "KeyError" in outcome.failure.what
    assert "a defect" in outcome.failure.where


def test_what_is_required_and_did_not_happen_fails_the_run() -> None:
    scenario = Scenario(
        title="lazy", peers=3, peers_min=2, faults_s=1.0, form_s=1.0, require={"partition": 1}
    )
    outcome = run(scenario, 1, toy_cast())
    assert outcome.failure is not None
    assert "'partition' happened 0 times of 1" in outcome.failure.what


class Phases(Checker):
    """Writes down what it is told, and when."""

    name = "phases"
    bound_s = 7.0

    def __init__(self, told: list[tuple[str, float]]) -> None:
        self.told = told

    def calm(self) -> None:
        self.told.append(("calm", self.world.now / 1e6))

    def settled(self) -> None:
        self.told.append(("settled", self.world.now / 1e6))

    def at_end(self) -> None:
        self.told.append(("end", self.world.now / 1e6))

    def figures(self) -> dict[str, float]:
        return {"told": float(len(self.told))}


def test_the_phases_come_in_order_and_a_checker_that_needs_longer_gets_longer() -> None:
    told: list[tuple[str, float]] = []
    outcome = run(toy_scenario(*FAULTS), 1, toy_cast(lambda: [Phases(told)]))
    assert [what for what, _ in told] == ["calm", "settled", "end"]
    (_, calm), (_, settled), (_, end) = told
    assert calm == pytest.approx(6 * 0.2 + 2.0 + 20.0)
    assert settled - calm == pytest.approx(7.0)
    assert end > settled
    assert outcome.figures["told"] == 3.0


class LateLiveness(Checker):
    """What is promised by the end and is not kept."""

    name = "late"

    def at_end(self) -> None:
        raise Violation("X3", "it never happened")


def test_liveness_is_asked_for_at_the_end() -> None:
    outcome = run(toy_scenario(), 1, toy_cast(lambda: [LateLiveness()]))
    assert outcome.failure is not None
    assert outcome.failure.what == "X3: it never happened"
