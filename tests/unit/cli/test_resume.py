"""A root is opened again: what is started, what is put right, and what is left alone.

On an engine that remembers what it was asked; the rosters are real. Results after crashes are
judged in tests/spark/test_live.py.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

import shoal
from shoal.cli import local
from shoal.cli.local import Mesh, stream_instance
from shoal.dataplane import commands as c
from shoal.dataplane.rows import RosterRow
from shoal.log.root import Root
from shoal.log.rosterlog import RosterLog
from tests.unit.cli.engine import HOT, SCHEMA, SEVEN, Engine, again, engine


@pytest.fixture
def mesh(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mesh]:
    monkeypatch.setattr(local, "SparkEngine", Engine)
    mesh = again(root)
    mesh.create_stream("readings", SCHEMA, timestamp="ts", source=shoal.push())
    yield mesh
    mesh.close()


def note(root: Path, mesh: Mesh) -> None:
    """Write what the engine was asked to add into the roster logs, as a real one would."""
    for add in engine(mesh).of(c.AddRows):
        log = RosterLog(Root.open(root).folder("rosters", add.instance))
        log.claim(1)
        log.put(add.rows)


def started(mesh: Mesh) -> list[str]:
    return [command.component.instance for command in engine(mesh).of(c.Start)]


def test_what_every_roster_has_is_started_and_not_added(mesh: Mesh, root: Path) -> None:
    mesh.select_many([("a", HOT), ("b", SEVEN)])
    note(root, mesh)
    fresh = again(root)
    assert sorted(started(fresh)) == sorted(started(mesh))
    assert engine(fresh).of(c.AddRows) == []
    assert engine(fresh).of(c.SetWeight) == []


def test_a_weight_that_only_the_catalog_has_is_set(mesh: Mesh, root: Path) -> None:
    mesh.select("a", HOT)
    note(root, mesh)
    mesh.query("a").alter(weight=4.0)
    (asked,) = engine(mesh).of(c.SetWeight)
    assert engine(again(root)).of(c.SetWeight) == [asked]


def test_a_row_that_is_over_is_not_weighed(mesh: Mesh, root: Path) -> None:
    """Its component may not run."""
    mesh.select("a", HOT)
    mesh.query("a").alter(weight=4.0)
    (add,) = engine(mesh).of(c.AddRows)
    log = RosterLog(Root.open(root).folder("rosters", add.instance))
    log.claim(1)
    (row,) = add.rows
    log.put([RosterRow(**{name: getattr(row, name) for name in row.__slots__} | {"cut": 0})])
    assert engine(again(root)).of(c.SetWeight) == []


def test_a_dropped_stream_stays_dropped(mesh: Mesh, root: Path) -> None:
    """Also while queries that were dropped before had results due."""
    mesh.select("a", HOT)
    note(root, mesh)
    mesh.query("a").drop()
    mesh.drop_stream("readings")
    fresh = again(root)
    assert fresh.streams() == []
    assert started(fresh) == []


def test_another_stream_of_its_name_owes_nothing(mesh: Mesh, root: Path) -> None:
    mesh.select("a", HOT)
    note(root, mesh)
    mesh.query("a").drop()
    mesh.drop_stream("readings")
    stream = mesh.create_stream("readings", "other INT", source=shoal.push())
    fresh = again(root)
    assert started(fresh) == [stream_instance(stream)]


def test_the_same_stream_again_goes_on_with_what_was_due(mesh: Mesh, root: Path) -> None:
    mesh.select("a", HOT)
    note(root, mesh)
    before = started(mesh)
    mesh.query("a").drop()
    mesh.drop_stream("readings")
    mesh.create_stream("readings", SCHEMA, timestamp="ts", source=shoal.push())
    assert started(again(root)) == before


def test_deliveries_go_on_without_their_stream(mesh: Mesh, root: Path, tmp_path: Path) -> None:
    mesh.select("a", HOT, into=shoal.to_jsonl(tmp_path / "a.jsonl")).drop()
    mesh.drop_stream("readings")
    (added,) = engine(mesh).of(c.AddDeliveries)
    (root / "deliveries" / added.instance).mkdir(parents=True)
    assert started(again(root)) == [added.instance]
