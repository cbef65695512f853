"""The judgement of a source's tuples: ok, late or dead, and their identity.

Decided once, here, from what the commit records: the watermark before it, the limit ahead of the
ingest clock, and its step number. So a reader of a stream that is not stored judges as the step
did, and nothing downstream depends on whose step boundaries were where (promise Q2).

    dead   malformed, without event time, or further ahead of the ingest clock than allowed
    late   event time below the stream's watermark before this commit
    ok     the rest
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame

from shoal.dataplane.rows import ALWAYS
from shoal.kernel.ids import ORDINAL_BITS
from shoal.query.catalog import StreamDef, quote
from shoal.spark.ingest.source import Batch, Raw

__all__ = [
    "CORRUPT",
    "DEAD",
    "INGEST_TIME",
    "KIND",
    "LATE",
    "OK",
    "REASON",
    "SPLIT",
    "Verdict",
    "event_time",
    "judged",
]

#: Columns of a judged tuple: what it is, why it is dead, its split's number, and its text if it
#: does not fit the schema.
KIND, REASON, SPLIT, CORRUPT = "_verdict", "_reason", "_split", "_corrupt"
OK, LATE, DEAD = 0, 1, 2
#: The event-time column of a stream that has none of its own.
INGEST_TIME = "_ts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The numbers by which one source commit judges its tuples."""

    step: int
    #: The stream's watermark before the commit; ALWAYS where it has none yet.
    watermark: int
    #: Event times above this are dead.
    ahead_limit: int
    #: The event time given to tuples of a stream that brings none.
    stamp: int

    def transactions(self) -> dict[str, int]:
        """What the commit records, so that `recorded` gives the same verdict back."""
        return {
            "judge/watermark": self.watermark,
            "judge/ahead": self.ahead_limit,
            "judge/stamp": self.stamp,
        }

    @classmethod
    def recorded(cls, step: int, transactions: Mapping[str, int]) -> "Verdict":
        return cls(
            step=step,
            watermark=transactions.get("judge/watermark", ALWAYS),
            ahead_limit=transactions["judge/ahead"],
            stamp=transactions["judge/stamp"],
        )


def event_time(stream: StreamDef) -> str:
    """The name of the column that holds a stream's event time."""
    return stream.timestamp or INGEST_TIME


def judged(raw: Raw, stream: StreamDef, batch: Batch, verdict: Verdict) -> DataFrame:
    """The batch's tuples with event time, `_step`, `_id`, KIND, REASON, SPLIT and CORRUPT.

    One projection, each name building on those before it. The verdict's numbers come as one
    array from a subquery, because as literals they would make Spark compile the step anew.
    """
    numbers = [verdict.step, verdict.watermark, verdict.ahead_limit, verdict.stamp]
    array = ", ".join(f"{number}L" for number in numbers)
    time = quote(event_time(stream))
    row_bits = ORDINAL_BITS - max(batch.parts - 1, 0).bit_length()
    part = f"shiftleft(CAST({raw.part} AS BIGINT), {row_bits})"
    return raw.frame.selectExpr(
        *(quote(column.name) for column in stream.columns),
        f"(SELECT * FROM VALUES (array({array}))) AS _c",
        *([] if stream.timestamp else [f"timestamp_micros(_c[3]) AS {time}"]),
        "_c[0] AS _step",
        f"(shiftleft(_c[0], {ORDINAL_BITS}) | {part} | {raw.row}) AS _id",
        f"CAST({raw.split} AS INT) AS {SPLIT}",
        f"{raw.corrupt} AS {CORRUPT}",
        f"CASE WHEN {CORRUPT} IS NOT NULL THEN 'malformed' "
        f"WHEN {time} IS NULL THEN 'without event time' "
        f"WHEN unix_micros({time}) > _c[2] THEN 'ahead of the clock' END AS {REASON}",
        f"CASE WHEN {REASON} IS NOT NULL THEN {DEAD} "
        f"WHEN unix_micros({time}) < _c[1] THEN {LATE} ELSE {OK} END AS {KIND}",
    )
