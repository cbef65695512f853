"""Any text gives a query or a UserError in three parts, nothing else.

Three kinds of text: pieces of SQL in any order, a good query with a few characters or words
changed, and anything at all. SHOAL_FUZZ=100000 runs longer.
"""

import os
from random import Random

import pytest

from shoal.kernel.errors import UserError
from shoal.query.sql_select.flatten import stream_read
from shoal.query.windows.draft import QueryDraft, parse_query
from shoal.query.windows.plan import Projected, Windowed
from tests.property.spark_types import query_answers
from tests.property.streams import READINGS
from tests.property.windowed import query, spell

TEXTS = int(os.environ.get("SHOAL_FUZZ", "1500"))

_PIECES_TEXT = r"""
SELECT * FROM readings WHERE meter kwh zone name ts flag price `größe` readings . , ( ) [ ]
= <> < > <=> + - * / % || : ; ? $ # \ ' " ` -- /* */ [RANGE 1 HOUR] [RANGE SLIDE [RANGE 10 MINUTES
SLIDE 1 MINUTE] INTERVAL MONTH GROUP BY GROUP BY 1 2 HAVING DISTINCT AS a AS b WITH a AS ( ) AS t
window(ts, '1 hour') window(ts, '10 minutes', '1 minute') window window.start window_end window(
avg( sum( count( count(*) count(1) max( min_by( approx_percentile( , 0.5) ) FILTER (WHERE ) OVER ()
1 -1 1.5 1e999 5L 'a' '${x}' NULL TRUE NOT AND OR IN ( BETWEEN LIKE IS CASE WHEN THEN ELSE END
CAST( AS INT) DATE '2024-02-29' TIMESTAMP INTERVAL ORDER BY LIMIT UNION ALL JOIN ON EXISTS
ROLLUP( CUBE( GROUPING SETS ALL LATERAL VIEW TABLESAMPLE (1 ROWS) VALUES DROP TABLE é 🐟 abs( upper(
"""
_PIECES = tuple(_PIECES_TEXT.split())


def _pieces(rng: Random) -> str:
    start = "SELECT count(*) FROM readings [RANGE 1 HOUR] " if rng.random() < 0.5 else "SELECT "
    return start + " ".join(rng.choices(_PIECES, k=rng.randrange(0, 16)))


def _changed(rng: Random) -> str:
    text = list(spell(rng, query(rng)))
    for _ in range(rng.randrange(0, 3)):
        at = rng.randrange(len(text))
        action = rng.randrange(4)
        if action == 0:
            del text[at]
        elif action == 1:
            text.insert(at, f" {rng.choice(_PIECES)} ")
        elif action == 2:
            text[at] = chr(rng.choice((rng.randrange(32, 127), rng.randrange(1, 0x11000))))
        else:
            del text[at : at + rng.randrange(1, 12)]
        text = text or ["x"]
    return "".join(text)


def _reordered(rng: Random) -> str:
    words = spell(rng, query(rng)).split()
    first, second = rng.randrange(len(words)), rng.randrange(len(words))
    words[first], words[second] = words[second], words[first]
    return " ".join(words)


def _anything(rng: Random) -> str:
    return "".join(chr(rng.randrange(0, 0x250)) for _ in range(rng.randrange(0, 60)))


def _types(draft: QueryDraft) -> list[str]:
    """The stand-in's answers; it knows no more than the tests use, and Spark refuses the rest."""
    try:
        return query_answers(draft)
    except (AssertionError, KeyError, IndexError):
        raise draft.refusal("the stand-in knows no type") from None


def _read(text: str) -> Windowed | Projected | UserError:
    try:
        draft = parse_query(text, READINGS)
        found = draft.resolve(_types(draft))
    except UserError as error:
        return error
    assert stream_read(text) == "readings"
    return found


@pytest.mark.slow
def test_any_text_gives_a_query_or_a_user_error() -> None:
    rng = Random(2025)
    good = 0
    for _ in range(TEXTS):
        text = rng.choice((_pieces, _changed, _changed, _reordered, _anything))(rng)
        found = _read(text)
        if isinstance(found, UserError):
            assert found.what, text
            assert found.hint, (text, found.what)
        else:
            good += 1
    assert good > TEXTS // 10


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM " + "(SELECT * FROM " * 300 + "readings" + ")" * 300,
        "SELECT " + "(" * 5_000 + "flag" + ")" * 5_000 + " AS x FROM readings",
        "SELECT " + "abs(" * 45 + "meter" + ")" * 45 + " AS x FROM readings",
        "SELECT " + ", ".join(f"meter + {at} AS c{at}" for at in range(1_100)) + " FROM readings",
        "SELECT " + "sum(" * 500 + "kwh" + ")" * 500 + " FROM readings [RANGE 1 HOUR]",
        "WITH "
        + ", ".join(f"a{at} AS (SELECT * FROM a{at - 1})" for at in range(1, 99))
        + " SELECT * FROM a98",
        "SELECT count(*) FROM readings " + "[RANGE 1 HOUR" * 1_000,
        "SELECT count(*) FROM readings " + "[RANGE 1 HOUR] " * 1_000,
        "SELECT count(*) FROM readings [RANGE " + "1 HOUR " * 5_000 + "]",
        "SELECT count(*) FROM readings [RANGE " + "9" * 5_000 + " HOURS]",
        "SELECT 1 AS x FROM readings GROUP BY " + ", ".join(["zone"] * 20_000),
    ],
    ids=lambda text: text[:30],
)
def test_deep_and_long_texts_are_refused(text: str) -> None:
    with pytest.raises(UserError) as raised:
        parse_query(text, READINGS)
    assert raised.value.hint
