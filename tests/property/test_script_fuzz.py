"""Any text gives statements or a UserError with what, hint and a place in the text; nothing else.

Three kinds of text: pieces of SQL in any order, good scripts with a few characters or words
changed, and anything at all. SHOAL_FUZZ=100000 runs longer.
"""

import os
from random import Random

import pytest

from shoal.kernel.errors import UserError
from shoal.query.sql_script import parse_script

TEXTS = int(os.environ.get("SHOAL_FUZZ", "2000"))

_GOOD = (
    "CREATE STREAM readings (ts TIMESTAMP, meter INT, `größe` DECIMAL(10, 2)) TIMESTAMP BY ts "
    "LATENESS INTERVAL 10 SECONDS STORE NONE IDLE ADVANCES RETAIN INTERVAL '7' DAY "
    "FROM files(path => 'in/', format => 'json', files_per_step => 5)",
    "CREATE STREAM made (a STRING) FROM rate(rows_per_second => 10)",
    "CREATE STREAM hot AS SELECT ts FROM readings WHERE meter = 7",
    "CREATE QUERY hot WITHIN INTERVAL '2 seconds' LOSS AT MOST 5 PERCENT WEIGHT 2.5 "
    "FROM '2026-03-01 12:00:00' INTO jsonl(path => '/x', identity => FALSE) "
    "AS SELECT ts, meter FROM readings WHERE kwh > 3.5 AND name IN ('a;b', \"c\")",
    "ALTER QUERY hot SET WEIGHT 2 LOSS AT MOST 1 PERCENT AS SELECT * FROM readings -- all",
    "DROP QUERY hot NOW",
    "DROP STREAM readings",
    "SHOW STREAMS",
    "SHOW QUERIES",
    "DESCRIBE QUERY hot",
    "EXPLAIN SELECT * FROM readings /* why */ WHERE meter = 7",
    "SELECT ts FROM readings WHERE meter BETWEEN 1 AND 2",
)
_PIECES_TEXT = r"""
CREATE ALTER DROP SHOW DESCRIBE EXPLAIN SELECT STREAM QUERY STREAMS QUERIES SET NOW AS FROM INTO
TIMESTAMP BY LATENESS INTERVAL SECONDS DAY STORE NONE IDLE ADVANCES RETAIN WITHIN LOSS AT MOST
PERCENT WEIGHT files( rate( push() console( path => format => => = , ( ) ; ; ; * . readings hot ts
INT DECIMAL( TIMESTAMP, `a b` ` ' '' 'json' '10 seconds' '2026-03-01' "x" r'a\' x'0' X'0f' 5 10 -1
.5 5. 1e5 1e 1e999 5L 99999999999999999999999999 TRUE NULL -- /* */ /*+ \ { } {{ }} {% %} $$ @ #
: ::
GROUP BY ORDER BY WITH VALUES BEGIN END IF NOT EXISTS UNION ALL é 🐟
"""
_PIECES = tuple(_PIECES_TEXT.split())


def _pieces(rng: Random) -> str:
    glue = rng.choice((" ", " ", "\n", ""))
    return glue.join(rng.choices(_PIECES, k=rng.randrange(0, 24)))


def _script(rng: Random) -> str:
    return rng.choice((";", " ;\n", ";;")).join(rng.choices(_GOOD, k=rng.randrange(1, 4)))


def _changed(rng: Random) -> str:
    text = list(_script(rng))
    for _ in range(rng.randrange(0, 4)):
        at = rng.randrange(len(text))
        action = rng.randrange(3)
        if action == 0:
            del text[at]
        elif action == 1:
            text.insert(at, rng.choice(_PIECES))
        else:
            text[at] = chr(rng.choice((rng.randrange(32, 127), rng.randrange(0, 0x11000))))
    return "".join(text)


def _shuffled(rng: Random) -> str:
    """Words of good statements left out, doubled and exchanged."""
    words = _script(rng).split(" ")
    for _ in range(rng.randrange(1, 4)):
        at, other = rng.randrange(len(words)), rng.randrange(len(words))
        action = rng.randrange(3)
        if action == 0 and len(words) > 1:
            del words[at]
        elif action == 1:
            words.insert(at, words[other])
        else:
            words[at], words[other] = words[other], words[at]
    return " ".join(words)


def _anything(rng: Random) -> str:
    return "".join(chr(rng.randrange(0, 0x250)) for _ in range(rng.randrange(0, 60)))


def _read(text: str) -> int:
    """How many statements a text has; none if it is refused as it should be."""
    try:
        return len(parse_script(text))
    except UserError as error:
        told = error
    lines = text.split("\n")
    assert told.what, text
    assert told.hint, (text, told)
    assert told.line is not None, (text, told)
    assert 1 <= told.line <= len(lines), (text, told)
    assert 1 <= (told.column or 0) <= max(map(len, lines)) + 1, (text, told)
    return 0


@pytest.mark.slow
def test_any_text_gives_statements_or_a_user_error() -> None:
    rng = Random(2026)
    kinds = (_pieces, _changed, _shuffled, _anything)
    good = sum(_read(rng.choice(kinds)(rng)) > 0 for _ in range(TEXTS))
    assert TEXTS // 20 < good < TEXTS // 2


def test_good_scripts_stay_good() -> None:
    rng = Random(7)
    for _ in range(20):
        assert _read(_script(rng))


@pytest.mark.parametrize("text", _GOOD, ids=lambda text: text[:20])
def test_every_beginning_of_a_statement_is_told_where_it_ends(text: str) -> None:
    """Cut off anywhere: a shorter statement, or an error."""
    for end in range(len(text)):
        _read(text[:end])
