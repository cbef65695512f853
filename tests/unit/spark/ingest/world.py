"""Streams, judged frames and ingests for the tests of this folder.

A `Shelf` is a source that holds lists of tuples, one list a number; it needs no files.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from shoal.kernel.time import Instant
from shoal.log.root import Root
from shoal.log.types import arrow_type
from shoal.log.watermark import WatermarkRule
from shoal.log.writer import Writer
from shoal.query.catalog import Column, SourceDef, StreamDef, parse_schema
from shoal.spark.ingest.footers import Footer
from shoal.spark.ingest.source import Batch, Raw
from shoal.spark.ingest.step import DEAD_SCHEMA, Ingest, table_schema

SCHEMA = "ts TIMESTAMP, a INT"
SECOND = 1_000_000
#: (event time or None, a, text if it is malformed)
Tuple = tuple[int | None, int | None, str | None]


def stream_of(
    schema: str = SCHEMA, *, timestamp: str = "ts", lateness: int = 0, store: bool = True
) -> StreamDef:
    return StreamDef(
        name="s",
        columns=parse_schema(schema),
        timestamp=timestamp,
        lateness=lateness,
        store=store,
        idle_advances=False,
        source=SourceDef(kind="push", options={}),
    )


def ok(*times: int) -> list[Tuple]:
    """Well-formed tuples at these instants, whose `a` is the instant's second."""
    return [(time, time // SECOND, None) for time in times]


class Shelf:
    """A source of numbered lists; each has a split."""

    parts_are_positions = True

    def __init__(self, *lists: tuple[str, Sequence[Tuple]]) -> None:
        self.lists = list(lists)
        self.per_step = 2
        self.broken: dict[int, None] = {}
        self.released = 0
        self.footed: list[tuple[str, Footer]] | None = None

    def describe(self, batch: Batch) -> str:
        return f"list {batch.after + 1} to {batch.upto}"

    def discover(self, now: Instant) -> None:
        """All is known."""

    def next_batch(self, after: int) -> Batch | None:
        upto = min(after + self.per_step, len(self.lists))
        return self.batch(after, upto) if upto > after else None

    def batch(self, after: int, upto: int) -> Batch:
        names = tuple(dict.fromkeys(name for name, _ in self.lists[after:upto]))
        return Batch(after=after, upto=upto, parts=upto - after, splits=names, bytes=100)

    def footers(self, batch: Batch, stream: StreamDef) -> list[tuple[str, Footer]] | None:
        return self.footed

    def waiting(self, after: int) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for name, _ in self.lists[after:]))

    def release(self, upto: int, now: Instant) -> None:
        self.released = upto

    def read(self, session: SparkSession, batch: Batch, columns: Sequence[Column]) -> Raw:
        rows: dict[str, list[Any]] = {n: [] for n in ("ts", "a", "text", "part", "row", "split")}
        for number in range(batch.after, batch.upto):
            if number + 1 in self.broken:
                raise OSError(f"list {number + 1} cannot be read")
            name, tuples = self.lists[number]
            for row, (time, value, text) in enumerate(tuples):
                cells = (time, value, text, number - batch.after, row, batch.splits.index(name))
                for column, cell in zip(rows, cells, strict=True):
                    rows[column].append(cell)
        types = {"ts": "TIMESTAMP", "a": "INT", "text": "STRING", "row": "BIGINT"}
        table = pa.table(
            {n: pa.array(cells, arrow_type(types.get(n, "INT"))) for n, cells in rows.items()}
        )
        return Raw(
            frame=session.createDataFrame(table),
            corrupt="text",
            part="part",
            row="row",
            split="split",
        )


def ingest_of(root: Path, source: Any, stream: StreamDef) -> Ingest:
    """The next owner of the stream's tables."""
    opened = Root.open(root)
    Writer.create(opened, "s", table_schema(stream), partition_by=["_kind"])
    Writer.create(opened, "s.dead", DEAD_SCHEMA)
    rule = WatermarkRule.of(lateness=stream.lateness, idle_advances=stream.idle_advances)
    writer = Writer.take_over(opened, "s", owner="test")
    return Ingest(stream, source, writer, Writer.take_over(opened, "s.dead", owner="test"), rule)


def rows_of(writer: Writer) -> list[dict[str, Any]]:
    """Every row of a table with its partition, by `_id`."""
    found = []
    for segment in writer.live.values():
        for row in pq.read_table(writer.table.path / segment.path, partitioning=None).to_pylist():
            found.append({**row, **segment.partition})
    return sorted(found, key=lambda row: (row["_step"], row["_id"] or 0))
