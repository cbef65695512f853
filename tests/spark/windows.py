"""What windows should hold, by DuckDB: an engine that knows nothing of panes.

It is given the tuples that were judged ok, and a row; what is due and whole is told in event time.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shoal.dataplane.rows import ALWAYS, RosterRow
from shoal.kernel.time import Instant
from shoal.log.reader import PastHorizon, Reader
from shoal.log.root import Root

__all__ = ["Judge", "bag", "micros", "results_of", "rows_of"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_WINDOWS = """
    SELECT (e - $length)::BIGINT, e::BIGINT, meter % 3, count(*), sum(kwh), avg(kwh)
    FROM t JOIN ends ON ts >= e - $length AND ts < e
    WHERE ($below IS NULL OR meter < $below)
    GROUP BY e, meter % 3
    HAVING $above IS NULL OR count(*) > $above
"""


class Judge:
    """Tuples, and the windows over them. Close it."""

    def __init__(self, root: Root, stream: str) -> None:
        """Those of a stream that were judged ok and are still kept."""
        kept = _read(root, stream, kind="ok").select(["ts", "meter", "kwh"])
        given = kept.set_column(0, "ts", kept.column("ts").cast(pa.int64()))
        self._duck = duckdb.connect()
        self._duck.register("given", given)
        self._duck.execute("CREATE TABLE t AS SELECT ts, meter, kwh FROM given")
        times = given.column("ts").to_pylist()
        self._span = (min(times), max(times)) if times else (0, 0)

    def close(self) -> None:
        self._duck.close()

    def windows(self, row: RosterRow, *, due: Instant, whole: Instant) -> list[tuple[Any, ...]]:
        """The row's windows: begin, end, group, count, sum, mean."""
        assert row.shape is not None
        self._set_ends(row, due=due, whole=whole)
        constants = {
            "length": row.shape.window.length,
            "below": next(iter(row.shape.parameters), None),
            "above": next(iter(row.parameters[1:]), None),
        }
        return bag(self._duck.execute(_WINDOWS, constants).fetchall())

    def answer(self, query: str, row: RosterRow, *, due: Instant) -> list[tuple[Any, ...]]:
        """What a query gives over `t`, joined with the `ends` that are the row's."""
        self._set_ends(row, due=due, whole=ALWAYS)
        return bag(self._duck.execute(query).fetchall())

    def _set_ends(self, row: RosterRow, *, due: Instant, whole: Instant) -> None:
        assert row.shape is not None
        window = row.shape.window
        first, last = self._span
        ends = [
            end
            for end in window.ends(first, min(last + window.length, due))
            if row.start < end <= row.until and end - window.length >= whole
        ]
        self._duck.execute("CREATE OR REPLACE TABLE ends (e BIGINT)")
        if ends:
            self._duck.register("wanted", pa.table({"e": pa.array(ends, pa.int64())}))
            self._duck.execute("INSERT INTO ends SELECT e FROM wanted")


def results_of(root: Root, instance: str, wanted: tuple[str, int]) -> list[tuple[Any, ...]]:
    """The windows of a query's version in a roll-up's table, as `Judge.windows` gives them."""
    names = ("k0", "a0", "a1", "a2")
    return bag(
        (micros(one["window_start"]), micros(one["window_end"]), *(one[name] for name in names))
        for one in _read(root, instance).to_pylist()
        if (one["_query"], one["_version"]) == wanted
    )


def rows_of(root: Root, instance: str, query: str) -> pa.Table:
    """What a table holds of a query."""
    return _read(root, instance).filter(pc.field("_query") == query)


def _read(root: Root, instance: str, kind: str = "") -> pa.Table:
    """All rows of a table that are still kept, or those in one of its partitions."""
    reader = Reader(root, instance, after=0)
    try:
        segments = reader.segments_between(0, 1 << 62)
    except PastHorizon as error:
        segments = reader.segments_between(error.retained, 1 << 62)
    folder = root.table(instance).path
    parts = [
        pq.read_table(folder / segment.path, partitioning=None)
        for segment in segments
        if not kind or segment.partition["_kind"] == kind
    ]
    return pa.concat_tables(parts) if parts else pa.table({})


def micros(moment: datetime) -> int:
    """The instant of a moment."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def bag(rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Rows in an order of their own, so that bags can be compared."""
    return sorted((tuple(row) for row in rows), key=repr)
