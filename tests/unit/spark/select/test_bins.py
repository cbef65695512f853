"""Bins: a row is found wherever its range holds the value; the list stays short."""

import math

from hypothesis import given
from hypothesis import strategies as st

from shoal.query.selection import Value
from shoal.spark.select.bins import BINS_MAX, ENTRIES_PER_ROW, Bins, Bounds, build, order_key

_FLOATS = st.floats(allow_nan=True) | st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan])
_KINDS = st.sampled_from([_FLOATS, st.integers(-50, 50), st.text(max_size=3)])


@st.composite
def _bounds_and_values(draw: st.DrawFn) -> tuple[list[Bounds], list[Value]]:
    kind = draw(_KINDS)
    bound = st.none() | kind
    return draw(st.lists(st.tuples(bound, bound), max_size=40)), draw(st.lists(kind, max_size=20))


def holds(bounds: Bounds, value: Value) -> bool:
    """Whether a value lies within bounds, both inclusive, as Spark orders values."""
    low, high = bounds
    at = order_key(value)
    return (low is None or order_key(low) <= at) and (high is None or at <= order_key(high))


@given(_bounds_and_values())
def test_no_match_is_lost(drawn: tuple[list[Bounds], list[Value]]) -> None:
    """The bin of a value is in the span of every row whose range holds it."""
    bounds, values = drawn
    bins = build(bounds)
    spans = bins.spans(bounds)
    for value in values:
        place = bins.bin_of(value)
        for pair, span in zip(bounds, spans, strict=True):
            assert place in span or not holds(pair, value)


@given(_bounds_and_values())
def test_the_list_stays_short(drawn: tuple[list[Bounds], list[Value]]) -> None:
    """Entries per row are bounded, and bins are a power of two."""
    bounds, _ = drawn
    bins = build(bounds)
    count = len(bins.edges) + 1
    assert count & (count - 1) == 0
    assert count <= BINS_MAX
    entries = sum(max(0, len(span)) for span in bins.spans(bounds))
    assert count <= 2 or entries <= ENTRIES_PER_ROW * len(bounds) + 16


def test_order_is_that_of_spark() -> None:
    """NaN above infinity, zeros equal, text by its bytes."""
    ordered = [-math.inf, -1.0, -0.0, 1.0, math.inf, math.nan]
    assert sorted(ordered, key=order_key) == ordered
    assert order_key(-0.0) == order_key(0.0)
    assert order_key("Z") < order_key("a") < order_key("é") < order_key("東")


def test_edges_and_levels() -> None:
    """A value on an edge is in the bin above it."""
    bins = Bins(edges=(0.2, 0.4, 0.9))
    assert bins.levels == 2
    assert [bins.bin_of(v) for v in (0.1, 0.2, 0.3, 0.9, math.nan)] == [0, 1, 1, 3, 3]
    assert Bins(edges=()).levels == 0


def test_many_rows_of_one_side() -> None:
    """Ten thousand thresholds: the list does not grow with their square."""
    bounds: list[Bounds] = [(float(n), None) for n in range(10_000)]
    bins = build(bounds)
    assert sum(len(span) for span in bins.spans(bounds)) <= ENTRIES_PER_ROW * 10_000 + 16
