"""What Parquet footers say of a batch: how many tuples, and between which event times.

A footer bounds the event times of its file. Where the bounds leave no doubt, no tuple of the batch
is late, ahead or without event time, and the counts of a step are known before it runs. Where they
leave any, this says nothing, and the tuples themselves are counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.kernel.time import Instant

__all__ = ["Footer", "read_footer"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """One file: its tuples, all with an event time between these."""

    rows: int
    earliest: Instant
    latest: Instant


def read_footer(path: str, timestamp: str, columns: Sequence[str]) -> Footer | None:
    """What the footer says for sure; None if that is too little.

    The column must hold microseconds or milliseconds in UTC: Spark reads other kinds differently.
    All `columns` must be there, for a file that lacks some is not what the stream declares.
    """
    try:
        found = pq.read_metadata(path)
    except (OSError, pa.ArrowInvalid):
        return None
    schema = found.schema.to_arrow_schema()
    if not found.num_rows or any(schema.names.count(name) != 1 for name in columns):
        return None
    kind = schema.field(timestamp).type
    if not pa.types.is_timestamp(kind) or kind.tz != "UTC" or kind.unit not in ("us", "ms"):
        return None
    index = schema.get_field_index(timestamp)
    bounds: list[Instant] = []
    for group in range(found.num_row_groups):
        known = found.row_group(group).column(index).statistics
        if known is None or not known.has_min_max or not known.has_null_count or known.null_count:
            return None
        bounds += [
            (bound - _EPOCH) // timedelta(microseconds=1) for bound in (known.min, known.max)
        ]
    return Footer(rows=found.num_rows, earliest=min(bounds), latest=max(bounds))
