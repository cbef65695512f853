"""Many seeds: which, in what order, and how a run is repeated."""

from pathlib import Path

import pytest

from shoal.kernel.errors import UserError
from shoal.sim.runs.faults import Crash
from shoal.sim.runs.many import command, outcomes, probes_of, scenario_files, seeds_of
from shoal.sim.runs.scenario import write
from tests.unit.sim.runs.toys import toy_cast, toy_scenario


@pytest.mark.parametrize(("text", "seeds"), [("7", [7]), ("1..3", [1, 2, 3]), ("4..4", [4])])
def test_seeds_are_read(text: str, seeds: list[int]) -> None:
    assert list(seeds_of(text)) == seeds


@pytest.mark.parametrize("text", ["", "x", "5..1", "-3", "1..x", "1...3"])
def test_seeds_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="seeds"):
        seeds_of(text)


def test_files_are_run_with_their_seeds_and_probes_add_up(tmp_path: Path) -> None:
    for name in ("b", "a"):
        text = write(toy_scenario(Crash(at_s=(1.0,), down_s=1.0), faults_s=3.0))
        (tmp_path / f"{name}.toml").write_text(text)
    files = scenario_files(tmp_path)
    assert [path.name for path in files] == ["a.toml", "b.toml"]
    jobs = [(path, seed) for path in files for seed in (1, 2)]
    results = [outcome for _, outcome in outcomes(jobs, toy_cast())]
    assert [(o.scenario, o.seed, o.ok) for o in results] == [
        ("a", 1, True),
        ("a", 2, True),
        ("b", 1, True),
        ("b", 2, True),
    ]
    assert results[0].digest == results[2].digest
    assert probes_of(results)["crash, same disk"] == 4


def test_the_command_that_repeats_a_run() -> None:
    assert command("scenarios/x.toml", 7) == "shoal sim scenarios/x.toml --seed 7 --trace"
