"""Scenario files: what is read is what was written, and what is wrong is said."""

from pathlib import Path

import pytest

from shoal.kernel.errors import UserError
from shoal.sim.runs.faults import Crash
from shoal.sim.runs.scenario import Scenario, read, read_file, write

SCENARIOS = Path(__file__).parents[4] / "scenarios"
TEXT = """
title = "One"
peers = 8

[workload]
lookups_per_s = 2

[[fault]]
kind = "crash"
every_s = 10
who = "neighbours"
count = 2
"""


def test_a_file_is_read() -> None:
    scenario = read(TEXT, name="one")
    assert scenario.peers == 8
    assert scenario.fault == (Crash(every_s=10.0, who="neighbours", count=2),)
    assert scenario.machines == ("ring", "directory", "gossip")


@pytest.mark.parametrize("path", sorted(SCENARIOS.glob("*.toml")), ids=lambda path: path.stem)
def test_the_files_of_the_repository_are_read_and_written_again(path: Path) -> None:
    scenario = read_file(path)
    assert scenario.title
    assert scenario.story
    assert read(write(scenario), name="again") == scenario


def test_there_are_as_many_scenarios_as_were_promised() -> None:
    assert len(list(SCENARIOS.glob("*.toml"))) >= 12


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ("peers = 8", "peer = 8", "key 'peer'", "peers"),
        ("lookups_per_s", "lookup_per_s", "key 'lookup_per_s'", "lookups_per_s"),
        ('"crash"', '"crush"', "fault of kind 'crush'", "crash"),
        ("every_s", "every", "key 'every'", "every_s"),
        ("every_s = 10", "", "does not fit together", ""),
        ('"neighbours"', '"everybody"', "does not fit", ""),
        ("peers = 8", "peers = 1", "does not fit together", ""),
        ("peers = 8", "peers = 'many'", "does not fit", ""),
        ("peers = 8", "peers =", "is not TOML", ""),
        ("peers = 8", 'peers = 8\nmachines = ["gossip"]', "does not fit together", ""),
        ("peers = 8", "peers = 8\nweather = { los = 0.1 }", "key 'los'", "loss"),
        ("peers = 8", "peers = 8\nconfig = { rings = {} }", "key 'rings'", "ring"),
        (
            "peers = 8",
            "peers = 8\nconfig = { ring = { succesors_max = 4 } }",
            "'succesors_max'",
            "",
        ),
    ],
)
def test_what_is_wrong_is_refused_with_the_nearest_right_word(
    old: str, new: str, message: str, hint: str
) -> None:
    assert old in TEXT
    with pytest.raises(UserError) as caught:
        read(TEXT.replace(old, new), name="one")
    assert message in str(caught.value)
    assert hint in caught.value.hint


def test_a_hook_that_nobody_knows_is_refused() -> None:
    fault = TEXT.replace('kind = "crash"', 'kind = "corrupt"\nhook = "fingers stail"')
    fault = fault.replace('who = "neighbours"\n', "")
    with pytest.raises(UserError) as caught:
        read(fault, name="one")
    assert "fingers stale" in caught.value.hint


def test_a_missing_file_is_said_in_three_parts(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read") as caught:
        read_file(tmp_path / "none.toml")
    assert caught.value.hint


def test_defaults_are_left_out() -> None:
    assert write(Scenario(title="x")) == 'title = "x"\n'
