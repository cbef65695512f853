"""Keys and aggregates in their order, and what stands in their place."""

import pytest

from shoal.kernel.errors import UserError
from shoal.query.sql_select.flatten import read_query
from shoal.query.terms.tree import show
from shoal.query.windows.grouping import CALLS_MAX, KEYS_MAX, Grouped, check_grouped, cut
from tests.property.streams import READINGS


def grouped(text: str) -> Grouped:
    """The halves of a query over windows of an hour."""
    return cut(read_query(text, READINGS, ()), text)


def test_numbers_follow_the_text_and_not_the_order() -> None:
    one = grouped(
        "SELECT max(zone) AS m, avg(kwh) AS a FROM readings [RANGE 1 HOUR] GROUP BY 1 + 1"
    )
    assert [call.function for call in one.calls] == ["avg", "max"]
    assert [show(item.term) for item in one.items] == ["`a1`", "`a0`"]


def test_what_is_said_twice_is_one() -> None:
    found = grouped(
        "SELECT zone, sum(kwh) AS a, sum(KWH) AS b FROM readings [RANGE 1 HOUR] "
        "GROUP BY zone, ZONE HAVING sum(kwh) > 1"
    )
    assert (len(found.keys), len(found.calls)) == (1, 1)
    assert [show(part) for part in found.having] == ["(`a0` > ?INT)"]


def test_a_column_named_like_a_stand_in_is_not_taken_for_one() -> None:
    text = "SELECT k0, k1 FROM t [RANGE 1 HOUR] GROUP BY k0, k1"
    stream = READINGS.from_json(
        READINGS.to_json()
        | {
            "name": "t",
            "columns": [
                {"name": "ts", "type": "TIMESTAMP"},
                {"name": "k1", "type": "INT"},
                {"name": "k0", "type": "INT"},
            ],
        }
    )
    swapped = text.replace("k0, k1 FROM", "k1 AS a, k0 AS b FROM")
    for written, shown in ((text, ["`k0`", "`k1`"]), (swapped, ["`k1`", "`k0`"])):
        found = cut(read_query(written, stream, ()), written)
        assert [show(key) for key in found.keys] == ["`k0`", "`k1`"]
        assert [show(item.term) for item in found.items] == shown


def test_conditions_on_aggregates_are_canonical() -> None:
    head = "SELECT count(*) AS n FROM readings [RANGE 1 HOUR] HAVING "
    one = grouped(head + "count(*) > 1 OR avg(kwh) > 2")
    other = grouped(head + "2 < avg(kwh) OR NOT (count(*) <= 1)")
    assert one.having == other.having
    # What casts text can throw, and then the order is part of the meaning.
    texts = ("max(name) = 1 OR avg(kwh) > 2", "avg(kwh) > 2 OR max(name) = 1")
    assert grouped(head + texts[0]).having != grouped(head + texts[1]).having


def test_bounds() -> None:
    keys = ", ".join(f"meter % {at + 2}" for at in range(KEYS_MAX + 1))
    with pytest.raises(UserError, match=f"at most {KEYS_MAX} keys"):
        grouped(f"SELECT count(*) FROM readings [RANGE 1 HOUR] GROUP BY {keys}")
    calls = ", ".join(f"sum(kwh + {at}) AS c{at}" for at in range(CALLS_MAX + 1))
    with pytest.raises(UserError, match=f"at most {CALLS_MAX} aggregates"):
        grouped(f"SELECT {calls} FROM readings [RANGE 1 HOUR]")


def test_a_loose_column_is_refused_where_it_stands() -> None:
    text = "SELECT zone, count(*) FROM readings [RANGE 1 HOUR] GROUP BY zone"
    flat = read_query(text, READINGS, ())
    assert flat.grouping is not None
    loose = read_query("SELECT\n meter + 1 AS m FROM readings", READINGS, ()).items[0].term
    with pytest.raises(UserError, match="'meter' is neither grouped") as raised:
        check_grouped(loose, flat.grouping, "SELECT\n meter")
    assert (raised.value.line, raised.value.column) == (2, 2)
