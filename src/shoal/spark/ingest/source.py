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
from shoal.query.catalog import Column, StreamDef
from shoal.spark.ingest.footers import Footer

__all__ = ["ROW_IN_TASK", "Batch", "Raw", "Source"]

#: The row of a tuple within its task: the lower bits of Spark's own numbering.
ROW_IN_TASK = f"(monotonically_increasing_id() & {(1 << 33) - 1})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """A batch as it was read: a frame with the user's columns, and SQL over it.

    `corrupt` is the text of a tuple that does not fit the schema, else NULL. `part` is the number
    of the tuple's part in the batch, `row` its row in that part, and `split` the number of its
    split among the batch's splits. Text, so that one projection computes all of it.
    """

    frame: DataFrame
    corrupt: str
    part: str
    row: str
    split: str


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

    #: Whether each number of the source is one part: a file, a pushed batch.
    parts_are_positions: bool

    def describe(self, batch: Batch) -> str:
        """What a person would call the batch, such as the path of its file."""
        ...

    def discover(self, now: Instant) -> None:
        """Look for what is new; what is found is durable when this returns."""
        ...

    def next_batch(self, after: int) -> Batch | None:
        """The next batch after a position, within the step's bounds; None if there is nothing."""
        ...

    def batch(self, after: int, upto: int) -> Batch:
        """Exactly this range again."""
        ...

    def footers(self, batch: Batch, stream: StreamDef) -> Sequence[tuple[str, Footer]] | None:
        """Per part its split and what is known of it unread; None if anything is in doubt."""
        ...

    def waiting(self, after: int) -> tuple[str, ...]:
        """Splits that have something after a position."""
        ...

    def read(self, session: SparkSession, batch: Batch, columns: Sequence[Column]) -> Raw:
        """The batch's tuples, not yet judged."""
        ...

    def release(self, upto: int, now: Instant) -> None:
        """Everything up to this number is committed: of a stored stream it may be forgotten."""
        ...

    def forget(self, upto: int) -> None:
        """No reader of a stream that is not stored can come for anything up to this number."""
        ...
