"""The rows of a range of a result table, by delivery, ready to be written.

    segments ─▶ rows of the queries that deliver ─▶ split by query ─▶ what their version shows

Up to `ARROW_ROWS_MAX` rows are read as Arrow in this process: it is quicker than Spark at every
size tried (docs/spark.md), and the limit is there for memory alone. A range with more rows is
split and sorted by Spark into one file a query, and each file is handed on in batches. What a
select list computes is computed when a sink asks for the rows: if it fails, that sink fails alone.

Promise    O1  rows of one delivery come by (`_step`, event time, `_id`).
Not here   what a sink makes of the rows.
"""

import functools
import shutil
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from shoal.dataplane.projection import Projection
from shoal.log.root import TableDir
from shoal.log.segment import Segment
from shoal.log.types import INSTANT, arrow_type
from shoal.query.catalog import Column, format_schema, quote
from shoal.spark.deliver.outputs import Computing, computed

__all__ = ["ARROW_ROWS_MAX", "IDENTITY", "Wanted", "WantedRows", "read_rows", "schema_of"]

#: Rows of a range up to which it is read as Arrow in one piece: some 100 MB at ten columns.
ARROW_ROWS_MAX = 1_000_000
#: Rows of one batch on the way from Spark's files to a sink.
BATCH_ROWS = 65_536
#: What every row says about itself: which version of the query, which commit, which tuple.
IDENTITY = ("_version", "_step", "_id")

_OWN = {"_query": pa.string(), "_version": pa.int32(), "_step": pa.int64(), "_id": pa.int64()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A query whose rows are delivered, and what its versions show of the table."""

    query: str
    versions: Mapping[int, Projection]


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedRows:
    """Rows of one query in order; `batches` may be called again for a repeated attempt."""

    schema: pa.Schema
    count: int
    batches: Callable[[], Iterator[pa.Table]]
    #: Called once when the rows are no longer needed.
    release: Callable[[], None]


def schema_of(columns: Sequence[Column]) -> pa.Schema:
    """What a sink gets of a version with these columns."""
    types = [(column.name, arrow_type(column.type)) for column in columns]
    return pa.schema([*types, *((name, _OWN[name]) for name in IDENTITY)])


def read_rows(
    session: SparkSession,
    table: TableDir,
    segments: Sequence[Segment],
    wanted: Sequence[Wanted],
    *,
    after: int,
    upto: int,
    timestamp: str,
) -> dict[str, WantedRows]:
    """The rows of steps (after, upto] by query; a query without any is left out."""
    if not segments:
        return {}
    columns = _columns(wanted, timestamp)
    if sum(max(segment.rows, 0) for segment in segments) <= ARROW_ROWS_MAX:
        return _by_arrow(session, table, segments, wanted, columns, (after, upto), timestamp)
    return _by_spark(session, table, segments, wanted, columns, (after, upto), timestamp)


def _columns(wanted: Sequence[Wanted], timestamp: str) -> tuple[Column, ...]:
    """Every column that some version wants, and the event time, by which rows are sorted."""
    found = {
        column.name: column
        for one in wanted
        for projection in one.versions.values()
        for column in projection.columns
    }
    found.setdefault(timestamp, Column(name=timestamp, type="TIMESTAMP"))
    return tuple(found.values())


def _by_arrow(
    session: SparkSession | None,
    table: TableDir,
    segments: Sequence[Segment],
    wanted: Sequence[Wanted],
    columns: Sequence[Column],
    steps: tuple[int, int],
    timestamp: str,
) -> dict[str, WantedRows]:
    schema = pa.schema([*_OWN.items(), *((c.name, arrow_type(c.type)) for c in columns)])
    paths = [str(table.path / segment.path) for segment in segments]
    names = pa.array([one.query for one in wanted])
    chosen = pc.field("_query").isin(names)
    chosen &= (pc.field("_step") > steps[0]) & (pc.field("_step") <= steps[1])
    rows = ds.dataset(paths, schema=schema, format="parquet").to_table(filter=chosen)
    if not rows.num_rows:
        return {}
    order = [(key, "ascending") for key in ("_query", "_step", timestamp, "_id")]
    rows = rows.sort_by(order).combine_chunks()
    versions = {one.query: one.versions for one in wanted}
    found: dict[str, WantedRows] = {}
    lists: dict[Projection, Computing] = {}
    for query, at, size in _runs(rows.column("_query")):
        part = _known(rows.slice(at, size), versions[query])
        if part.num_rows:
            own = {version: versions[query][version] for version in _present(part)}
            found[query] = _in_memory(part, own, session, lists)
    return found


def _runs(sorted_names: pa.ChunkedArray) -> Iterator[tuple[str, int, int]]:
    """(name, first row, rows) of every name in a sorted column."""
    at = 0
    for pair in pc.value_counts(sorted_names).to_pylist():
        yield pair["values"], at, pair["counts"]
        at += pair["counts"]


def _known(rows: pa.Table, versions: Mapping[int, object]) -> pa.Table:
    """Without rows of versions that are not this delivery's, such as of an earlier namesake."""
    known = pa.array(list(versions), pa.int32())
    return rows.filter(pc.is_in(rows.column("_version"), value_set=known))


def _present(rows: pa.Table) -> list[int]:
    found: list[int] = pc.unique(rows.column("_version")).to_pylist()
    return sorted(found)


def _shown(versions: Iterable[Projection]) -> tuple[Column, ...]:
    return tuple({c.name: c for projection in versions for c in projection.shown}.values())


def _in_memory(
    rows: pa.Table,
    versions: Mapping[int, Projection],
    session: SparkSession | None,
    lists: dict[Projection, Computing],
) -> WantedRows:
    """Rows of one query; those with one select list, of whatever query, are computed together."""
    shown = _shown(versions.values())
    made: list[Callable[[], pa.Table]] = []
    for version, projection in versions.items():
        own = _of_version(rows, version, among=len(versions))
        if projection.outputs:
            computing = lists.setdefault(projection, Computing(session, projection))
            made.append(functools.partial(computing.take, computing.add(own)))
        else:
            made.append(functools.partial(computed, session, own, projection))

    def batches() -> Iterator[pa.Table]:
        yield _joined(rows, list(versions), [make() for make in made], shown)

    return WantedRows(
        schema=schema_of(shown),
        count=rows.num_rows,
        batches=batches,
        release=lambda: None,
    )


def _of_version(rows: pa.Table, version: int, *, among: int) -> pa.Table:
    return rows if among == 1 else rows.filter(pc.equal(rows.column("_version"), version))


def _joined(
    rows: pa.Table, versions: Sequence[int], made: Sequence[pa.Table], shown: Sequence[Column]
) -> pa.Table:
    """What the versions show in one table, the rows as they were, and their identity.

    A version gets no column that is not its own.
    """
    own = made[0]
    if len(made) > 1:
        together = pa.concat_tables(made, promote_options="default")
        places = [pc.indices_nonzero(pc.equal(rows.column("_version"), one)) for one in versions]
        own = together.take(pc.sort_indices(pa.concat_arrays(places)))
    arrays = [own.column(column.name) for column in shown]
    identity = rows.select(list(IDENTITY)).columns
    return pa.Table.from_arrays([*arrays, *identity], schema=schema_of(shown))


def _by_spark(
    session: SparkSession,
    table: TableDir,
    segments: Sequence[Segment],
    wanted: Sequence[Wanted],
    columns: Sequence[Column],
    steps: tuple[int, int],
    timestamp: str,
) -> dict[str, WantedRows]:
    """One sorted file for each query, in a folder that goes with the last of them."""
    schema = (
        f"_query STRING, _version INT, _step BIGINT, _id BIGINT, {format_schema(tuple(columns))}"
    )
    paths = [str(table.path / segment.path) for segment in segments]
    names = session.createDataFrame(pa.table({"_query": [one.query for one in wanted]}))
    frame = (
        session.read.schema(schema)
        .parquet(*paths)
        .where(f"_step > {steps[0]} AND _step <= {steps[1]}")
        .join(names.hint("broadcast"), "_query", "left_semi")
        .repartition("_query")
        .sortWithinPartitions("_query", "_step", quote(timestamp), "_id")
    )
    folder = table.staging / f"deliver-{uuid.uuid4().hex}"
    frame.write.partitionBy("_query").parquet(str(folder))
    versions = {one.query: one.versions for one in wanted}
    files = {path.parent.name.partition("=")[2]: path for path in folder.glob("_query=*/*.parquet")}
    shared = _Shared(folder, len(files))
    found: dict[str, WantedRows] = {}
    for query, path in files.items():
        rows = _staged(session, path, versions[query], shared)
        if rows.count:
            found[query] = rows
        else:
            rows.release()
    if not found:
        shutil.rmtree(folder, ignore_errors=True)
    return found


class _Shared:
    """A folder that is removed when its last user is done with it."""

    def __init__(self, folder: Path, users: int) -> None:
        self._folder = folder
        self._users = users
        self._lock = threading.Lock()

    def release(self) -> None:
        with self._lock:
            self._users -= 1
            last = self._users == 0
        if last:
            shutil.rmtree(self._folder, ignore_errors=True)


def _staged(
    session: SparkSession, path: Path, versions: Mapping[int, Projection], shared: _Shared
) -> WantedRows:
    own = pq.read_table(path, columns=["_version"], partitioning=None)
    own = _known(own, versions)
    present = {version: versions[version] for version in _present(own)}
    shown = _shown(present.values())

    def batches() -> Iterator[pa.Table]:
        for batch in pq.ParquetFile(path).iter_batches(batch_size=BATCH_ROWS):
            rows = _known(_utc(pa.Table.from_batches([batch])), versions)
            if rows.num_rows:
                parts = {v: _of_version(rows, v, among=len(present)) for v in present}
                made = [computed(session, parts[v], p) for v, p in present.items()]
                yield _joined(rows, list(present), made, shown)

    return WantedRows(
        schema=schema_of(shown),
        count=own.num_rows,
        batches=batches,
        release=shared.release,
    )


def _utc(rows: pa.Table) -> pa.Table:
    """Spark's files with every instant as ours: microseconds in UTC."""
    for index, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type) and field.type != INSTANT:
            rows = rows.set_column(index, field.name, rows.column(index).cast(INSTANT))
    return rows
