"""[RANGE ...] is found behind streams and subqueries, and nowhere else."""

import pytest

from shoal.kernel.errors import UserError
from shoal.kernel.time import HOUR, MINUTE
from shoal.query.sql_select.flatten import read_query
from shoal.query.windows.shape import Window
from tests.property.streams import READINGS


def window_in(source: str) -> Window:
    """The window of a query over this source."""
    flat = read_query(f"SELECT count(*) FROM {source}", READINGS, ())
    assert flat.grouping is not None
    return flat.grouping.window


@pytest.mark.parametrize(
    "source",
    [
        "readings [RANGE 1 HOUR]",
        "readings[range 60 minutes]",
        "readings [RANGE INTERVAL 1 HOUR]",
        "readings [RANGE INTERVAL '1' HOUR SLIDE INTERVAL '1 hour']",
        "readings [RANGE '1 hour']",
        "readings [RANGE 30 MINUTES 1800 SECONDS]",
        "readings [RANGE 1 HOUR] AS r",
        "readings [RANGE 1 HOUR] r",
        "readings AS r [RANGE 1 HOUR]",
        "readings r [RANGE 1 HOUR]",
        "`readings` [RANGE 1 HOUR]",
        "(SELECT * FROM readings) [RANGE 1 HOUR]",
        "(SELECT * FROM readings) [RANGE 1 HOUR] AS r",
        "(SELECT * FROM readings) AS r [RANGE 1 HOUR]",
        "(SELECT * FROM readings [RANGE 1 HOUR]) AS r",
        "(SELECT * FROM readings AS q [RANGE 1 HOUR] WHERE q.flag) AS r WHERE r.meter = 1",
    ],
)
def test_found(source: str) -> None:
    assert window_in(source) == Window(length=HOUR, slide=HOUR, offset=0)


def test_sliding() -> None:
    found = window_in("readings [RANGE 1 HOUR SLIDE 1 MINUTE]")
    assert found == Window(length=HOUR, slide=MINUTE, offset=0)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("SELECT count(*) FROM readings [RANGE 1 HOUR", "not closed (line 1, column 31)"),
        ("SELECT count(*) [RANGE 1 HOUR] FROM readings", "right behind the stream"),
        ("SELECT meter FROM readings WHERE kwh [RANGE 1 HOUR] > 1", "right behind the stream"),
        ("SELECT count(*) FROM readings [RANGE 1 HOUR SLIDE 1 MINUTE SLIDE 1 MINUTE]", "one SLIDE"),
        ("SELECT count(*) FROM readings [RANGE 1 HOUR] [RANGE 1 HOUR]", "has one window"),
        ("SELECT count(*) FROM readings TABLESAMPLE (1 ROWS)", "TABLESAMPLE cannot be used"),
        ("SELECT count(*) FROM readings [ROWS 5]", "cannot be read"),
        ("SELECT count(*) FROM readings\n[RANGE 1 MONTH]", "(line 2, column 1)"),
    ],
)
def test_refused(text: str, part: str) -> None:
    with pytest.raises(UserError) as raised:
        read_query(text, READINGS, ())
    assert part in str(raised.value)
    assert raised.value.hint
    assert raised.value.line


def test_window_is_a_name_where_it_is_one() -> None:
    text = "SELECT window.start AS b FROM readings GROUP BY window(ts, '1 hour') "
    text += "HAVING window.start > ts"
    with pytest.raises(UserError, match="'ts' is neither grouped"):
        read_query(text, READINGS, ())
    with pytest.raises(UserError, match="WINDOW cannot be used"):
        read_query("SELECT meter FROM readings WINDOW w AS (PARTITION BY zone)", READINGS, ())
