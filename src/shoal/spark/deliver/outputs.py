"""Select lists that compute, applied to rows that were read: by Spark, in safe form.

Columns that are only shown, under whatever name, stay as they are; the others are one map over the
rows. A value that cannot be computed is NULL; a function of the user's own may raise, and then its
query fails and no other.

Promises   O1  rows stay in their order.
           Q3  rows of several queries are computed together, and apart where that fails.
"""

import threading

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from shoal.dataplane.projection import Projection
from shoal.kernel.errors import LocalError, UserError
from shoal.log.types import arrow_type
from shoal.query.windows.plan import Output
from shoal.spark.outcome import first_words

__all__ = ["Computing", "computed"]

#: The place of a row among those that are computed together; no column of a table has this name.
_ROW = "_row"


def computed(session: SparkSession | None, rows: pa.Table, projection: Projection) -> pa.Table:
    """What is shown of rows that have the projection's columns."""
    schema = pa.schema([(one.name, arrow_type(one.type)) for one in projection.shown])
    sources = {name: name for name in schema.names}
    sources |= {output.name: projection.source_of(output) for output in projection.outputs}
    others = [output for output in projection.outputs if not sources[output.name]]
    if not rows.num_rows:
        return schema.empty_table()
    made = _made(session, rows, projection, others) if others else {}
    shown = [rows.column(sources[name]) if sources[name] else made[name] for name in schema.names]
    arrays = [values.cast(field.type) for values, field in zip(shown, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _made(
    session: SparkSession | None, rows: pa.Table, projection: Projection, others: list[Output]
) -> dict[str, pa.ChunkedArray]:
    if session is None:
        raise LocalError("select lists that compute need a session")
    read = rows.select([column.name for column in projection.columns])
    numbered = read.append_column(_ROW, pa.array(range(rows.num_rows), pa.int64()))
    # In one chunk: Spark 4.3 reads no further than the first empty one.
    frame = session.createDataFrame(numbered.combine_chunks()).alias("s")
    wanted = [f.expr(one.expression).alias(f"c{at}") for at, one in enumerate(others)]
    try:
        found = frame.select(f.col(f"s.{_ROW}"), *wanted).toArrow()
    except PySparkException as error:
        raise UserError(
            "the select list of a query cannot be computed",
            detail=first_words(error),
            hint="a function that raises can be wrapped, or left out of the select list",
        ) from error
    found = found.sort_by(_ROW)
    return {one.name: found.column(f"c{at}") for at, one in enumerate(others)}


class Computing:
    """Rows of some queries with one select list, computed at once when the first is asked for."""

    def __init__(self, session: SparkSession | None, projection: Projection) -> None:
        self._session = session
        self._projection = projection
        self._parts: list[pa.Table] = []
        self._lock = threading.Lock()
        self._whole: pa.Table | None = None
        self._apart = False

    def add(self, rows: pa.Table) -> int:
        """Take rows in; the number to ask for them. All are taken in before any is asked for."""
        self._parts.append(rows)
        return len(self._parts) - 1

    def take(self, number: int) -> pa.Table:
        """What is shown of these rows. Any thread may ask."""
        with self._lock:
            if self._whole is None and not self._apart:
                self._compute()
            whole = self._whole
        part = self._parts[number]
        if whole is None:
            return computed(self._session, part, self._projection)
        first = sum(some.num_rows for some in self._parts[:number])
        return whole.slice(first, part.num_rows)

    def _compute(self) -> None:
        try:
            self._whole = computed(self._session, pa.concat_tables(self._parts), self._projection)
        except UserError:
            self._apart = True
