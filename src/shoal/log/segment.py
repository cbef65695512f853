"""Segments: immutable Parquet files of a table, with the statistics that let readers skip them.

A segment is named `e<epoch>-s<step>-<part>-<nonce>.parquet` under the Hive folder of its
partition, so that whoever finds the file alone can tell whether a commit may still want it.
Its bytes are synced before it is handed on (promise L1: a commit names only whole files).

Statistics are read from the footer, never from the rows. They must err on the side of reading
too much: what cannot be stated safely is left out. So doubles with NaN have no maximum, long
strings are cut to a prefix that still bounds them, and decimals beyond 15 digits are left out
because JSON readers may pass them through a double.

What is not here: the commit that makes a segment part of the table (writer).
"""

import json
import math
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shoal.kernel.errors import LocalError, StorageError
from shoal.kernel.time import Instant
from shoal.log.durable import sync_file, sync_folder
from shoal.log.root import TableDir, make_folder

__all__ = [
    "ROW_GROUP_ROWS",
    "STEP_COLUMN",
    "Segment",
    "SegmentName",
    "adopt_segment",
    "name_of",
    "segment_from_stats",
    "write_segment",
]

STEP_COLUMN = "_step"
#: Rows of a row group: small enough that a range of steps skips most of a merged segment.
ROW_GROUP_ROWS = 131_072
#: Characters of a string kept in statistics, as Delta's own writers do.
PREFIX_LENGTH = 32

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAME = re.compile(r"e(\d+)-s(\d+)-(\w+)-([0-9a-f]+)\.parquet")
_PARTITION_VALUE = re.compile(r"[A-Za-z0-9_.-]{1,100}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One immutable file of a table.

    `stats` is Delta's JSON (numRecords, minValues, maxValues, nullCount). `min_step` and
    `max_step` bound the rows' `_step`; where the statistics do not say, they span everything.
    """

    path: str
    rows: int
    bytes: int
    partition: Mapping[str, str]
    stats: str
    min_step: int
    max_step: int

    def latest(self, column: str) -> Instant | None:
        """The greatest instant in this column; None where the statistics do not say."""
        return _instant_of(json.loads(self.stats).get("maxValues", {}).get(column))

    def span(self, column: str) -> tuple[Instant | None, Instant | None]:
        """The least and the greatest instant in this column, as far as the statistics say."""
        known = json.loads(self.stats)
        low, high = (known.get(bound, {}).get(column) for bound in ("minValues", "maxValues"))
        return _instant_of(low), _instant_of(high)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SegmentName:
    """What the name of a segment's file says, in the order in which owners and steps succeed."""

    epoch: int
    step: int

    @classmethod
    def parse(cls, file_name: str) -> "SegmentName | None":
        """The epoch and step in the name, or None if it is not a segment's name."""
        match = _NAME.fullmatch(file_name)
        return match and cls(epoch=int(match.group(1)), step=int(match.group(2)))


def name_of(*, epoch: int, step: int, part: int | str) -> str:
    """A new name for a segment; the nonce keeps a repeated attempt apart from the first."""
    return f"e{epoch}-s{step}-{part}-{secrets.token_hex(4)}.parquet"


def write_segment(
    table: TableDir,
    rows: pa.Table,
    *,
    epoch: int,
    step: int,
    part: int | str,
    partition: Mapping[str, str],
    group_rows: int = ROW_GROUP_ROWS,
) -> Segment:
    """Write the rows as one synced file; partition columns are left out of it."""
    if rows.num_rows == 0:
        raise LocalError(
            f"a segment of {table.instance} without rows",
            detail=f"epoch {epoch}, step {step}, part {part}",
            hint="commit a step without output with no segments",
        )
    rows = _in_utc(rows.drop_columns([name for name in partition if name in rows.column_names]))
    path = _folder(table, partition) / name_of(epoch=epoch, step=step, part=part)
    footers: list[pq.FileMetaData] = []
    try:
        pq.write_table(
            rows,
            path,
            compression="zstd",
            row_group_size=group_rows,
            coerce_timestamps="us",
            store_schema=False,
            metadata_collector=footers,
        )
    except OSError as error:
        path.unlink(missing_ok=True)
        raise StorageError(
            f"cannot write a segment of {table.instance}",
            detail=str(error),
            hint="free space on the disk of the root, or check that it can be written",
        ) from error
    sync_file(path)
    return _segment(table, path, footers[0], partition, without_maximum=_with_nan(rows))


def adopt_segment(
    table: TableDir,
    file: Path,
    *,
    epoch: int,
    step: int,
    part: int | str,
    partition: Mapping[str, str],
) -> Segment:
    """Make a file that Spark wrote under the table's staging folder a segment: rename and sync."""
    sync_file(file)
    path = _folder(table, partition) / name_of(epoch=epoch, step=step, part=part)
    try:
        footer = pq.read_metadata(file)
        file.rename(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise StorageError(
            f"cannot adopt {file} as a segment of {table.instance}",
            detail=str(error),
            hint="the file must be whole Parquet on the same file system as the table",
        ) from error
    sync_folder(path.parent)
    return _segment(table, path, footer, partition, without_maximum={})


def segment_from_stats(
    *, path: str, size: int, partition: Mapping[str, str], stats: str | None
) -> Segment:
    """The segment that an entry of the transaction log describes."""
    known = json.loads(stats) if stats else {}
    low = known.get("minValues", {}).get(STEP_COLUMN)
    high = known.get("maxValues", {}).get(STEP_COLUMN)
    return Segment(
        path=path,
        rows=int(known.get("numRecords", -1)),
        bytes=size,
        partition=partition,
        stats=stats or "{}",
        min_step=0 if low is None else int(low),
        max_step=(1 << 62) if high is None else int(high),
    )


def _folder(table: TableDir, partition: Mapping[str, str]) -> Path:
    """The Hive folder of a partition."""
    folder = table.path
    for name, value in partition.items():
        if not _PARTITION_VALUE.fullmatch(value):
            raise LocalError(
                f"partition value {value!r} of {table.instance} cannot name a folder",
                detail=f"column {name}",
                hint="partition by a column with few plain values, such as _kind",
            )
        folder = folder / f"{name}={value}"
    if folder != table.path:
        make_folder(folder)
    return folder


def _in_utc(rows: pa.Table) -> pa.Table:
    """The rows with every instant as microseconds in UTC."""
    wanted = pa.timestamp("us", "UTC")
    for index, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz and field.type != wanted:
            column = rows.column(index).cast(wanted)
            rows = rows.set_column(index, field.with_type(wanted), column)
    return rows


def _with_nan(rows: pa.Table) -> dict[str, bool]:
    """Columns that hold NaN, which engines place above every number and footers leave out."""
    return {
        field.name: True
        for index, field in enumerate(rows.schema)
        if pa.types.is_floating(field.type) and pc.any(pc.is_nan(rows.column(index))).as_py()
    }


def _segment(
    table: TableDir,
    path: Path,
    footer: pq.FileMetaData,
    partition: Mapping[str, str],
    *,
    without_maximum: Mapping[str, bool],
) -> Segment:
    lows: list[str] = []
    highs: list[str] = []
    nulls: list[str] = []
    steps = (0, 1 << 62)
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    for index in range(footer.num_columns):
        name = footer.schema.column(index).path
        bounds = _bounds(group.column(index) for group in groups)
        if "." in name or bounds is None:
            continue
        low, high, null_count = bounds
        key = json.dumps(name)
        if null_count is not None:
            nulls.append(f"{key}:{null_count}")
        if name == STEP_COLUMN and low is not None:
            steps = (int(low), int(high))
        low_text, high_text = _literal(low, upper=False), _literal(high, upper=True)
        if low_text is not None:
            lows.append(f"{key}:{low_text}")
        if high_text is not None and name not in without_maximum:
            highs.append(f"{key}:{high_text}")
    stats = (
        f'{{"numRecords":{footer.num_rows},"minValues":{{{",".join(lows)}}},'
        f'"maxValues":{{{",".join(highs)}}},"nullCount":{{{",".join(nulls)}}}}}'
    )
    return Segment(
        path=path.relative_to(table.path).as_posix(),
        rows=footer.num_rows,
        bytes=path.stat().st_size,
        partition=dict(partition),
        stats=stats,
        min_step=steps[0],
        max_step=steps[1],
    )


def _bounds(chunks: Iterable[Any]) -> tuple[Any, Any, int | None] | None:
    """Minimum, maximum and count of nulls over the row groups; None where a footer is silent."""
    lows: list[Any] = []
    highs: list[Any] = []
    nulls: int | None = 0
    bounded = True
    for chunk in chunks:
        known = chunk.statistics
        if known is None:
            return None
        nulls = nulls + known.null_count if nulls is not None and known.has_null_count else None
        try:
            if known.has_min_max:
                lows.append(known.min)
                highs.append(known.max)
            elif not (known.has_null_count and known.null_count == chunk.num_values):
                bounded = False
        except (OverflowError, ValueError):
            bounded = False  # an instant that Python cannot hold, such as in the year 20000
    if not bounded or not lows:
        return None, None, nulls
    # Spark's maximum is NaN where a row group holds one; Python's max may pass it over. Only NaN
    # differs from itself.
    unordered = [high for high in highs if high != high]
    return min(lows), unordered[0] if unordered else max(highs), nulls


def _literal(value: Any, *, upper: bool) -> str | None:
    """The JSON text of a bound, or None where it cannot be stated safely."""
    match value:
        case bool() | bytes() | None:
            return None
        case int():
            return str(value)
        case float():
            return repr(value) if math.isfinite(value) else None
        case str():
            return _prefix(value, upper=upper)
        case datetime():
            return None if value.tzinfo is None else f'"{_instant_text(value)}"'
        case date():
            return f'"{value.isoformat()}"'
        case Decimal():
            return format(value, "f") if len(value.as_tuple().digits) <= 15 else None
        case _:
            return None


def _prefix(text: str, *, upper: bool) -> str | None:
    """A short text that bounds this one: its prefix, rounded up for a maximum."""
    if len(text) <= PREFIX_LENGTH:
        return json.dumps(text)
    kept = text[:PREFIX_LENGTH]
    if not upper:
        return json.dumps(kept)
    for index in range(len(kept) - 1, -1, -1):
        point = ord(kept[index])
        if point < 0x10FFFF:
            # Surrogates are not characters: the one after U+D7FF is U+E000.
            following = 0xE000 if point == 0xD7FF else point + 1
            return json.dumps(kept[:index] + chr(following))
    return None


def _instant_of(text: str | None) -> Instant | None:
    if text is None:
        return None
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)


def _instant_text(moment: datetime) -> str:
    """Microseconds always, and Z: the form that every reader tried prunes on."""
    text = moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds")
    return f"{text}Z"
