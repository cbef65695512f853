"""Where a stream's tuples come from, as a program or a statement says it; and pushed rows."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from shoal.cli.selections import stream_instance
from shoal.kernel.errors import UserError
from shoal.log.root import Root
from shoal.log.spool import Spool
from shoal.log.types import arrow_type
from shoal.query.catalog import SourceDef, StreamDef
from shoal.spark.ingest.component import SPOOL_BYTES_MAX

__all__ = ["Pushed", "arrow_rows", "files", "push", "rate", "source_of"]


def files(path: str | Path, *, format: str, **options: object) -> SourceDef:  # noqa: A002
    """Files in a folder: json, csv or parquet. Options: pattern, header, delimiter, split_by,
    files_per_step."""
    given = {key: str(value) for key, value in options.items()}
    return SourceDef(
        kind="files", options={"path": str(Path(path).absolute()), "format": format, **given}
    )


def rate(*, rows_per_second: int, splits: int = 1, seed: int = 0) -> SourceDef:
    """Tuples made up at a steady rate."""
    options = {"rows_per_second": rows_per_second, "splits": splits, "seed": seed}
    return SourceDef(kind="rate", options={key: str(value) for key, value in options.items()})


def push() -> SourceDef:
    """Tuples that programs append."""
    return SourceDef(kind="push", options={})


def source_of(written: SourceDef) -> SourceDef:
    """The source of a statement: a path in it begins where this process stands."""
    if "path" not in written.options:
        return written
    path = str(Path(written.options["path"]).absolute())
    return SourceDef(kind=written.kind, options={**written.options, "path": path})


class Pushed:
    """The spools of streams that take pushed rows."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._spools: dict[str, Spool] = {}

    def append(
        self,
        stream: StreamDef,
        rows: pa.Table | Sequence[Mapping[str, Any]],
        *,
        client: str,
        sequence: int,
    ) -> int:
        """Make rows durable; the same sequence of a client counts once."""
        if stream.source.kind != "push":
            raise UserError(
                f"stream {stream.name} does not take pushed rows",
                detail=f"its source is {stream.source.kind}",
                hint="create it with source=shoal.push(), or FROM push()",
            )
        instance = stream_instance(stream)
        if instance not in self._spools:
            folder = self._root.folder("spools", instance)
            self._spools[instance] = Spool(folder, bytes_max=SPOOL_BYTES_MAX)
        return self._spools[instance].append(client, sequence, arrow_rows(stream, rows))

    def forget(self, stream: StreamDef) -> None:
        """The stream is dropped; what was pushed stays on disk."""
        self._spools.pop(stream_instance(stream), None)


def arrow_rows(stream: StreamDef, rows: pa.Table | Sequence[Mapping[str, Any]]) -> pa.Table:
    """The rows as a table of the stream's columns; a column that is not given is NULL."""
    schema = pa.schema([(column.name, arrow_type(column.type)) for column in stream.columns])
    if isinstance(rows, pa.Table):
        given = rows.column_names
    else:
        given = [key for row in rows for key in row]
    unknown = [name for name in given if name not in schema.names]
    if unknown:
        raise UserError(
            f"column {unknown[0]!r} is not in stream {stream.name}",
            detail="columns: " + ", ".join(schema.names),
            hint="leave it out, or create a stream that has it",
        )
    try:
        if not isinstance(rows, pa.Table):
            return pa.Table.from_pylist([dict(row) for row in rows], schema=schema)
        for field in schema:
            if field.name not in given:
                rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
        return rows.select(schema.names).cast(schema)
    except (pa.ArrowException, KeyError, OverflowError, ValueError) as error:
        raise UserError(
            f"rows do not fit stream {stream.name}",
            detail=str(error),
            hint=", ".join(f"{column.name} is {column.type}" for column in stream.columns),
        ) from error
