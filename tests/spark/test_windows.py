"""Windows on Spark, by an engine of its own steps, against DuckDB over the tuples judged ok.

Three clients push, each a split; some tuples come late. What is due by the watermark is compared
as a bag: integers and quarters are exact in whatever order they are added.
"""

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from shoal.cli.windowed import Windows, row_of
from shoal.dataplane import commands as c
from shoal.dataplane.reports import StepDone
from shoal.dataplane.rows import ALWAYS, RosterRow
from shoal.kernel.errors import UserError
from shoal.log.housekeep import Upkeep
from shoal.log.root import Root
from shoal.log.rosterlog import RosterLog
from shoal.log.spool import Spool
from shoal.log.types import arrow_type
from shoal.log.writer import Writer
from shoal.query.windows.draft import parse_query
from shoal.query.windows.plan import Windowed
from shoal.spark.engine import SparkEngine, wall_clock
from shoal.spark.ingest.component import SPOOL_BYTES_MAX
from shoal.spark.windows.panes import PanesComponent
from tests.spark.windows import Judge, bag, micros, results_of, rows_of
from tests.unit.spark.small import INPUT, SECOND, STREAM
from tests.unit.spark.windows.world import PANES, ROLL_UP, Lab, row, window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUT = 120.0
INGEST = c.Ingest(instance=INPUT, stream=STREAM)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SCHEMA = pa.schema([(column.name, arrow_type(column.type)) for column in STREAM.columns])


class Plant:
    """An engine with one stream, its clients, and windowed queries over it."""

    def __init__(self, path: Path, spark: "SparkSession", seed: int) -> None:
        self.root = Root.open(path)
        self._spark = spark
        self._rng = random.Random(seed)
        self._sequence = 0
        self._clock = 100
        self.tables: dict[str, str] = {}
        self.open()

    def open(self) -> None:
        """Begin, or begin again, with whatever was asked so far still to be started."""
        self.engine = SparkEngine(self._spark, self.root, owner="peer-1")
        self.call(c.Start(component=INGEST, weight=1.0))
        self.windows = Windows(
            root=self.root, stream=STREAM, input=INPUT, call=self.call, running={}
        )

    def call(self, command: c.Command) -> Any:
        return self.engine.call(command, timeout=TIMEOUT)

    def ask(
        self, query: str, wanted: RosterRow, *, pane: int = SECOND, begin: int | None = None
    ) -> RosterRow:
        """Add a query; its row as the roster has it."""
        asked = windowed(wanted, pane)
        instance = self.windows.add(asked, row_of(query, 1, asked), begin=begin)
        self.tables[query] = instance
        return next(one for one in self.rows(query))

    def bring(self, size: int, *, apart: int = 3) -> None:
        """Each client pushes some tuples; time goes on, and some are behind it."""
        folder = self.root.folder("spools", INPUT)
        spool = Spool(folder, bytes_max=SPOOL_BYTES_MAX)
        for client in ("north", "south", "west"):
            self._clock += self._rng.randrange(apart)
            behind = [self._rng.choice([0, 1, 5, 9, 12, 40]) for _ in range(size)]
            rows = [
                {
                    "ts": _EPOCH + timedelta(seconds=self._clock - back),
                    "meter": self._rng.choice([None, *range(8)]),
                    "kwh": self._rng.choice([None, 13.0, *(n / 4 for n in range(40))]),
                }
                for back in behind
            ]
            spool.append(client, self._sequence, pa.Table.from_pylist(rows, schema=_SCHEMA))
        self._sequence += 1
        self.engine.announce(INPUT)

    def settle(self) -> None:
        """Wait until nobody lags."""
        asked = wall_clock()
        self.engine.announce(INPUT)
        deadline = time.monotonic() + 600
        while (worst := self.engine.lagging(asked)) is not None:
            assert time.monotonic() < deadline, worst
            time.sleep(0.01)

    def rows(self, query: str) -> list[RosterRow]:
        folder = self.root.folder("rosters", self.tables[query])
        return [one for one in RosterLog(folder).load().rows if one.query == query]

    def results(self, query: str, version: int = 1) -> list[tuple[Any, ...]]:
        return results_of(self.root, self.tables[query], (query, version))

    def watermark(self, query: str) -> int:
        views = {view.instance: view for view in self.engine.view().components}
        return views[self.tables[query]].watermark or ALWAYS

    def check(self, queries: Sequence[str] = (), *, whole: int = ALWAYS) -> int:
        """Every version of every query against the judge; how many windows there were."""
        judge = Judge(self.root, INPUT)
        count = 0
        for query in queries or self.tables:
            for one in self.rows(query):
                wanted = judge.windows(one, due=self.watermark(query), whole=whole)
                assert self.results(query, one.version) == wanted, f"Q1: {one}"
                count += len(wanted)
        judge.close()
        return count


def windowed(wanted: RosterRow, pane: int) -> Windowed:
    assert wanted.shape is not None
    panes = replace(PANES, pane=pane, name=f"v1 panes of {pane}")
    roll_up = replace(ROLL_UP, panes=panes, name=f"v1 roll-up of {pane}")
    return Windowed(
        roll_up=roll_up, shape=wanted.shape, parameters=wanted.parameters[1:], outputs=()
    )


@pytest.fixture
def plant(root: Path, spark: "SparkSession") -> Iterator[Plant]:
    found = Plant(root, spark, seed=1)
    yield found
    found.engine.close()


def test_Q1_Q3_rows_join_change_and_leave(plant: Plant) -> None:
    """Tumbling and sliding, with constants of WHERE and HAVING, each from its own instant on."""
    plant.ask("tens", row("tens", window(10), 6, 1))
    plant.ask("slides", row("slides", window(30, 10, offset=3), 100, 0))
    plant.ask("same", row("same", window(10), 6, 4))
    for _ in range(4):
        plant.bring(12)
        plant.settle()
    plant.ask("later", row("later", window(20, 5), 3, 0))
    instance = plant.tables["slides"]
    changed = replace(row("slides", window(20), 4, 0), version=2)
    plant.call(c.ReplaceRow(source=instance, target=instance, row=changed))
    plant.call(c.DropRow(instance=plant.tables["same"], query="same", now=False))
    plant.bring(12, apart=20)
    for _ in range(3):
        plant.bring(12)
        plant.settle()
    assert plant.check() > 30
    assert {one.version for one in plant.rows("slides")} == {1, 2}
    (ended,) = plant.rows("same")
    assert ended.until < plant.watermark("same")
    views = {view.kind: view for view in plant.engine.view().components}
    assert views["panes"].lag == views["roll-up"].lag == 0
    assert views["ingest"].counters["late"] > 0
    assert views["roll-up"].counters["error/tens"] > 0


def test_Q2_a_restart_and_big_steps_make_no_difference(plant: Plant) -> None:
    """History that was there before anybody asked, one query from its beginning, one from amid."""
    for _ in range(5):
        plant.bring(15)
        plant.settle()
    plant.ask("now", row("now", window(10, 5), 100, 0))
    plant.ask("whole", row("whole", window(10, 5), 100, 0), begin=0)
    plant.bring(15)
    plant.settle()
    plant.engine.close()
    plant.open()
    for query in ("now", "whole"):
        (known,) = plant.rows(query)
        assert known.shape is not None
    plant.windows.start(windowed(row("now", window(10, 5), 100, 0), SECOND))
    middle = plant._clock * SECOND - 30 * SECOND
    plant.ask("amid", row("amid", window(10, 5), 100, 0), begin=middle)
    for _ in range(3):
        plant.bring(15)
    plant.settle()
    plant.ask("late", row("late", window(10, 5), 100, 0), begin=0)
    plant.settle()
    assert plant.check() > 30
    assert plant.results("late") == plant.results("whole")
    assert len(plant.results("whole")) > len(plant.results("amid")) > 0
    done = [report for report in plant.engine.reports() if isinstance(report, StepDone)]
    history = [report for report in done if report.rows_history]
    assert {report.kind for report in history} == {"roll-up"}


def test_Q2_panes_of_panes(plant: Plant) -> None:
    """Coarser panes read finer ones, and give what the stream gives; retention of none."""
    plant.ask("fine", row("fine", window(1), 100, 0))
    plant.ask("coarse", row("coarse", window(20, 10), 100, 0), pane=10 * SECOND)
    for _ in range(4):
        plant.bring(20, apart=10)
        plant.settle()
    kinds = [view for view in plant.engine.view().components if view.kind == "panes"]
    assert len(kinds) == 2
    (coarse,) = [view for view in kinds if INPUT not in view.positions]
    assert coarse.lag == 0
    assert plant.check() > 30


def test_what_is_not_whole_is_refused_or_left_out(plant: Plant) -> None:
    """Panes that began after retention: from when, and nothing that begins earlier."""
    for _ in range(4):
        plant.bring(15, apart=20)
        plant.settle()
    instance = INPUT
    plant.engine.close()
    writer = Writer.take_over(plant.root, instance, owner="test")
    assert writer.retain(below_step=writer.step - 1)
    plant.open()
    with pytest.raises(UserError, match="not whole"):
        plant.ask("early", row("early", window(10), 100, 0), begin=0)
    plant.ask("now", row("now", window(60, 10), 100, 0))
    plant.settle()
    (whole,) = {view.whole for view in plant.engine.view().components if view.kind == "panes"}
    assert whole is not None
    for _ in range(3):
        plant.bring(15, apart=20)
    plant.settle()
    assert plant.check(whole=whole) > 0


@pytest.mark.parametrize("seed", range(2))
def test_Q1_Q2_whatever_the_steps_are(root: Path, spark: "SparkSession", seed: int) -> None:
    """Commits, steps, restarts, compaction and rows in a random order, against the judge."""
    rng = random.Random(seed)
    with Lab(root, spark) as lab:
        world = _World(lab, rng)
        for _ in range(16):
            world.happen()
        world.end()
        judge = Judge(lab.root, INPUT)
        checked = 0
        for one in world.roller.rows():
            wanted = judge.windows(one, due=world.roller.watermark or ALWAYS, whole=ALWAYS)
            assert world.results(one) == wanted, f"Q1: {one}"
            checked += len(wanted)
        judge.close()
        assert checked > 50


class _World:
    """A lab in which anything may happen."""

    def __init__(self, lab: Lab, rng: random.Random) -> None:
        self._lab, self._rng = lab, rng
        self._clock, self._wm, self._queries = 0, 0, 0
        self._open_panes()
        self.roller = lab.roller()
        for _ in range(3):
            self._add(None)

    def _open_panes(self) -> None:
        panes = self._lab.panes()
        assert isinstance(panes, PanesComponent)
        self._panes = panes
        # Merged as soon as there are three of a size.
        panes.writer._upkeep = Upkeep(merge_from=3)
        panes._grouping.share = self._rng.choice([0.0, 0.9])

    def _add(self, begin: int | None) -> None:
        rng = self._rng
        length = rng.choice([1, 5, 10, 30, 60])
        slide = min(length, rng.choice([1, 2, 5, 10, 60]))
        offset = rng.randrange(slide)
        constants = (rng.choice([3, 6, 100]), rng.choice([0, 1, 3]))
        self._queries += 1
        self.roller.feed.poll()
        wanted = row(f"q{self._queries}", window(length, slide, offset), *constants)
        self.roller.add([wanted], begin)

    def happen(self) -> None:
        rng = self._rng
        self._bring()
        what = rng.random()
        if what < 0.5:
            self._lab.make(self._panes)
        if what < 0.3:
            self._lab.roll(self.roller)
        elif what < 0.4:
            self._open_panes()
        elif what < 0.5:
            self.roller = self._lab.roller()
        elif what < 0.6:
            self.roller.feed.poll()
            if self.roller.ready:
                self._lab.roll_once(self.roller)
        elif what < 0.7:
            self._add(None)
        elif what < 0.8:
            self._add(rng.randrange(self._clock) * SECOND)
        elif what < 0.9:
            query = f"q{rng.randrange(self._queries) + 1}"
            self.roller.end(query, at=self.roller.event_time, now=False)
        else:
            self._panes.writer.housekeep(horizon=0)

    def _bring(self) -> None:
        rng = self._rng
        self._clock += rng.choice([1, 5, 20, 200])
        low = max(self._wm, self._clock - 15)
        ok = [
            (
                rng.randrange(low, self._clock + 1),
                rng.choice([None, *range(8)]),
                rng.choice([None, rng.randrange(60) / 4]),
            )
            for _ in range(rng.randrange(30))
        ]
        late = [(rng.randrange(self._wm), 1, 1.0)] if self._wm else []
        if ok and rng.random() < 0.8:
            self._wm = max(self._wm, max(second for second, _, _ in ok) - 10)
        self._lab.stream.commit(ok, late=late, wm=self._wm or None)

    def end(self) -> None:
        """Everything is done that there is to do."""
        self._lab.make(self._panes)
        self._lab.roll(self.roller)

    def results(self, wanted: RosterRow) -> list[tuple[Any, ...]]:
        return results_of(self._lab.root, self.roller.instance, wanted.identity)


TEXT = """
    SELECT meter % 3 AS zone, window.end AS until, count(*) AS n, sum(kwh) * 2 AS twice,
           max(kwh) - min(kwh) AS spread, avg(kwh) AS mean
    FROM readings WHERE meter < {below} AND kwh IS NOT NULL
    GROUP BY meter % 3, window(ts, '10 seconds', '5 seconds') HAVING count(*) > {above}
"""
_ANSWER = """
    SELECT meter % 3, e::BIGINT, count(*), sum(kwh) * 2, max(kwh) - min(kwh), avg(kwh)
    FROM t JOIN ends ON ts >= e - 10000000 AND ts < e
    WHERE meter < {below} AND kwh IS NOT NULL
    GROUP BY meter % 3, e HAVING count(*) > {above}
"""


def test_Q1_from_a_text_to_its_answer(plant: Plant, spark: "SparkSession") -> None:
    """Queries as they are written, two that share everything but their constants."""
    asked = {"few": (4, 1), "many": (8, 2)}
    for query, (below, above) in asked.items():
        draft = parse_query(TEXT.format(below=below, above=above), STREAM)
        found = draft.resolve(plant.call(c.Analyze(probe=draft.probe))["cells"])
        assert isinstance(found, Windowed)
        plant.tables[query] = plant.windows.add(found, row_of(query, 1, found), begin=None)
    assert len(dict.fromkeys(plant.tables.values())) == 1
    for _ in range(4):
        plant.bring(20, apart=8)
        plant.settle()
    judge = Judge(plant.root, INPUT)
    for query, (below, above) in asked.items():
        (one,) = plant.rows(query)
        wanted = judge.answer(
            _ANSWER.format(below=below, above=above), one, due=plant.watermark(query)
        )
        table = rows_of(plant.root, plant.tables[query], query)
        shown = spark.createDataFrame(table).alias("s")
        texts = [f"{output.expression} AS `{output.name}`" for output in found.outputs]
        given = shown.selectExpr(*texts).toArrow().to_pylist()
        got = bag((r["zone"], micros(r["until"]), *list(r.values())[2:]) for r in given)
        assert len(got) > 5
        assert got == wanted
    judge.close()
