"""Statements: what is read, and what is refused where."""

import pytest

from shoal.kernel.errors import UserError
from shoal.query.sql import parse, stream_of
from tests.property.streams import READINGS


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM readings",
        "select * from READINGS;",
        "SELECT * FROM readings AS r WHERE r.meter = 1",
        "SELECT `größe`, meter FROM readings -- a comment",
        "SELECT /* why */ meter FROM readings",
    ],
)
def test_read(text: str) -> None:
    assert parse(text, READINGS, ()).columns
    assert stream_of(text) == "readings"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "begin with"),
        ("DROP TABLE x", "begin with 'DROP'"),
        ("SELECT 1", "no stream"),
        ("SELECT * FROM other", "is not readings"),
        ("SELECT * FROM readings; SELECT 1", "several statements"),
        ("SELECT * FROM readings UNION ALL SELECT * FROM readings", "UNION"),
        ("SELECT * FROM readings, readings", "a join"),
        ("SELECT * FROM readings GROUP BY meter", "GROUP BY"),
        ("SELECT DISTINCT meter FROM readings", "DISTINCT"),
        ("SELECT meter + 1 FROM readings", "cannot be selected (line 1, column 8)"),
        ("SELECT meter AS m FROM readings", "cannot be selected"),
        ("SELECT meter, METER FROM readings", "selected twice (line 1, column 15)"),
        ("SELECT *\nFROM readings\nWHERE  mettr = 1", "(line 3, column 8)"),
        ("SELECT * FROM parquet.`/etc/passwd`", "by its name"),
        ("SELECT * FROM readings TABLESAMPLE (5 ROWS)", "by its name"),
        ("SELECT * FROM readings WHERE 'abc", "cannot be read"),
        ("SELECT * FROM readings WHERE name = '\ud800'", "Unicode"),
        ("SELECT * FROM readings WHERE " + "x" * 70_000, "characters"),
    ],
)
def test_refused(text: str, part: str) -> None:
    with pytest.raises(UserError) as raised:
        parse(text, READINGS, ())
    assert part in str(raised.value)
