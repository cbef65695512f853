"""What is told of an expression in a flat query."""

from shoal.query.terms.tree import Call, ColumnRef, Literal
from shoal.query.windows.flat import aggregates_of, extent, is_aggregate, is_bound

KWH = ColumnRef(name="kwh", type="DOUBLE")
SUM = Call(op="sum", args=(KWH,))
FILTERED = Call(op="filter", args=(SUM, Call(op=">", args=(KWH, Literal(type="INT", value=5)))))
START = Call(op="window_start", args=())


def test_aggregates_are_found_with_their_filter() -> None:
    term = Call(op="+", args=(FILTERED, Call(op="*", args=(SUM, KWH))))
    assert list(aggregates_of(term)) == [FILTERED, SUM]
    assert list(aggregates_of(KWH)) == []
    assert (is_aggregate(FILTERED), is_aggregate(SUM), is_aggregate(START)) == (True, True, False)


def test_bounds_are_calls_of_their_names() -> None:
    assert is_bound(START)
    assert not is_bound(ColumnRef(name="window_start", type="TIMESTAMP"))


def test_extent_is_nodes_and_levels() -> None:
    assert extent(KWH) == (1, 1)
    assert extent(FILTERED) == (6, 3)
