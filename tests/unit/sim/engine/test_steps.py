"""The price of a step is the five-term model; a group reads and plans once."""

import pytest

from shoal.query.cost import StepCost
from shoal.sim.engine.config import Costs, EngineConfig
from shoal.sim.engine.memory import Memory
from shoal.sim.engine.parts.ingest import open_ingest
from shoal.sim.engine.parts.matter import Outcome
from shoal.sim.engine.parts.select import SelectWork, open_select
from shoal.sim.engine.steps import (
    IngestStep,
    SelectStep,
    parts_of,
    positions_of,
    price_ingest,
    price_select,
)
from tests.unit.sim.engine.world import (
    BEGIN,
    ingest_of,
    row_of,
    select_of,
    stream_of,
    tuples,
)

COST = StepCost(step=1.0, tuple_in=0.01, tuple_out=0.1, history=0.001, roster=0.5)
COSTS = Costs(by_kind={"select": COST, "ingest": COST})
CONFIG = EngineConfig(member_share=0.25)


def step_of(count: int, *, fill: bool = False, store: bool = True) -> SelectStep:
    memory = Memory()
    stream = stream_of(*(() if store else ("rate",)), store=store, rows_per_second="100")
    ingest = open_ingest(memory, ingest_of(stream), weight=1.0, now=BEGIN, config=CONFIG)
    components = [
        open_select(memory, select_of(stream, "value > 1", name=f"s{n}"), weight=1.0)
        for n in range(count)
    ]
    memory.push("w-1", "a", 0, tuples(*range(100)))
    looked = ingest.look(BEGIN + 1_000_000)
    assert looked is not None
    ingest.commit(looked, BEGIN, BEGIN + 1_000_000)
    works: list[SelectWork] = []
    for component in components:
        component.head = component.source.step
        read = component.next_range(1000)
        assert read is not None
        row = row_of("a", stream, "value > 1", fill=0)
        component.add([row], None)
        works.append(component.fill_work(row, read) if fill else component.work(read))
    outcomes = tuple(Outcome(rows=10, results=()) for _ in works)
    return SelectStep(read, tuple(works), outcomes, "")


def test_one_component() -> None:
    # a + b 100 + c 10 + r 1
    assert price_select(step_of(1), COSTS, CONFIG) == pytest.approx(1.0 + 1.0 + 1.0 + 0.5)


def test_history_costs_as_history() -> None:
    price = price_select(step_of(1, fill=True), COSTS, CONFIG)
    assert price == pytest.approx(1.0 + 0.1 + 1.0 + 0.5)


def test_further_members_add_little() -> None:
    price = price_select(step_of(3), COSTS, CONFIG)
    assert price == pytest.approx(1.0 + 1.0 + 3 * 1.5 + 2 * 0.25)
    assert len(parts_of(step_of(3))) == 3


def test_a_stream_that_is_not_stored_is_read_again() -> None:
    stored, again = (price_select(step_of(1, store=s), COSTS, CONFIG) for s in (True, False))
    assert again == pytest.approx(stored + 100 * 0.01)


def test_an_ingest_costs_what_it_reads_and_writes() -> None:
    memory = Memory()
    ingest = open_ingest(memory, ingest_of(stream_of()), weight=1.0, now=BEGIN, config=CONFIG)
    memory.push("w-1", "a", 0, [*tuples(1, 2), "no tuple"])
    work = ingest.look(BEGIN)
    assert work is not None
    step = IngestStep(ingest, work)
    assert price_ingest(step, COSTS) == pytest.approx(1.0 + 3 * 0.01 + 2 * 0.1)
    assert parts_of(step) == [ingest]


def test_positions() -> None:
    assert positions_of({"in/w-1": 4, "wm": 9}) == {"w-1": 4}
