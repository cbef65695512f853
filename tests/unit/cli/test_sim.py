"""`shoal sim`: what it says, and its exit codes."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shoal.cli.main import app
from shoal.kernel.errors import UserError
from shoal.sim.runs import cast
from shoal.sim.runs.faults import Crash, Pause
from shoal.sim.runs.scenario import write
from tests.unit.sim.runs.toys import NobodyUnreachable, toy_cast, toy_scenario

RUN = CliRunner()


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scenario that only toys play, so that these tests are quick."""
    monkeypatch.setattr(cast, "standard", toy_cast)
    path = tmp_path / "toys.toml"
    path.write_text(write(toy_scenario(Pause(every_s=4.0, span_s=2.0))))
    return path


@pytest.fixture
def failing(file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scenario that fails with some seeds: a crash, with a checker that allows none."""
    monkeypatch.setattr(cast, "standard", lambda: toy_cast(lambda: [NobodyUnreachable()]))
    file.write_text(write(toy_scenario(Crash(every_s=12.0, down_s=3.0))))
    return file


def test_one_run_is_told_with_what_happened(file: Path) -> None:
    done = RUN.invoke(app, ["sim", str(file), "--seed", "3"])
    assert done.exit_code == 0
    assert "ok     toys seed 3:" in done.output
    assert "pause" in done.output


def test_a_trace_has_a_head_and_lines(file: Path) -> None:
    done = RUN.invoke(app, ["sim", str(file), "--trace"])
    assert done.output.startswith("at ")
    assert done.output.count("Ping(number=") > 50


def test_one_peer_can_be_followed(file: Path) -> None:
    done = RUN.invoke(app, ["sim", str(file), "--only", "p1"])
    lines = [line for line in done.output.splitlines() if "timer toy/ping" in line]
    assert lines
    assert all(line.split()[1] == "p1" for line in lines)


def test_many_seeds_are_one_line_each(file: Path) -> None:
    done = RUN.invoke(app, ["sim", str(file), "--seeds", "1..3"])
    assert done.output.count("ok     toys seed") == 3
    assert "3 runs, 0 failed" in done.output


def test_a_folder_is_all_its_scenarios(file: Path) -> None:
    (file.parent / "more.toml").write_text(file.read_text())
    done = RUN.invoke(app, ["sim", str(file.parent), "--seeds", "1..2"])
    assert done.output.count("ok     more seed") == 2
    assert "4 runs, 0 failed" in done.output


def test_json_is_one_line_for_each_run(file: Path) -> None:
    done = RUN.invoke(app, ["sim", str(file), "--seeds", "1..2", "--json"])
    found = [json.loads(line) for line in done.output.splitlines()]
    assert [one["seed"] for one in found] == [1, 2]
    assert found[0]["failure"] is None
    assert len(found[0]["digest"]) == 64


def test_a_failure_is_said_with_the_command_that_repeats_it(failing: Path) -> None:
    done = RUN.invoke(app, ["sim", str(failing), "--until-failure"])
    assert done.exit_code == 1
    assert "X2: p" in done.output
    command = next(line for line in done.output.splitlines() if "repeat it:" in line)
    words = command.partition("shoal ")[2].split()
    again = RUN.invoke(app, words)
    assert again.exit_code == 1
    assert "X2: p" in again.output


@pytest.mark.slow
def test_shrinking_prints_a_scenario_that_fails(failing: Path, tmp_path: Path) -> None:
    failing.write_text(write(toy_scenario(Crash(at_s=(2.0,)), Pause(every_s=4.0), peers=10)))
    done = RUN.invoke(app, ["sim", str(failing), "--shrink"])
    assert done.exit_code == 1
    smaller = tmp_path / "smaller.toml"
    smaller.write_text(done.stdout)
    assert done.stdout.count("[[fault]]") == 1
    assert RUN.invoke(app, ["sim", str(smaller)]).exit_code == 1


def seeds_said(output: str) -> list[int]:
    """The seeds of the runs of which a line was printed."""
    return [int(found) for found in re.findall(r"toys seed (\d+):", output)]


def test_until_failure_goes_through_the_seeds_that_are_given(failing: Path) -> None:
    """It stops at the first that fails, and ends where they end."""
    failed = [seed for seed in range(1, 12) if RUN.invoke(app, seeded(failing, seed)).exit_code]
    first, fine = failed[0], next(seed for seed in range(1, 12) if seed not in failed)
    done = RUN.invoke(app, ["sim", str(failing), "--until-failure", "--seeds", f"1..{first + 3}"])
    assert done.exit_code == 1
    assert seeds_said(done.output) == list(range(1, first + 1))
    done = RUN.invoke(app, ["sim", str(failing), "--until-failure", "--seeds", f"{fine}..{fine}"])
    assert done.exit_code == 0
    assert seeds_said(done.output) == [fine]
    done = RUN.invoke(app, ["sim", str(failing), "--until-failure", "--seed", str(first)])
    assert seeds_said(done.output) == [first]


def seeded(path: Path, seed: int) -> list[str]:
    return ["sim", str(path), "--seed", str(seed)]


@pytest.mark.slow
def test_shrinking_takes_the_first_run_that_fails_of_a_folder_and_seeds(failing: Path) -> None:
    """Also where the first file of the folder and the first seed are fine."""
    fine = failing.parent / "a_fine_one.toml"
    fine.write_text(write(toy_scenario(Pause(every_s=4.0, span_s=2.0))))
    failing.write_text(write(toy_scenario(Crash(every_s=12.0, down_s=3.0), peers=8)))
    failed = [seed for seed in range(1, 12) if RUN.invoke(app, seeded(failing, seed)).exit_code]
    gap = next(seed for seed in failed if seed - 1 not in failed and seed > 1)
    words = ["sim", str(failing.parent), "--seeds", f"{gap - 1}..{gap + 3}", "--shrink"]
    done = RUN.invoke(app, [*words, "--every-event"])
    assert done.exit_code == 1
    assert f"toys.toml, seed {gap}: X2: " in done.stdout.splitlines()[0]
    smaller = fine.with_name("smaller.toml")
    smaller.write_text(done.stdout)
    assert RUN.invoke(app, seeded(smaller, gap)).exit_code == 1


def test_shrinking_what_does_not_fail_says_so(file: Path) -> None:
    done = RUN.invoke(app, ["sim", str(file), "--shrink"])
    assert (done.exit_code, done.output) == (0, "the run does not fail\n")
    done = RUN.invoke(app, ["sim", str(file.parent), "--seeds", "2..4", "--shrink"])
    assert (done.exit_code, done.output) == (0, "none of 3 runs fails\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none.toml"], "cannot be read"),
        ([".", "--seeds", "3..1"], "seeds"),
        ([".", "--seeds", "1..3", "--seed", "2"], "--seed and --seeds"),
        ([".", "--shrink", "--trace"], "--shrink cannot print anything else"),
        ([".", "--shrink", "--only", "p1"], "--shrink cannot print anything else"),
        ([".", "--shrink", "--json"], "--shrink cannot print anything else"),
    ],
)
def test_a_wrong_command_is_refused(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.toml").write_text('title = "one"\n')
    done = RUN.invoke(app, ["sim", *words])
    assert done.exit_code != 0
    assert isinstance(done.exception, UserError)
    assert said in done.exception.what
    assert done.exception.hint
