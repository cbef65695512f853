"""Where a stream's tuples come from, as a program says it; and rows that a program pushes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from shoal.kernel.errors import UserError
from shoal.log.types import arrow_type
from shoal.query.catalog import SourceDef, StreamDef

__all__ = ["arrow_rows", "files", "push", "rate"]


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
