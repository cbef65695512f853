"""A source that makes its own tuples at a steady rate: for trying things out and for measuring.

Columns are filled by name or, failing that, by type: a `value` BIGINT counts from 0; the first
TIMESTAMP is the instant at which the tuple was due; any other column is a hash of the count, so
the same number always gives the same tuple. Position n is the n-th tuple.
"""

from collections.abc import Sequence

from pyspark.sql import SparkSession

from shoal.kernel.time import SECOND, Instant
from shoal.query.catalog import Column, SourceDef, StreamDef, quote
from shoal.spark.ingest.source import ROW_IN_TASK, Batch, Raw

__all__ = ["ROWS_PER_STEP", "RateSource"]

#: Tuples of one step at most.
ROWS_PER_STEP = 1_000_000

_NUMBERS = {"TINYINT": 100, "SMALLINT": 1_000, "INT": 10_000, "BIGINT": 1_000_000}


class RateSource:
    """So many tuples a second since the stream was first started."""

    parts_are_positions = False

    def __init__(self, definition: SourceDef, *, started: Instant) -> None:
        self._rate = int(definition.options["rows_per_second"])
        self._splits = int(definition.options.get("splits", "1"))
        self._seed = int(definition.options.get("seed", "0"))
        self._started = started
        self._reached = 0

    def discover(self, now: Instant) -> None:
        """Count what is due by now; the clock may be set back, the count never falls."""
        due = (now - self._started) * self._rate // SECOND
        self._reached = max(self._reached, due)

    def next_batch(self, after: int) -> Batch | None:
        upto = min(self._reached, after + ROWS_PER_STEP)
        return self.batch(after, upto) if upto > after else None

    def batch(self, after: int, upto: int) -> Batch:
        names = tuple(f"rate-{n}" for n in range(self._splits))
        return Batch(after=after, upto=upto, parts=1, splits=names, bytes=(upto - after) * 40)

    def describe(self, batch: Batch) -> str:
        return f"tuples {batch.after} to {batch.upto}"

    def footers(self, batch: Batch, stream: StreamDef) -> None:
        """Nothing is known of a batch before it is read."""

    def waiting(self, after: int) -> tuple[str, ...]:
        more = self._reached > after
        return tuple(f"rate-{n}" for n in range(self._splits)) if more else ()

    def release(self, upto: int, now: Instant) -> None:
        """Nothing is kept."""

    def forget(self, upto: int) -> None:
        """Nothing is kept for readers."""

    def read(self, session: SparkSession, batch: Batch, columns: Sequence[Column]) -> Raw:
        numbers = session.range(batch.after, batch.upto, 1, 1)
        due = f"timestamp_micros({self._started} + id * {SECOND} DIV {self._rate})"
        made = (f"{self._value(column, due)} AS {quote(column.name)}" for column in columns)
        return Raw(
            frame=numbers.selectExpr(*made, "id AS _number"),
            corrupt="CAST(NULL AS STRING)",
            part="0",
            row=ROW_IN_TASK,
            split=f"CAST(_number % {self._splits} AS INT)",
        )

    def _value(self, column: Column, due: str) -> str:
        salt = sum(column.name.encode()) + self._seed * 1_009
        spread = f"pmod(xxhash64(id, {salt}), {_NUMBERS.get(column.type, 1_000_000)})"
        if column.name.lower() == "value" and column.type == "BIGINT":
            return "id"
        if column.type == "TIMESTAMP":
            return due
        if column.type in ("DOUBLE", "FLOAT") or column.type.startswith("DECIMAL"):
            return f"CAST({spread} / 1000000D AS {column.type})"
        if column.type == "BOOLEAN":
            return f"({spread} % 2 = 0)"
        if column.type == "DATE":
            return f"CAST({due} AS DATE)"
        return f"CAST({spread} AS {column.type})"
