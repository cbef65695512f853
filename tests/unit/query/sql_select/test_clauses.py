"""Clauses and sources that no query can have, and what is told instead."""

import pytest

from shoal.kernel.errors import UserError
from shoal.query.sql_select.flatten import read_query
from tests.property.streams import READINGS

FROM = "FROM readings [RANGE 1 HOUR]"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (f"SELECT count(*) {FROM} ORDER BY 1", "ORDER BY cannot be used"),
        (f"SELECT count(*) {FROM} LIMIT 5", "HAVING or WHERE keep the rows"),
        ("SELECT meter FROM readings JOIN zones ON TRUE", "a join cannot be used"),
        ("SELECT meter FROM readings LATERAL VIEW explode(x) AS y", "LATERAL VIEW cannot be used"),
        ("SELECT meter FROM readings QUALIFY TRUE", "QUALIFY cannot be used"),
        (f"SELECT zone {FROM} GROUP BY zone WITH ROLLUP", "ROLLUP cannot be used"),
        (f"SELECT zone {FROM} GROUP BY CUBE(zone)", "CUBE cannot be used"),
        (f"SELECT zone {FROM} GROUP BY ALL", "GROUP BY ALL cannot be used"),
        ("SELECT DISTINCT ON (zone) meter FROM readings", "max_by(x, ts)"),
        ("SELECT meter FROM parquet.`/etc/passwd`", "one stream by its name"),
        ("SELECT meter FROM (VALUES (1)) AS t", "one stream by its name"),
        ("SELECT meter FROM range(5)", "one stream by its name"),
        ("SELECT meter FROM readings AS r(a, b)", "one stream by its name"),
        ("SELECT 1 AS x", "reads no stream"),
        ("SELECT", "reads no stream"),
    ],
)
def test_refused(text: str, part: str) -> None:
    with pytest.raises(UserError) as raised:
        read_query(text, READINGS, ())
    assert part in str(raised.value)
    assert raised.value.hint
    assert raised.value.line == 1
