"""Names and aggregates in expressions, and where each may stand."""

import pytest

from shoal.kernel.errors import UserError
from shoal.query.sql_select.expressions import AGGREGATE_NAMES
from shoal.query.sql_select.flatten import read_query
from shoal.query.sql_terms import NODES_MAX
from shoal.query.terms.tree import show
from tests.property.streams import READINGS

HOUR = "FROM readings [RANGE 1 HOUR]"


def shown(item: str, rest: str = HOUR) -> str:
    """The canonical text of a selected expression."""
    return show(read_query(f"SELECT {item} AS x {rest}", READINGS, ()).items[0].term)


@pytest.mark.parametrize(
    ("item", "text"),
    [
        ("count(*)", "count()"),
        ("count(1)", "count()"),
        ("COUNT(TRUE)", "count()"),
        ("count(kwh)", "count(`kwh`)"),
        ("mean(kwh + 1)", "avg((`kwh` + ?INT))"),
        ("sum(kwh) FILTER (WHERE flag)", "filter(sum(`kwh`), `flag`)"),
        ("approx_percentile(kwh, 0.5)", "approx_percentile(`kwh`, ?DECIMAL(1,1))"),
        ("max_by(meter, ts)", "max_by(`meter`, `ts`)"),
        ("upper(max(name)) || 'a'", "(upper(max(`name`)) || ?STRING)"),
        ("window.start", "window_start()"),
        ("window_end", "window_end()"),
        ("hour(window.end)", "hour(window_end())"),
    ],
)
def test_read(item: str, text: str) -> None:
    rest = f"{HOUR} HAVING count(*) > 1" if "window" in item else HOUR
    if "window" in item:
        rest = "FROM readings GROUP BY window(ts, '1 hour')"
    assert shown(item, rest) == text


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (f"SELECT avg(max(kwh)) AS x {HOUR}", "max inside avg"),
        (f"SELECT sum(kwh) FILTER (WHERE max(kwh) > 1) AS x {HOUR}", "max inside sum"),
        ("SELECT meter FROM readings WHERE max(kwh) > 1", "cannot be used in WHERE"),
        (f"SELECT 1 AS x {HOUR} GROUP BY max(kwh)", "cannot be used in GROUP BY"),
        (f"SELECT avg(kwh) AS m {HOUR} HAVING sum(m) > 1", "column 'm' is not known"),
        (f"SELECT avg(kwh) AS meter {HOUR} HAVING meter > 1", "read in two ways"),
        (f"SELECT count(DISTINCT kwh) AS x {HOUR}", "approx_count_distinct"),
        (f"SELECT collect_set(kwh) AS x {HOUR}", "every tuple of the window"),
        (f"SELECT agv(kwh) AS x {HOUR}", "did you mean avg?"),
        (f"SELECT avg(kw) AS x {HOUR}", "did you mean kwh?"),
        (f"SELECT avg(t.kwh) AS x {HOUR}", "'t' is not a stream here"),
        ("SELECT avg(readings.kwh) AS x FROM readings AS r [RANGE 1 HOUR]", "write r.kwh"),
        (f"SELECT window_start AS x, sum(window_start) AS y {HOUR}", "cannot be aggregated"),
        ("SELECT session_window(ts, '1 hour') AS x FROM readings", "fixed length"),
        (f"SELECT sum(kwh) OVER () AS x {HOUR}", "OVER cannot be used"),
        (f"SELECT sum(kwh).x AS x {HOUR}", "a field of a value cannot be used"),
    ],
)
def test_refused(text: str, part: str) -> None:
    with pytest.raises(UserError) as raised:
        read_query(text, READINGS, ())
    assert part in str(raised.value)
    assert raised.value.hint
    assert raised.value.line == 1


def test_a_column_comes_before_a_name_of_the_select_list_inside_a_key() -> None:
    text = f"SELECT coalesce(name, 'none') AS name {HOUR} GROUP BY coalesce(name, 'none')"
    flat = read_query(text, READINGS, ())
    assert flat.grouping is not None
    assert [show(key) for key in flat.grouping.keys] == ["coalesce(`name`, ?STRING)"]


def test_a_column_that_is_named_like_a_bound_is_that_column() -> None:
    text = "SELECT window_end FROM (SELECT ts, meter AS window_end FROM readings) AS r"
    assert show(read_query(text, READINGS, ()).items[0].term) == "`meter`"


def test_what_names_stand_for_counts() -> None:
    levels = "SELECT ts, kwh AS a FROM readings"
    for _ in range(12):
        levels = f"SELECT ts, a + a AS a FROM ({levels}) AS t"
    with pytest.raises(UserError, match="too large an expression") as raised:
        read_query(levels, READINGS, ())
    assert str(NODES_MAX) in raised.value.detail


def test_synonyms_are_names_too() -> None:
    assert "mean" in AGGREGATE_NAMES
    assert "avg" in AGGREGATE_NAMES
