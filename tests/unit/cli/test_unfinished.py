"""What a root still owes: which rows are over, by what the component's newest commit says."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shoal.cli.unfinished import body_of, last_of, row_of, unfinished
from shoal.dataplane.rows import RosterRow
from shoal.log.catalog import Catalog
from shoal.log.root import Root
from shoal.log.rosterlog import RosterLog
from shoal.log.writer import Writer
from shoal.query.draft import parse_selection
from tests.property.spark_types import answers
from tests.property.streams import READINGS
from tests.unit.spark.deliver.world import SCHEMA


def row(query: str, **bounds: Any) -> RosterRow:
    return RosterRow(query=query, version=1, parameters=(), columns=("ts",), **bounds)


def roster(root: Root, instance: str, *rows: RosterRow, facts: dict[str, int]) -> None:
    log = RosterLog(root.folder("rosters", instance))
    log.claim(1)
    log.put(rows)
    if facts:
        Writer.create(root, instance, SCHEMA)
        writer = Writer.take_over(root, instance, owner="test")
        writer.commit(step=1, segments=[], transactions=facts)


@pytest.mark.parametrize(
    ("bounds", "due"),
    [
        ({}, True),
        ({"until": 99}, False),
        ({"until": 100}, True),
        ({"cut": 7}, False),
        ({"cut": 8}, True),
        ({"until": 99, "since": 5, "fill": 3}, True),
        ({"cut": 7, "since": 5, "fill": 3}, True),
        ({"until": 99, "since": 5, "fill": 2}, False),
    ],
)
def test_which_rows_are_over(root: Path, bounds: dict[str, int], due: bool) -> None:
    opened = Root.open(root)
    facts = {"wm": 100, "in/readings": 7, "fill/q/1": 2}
    roster(opened, "select-1", row("q", **bounds), row("other"), facts=facts)
    (found,) = unfinished(opened)
    assert [one.query for one in found.due] == (["other", "q"] if due else ["other"])
    assert [one.query for one in found.rows] == ["other", "q"]


def test_a_component_without_a_commit_owes_everything(root: Path) -> None:
    opened = Root.open(root)
    assert unfinished(opened) == ()
    roster(opened, "select-2", row("b", until=1, cut=1), facts={})
    roster(opened, "select-1", row("a"), facts={})
    found = unfinished(opened)
    assert [one.instance for one in found] == ["select-1", "select-2"]
    assert [len(one.due) for one in found] == [1, 1]


def test_the_row_that_a_query_goes_on_from_is_its_own(root: Path) -> None:
    """Not one of a dropped query that had its name."""
    catalog = Catalog(root / "catalog")
    pieces = [{"version": version} for version in (4, 5)]
    catalog.create("queries", "q", {"version": 5, "pieces": pieces})
    (definition,) = catalog.list("queries")
    rows = [replace(row("q"), version=version) for version in (2, 4, 1)]
    last = last_of(definition, rows)
    assert last is not None
    assert last.version == 4
    assert last_of(definition, rows[:1]) is None


def test_a_row_is_as_its_definition_says() -> None:
    draft = parse_selection("SELECT ts FROM readings WHERE kwh > 3.5", READINGS)
    found = draft.resolve(answers(draft))
    made = row_of("q", found, {"version": 3, "keep": 0.5, "weight": 2.0})
    assert made == RosterRow(
        query="q", version=3, parameters=(3.5,), columns=("ts",), keep=0.5, weight=2.0
    )


def test_the_text_of_a_version_also_of_what_was_dropped(root: Path) -> None:
    catalog = Catalog(root / "catalog")
    catalog.create("queries", "q", {"text": "one", "version": 1})
    catalog.alter("queries", "q", {"text": "two", "version": 2}, version=1)
    catalog.drop("queries", "q", version=2)
    catalog.create("queries", "q", {"text": "four", "version": 4})
    found = [
        body_of(catalog, RosterRow(query="q", version=version, parameters=(), columns=()))
        for version in (1, 2, 3, 4)
    ]
    texts = [None if body is None else body["text"] for body in found]
    assert texts == ["one", "two", None, "four"]
