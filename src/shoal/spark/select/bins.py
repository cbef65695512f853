"""Bins: find the rows whose range may hold a value, without asking every row.

The bounds of a roster's rows cut the value axis into bins; a row is listed in every bin that its
range touches, and a tuple looks only into the bin of its own value. The bins are chosen from the
bounds' quantiles and made coarser until the list stays within a few entries a row, so that the
index costs what the rows cost, and what a tuple meets is near what it matches. The full predicate
is still evaluated on what a bin yields: a bin may offer too much, never too little.

Order of values is Spark's: NaN is above everything, strings compare by their bytes.

Not here   how a tuple finds its bin (select/plan.py); the predicate (query/).
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from shoal.query.selection import Value

__all__ = ["BINS_MAX", "Bins", "Bounds", "build", "order_key"]

#: Bins of one range at most: the tuple's side searches log2 of it. Measured up to 10,000 rows.
BINS_MAX = 4096
#: Entries of the index per row, on average at most.
ENTRIES_PER_ROW = 4

#: Lower and upper bound of a row; None where it has none.
Bounds = tuple[Value, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bins:
    """Ascending edges, one fewer than the bins, which are a power of two.

    Bin i holds the values with edges[i-1] <= value < edges[i].

    Bins(edges=(0.2, 0.4, 0.9)): 0.1 is in bin 0, 0.2 in bin 1, NaN in bin 3.
    """

    edges: tuple[Value, ...]

    @property
    def levels(self) -> int:
        """Steps of the binary search."""
        return (len(self.edges) + 1).bit_length() - 1

    def bin_of(self, value: Value) -> int:
        return bisect_right([order_key(edge) for edge in self.edges], order_key(value))

    def spans(self, bounds: Sequence[Bounds]) -> list[range]:
        """The bins that each pair of bounds touches; inclusive of both ends."""
        keys = [order_key(edge) for edge in self.edges]
        last = len(self.edges)
        return [
            range(
                0 if low is None else bisect_right(keys, order_key(low)),
                (last if high is None else bisect_right(keys, order_key(high))) + 1,
            )
            for low, high in bounds
        ]


def order_key(value: Value) -> tuple[int, object]:
    """A key that sorts values as Spark does."""
    if isinstance(value, float) and math.isnan(value):
        return (1, 0.0)
    if isinstance(value, str):
        return (0, value.encode())
    return (0, value)


def build(bounds: Sequence[Bounds]) -> Bins:
    """The finest bins whose index stays within `ENTRIES_PER_ROW` entries a row."""
    points = sorted((p for pair in bounds for p in pair if p is not None), key=order_key)
    if not points:
        return Bins(edges=())
    count = min(BINS_MAX, 1 << max(1, len(points).bit_length() - 1))
    allowed = ENTRIES_PER_ROW * len(bounds) + 16
    while True:
        edges = tuple(points[(i * len(points)) // (count - 1)] for i in range(count - 1))
        bins = Bins(edges=edges)
        entries = sum(max(0, len(span)) for span in bins.spans(bounds))
        if entries <= allowed or count == 2:
            return bins
        count //= 2
