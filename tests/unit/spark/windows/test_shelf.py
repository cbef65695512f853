"""The panes table as it lies there: what a step has to read of it, and from when it is whole."""

from pathlib import Path

import pyarrow as pa
import pytest

from shoal.dataplane.rows import ALWAYS, FOREVER
from shoal.log.housekeep import Upkeep
from shoal.log.root import Root
from shoal.log.segment import write_segment
from shoal.log.writer import EVENT_TIME_PROPERTY, Writer
from shoal.spark.windows.shelf import held_at, look, whole_from
from shoal.spark.windows.step import panes_schema
from tests.unit.spark.windows.world import PANES, SECOND

INSTANCE = "panes-1"


class Table:
    """A panes table that is written by hand."""

    def __init__(self, path: Path) -> None:
        self.root = Root.open(path)
        properties = {EVENT_TIME_PROPERTY: "_p"}
        Writer.create(self.root, INSTANCE, panes_schema(PANES), properties=properties)
        upkeep = Upkeep(merge_from=3)
        self.writer = Writer.take_over(self.root, INSTANCE, owner="test", upkeep=upkeep)

    def commit(self, *seconds: int, **facts: int) -> None:
        step = self.writer.step + 1
        schema = panes_schema(PANES)
        rows = [dict.fromkeys(schema.names, 0) | {"_p": s * SECOND, "_step": step} for s in seconds]
        table = pa.table({f.name: [r[f.name] for r in rows] for f in schema}).cast(schema)
        segment = write_segment(
            self.writer.table, table, epoch=self.writer.epoch, step=step, part=0, partition={}
        )
        self.writer.commit(step=step, segments=[segment], transactions=facts)


@pytest.fixture
def table(root: Path) -> Table:
    return Table(root)


def test_only_what_may_hold_the_time_is_read(table: Table) -> None:
    for seconds in ((1, 2), (3, 5), (5, 9)):
        table.commit(*seconds)
    shelf = look(table.root, INSTANCE)
    assert sorted((e.low, e.high) for e in shelf.extents if e.low is not None) == [
        (1 * SECOND, 2 * SECOND),
        (3 * SECOND, 5 * SECOND),
        (5 * SECOND, 9 * SECOND),
    ]
    spans = [((0, 1), 0), ((2, 3), 2), ((2, 4), 4), ((5, 6), 4), ((0, 10), 6), ((10, 99), 0)]
    for (start, end), rows in spans:
        assert shelf.rows(start * SECOND, end * SECOND) == rows


def test_compaction_makes_no_difference(table: Table) -> None:
    for second in range(4):
        table.commit(second)
    table.writer.housekeep(horizon=None)
    shelf = look(table.root, INSTANCE)
    assert len(shelf.segments) < 4
    assert shelf.rows(0, 10 * SECOND) == 4


def test_whole_from_the_first_or_from_what_is_kept(table: Table) -> None:
    table.commit(1)
    assert look(table.root, INSTANCE).whole == ALWAYS
    table.commit(5, whole=3)
    assert look(table.root, INSTANCE).whole == 3
    table.commit(9)
    table.writer.retain(below_step=3)
    assert look(table.root, INSTANCE).whole == 5 * SECOND + 1


def test_what_was_lost_at_an_unknown_time_is_lost_for_good() -> None:
    assert whole_from({}) == ALWAYS
    assert whole_from({"retained": 3}) > FOREVER
    assert whole_from({"retained": 3, "retained/time": 7, "whole": 20}) == 20


def test_a_lease_holds_the_panes_that_are_needed(table: Table) -> None:
    """Steps go from the oldest on, so the position is below the first that is needed."""
    for second in (1, 2, 3):
        table.commit(second)
    found = [held_at(table.root, INSTANCE, second * SECOND) for second in (0, 1, 2, 3, 4)]
    assert found == [0, 0, 1, 2, 3]
    for needed, position in zip((2, 3), found[2:], strict=False):
        table.writer.expire(before=99 * SECOND, horizon=position)
        assert look(table.root, INSTANCE).rows(needed * SECOND, 9 * SECOND) == 4 - needed
