"""What every source can do: say what is there, bound a batch, and give it as a frame.

A source numbers what it has: files as they are found, rows of a rate, pushed batches. A *batch*
is a range of these numbers, and a function of it: asked again, after a crash or by a reader of a
stream that is not stored, it gives the same tuples with the same parts and rows (promise Q2).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from shoal.kernel.time import Instant
from shoal.query.catalog import Column

__all__ = ["CORRUPT", "PART", "ROW", "SPLIT", "Batch", "Source"]

#: Columns that a source's frame has besides the user's: the text of a tuple that does not fit the
#: schema (else NULL), and the tuple's place: the number of its part in the batch, its row in that
#: part, and the number of its split among the batch's splits.
CORRUPT, PART, ROW, SPLIT = "_corrupt", "_part", "_row", "_split"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Numbers (after, upto] of a source.

    `parts` counts the tasks that read it; `splits` are named in the order of their numbers;
    `bytes` is what is known of its size before it is read.
    """

    after: int
    upto: int
    parts: int
    splits: tuple[str, ...]
    bytes: int


class Source(Protocol):
    """A place where tuples come from."""

    def discover(self, now: Instant) -> None:
        """Look for what is new; what is found is durable when this returns."""
        ...

    def next_batch(self, after: int) -> Batch | None:
        """The next batch after a position, within the step's bounds; None if there is nothing."""
        ...

    def batch(self, after: int, upto: int) -> Batch:
        """Exactly this range again."""
        ...

    def waiting(self, after: int) -> tuple[str, ...]:
        """Splits that have something after a position."""
        ...

    def frame(self, session: SparkSession, batch: Batch, columns: Sequence[Column]) -> DataFrame:
        """The batch's tuples: the columns, and CORRUPT, PART, ROW, SPLIT."""
        ...

    def release(self, upto: int, now: Instant) -> None:
        """Everything up to this number is committed; it may be forgotten."""
        ...
