"""Pushed batches as a source: what programs append, from the durable spool.

A client's batches are numbered by the client; each is accepted once, however often it is sent.
The spool is local and its batches are small, so they are handed to Spark as Arrow.
"""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from shoal.kernel.time import DAY, Instant
from shoal.log.spool import Spool
from shoal.log.types import arrow_type
from shoal.query.catalog import Column, StreamDef
from shoal.spark.ingest.source import Batch, Raw

__all__ = ["BATCHES_PER_STEP", "PushSource"]

#: How long the last sequence of a client that has gone quiet is remembered.
FORGET_AFTER = 30 * DAY
#: Batches and bytes of one step at most; a single larger batch still is one step.
BATCHES_PER_STEP = 256
BYTES_PER_STEP = 64 << 20


class PushSource:
    """The spool of one stream."""

    parts_are_positions = True

    def __init__(self, spool: Spool) -> None:
        self._spool = spool

    def discover(self, now: Instant) -> None:
        """Nothing to do: the spool knows what it holds."""

    def next_batch(self, after: int) -> Batch | None:
        upto, size = after, 0
        for entry in self._spool.entries(after, after + BATCHES_PER_STEP):
            size += entry.bytes
            if upto > after and size > BYTES_PER_STEP:
                break
            upto = entry.position
        return self.batch(after, upto) if upto > after else None

    def batch(self, after: int, upto: int) -> Batch:
        entries = self._spool.entries(after, upto)
        return Batch(
            after=after,
            upto=upto,
            parts=len(entries),
            splits=tuple(dict.fromkeys(entry.client for entry in entries)),
            bytes=sum(entry.bytes for entry in entries),
        )

    def describe(self, batch: Batch) -> str:
        entries = self._spool.entries(batch.after, batch.upto)
        return ", ".join(f"{entry.client} {entry.sequence}" for entry in entries)

    def footers(self, batch: Batch, stream: StreamDef) -> None:
        """Nothing is known of a batch before it is read."""

    def waiting(self, after: int) -> tuple[str, ...]:
        entries = self._spool.entries(after, after + BATCHES_PER_STEP)
        return tuple(dict.fromkeys(entry.client for entry in entries))

    def clients(self, batch: Batch) -> dict[str, int]:
        """The last sequence of each client in a batch."""
        entries = self._spool.entries(batch.after, batch.upto)
        return {entry.client: entry.sequence for entry in entries}

    def release(self, upto: int, now: Instant) -> None:
        self._spool.release(upto, now=now, forget_after=FORGET_AFTER)

    def forget(self, upto: int) -> None:
        """Nothing is kept for readers."""

    def read(self, session: SparkSession, batch: Batch, columns: Sequence[Column]) -> Raw:
        entries = self._spool.entries(batch.after, batch.upto)
        numbers = {name: number for number, name in enumerate(batch.splits)}
        schema = pa.schema([(c.name, arrow_type(c.type)) for c in columns])
        tables = []
        for part, entry in enumerate(entries):
            rows = self._spool.read(entry).select(schema.names).cast(schema)
            size = rows.num_rows
            for name, value in (("_batch", part), ("_client", numbers[entry.client])):
                rows = rows.append_column(name, pa.repeat(pa.scalar(value, pa.int32()), size))
            tables.append(rows.append_column("_place", pa.array(range(size), pa.int64())))
        return Raw(
            frame=session.createDataFrame(pa.concat_tables(tables)),
            corrupt="CAST(NULL AS STRING)",
            part="_batch",
            row="_place",
            split="_client",
        )
