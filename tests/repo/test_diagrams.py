"""Tables of states are total, and the pictures drawn from them are fresh.

Every (state, input) stands in exactly one of TABLE, IGNORED and ILLEGAL, the last two with a
reason; every message, question and common event of a machine is an input. That the tables tell the
truth about what a machine does is checked wherever `tests/checked.py` is: in unit tests, scripts,
fuzzers.
"""

import xml.etree.ElementTree as ElementTree

import pytest

from shoal.kernel.events import Started, Stopping, Unreachable
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.peer.build import PeerConfig, build_machines
from tools.diagrams import FOLDER, Chart, charts, picture

CHARTS = charts()
ALL = pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)


@ALL
def test_each_pair_stands_in_exactly_one_table(chart: Chart) -> None:
    """What can happen in a state has been thought of."""
    tables = (chart.table, chart.ignored, chart.illegal)
    for state in chart.states:
        for one in chart.inputs:
            found = sum((state, one) in table for table in tables)
            assert found == 1, f"({state!r}, {one}) stands in {found} tables of {chart.module}"


@ALL
def test_reasons_are_given(chart: Chart) -> None:
    """In words; and only pairs of TABLE that leave the next state open are decided."""
    assert all(
        reason.strip() for table in (chart.ignored, chart.illegal) for reason in table.values()
    )
    for pair, targets in chart.decided.items():
        assert chart.table[pair][0] is None
        assert targets
    for (start, end), why in chart.other.items():
        assert start is not end
        assert why


@ALL
def test_a_machine_has_at_most_twelve_states(chart: Chart) -> None:
    """And each is reached: it is the first, or something leads there."""
    assert len(chart.states) <= 12
    reached = [end for start, end in chart.moves() if start is not end]
    assert [state for state in chart.states[1:] if state not in reached] == []


def test_every_input_of_a_machine_is_in_its_tables() -> None:
    """Messages, questions, start, end, and what cannot be reached."""
    machines = build_machines(Contact("p1", "h:1", 1), PeerConfig(), Rng(1))
    by_name = {chart.name: chart for chart in CHARTS}
    for machine in machines:
        chart = by_name.get(machine.name)
        if chart is None:
            assert not hasattr(machine, "state"), f"{machine.name} has a state and no TABLE"
            continue
        kinds = [*machine.messages.values(), *machine.questions, Started, Stopping, Unreachable]
        assert [kind for kind in kinds if kind not in chart.inputs] == []


@ALL
def test_the_picture_is_fresh(chart: Chart) -> None:
    """A table and its picture change together."""
    path = FOLDER / f"{chart.name}.svg"
    drawn = picture(chart)
    ElementTree.fromstring(drawn)
    assert path.exists(), "run `python tools/diagrams.py`"
    assert path.read_text(encoding="utf-8") == drawn, "stale: run `python tools/diagrams.py`"


def test_no_picture_outlives_its_machine() -> None:
    """Every picture in the folder has its tables."""
    names = [f"{chart.name}.svg" for chart in CHARTS]
    assert sorted(path.name for path in FOLDER.glob("*.svg")) == names
