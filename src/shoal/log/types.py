"""Spark's types as Arrow's: one table, so that what is written is what Spark would write.

Instants are integers of microseconds in Shoal and TIMESTAMP(us, UTC) in tables; dates are
integers of days.
"""

import re
from collections.abc import Sequence

import pyarrow as pa

from shoal.kernel.errors import LocalError
from shoal.query.selection import Value

__all__ = ["INSTANT", "arrow_type", "arrow_values"]

INSTANT = pa.timestamp("us", "UTC")

_PLAIN = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": INSTANT,
}
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")
_ARRAY = re.compile(r"ARRAY<(.+)>")


def arrow_type(spark_type: str) -> pa.DataType:
    """The Arrow type of a Spark type's text, such as `DECIMAL(10,2)` or `ARRAY<INT>`."""
    text = spark_type.strip().upper()
    if text in _PLAIN:
        return _PLAIN[text]
    if match := _DECIMAL.fullmatch(text):
        return pa.decimal128(int(match.group(1)), int(match.group(2)))
    if match := _ARRAY.fullmatch(text):
        return pa.list_(arrow_type(match.group(1)))
    raise LocalError(f"type {spark_type!r} has no counterpart in Arrow")


def arrow_values(values: Sequence[Value], spark_type: str) -> pa.Array:
    """An Arrow array of constants; instants and dates come as integers."""
    target = arrow_type(spark_type)
    if pa.types.is_list(target):
        inner = spark_type.strip()[len("ARRAY<") : -1]
        flat = arrow_values([v for value in values for v in _items(value)], inner)
        offsets = [0]
        for value in values:
            offsets.append(offsets[-1] + len(_items(value)))
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), flat)
    if pa.types.is_timestamp(target):
        return pa.array(values, pa.int64()).cast(target)
    if pa.types.is_date(target):
        return pa.array(values, pa.int32()).cast(target)
    return pa.array(values, target)


def _items(value: Value) -> tuple[Value, ...]:
    if value is None:
        return ()
    if not isinstance(value, tuple):
        raise LocalError(f"constant {value!r} stands where a list belongs")
    return value
