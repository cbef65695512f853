"""Read a query's results from the tables of the components that served it.

Promise    O1  results come in the order of commits, and inside a commit by (event time, `_id`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shoal.log.reader import PastHorizon, Reader
from shoal.log.root import Root
from shoal.log.segment import Segment
from shoal.log.types import INSTANT, arrow_type
from shoal.query.catalog import StreamDef
from shoal.spark.ingest.judge import event_time

__all__ = ["read_rows"]

_END = 1 << 62
_IDENTITY = ("_version", "_step", "_id")


def read_rows(
    root: Root,
    query: str,
    pieces: Sequence[Mapping[str, Any]],
    stream: StreamDef,
    *,
    after: int,
) -> pa.Table:
    """The results of a query: its pieces one after the other, each in order."""
    time = event_time(stream)
    types = {column.name: arrow_type(column.type) for column in stream.columns} | {time: INSTANT}
    names = list(dict.fromkeys(column for piece in pieces for column in piece["columns"]))
    schema = pa.schema(
        [
            *((name, types[name]) for name in names),
            ("_version", pa.int32()),
            ("_step", pa.int64()),
            ("_id", pa.int64()),
        ]
    )
    parts = [schema.empty_table()]
    for piece in pieces:
        chosen = (pc.field("_query") == query) & (pc.field("_version") == piece["version"])
        if after:
            chosen &= pc.field("_step") > after
        parts += _piece(root, piece, chosen, schema, time, after)
    return pa.concat_tables(parts)


def _piece(
    root: Root,
    piece: Mapping[str, Any],
    chosen: pc.Expression,
    schema: pa.Schema,
    time: str,
    after: int,
) -> list[pa.Table]:
    instance = str(piece["instance"])
    if not root.table(instance).exists():
        return []
    # The table also holds columns that other queries want; those are no part of this version.
    own = dict.fromkeys([*piece["columns"], *_IDENTITY])
    reader = Reader(root, instance, after=after)
    folder = root.table(instance).path
    found = []
    for segment in _kept(reader, after):
        path = folder / segment.path
        present = pq.read_schema(path).names
        wanted = [name for name in dict.fromkeys([*own, time]) if name in present]
        found.append(pq.read_table(path, columns=wanted, filters=chosen))
    if not found:
        return []
    rows = pa.concat_tables(found, promote_options="default")
    order = [(key, "ascending") for key in ("_step", time, "_id") if key in rows.column_names]
    rows = rows.sort_by(order)
    rows = rows.drop_columns([name for name in rows.column_names if name not in own])
    for field in schema:
        if field.name not in rows.column_names:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return [rows.select(schema.names).cast(schema)]


def _kept(reader: Reader, after: int) -> tuple[Segment, ...]:
    """Segments after a step. Who has read up to there is told if some are gone since."""
    try:
        return reader.segments_between(after, _END)
    except PastHorizon as error:
        if after:
            raise
        return reader.segments_between(error.retained, _END)
