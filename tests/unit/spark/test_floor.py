"""The floor: what runs here, what it reads, and what it still needs of it."""

from dataclasses import replace
from pathlib import Path

import pytest

from shoal.dataplane import commands as c
from shoal.dataplane.reports import Failed, Report
from shoal.kernel.errors import LocalError, StorageError
from shoal.kernel.time import SECOND
from shoal.log.leases import Leases
from shoal.log.reader import PastHorizon
from shoal.log.root import Root
from shoal.spark.floor import LEASE_FOR, Floor
from shoal.spark.ingest.component import IngestComponent, open_ingest
from shoal.spark.ingest.push import PushSource
from shoal.spark.select.component import SelectComponent, open_select
from shoal.spark.windows.panes import open_panes
from shoal.spark.windows.rollup import open_roll_up
from tests.unit.spark.small import EQUAL, INPUT, STREAM, Stream, opened, row, spec
from tests.unit.spark.windows import world

#: What floors have reported.
TOLD: list[Report] = []


@pytest.fixture
def stream(root: Path) -> Stream:
    return Stream(Root.open(root))


@pytest.fixture
def floor(stream: Stream) -> Floor:
    return Floor(stream.root, owner="peer-1", report=TOLD.append)


def select(floor: Floor, stream: Stream) -> SelectComponent:
    component = opened(stream, feed=floor.feed(INPUT))
    floor.add(component)
    return component


def ingest(floor: Floor, *, store: bool) -> IngestComponent:
    definition = c.Ingest(instance=INPUT, stream=replace(STREAM, store=store))
    component = open_ingest(floor.root, definition, owner="peer-1", weight=2.0, now=SECOND)
    floor.add(component)
    return component


def test_who_runs_here_and_who_does_not(floor: Floor, stream: Stream) -> None:
    component = select(floor, stream)
    assert floor.select(component.instance) is component
    assert floor.uncared == {component.instance: 0}
    floor.remove(component.instance)
    assert (floor.parts, floor.uncared) == ({}, {})
    with pytest.raises(LocalError, match="does not run here as a select"):
        floor.select(component.instance)
    with pytest.raises(KeyError):
        floor.scheduler.turn(component.instance)


def test_an_ingest_is_no_select(root: Path) -> None:
    floor = Floor(Root.open(root), owner="peer-1", report=TOLD.append)
    component = ingest(floor, store=True)
    with pytest.raises(LocalError, match="does not run here as a select"):
        floor.select(component.instance)
    assert floor.scheduler.turn(component.instance).weight == 2.0


def test_one_feed_for_all_readers(floor: Floor, stream: Stream) -> None:
    """It is up to date whenever somebody asks for it."""
    feed = floor.feed(INPUT)
    stream.commit([(1, 1, 1.0)])
    assert floor.feed(INPUT) is feed
    assert feed.head == 1


def test_a_stored_stream_is_read_from_its_segments(floor: Floor, stream: Stream) -> None:
    select(floor, stream)
    known = floor.inputs[INPUT]
    assert (known.source, known.timestamp) == (None, "ts")


def test_a_stream_that_is_not_stored_is_read_from_its_source(floor: Floor, stream: Stream) -> None:
    """Also where its ingest runs elsewhere; where it runs here, through the ingest's own."""
    unstored = replace(spec(), stream=replace(STREAM, store=False))
    component = open_select(stream.root, unstored, floor.feed(INPUT), owner="peer-1", weight=1.0)
    floor.add(component)
    elsewhere = floor.inputs[INPUT].source
    assert isinstance(elsewhere, PushSource)
    mine = ingest(floor, store=False)
    assert floor.inputs[INPUT].source is mine.ingest.source
    assert floor.inputs[INPUT].source is not elsewhere
    assert floor.readers(mine) == [component]
    floor.scheduler.turn(component.instance).alone = True
    assert floor.readers(mine) == [], "it failed in company"


def test_the_slowest_reader_is_waited_for(floor: Floor, stream: Stream) -> None:
    """A back-fill needs what everybody else has read long ago."""
    assert floor.horizon(INPUT) is None
    for second in (1, 2, 3):
        stream.commit([(second, 1, 1.0)])
    ahead = select(floor, stream)
    assert floor.horizon(INPUT) == 3
    behind = open_select(stream.root, spec(EQUAL), floor.feed(INPUT), owner="peer-1", weight=1.0)
    floor.add(behind)
    behind.add([row("a", 7)], SECOND)
    assert floor.horizon(INPUT) == 0
    floor.remove(behind.instance)
    assert floor.horizon(INPUT) == ahead.position == 3


def test_a_stream_that_nobody_reads_is_tailed_no_more(floor: Floor, stream: Stream) -> None:
    first = select(floor, stream)
    second = open_select(stream.root, spec(EQUAL), floor.feed(INPUT), owner="peer-1", weight=1.0)
    floor.add(second)
    floor.remove(first.instance)
    assert INPUT in floor.feeds, "there is another reader"
    floor.remove(second.instance)
    assert (floor.feeds, floor.inputs) == ({}, {})
    ingest(floor, store=True)
    floor.add(opened(stream, feed=floor.feed(INPUT)))
    floor.remove(first.instance)
    assert INPUT in floor.feeds, "its ingest is here"
    floor.remove(INPUT)
    assert (floor.feeds, floor.inputs) == ({}, {})


def test_what_nobody_needs_is_let_go(floor: Floor, stream: Stream) -> None:
    component = select(floor, stream)
    stream.commit([(1, 1, 1.0)])
    stream.commit([(2, 1, 1.0)])
    feed = floor.feed(INPUT)
    component.position = 1
    floor.release(INPUT)
    assert [commit.step for commit in feed._commits] == [2]
    floor.remove(component.instance)
    floor.release(INPUT)
    assert [commit.step for commit in feed._commits] == [2], "there is nobody to ask"


def test_a_reader_of_another_peer_s_stream_tells_where_it_is(floor: Floor, stream: Stream) -> None:
    """Its lease is renewed in time, and not with every look."""
    component = select(floor, stream)
    leases = Leases(stream.root.folder("readers", INPUT))
    floor.tail(SECOND, floor.horizon)
    (lease,) = leases.list(SECOND)
    assert (lease.reader, lease.position, lease.expires) == ("peer-1", 0, SECOND + LEASE_FOR)
    component.position = 1
    stream.commit([(1, 1, 1.0)])
    floor.tail(2 * SECOND, floor.horizon)
    assert floor.feeds[INPUT].head == 1, "its commits are found without being announced"
    assert leases.horizon(2 * SECOND) == 0
    floor.tail(SECOND + LEASE_FOR // 2, floor.horizon)
    assert leases.horizon(SECOND + LEASE_FOR // 2) == 1


def test_a_reader_that_slept_past_its_lease_is_told(floor: Floor, stream: Stream) -> None:
    """What it remembers may be gone: it looks again, and hears from where it can go on."""
    component = select(floor, stream)
    floor.tail(SECOND, floor.horizon)
    for second in (1, 2, 3):
        stream.commit([(second, 1, 1.0)])
    floor.tail(2 * SECOND, floor.horizon)
    late = 2 * SECOND + 2 * LEASE_FOR
    leases = Leases(stream.root.folder("readers", INPUT))
    assert leases.horizon(late) is None, "nobody holds it back any more"
    stream.writer.retain(below_step=3)
    table = stream.writer.table.path
    for path in table.rglob("*.parquet"):
        if path.relative_to(table).as_posix() not in stream.writer.live:
            path.unlink()
    assert component.next_range() is not None, "it does not know yet"
    TOLD.clear()
    floor.tail(late, floor.horizon)
    (told,) = TOLD
    assert isinstance(told, Failed)
    assert (told.instance, told.reason[:39]) == (INPUT, "lease: the lease of reader peer-1 has e")
    with pytest.raises(PastHorizon, match="past the horizon") as gone:
        component.next_range()
    assert gone.value.retained == 2
    (lease,) = leases.list(late)
    assert (lease.position, lease.expires) == (0, late + LEASE_FOR), "it reads on under a new one"
    component.position = gone.value.retained
    read = component.next_range()
    assert read is not None
    assert [commit.step for commit in read.commits] == [3]
    floor.tail(late + LEASE_FOR // 2, floor.horizon)
    assert (leases.horizon(late), len(TOLD)) == (2, 1), "it is told once"


def test_a_back_fill_takes_the_lease_further_back(floor: Floor, stream: Stream) -> None:
    for second in (1, 2, 3):
        stream.commit([(second, 1, 1.0)])
    component = select(floor, stream)
    leases = Leases(stream.root.folder("readers", INPUT))
    TOLD.clear()
    floor.tail(SECOND, floor.horizon)
    assert leases.horizon(SECOND) == 3
    component.add([row("a", 1.0)], 0)
    floor.tail(SECOND + LEASE_FOR // 2, floor.horizon)
    assert leases.horizon(SECOND) == 0
    floor.remove(component.instance)
    floor.tail(SECOND + LEASE_FOR, floor.horizon)
    floor.add(component)
    floor.tail(4 * LEASE_FOR, floor.horizon)
    assert leases.horizon(4 * LEASE_FOR) == 0
    assert TOLD == [], "whoever came back had no lease that could expire"


def test_a_lease_that_cannot_be_written_stops_nobody(
    floor: Floor, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise StorageError("the disk is full")

    select(floor, stream)
    TOLD.clear()
    monkeypatch.setattr(Leases, "register", full)
    floor.tail(SECOND, floor.horizon)
    (told,) = TOLD
    assert isinstance(told, Failed)
    assert told.reason == "lease: the disk is full"


def test_readers_of_one_s_own_streams_need_no_lease(root: Path) -> None:
    floor = Floor(Root.open(root), owner="peer-1", report=TOLD.append)
    ingest(floor, store=True)
    component = open_select(floor.root, spec(), floor.feed(INPUT), owner="peer-1", weight=1.0)
    floor.add(component)
    floor.tail(SECOND, floor.horizon)
    assert Leases(floor.root.folder("readers", INPUT)).list(SECOND) == ()


def test_a_stream_that_cannot_be_read_is_told_once_and_tried_again(
    floor: Floor, stream: Stream
) -> None:
    """It stops nobody else, and goes on when it can be read."""
    select(floor, stream)
    TOLD.clear()
    committed = stream.commit([(1, 1, 1.0)])
    entry = stream.writer.table.entry(committed.version)
    whole = entry.read_bytes()
    entry.unlink()
    entry.mkdir()
    for _ in range(3):
        floor.tail(SECOND, floor.horizon)
    (told,) = TOLD
    assert isinstance(told, Failed)
    assert (told.instance, told.reason[:18]) == (INPUT, "read: cannot read ")
    assert list(floor.unread) == [INPUT]
    entry.rmdir()
    entry.write_bytes(whole)
    floor.tail(2 * SECOND, floor.horizon)
    assert floor.unread == {}
    assert floor.feeds[INPUT].head == 1


def test_a_query_s_weight_is_its_component_s_and_its_stream_s(root: Path) -> None:
    """They are served by one step, which waits for one ingest."""
    floor = Floor(Root.open(root), owner="peer-1", report=TOLD.append)
    source = ingest(floor, store=True)
    component = open_select(floor.root, spec(), floor.feed(INPUT), owner="peer-1", weight=1.0)
    floor.add(component)
    weights = [floor.scheduler.turn(name).weight for name in (INPUT, component.instance)]
    assert weights == [2.0, 1.0]
    component.add([row("a", 1.0, weight=0.5), row("b", 1.0, weight=8.0)], None)
    floor.weigh(component)
    weights = [floor.scheduler.turn(name).weight for name in (INPUT, component.instance)]
    assert weights == [8.0, 8.0]
    component.end("b", at=SECOND, now=False)
    floor.weigh(component)
    weights = [floor.scheduler.turn(name).weight for name in (INPUT, component.instance)]
    assert weights == [source.weight, 0.5]


def test_weights_go_all_the_way_up(root: Path) -> None:
    """A query of windows is served by three steps, one after the other."""
    floor = Floor(Root.open(root), owner="peer-1", report=TOLD.append)
    ingest(floor, store=True)
    made = world.panes_spec()
    panes = open_panes(floor.root, made, floor.feed(INPUT), owner="peer-1", weight=1.0)
    floor.add(panes)
    feed = floor.feed(made.instance)
    rolls = world.roll_up_spec(world.PLAIN)
    roller = open_roll_up(floor.root, rolls, feed, owner="peer-1", weight=1.0)
    floor.add(roller)
    names = (INPUT, made.instance, roller.instance)
    assert floor.select(roller.instance) is roller
    assert [floor.reader_names(name) for name in names] == [[names[1]], [names[2]], []]
    roller.add([world.row("a", world.window(10), weight=8.0)], None)
    floor.weigh(roller)
    assert [floor.scheduler.turn(name).weight for name in names] == [8.0, 8.0, 8.0]
    roller.end("a", at=SECOND, now=False)
    floor.weigh(roller)
    assert [floor.scheduler.turn(name).weight for name in names] == [2.0, 1.0, 1.0]
    assert floor.needs_from(made.instance) == roller.needs_from
    assert floor.needs_from(INPUT) is None
    assert sorted(floor.inputs) == [INPUT], "a panes table is read in another way"
