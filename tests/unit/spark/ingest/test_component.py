"""An ingest component: when it looks again, what it gives up, and what a restart goes on with."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from shoal.dataplane import commands as c
from shoal.kernel.errors import LocalError
from shoal.log.root import Root
from shoal.query.catalog import SourceDef, StreamDef, parse_schema
from shoal.spark.ingest.component import (
    ATTEMPTS_BEFORE_GIVING_UP,
    POLL_FIRST,
    POLL_MOST,
    IngestComponent,
    open_ingest,
    open_source,
)
from shoal.spark.ingest.files import FileSource
from shoal.spark.ingest.push import PushSource
from shoal.spark.ingest.rate import RateSource
from shoal.spark.outcome import StepFailed
from tests.unit.spark.ingest.world import Shelf, ingest_of, ok, stream_of

NOW = 1_000_000


def component_of(root: Path, shelf: Shelf) -> IngestComponent:
    stream = stream_of()
    spec = c.Ingest(instance="s", stream=stream)
    return IngestComponent(spec, ingest_of(root, shelf, stream), weight=1.0)


def failed(phase: str = "job") -> StepFailed:
    return StepFailed(instance="s", phase=phase, cause=OSError("it is torn"))


def test_a_source_that_has_nothing_is_asked_less_and_less(root: Path) -> None:
    component = component_of(root, Shelf())
    waits = []
    for _ in range(6):
        component.found_nothing(NOW, looked=NOW - 1)
        waits.append(component.look_at - NOW)
    assert waits[:3] == [POLL_FIRST, 2 * POLL_FIRST, 4 * POLL_FIRST]
    assert waits[-1] == POLL_MOST
    assert component.looked == NOW - 1
    component.found_something(NOW)
    assert component.look_at == 0
    component.found_nothing(NOW, looked=NOW)
    assert component.look_at - NOW == POLL_FIRST


def test_it_has_looked_when_nothing_is_left(root: Path) -> None:
    shelf = Shelf(("n", ok(1)))
    component = component_of(root, shelf)
    component.found_something(NOW)
    assert component.looked == 0
    shelf.lists.clear()
    component.found_something(NOW)
    assert component.looked == NOW


def test_a_part_that_fails_alone_is_given_up(root: Path) -> None:
    component = component_of(root, Shelf(("n", ok(1))))
    component.failed(failed(), ATTEMPTS_BEFORE_GIVING_UP)
    assert (component.ingest.cautious, component.ingest.unreadable) == (True, "")
    component.failed(failed(), ATTEMPTS_BEFORE_GIVING_UP - 1)
    assert component.ingest.unreadable == ""
    component.failed(failed("commit"), 99)
    assert component.ingest.unreadable == ""
    component.failed(failed("plan"), ATTEMPTS_BEFORE_GIVING_UP)
    assert component.ingest.unreadable == "it is torn"


def test_a_source_without_parts_gives_nothing_up(root: Path) -> None:
    shelf = Shelf(("n", ok(1)))
    shelf.parts_are_positions = False
    component = component_of(root, shelf)
    for _ in range(3):
        component.failed(failed(), 99)
    assert component.ingest.unreadable == ""


def spec_of(kind: str, **options: str) -> c.Ingest:
    stream = StreamDef(
        name="s",
        columns=parse_schema("ts TIMESTAMP, a INT"),
        timestamp="ts",
        lateness=0,
        store=True,
        idle_advances=False,
        source=SourceDef(kind=kind, options=options),
    )
    return c.Ingest(instance="s-1", stream=stream)


def test_a_restart_goes_on_with_what_began(root: Path) -> None:
    """A rate counts from the instant at which its stream was started first."""
    opened, spec = Root.open(root), spec_of("rate", rows_per_second="10")
    first = open_ingest(opened, spec, owner="a", weight=2.0, now=NOW)
    second = open_ingest(opened, spec, owner="b", weight=1.0, now=NOW + 10**9)
    assert (first.writer.epoch, second.writer.epoch) == (1, 2)
    assert (first.weight, first.kind, first.instance) == (2.0, "ingest", "s-1")
    assert second.writer.transactions["started"] == NOW
    assert second.writer.step == first.writer.step == 1
    second.ingest.source.discover(NOW + 1_000_000)
    assert second.ingest.source.next_batch(0) == second.ingest.source.batch(0, 10)
    table = opened.table("s-1").path
    assert (table / "_delta_log").is_dir()
    assert opened.table("s-1.dead").exists()


def test_each_kind_has_its_source(root: Path, tmp_path: Path) -> None:
    opened = Root.open(root)
    files = spec_of("files", path=str(tmp_path / "in"), format="json")
    kinds = {FileSource: files, PushSource: spec_of("push")}
    kinds[RateSource] = spec_of("rate", rows_per_second="1")
    for kind, spec in kinds.items():
        assert isinstance(open_source(opened, spec, epoch=1, started=NOW), kind)


def test_a_reader_of_the_source_owns_nothing(root: Path, tmp_path: Path) -> None:
    """It sees what the owner found, and cannot number files itself."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text("{}")
    opened = Root.open(root)
    spec = spec_of("files", path=str(tmp_path / "in"), format="json")
    owner = open_source(opened, spec, epoch=1, started=NOW)
    owner.discover(NOW)
    reader = open_source(opened, spec, epoch=None, started=NOW)
    assert reader.batch(0, 1) == owner.batch(0, 1)
    (tmp_path / "in" / "b.json").write_text("{}")
    with pytest.raises(LocalError):
        reader.discover(NOW)


def test_pushed_batches_wait_where_the_stream_has_its_spool(root: Path) -> None:
    opened, spec = Root.open(root), spec_of("push")
    source: Any = open_source(opened, spec, epoch=1, started=NOW)
    source._spool.append("c", 0, pa.table({"a": [1]}))
    again = open_source(opened, spec, epoch=2, started=NOW)
    assert again.batch(0, 1).splits == ("c",)
