"""What a windowed query starts, and what it finds running already."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from shoal.cli.windowed import Windows, row_of
from shoal.dataplane import commands as c
from shoal.dataplane.contract import Answer
from shoal.kernel.errors import LocalError
from shoal.kernel.time import MINUTE, SECOND
from shoal.log.root import Root
from shoal.log.writer import Writer
from shoal.query.windows.plan import Panes, Shape, Windowed
from tests.unit.spark.small import INPUT, STREAM
from tests.unit.spark.windows.world import PANES, ROLL_UP, window


class Engine:
    """Remembers commands; what is started has a table that says what it reads."""

    def __init__(self, path: Path) -> None:
        self.root = Root.open(path)
        self.asked: list[c.Command] = []

    def call(self, command: c.Command) -> Answer:
        self.asked.append(command)
        if isinstance(command, c.Start) and isinstance(command.component, c.Panes):
            instance, read = command.component.instance, command.component.input
            Writer.create(self.root, instance, pa.schema([("a", pa.int64())]))
            writer = Writer.take_over(self.root, instance, owner="test")
            if not writer.transactions.get(f"in/{read}"):
                facts = {f"in/{read}": 1}
                writer.commit(step=writer.step + 1, segments=[], transactions=facts)
        return {}

    def windows(self) -> Windows:
        """A peer on which nothing runs yet."""
        return Windows(root=self.root, stream=STREAM, input=INPUT, call=self.call, running={})

    def started(self) -> list[c.Component]:
        found = [command.component for command in self.asked if isinstance(command, c.Start)]
        self.asked.clear()
        return found


@pytest.fixture
def engine(root: Path) -> Engine:
    return Engine(root)


def query(pane: int, panes: Panes = PANES) -> Windowed:
    made = replace(panes, pane=pane, name=f"v1 panes of {pane}")
    wanted = replace(window(1), length=pane, slide=pane)
    return Windowed(
        roll_up=replace(ROLL_UP, panes=made, name=f"v1 roll-up of {pane}"),
        shape=Shape(window=wanted, parameters=(7,)),
        parameters=(3,),
        outputs=(),
    )


def inputs(components: Iterable[c.Component]) -> list[tuple[int, str, bool]]:
    """Pane, input and whether it merges, of panes."""
    return [(p.panes.pane, p.input, p.merges) for p in components if isinstance(p, c.Panes)]


def test_a_query_starts_panes_roll_up_and_its_row(engine: Engine) -> None:
    wanted = query(SECOND)
    row = row_of("a", 2, wanted)
    instance = engine.windows().add(wanted, row, begin=5)
    (added,) = [command for command in engine.asked if isinstance(command, c.AddRows)]
    assert added == c.AddRows(instance=instance, rows=(row,), begin=5)
    panes, roll_up = engine.started()
    assert isinstance(panes, c.Panes)
    assert isinstance(roll_up, c.RollUp)
    assert (panes.input, panes.merges) == (INPUT, False)
    assert (roll_up.instance, roll_up.input) == (instance, panes.instance)
    assert (row.query, row.version) == ("a", 2)
    assert row.parameters == (wanted.shape.number, 3)
    assert row.shape == wanted.shape
    assert row.columns == tuple(column.name for column in roll_up.roll_up.columns())


def test_what_runs_is_shared(engine: Engine) -> None:
    windows = engine.windows()
    first = windows.start(query(SECOND))
    engine.started()
    other = replace(query(SECOND), parameters=(9,))
    assert windows.start(other) == first
    assert engine.started() == []
    having = replace(other, roll_up=replace(other.roll_up, name="v1 another HAVING"))
    assert windows.start(having) != first
    assert [type(one) for one in engine.started()] == [c.RollUp]


def test_coarser_panes_are_made_of_the_longest_that_fit(engine: Engine) -> None:
    windows = engine.windows()
    for pane in (SECOND, 10 * SECOND, MINUTE):
        windows.start(query(pane))
    found = inputs(engine.started())
    assert [(pane, merges) for pane, _, merges in found] == [
        (SECOND, False),
        (10 * SECOND, True),
        (MINUTE, True),
    ]
    assert found[2][1] == windows._instance(replace(PANES, pane=10 * SECOND))
    others = replace(PANES, keys=())
    windows.start(query(MINUTE, others))
    assert inputs(engine.started()) == [(MINUTE, INPUT, False)]


def test_a_restart_starts_what_panes_were_made_of(engine: Engine) -> None:
    """Although nobody asks for the finer ones any more, and in whatever order."""
    windows = engine.windows()
    windows.start(query(SECOND))
    windows.start(query(MINUTE))
    before = inputs(engine.started())
    engine.windows().start(query(MINUTE))
    assert inputs(engine.started()) == before


def test_panes_of_the_stream_stay_so(engine: Engine) -> None:
    engine.windows().start(query(MINUTE))
    engine.started()
    again = engine.windows()
    again.start(query(SECOND))
    again.start(query(MINUTE))
    assert [(pane, merges) for pane, _, merges in inputs(engine.started())] == [
        (SECOND, False),
        (MINUTE, False),
    ]


def test_panes_of_something_unknown_are_refused(engine: Engine) -> None:
    instance = engine.windows()._instance(replace(PANES, pane=MINUTE))
    Writer.create(engine.root, instance, pa.schema([("a", pa.int64())]))
    writer = Writer.take_over(engine.root, instance, owner="test")
    writer.commit(step=1, segments=[], transactions={"in/panes-0": 1})
    with pytest.raises(LocalError, match="not known"):
        engine.windows().start(query(MINUTE))
