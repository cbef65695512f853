"""Read a query's results from the tables of the components that served it.

A piece is what one version of a query has in one table, and what it shows of it. Pieces of tables
whose columns are not the stream's say the event time of their rows, as `time`.

Promise    O1  results come in the order of commits, and inside a commit by (event time, `_id`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shoal.dataplane.projection import Projection
from shoal.log.reader import PastHorizon, Reader
from shoal.log.root import Root
from shoal.log.segment import Segment
from shoal.log.types import arrow_type
from shoal.query.catalog import StreamDef
from shoal.spark.deliver.outputs import computed
from shoal.spark.frames import all_columns
from shoal.spark.ingest.judge import event_time
from shoal.spark.session import Session

__all__ = ["projection_of", "read_rows"]

_END = 1 << 62
_IDENTITY = ("_version", "_step", "_id")


def read_rows(
    root: Root,
    query: str,
    pieces: Sequence[Mapping[str, Any]],
    stream: StreamDef,
    *,
    after: int,
    session: Session | None,
) -> pa.Table:
    """The results of a query: its pieces one after the other, each in order."""
    time = event_time(stream)
    shown = [projection_of(piece, stream) for piece in pieces]
    columns = {column.name: column.type for one in shown for column in one.shown}
    schema = pa.schema(
        [
            *((name, arrow_type(type_)) for name, type_ in columns.items()),
            ("_version", pa.int32()),
            ("_step", pa.int64()),
            ("_id", pa.int64()),
        ]
    )
    parts = [schema.empty_table()]
    for piece, projection in zip(pieces, shown, strict=True):
        chosen = (pc.field("_query") == query) & (pc.field("_version") == piece["version"])
        if after:
            chosen &= pc.field("_step") > after
        found = _piece(root, piece, chosen, projection, piece.get("time", time), after)
        if found is not None:
            rows = computed(session, found, projection)
            for name in _IDENTITY:
                rows = rows.append_column(name, found.column(name))
            parts.append(_filled(rows, schema))
    return pa.concat_tables(parts)


def projection_of(piece: Mapping[str, Any], stream: StreamDef) -> Projection:
    """What a piece shows of its table."""
    return Projection.from_json(piece, {c.name: c.type for c in all_columns(stream)})


def _piece(
    root: Root,
    piece: Mapping[str, Any],
    chosen: pc.Expression,
    projection: Projection,
    time: str,
    after: int,
) -> pa.Table | None:
    """The rows of a piece in order, with the columns that its projection reads."""
    instance = str(piece["instance"])
    if not root.table(instance).exists():
        return None
    # The table also holds columns that other queries want; those are no part of this version.
    types = {column.name: arrow_type(column.type) for column in projection.columns}
    own = dict.fromkeys([*types, *_IDENTITY])
    reader = Reader(root, instance, after=after)
    folder = root.table(instance).path
    found = []
    for segment in _kept(reader, after):
        path = folder / segment.path
        present = pq.read_schema(path).names
        wanted = [name for name in dict.fromkeys([*own, time]) if name in present]
        found.append(pq.read_table(path, columns=wanted, filters=chosen))
    if not found:
        return None
    rows = pa.concat_tables(found, promote_options="default")
    order = [(key, "ascending") for key in ("_step", time, "_id") if key in rows.column_names]
    rows = rows.sort_by(order)
    read = pa.schema(
        [*types.items(), *((name, rows.schema.field(name).type) for name in _IDENTITY)]
    )
    return _filled(rows, read)


def _filled(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows in this schema; columns that they lack are NULL."""
    for field in schema:
        if field.name not in rows.column_names:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return rows.select(schema.names).cast(schema)


def _kept(reader: Reader, after: int) -> tuple[Segment, ...]:
    """Segments after a step. Who has read up to there is told if some are gone since."""
    try:
        return reader.segments_between(after, _END)
    except PastHorizon as error:
        if after:
            raise
        return reader.segments_between(error.retained, _END)
