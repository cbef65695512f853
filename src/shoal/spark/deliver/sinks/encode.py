"""Rows as text: JSON lines and CSV. The same rows always give the same bytes.

A step that was interrupted is repeated, and what it writes must be what it wrote: sinks of lines
rely on it. So nothing here depends on a clock, a locale or the order of a hash.

    instants    2026-03-01T12:00:00.000000Z     dates     2026-03-01
    binary      base64                          decimals  exact numbers, as Spark writes them
    NaN, Infinity, -Infinity                    as text, because JSON has no such numbers
"""

import base64
import io
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv

__all__ = ["csv_text", "json_lines"]

_INSTANT_FORMAT = "%Y-%m-%dT%H:%M:%SZ"


def json_lines(rows: pa.Table) -> bytes:
    """One JSON object a row, with every column; NULL is null."""
    tokens = [_tokens(rows.column(name)) for name in rows.column_names]
    keys = [json.dumps(name, ensure_ascii=False).replace("%", "%%") for name in rows.column_names]
    line = "{" + ",".join(f"{key}:%s" for key in keys) + "}\n"
    return "".join(line % row for row in zip(*tokens, strict=True)).encode("utf-8", "replace")


def csv_text(rows: pa.Table, *, header: bool) -> bytes:
    """Comma-separated values; NULL is empty, the empty text is a pair of quotes."""
    plain = pa.table({name: _plain(rows.column(name)) for name in rows.column_names})
    out = io.BytesIO()
    options = pc_csv.WriteOptions(include_header=header, quoting_style="needed")
    pc_csv.write_csv(plain, out, write_options=options)
    return out.getvalue()


def _tokens(values: pa.ChunkedArray) -> Sequence[str]:
    """The JSON of every value."""
    kind = values.type
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_boolean(kind):
        return _filled(values.cast(pa.string()))
    if pa.types.is_timestamp(kind):
        text = pc.strftime(values, format=_INSTANT_FORMAT)
        return _filled(pc.binary_join_element_wise('"', text, '"', ""))
    if pa.types.is_date(kind):
        return _filled(pc.binary_join_element_wise('"', values.cast(pa.string()), '"', ""))
    return [_token(value) for value in values.to_pylist()]


def _filled(text: pa.ChunkedArray) -> Sequence[str]:
    found: list[str] = pc.fill_null(text, "null").to_pylist()
    return found


def _token(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else ('"Infinity"' if value > 0 else '"-Infinity"')
    if isinstance(value, list):
        return "[" + ",".join(_token(item) for item in value) + "]"
    if isinstance(value, bytes):
        return f'"{base64.b64encode(value).decode()}"'
    if value is None or isinstance(value, str | bool | int | float):
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(str(value), ensure_ascii=False)


def _plain(values: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """The column as CSV can hold it."""
    kind = values.type
    if pa.types.is_timestamp(kind):
        return pc.strftime(values, format=_INSTANT_FORMAT)
    if pa.types.is_decimal(kind) or pa.types.is_date(kind):
        return values.cast(pa.string())
    if pa.types.is_list(kind):
        return _each(values, _token)
    if pa.types.is_binary(kind):
        return _each(values, lambda value: base64.b64encode(value).decode())
    return values


def _each(values: pa.ChunkedArray, text: Callable[[Any], str]) -> pa.Array:
    return pa.array([None if v is None else text(v) for v in values.to_pylist()], pa.string())
