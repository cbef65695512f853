"""Names of panes and roll-ups: equal for one meaning, different for another, free of constants."""

import pytest

from shoal.kernel.errors import UserError
from shoal.query.windows.draft import parse_query
from shoal.query.windows.panes import FILTERS_MAX
from shoal.query.windows.plan import Windowed
from tests.property.spark_types import resolve_query
from tests.property.streams import READINGS

HOUR = "FROM readings [RANGE 1 HOUR]"


def windowed(text: str) -> Windowed:
    """The query of a text."""
    found = resolve_query(parse_query(text, READINGS))
    assert isinstance(found, Windowed)
    return found


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "SELECT avg(kwh) AS a FROM readings GROUP BY window(ts, '10 minutes', '1 minute')",
            "SELECT mean(KWH) AS a FROM readings [RANGE INTERVAL 10 MINUTES SLIDE 60 SECONDS]",
        ),
        (
            "SELECT zone AS z, name AS n FROM readings GROUP BY 2, z, window(ts, '1 hour')",
            f"SELECT zone AS z, name AS n {HOUR} GROUP BY name, zone",
        ),
        (
            f"SELECT count(*) AS n {HOUR} WHERE meter = 1 AND kwh > 2",
            f"SELECT count(5) AS n {HOUR} WHERE 2 < kwh AND NOT meter <> 1",
        ),
        (
            f"SELECT DISTINCT zone {HOUR}",
            f"SELECT zone {HOUR} GROUP BY zone",
        ),
        (
            "WITH a AS (SELECT kwh + 1 AS k, zone FROM readings WHERE flag) "
            "SELECT sum(k) AS s FROM a [RANGE 1 HOUR] WHERE zone = 1",
            f"SELECT sum(kwh + 1) AS s {HOUR} WHERE zone = 1 AND flag",
        ),
        (
            f"SELECT zone, m FROM (SELECT zone, max(kwh) AS m {HOUR} GROUP BY zone) WHERE m > 3",
            f"SELECT zone, max(kwh) AS m {HOUR} GROUP BY zone HAVING max(kwh) > 3",
        ),
        (
            "SELECT count(*) AS n FROM readings AS r [RANGE 1 HOUR]",
            "SELECT count(*) AS n FROM (SELECT ts FROM readings) [RANGE 1 HOUR] AS r",
        ),
    ],
)
def test_spellings_of_one_query_are_equal(one: str, other: str) -> None:
    assert windowed(one) == windowed(other)


@pytest.mark.parametrize(
    "changed",
    [
        "SELECT zone, sum(kwh) AS a FROM readings [RANGE 1 HOUR] WHERE meter > 1 GROUP BY zone",
        "SELECT zone, avg(total) AS a FROM readings [RANGE 1 HOUR] WHERE meter > 1 GROUP BY zone",
        "SELECT zone, avg(kwh) AS a FROM readings [RANGE 1 HOUR] WHERE total > 1 GROUP BY zone",
        "SELECT zone, avg(kwh) AS a FROM readings [RANGE 1 HOUR] "
        "WHERE flag AND meter > 1 GROUP BY zone",
        "SELECT 1 AS zone, avg(kwh) AS a FROM readings [RANGE 1 HOUR] WHERE meter > 1",
        "SELECT zone, avg(kwh) AS a FROM readings [RANGE 1 MINUTE] WHERE meter > 1 GROUP BY zone",
        "SELECT zone, avg(kwh) FILTER (WHERE flag) AS a FROM readings [RANGE 1 HOUR] "
        "WHERE meter > 1 GROUP BY zone",
        "SELECT zone, avg(kwh / 2) AS a FROM readings [RANGE 1 HOUR] WHERE meter > 1 GROUP BY zone",
    ],
)
def test_what_panes_hold_is_in_their_name(changed: str) -> None:
    text = "SELECT zone, avg(kwh) AS a FROM readings [RANGE 1 HOUR] WHERE meter > 1 GROUP BY zone"
    one, other = windowed(text), windowed(changed)
    assert one.roll_up.panes.name != other.roll_up.panes.name
    assert one.roll_up.name != other.roll_up.name


def test_constants_of_where_and_having_are_in_no_name() -> None:
    text = "SELECT zone, sum(kwh) AS s {} WHERE meter > {} AND meter % {} = 1 GROUP BY zone "
    text += "HAVING s > {}"
    one = windowed(text.format("FROM readings [RANGE 1 HOUR]", 1, 10, 5))
    other = windowed(text.format("FROM readings [RANGE 2 HOURS SLIDE 1 HOUR]", 7, 60, 9))
    assert one.roll_up == other.roll_up
    assert (one.shape.parameters, other.shape.parameters) == ((10, 1, 1), (60, 1, 7))
    assert (one.parameters, other.parameters) == ((5.0,), (9.0,))
    assert one.shape.number != other.shape.number


def test_other_operators_share_panes_and_no_roll_up() -> None:
    one = windowed(f"SELECT count(*) AS n {HOUR} WHERE kwh > 1")
    for other in (
        windowed(f"SELECT count(*) AS n {HOUR} WHERE kwh <= 1"),
        windowed(f"SELECT count(*) AS n {HOUR} WHERE kwh > 1 HAVING count(*) > 1"),
    ):
        assert one.roll_up.panes == other.roll_up.panes
        assert one.roll_up.instance != other.roll_up.instance


def test_the_shape_is_the_first_hole() -> None:
    # The text of a cast would stand before that of the shape.
    found = windowed(
        f"SELECT max(name) AS m {HOUR} HAVING max(name) = 5 AND CAST(max(name) AS INT) = 5"
    )
    assert found.roll_up.having.holes[0] == "BIGINT"
    assert found.roll_up.having.keys[0].expression == "s.`_shape`"
    assert found.roll_up.having.keys[0].hole == 0
    assert " AND (s.`_shape` = p.p0) AND " in found.roll_up.having.errors


def test_filters_are_bounded() -> None:
    where = " AND ".join(f"meter + {name} > 1" for name in ("zone", "tiny"))
    where += "".join(f" AND hash(meter, {', '.join(['zone'] * at)}) > 1" for at in range(1, 16))
    with pytest.raises(UserError, match=f"more than {FILTERS_MAX} columns"):
        windowed(f"SELECT count(*) AS n {HOUR} WHERE {where}")


def test_texts_are_bounded() -> None:
    deep = f"{'abs(' * 6}meter{')' * 6}"
    with pytest.raises(UserError, match="too large"):
        windowed(f"SELECT {', '.join(f'sum({deep} + {at}) AS s{at}' for at in range(40))} {HOUR}")
