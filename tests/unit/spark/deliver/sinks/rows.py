"""Rows on their way to a sink, in batches, and whose they are."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from shoal.spark.deliver.rows import WantedRows

SCHEMA = pa.schema(
    [("a", pa.int32()), ("_version", pa.int32()), ("_step", pa.int64()), ("_id", pa.int64())]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class To:
    """Step of a table, under the epoch of its owner."""

    upto: int
    table: str = "select-1"
    epoch: int = 1


def batches(*sizes: int, begin: int = 0) -> WantedRows:
    """Batches of so many rows; `a` counts from `begin`."""

    def tables() -> Iterator[pa.Table]:
        at = begin
        for size in sizes:
            values = list(range(at, at + size))
            ones = [1] * size
            yield pa.table({"a": values, "_version": ones, "_step": ones, "_id": values}).cast(
                SCHEMA
            )
            at += size

    return WantedRows(schema=SCHEMA, count=sum(sizes), batches=tables, release=lambda: None)
