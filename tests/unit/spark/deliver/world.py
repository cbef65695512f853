"""A result table without Spark, deliveries of it, and a loop that serves until nothing is left.

Ranges below `ARROW_ROWS_MAX` are read without Spark, so a deliver component can be run, killed and
judged here in a fraction of a second.
"""

import json
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from deltalake import DeltaTable

from shoal.dataplane import commands as c
from shoal.dataplane.progress import Progress
from shoal.dataplane.reports import Report
from shoal.dataplane.scheduler import Scheduler
from shoal.log.root import Root
from shoal.log.segment import write_segment
from shoal.log.writer import Writer
from shoal.query.catalog import Column
from shoal.query.windows.plan import Output
from shoal.spark.deliver import step
from shoal.spark.deliver.crew import Crew
from shoal.spark.deliver.step import DeliverWork
from shoal.spark.deliver.upkeep import keep_up
from shoal.spark.feed import Feed

TABLE = "select-0123456789ab"
GROUP = "deliver-readings"
SECOND = 1_000_000
COLUMNS = (
    Column(name="ts", type="TIMESTAMP"),
    Column(name="meter", type="INT"),
    Column(name="kwh", type="DOUBLE"),
)
SCHEMA = pa.schema(
    [
        ("_query", pa.string()),
        ("_version", pa.int32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("meter", pa.int32()),
        ("kwh", pa.float64()),
        ("_step", pa.int64()),
        ("_id", pa.int64()),
    ]
)
Row = dict[str, Any]


class World:
    """One root, result tables, and one owner of their deliveries at a time."""

    def __init__(self, root: Path) -> None:
        self.root = Root.open(root)
        self.reports: list[Report] = []
        self.progress = Progress()
        self.now = SECOND
        self.log: list[int] = []
        #: Only select lists that compute, and very large ranges, need one.
        self.session: Any = None
        self._writers: dict[str, Writer] = {}
        self._crew: Crew | None = None

    def commit(
        self, queries: Iterable[str], *, rows: int, table: str = TABLE, version: int = 1
    ) -> None:
        """One step of the table with so many rows for each query, in no particular order."""
        if table not in self._writers:
            Writer.create(self.root, table, SCHEMA)
            self._writers[table] = Writer.take_over(self.root, table, owner="select")
        writer = self._writers[table]
        number = writer.step + 1
        found = [
            {
                "_query": query,
                "_version": version,
                "ts": (number * 1000 + rows - i) * SECOND,
                "meter": i,
                "kwh": i / 8,
                "_step": number,
                "_id": (number << 35) + i,
            }
            for query in queries
            for i in range(rows)
        ]
        segments = []
        if found:
            made = pa.Table.from_pylist(found, schema=SCHEMA)
            segments = [
                write_segment(
                    writer.table, made, epoch=writer.epoch, step=number, part=0, partition={}
                )
            ]
        writer.commit(step=number, segments=segments, transactions={"in/readings": number})

    @property
    def crew(self) -> Crew:
        if self._crew is None:
            self._crew = Crew(
                self.root,
                Scheduler(),
                self.progress,
                feed_of=self._feed,
                report=self.reports.append,
            )
            self._crew.answer(c.Start(component=c.Deliver(instance=GROUP), weight=1.0))
        return self._crew

    def _feed(self, table: str) -> Feed:
        return Feed.at_head(self.root, table)

    def add(
        self,
        sinks: dict[str, c.Sink],
        *,
        table: str = TABLE,
        version: int = 1,
        outputs: tuple[Output, ...] = (),
    ) -> None:
        """Deliver each query to its sink; a query's delivery is named after it."""
        added = tuple(
            c.Delivery(
                delivery=f"{query}-0a0b0c0d",
                query=query,
                version=version,
                input=table,
                columns=COLUMNS,
                timestamp="ts",
                sink=sink,
                outputs=outputs,
            )
            for query, sink in sinks.items()
        )
        self.crew.answer(c.AddDeliveries(instance=GROUP, deliveries=added))

    def poll(self) -> None:
        """See what was committed since."""
        for feed in self.component._feeds.values():
            feed.poll()

    @property
    def component(self) -> Any:
        return self.crew._components[GROUP]

    def turn(self) -> bool:
        """One piece of work, if there is any; time passes a little."""
        self.now += SECOND // 100
        names = self.crew.ready(self.now)
        if not names:
            return False
        work = self.crew.next_work(names[0], self.now)
        if work is None:
            return False
        if isinstance(work, DeliverWork):
            self.log.append(len(work.members))
            outcome: object = step.run(self.session, self.root, work)
        else:
            outcome = keep_up(self.root, work)
        self.crew.finished(work, [outcome], self.now)
        return True

    def serve(self) -> None:
        """Work until nothing is left to do."""
        self.poll()
        while self.turn():
            pass

    def pass_time(self, micros: int) -> None:
        self.now += micros

    def close(self) -> None:
        """Let go, as a process that ends does."""
        if self._crew is not None:
            self._crew.close()
            self._crew = None

    def view(self, query: str) -> Any:
        """The picture of a delivery that is not well; None if it is."""
        found = [v for v in self.crew.views(self.now) if v.instance == f"{GROUP}/{query}"]
        return found[0] if found else None

    def expected(self, query: str, *, table: str = TABLE) -> list[Row]:
        """The rows of a query in order O1, from the table itself."""
        parts = [pq.read_table(p) for p in sorted(self.root.table(table).path.glob("e*.parquet"))]
        rows = pa.concat_tables(parts).to_pylist()
        mine = [row for row in rows if row["_query"] == query]
        mine.sort(key=lambda row: (row["_step"], row["ts"], row["_id"]))
        names = ["ts", "meter", "kwh", "_version", "_step", "_id"]
        return [{name: row[name] for name in names} for row in mine]


def four_sinks(folder: Path) -> dict[str, c.Sink]:
    """One query for each kind of exactly-once sink."""
    said = {"identity": "true"}
    return {
        "p": c.Sink(kind="files", options={"path": str(folder / "p"), "format": "parquet", **said}),
        "j": c.Sink(kind="files", options={"path": str(folder / "j"), "format": "json", **said}),
        "l": c.Sink(kind="jsonl", options={"path": str(folder / "l.jsonl"), **said}),
        "d": c.Sink(kind="delta", options={"path": str(folder / "d"), **said}),
    }


def content(sink: c.Sink) -> list[Row]:
    """What a reader of the sink finds, in the sink's order (a Delta table: in order O1)."""
    path = Path(sink.options["path"])
    if sink.kind == "delta":
        if not (path / "_delta_log").exists():
            return []
        rows = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
        return sorted(rows, key=lambda row: (row["_step"], row["ts"], row["_id"]))
    if sink.kind == "jsonl":
        return _lines([path] if path.exists() else [])
    files = sorted(path.glob("[!.]*")) if path.exists() else []
    if sink.options["format"] == "json":
        return _lines(files)
    if sink.options["format"] == "csv":
        return pa.concat_tables([pa_csv.read_csv(file) for file in files]).to_pylist()
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def _lines(files: Sequence[Path]) -> list[Row]:
    from datetime import datetime

    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return [{**row, "ts": datetime.fromisoformat(row["ts"])} for row in rows]


def wait_for(write: "Future[int]") -> None:
    """Until a slow write is through."""
    write.exception(timeout=60)
