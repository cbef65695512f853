"""Levels of SELECT become one; what cannot is refused."""

import pytest

from shoal.kernel.errors import UserError
from shoal.query.sql_select.flatten import LEVELS_MAX, read_query, stream_read
from shoal.query.terms.tree import show
from tests.property.streams import READINGS


@pytest.mark.parametrize(
    "text",
    [
        "SELECT meter FROM Readings",
        "WITH a AS (SELECT * FROM readings), b AS (SELECT * FROM a) SELECT * FROM b",
        "SELECT * FROM (SELECT * FROM (SELECT meter FROM readings) AS s) AS t;",
        "WITH readings AS (SELECT * FROM readings) SELECT * FROM readings",
        "SELECT * FROM (WITH a AS (SELECT meter FROM readings) SELECT * FROM a) AS t",
        "SELECT count(*) FROM (readings)",
        "SELECT count(*) FROM readings [RANGE 1 HOUR] GROUP BY zone",
    ],
)
def test_the_stream_is_found_below_all_levels(text: str) -> None:
    assert stream_read(text) == "readings"


def test_filters_and_expressions_of_all_levels_come_together() -> None:
    flat = read_query(
        "WITH a AS (SELECT meter + 1 AS m, zone FROM readings WHERE kwh > 1) "
        "SELECT m * 2 AS n FROM (SELECT m FROM a WHERE zone = 3) AS b WHERE m < 9",
        READINGS,
        (),
    )
    assert [(item.name, show(item.term)) for item in flat.items] == [
        ("n", "((`meter` + ?INT) * ?INT)")
    ]
    assert [show(part) for part in flat.where] == [
        "(`kwh` > ?INT)",
        "(`zone` = ?INT)",
        "((`meter` + ?INT) < ?INT)",
    ]


def test_names() -> None:
    flat = read_query(
        "SELECT KWH, `größe`, window.start, max(kwh), count(*), count(zone) FILTER (WHERE flag), "
        "kwh + 1 AS `next` FROM readings GROUP BY kwh, größe, window(ts, '1 hour')",
        READINGS,
        (),
    )
    names = ["kwh", "größe", "window_start", "max_kwh", "count", "count_zone", "next"]
    assert [item.name for item in flat.items] == names


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("SELECT meter FROM other", "is not readings (line 1, column 19)"),
        ("SELECT meter FROM readings UNION SELECT meter FROM readings", "UNION cannot be used yet"),
        ("WITH RECURSIVE a AS (SELECT 1) SELECT * FROM a", "RECURSIVE"),
        ("WITH a AS (SELECT mettr FROM readings) SELECT ts FROM readings", "'mettr' is not known"),
        ("SELECT meter + 1 FROM readings", "has no name (line 1, column 8)"),
        ("SELECT meter, kwh AS METER FROM readings", "selected twice (line 1, column 15)"),
        ("SELECT kwh AS `a b` FROM readings", "'a b' cannot be used"),
        ("SELECT count(*) FROM readings", "need a window"),
        ("SELECT DISTINCT meter FROM readings", "DISTINCT needs a window"),
        ("SELECT meter FROM readings [RANGE 1 HOUR]", "a window needs aggregates"),
        ("SELECT meter FROM readings HAVING meter > 1", "HAVING needs groups"),
        ("SELECT *, count(*) FROM readings [RANGE 1 HOUR]", "* cannot be selected from groups"),
        ("SELECT zone, kwh FROM readings [RANGE 1 HOUR] GROUP BY zone", "'kwh' is neither"),
        ("SELECT zone FROM readings [RANGE 1 HOUR] GROUP BY 2", "GROUP BY 2 is not in"),
        (
            "SELECT count(*) FROM readings [RANGE 1 HOUR] GROUP BY window(ts, '1 hour')",
            "one window",
        ),
        ("SELECT count(*) FROM readings GROUP BY window(day, '1 hour')", "cuts the event time"),
        ("SELECT meter FROM readings; SELECT meter FROM readings", "several statements"),
        (";", "cannot begin with ';'"),
        ("", "cannot begin with ''"),
    ],
)
def test_refused(text: str, part: str) -> None:
    with pytest.raises(UserError) as raised:
        read_query(text, READINGS, ())
    assert part in str(raised.value)
    assert raised.value.hint


def test_levels_are_bounded() -> None:
    text = "SELECT ts FROM readings"
    for _ in range(LEVELS_MAX + 1):
        text = f"SELECT ts FROM ({text}) AS t"
    for read in (stream_read, lambda text: read_query(text, READINGS, ())):
        with pytest.raises(UserError, match=r"levels of SELECT|nested too deep"):
            read(text)


def test_a_stream_without_event_time_has_windows_by_range_only() -> None:
    stream = READINGS.from_json(READINGS.to_json() | {"timestamp": ""})
    read_query("SELECT count(*) FROM readings [RANGE 1 HOUR]", stream, ())
    with pytest.raises(UserError, match="cuts the event time") as raised:
        read_query("SELECT count(*) FROM readings GROUP BY window(ts, '1 hour')", stream, ())
    assert "[RANGE" in raised.value.hint
