"""From a sink's definition to the sink; and the sink that is a Delta table (log/sinktable.py)."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from shoal.dataplane.commands import Sink
from shoal.kernel.errors import LocalError
from shoal.log.entries import Mark
from shoal.log.sinktable import SinkTable
from shoal.spark.deliver.rows import IDENTITY, WantedRows
from shoal.spark.deliver.sinks.contract import OpenSink, Target
from shoal.spark.deliver.sinks.local import ConsoleSink, FileSink, LinesSink

__all__ = ["DeltaSink", "open_sink"]

#: Rows that the console shows of one step.
CONSOLE_ROWS = 20


def open_sink(sink: Sink, delivery: str, query: str) -> OpenSink:
    """The sink of a delivery; nothing is touched yet."""
    options = sink.options
    identity = options.get("identity", "true") == "true"
    path = Path(options.get("path", "/"))
    match sink.kind:
        case "files":
            return FileSink(path, form=options["format"], delivery=delivery, identity=identity)
        case "jsonl":
            return LinesSink(path, identity=identity)
        case "delta":
            table = SinkTable(path=path, delivery=delivery, optional=IDENTITY)
            return DeltaSink(table, identity=identity)
        case "console":
            rows = int(options.get("rows", CONSOLE_ROWS))
            return ConsoleSink(query, rows=rows, identity=identity)
        case _:
            raise LocalError(f"sink {sink.kind} is not known")


class DeltaSink:
    """Rows of a delivery go to a Delta table; the table itself records how far they are."""

    def __init__(self, table: SinkTable, *, identity: bool) -> None:
        self._table = table
        self._identity = identity

    def prepare(self, schema: pa.Schema | None) -> None:
        """See that it is a table that the rows fit, or can become one."""
        if schema is not None and not self._identity:
            schema = pa.schema([field for field in schema if field.name not in IDENTITY])
        self._table.check(schema)

    def place(self, known: int | None) -> int:
        """The table knows it better."""
        return known or 0

    def write(self, rows: WantedRows, *, place: int, target: Target) -> int:
        """Add the rows in one commit, unless they are there."""
        left_out = () if self._identity else IDENTITY

        def batches() -> Iterator[pa.Table]:
            for table in rows.batches():
                yield table.drop_columns(list(left_out))

        schema = pa.schema([field for field in rows.schema if field.name not in left_out])
        mark = Mark(target.epoch, target.upto)
        self._table.append(schema, batches, instance=target.table, mark=mark)
        return place + 1
