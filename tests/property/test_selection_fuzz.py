"""Any text gives a selection or a UserError, nothing else.

Three kinds of text: pieces of SQL in any order, a good query with a few characters changed, and
anything at all. SHOAL_FUZZ=100000 runs longer.
"""

import os
from random import Random

import pytest

from shoal.kernel.errors import UserError
from shoal.query.draft import parse_selection
from shoal.query.selection import Selection
from tests.property.predicates import predicate, spell
from tests.property.spark_types import resolve
from tests.property.streams import READINGS

TEXTS = int(os.environ.get("SHOAL_FUZZ", "2000"))

_PIECES_TEXT = r"""
SELECT * FROM readings WHERE meter kwh name ts flag price `größe` readings . , ( ) [ ] { }
= <> < > <=> == ! != + - * / % || | & ^ ~ :: : ; ? @ $ # \ ' " ` -- /* */
1 -1 1.5 .5 5. 1e5 1e999 5L 300Y 5BD 5D 5F 0x1F X'0f' x'0' 'a' '' 'it''s' r'a\n' "b"
NULL TRUE FALSE NOT AND OR IN BETWEEN LIKE ILIKE RLIKE ESCAPE IS DISTINCT CASE WHEN THEN
ELSE END IF( CAST( TRY_CAST( AS INT) DOUBLE) DECIMAL(10,2)) STRING) TIMESTAMP_NTZ)
EXTRACT( YEAR FROM DATE TIMESTAMP INTERVAL 1 HOUR abs( round( upper( coalesce( sum( rand(
OVER PARTITION BY GROUP HAVING ORDER LIMIT UNION ALL JOIN ON WITH EXISTS ANY LATERAL VIEW
TABLESAMPLE PIVOT VALUES SET DROP TABLE explain describe -> => :x ?1 ${a} é 🐟
"""
_PIECES = tuple(_PIECES_TEXT.split())


def _pieces(rng: Random) -> str:
    start = "SELECT * FROM readings WHERE " if rng.random() < 0.7 else ""
    return start + " ".join(rng.choices(_PIECES, k=rng.randrange(0, 16)))


def _changed(rng: Random) -> str:
    text = list(f"SELECT meter, ts FROM readings WHERE {spell(rng, predicate(rng))}")
    for _ in range(rng.randrange(0, 4)):
        at = rng.randrange(len(text))
        action = rng.randrange(3)
        if action == 0:
            del text[at]
        elif action == 1:
            text.insert(at, rng.choice(_PIECES))
        else:
            text[at] = chr(rng.choice((rng.randrange(32, 127), rng.randrange(1, 0x11000))))
    return "".join(text)


def _anything(rng: Random) -> str:
    return "".join(chr(rng.randrange(0, 0x250)) for _ in range(rng.randrange(0, 60)))


@pytest.mark.slow
def test_any_text_gives_a_selection_or_a_user_error() -> None:
    rng = Random(2024)
    good = 0
    for _ in range(TEXTS):
        text = rng.choice((_pieces, _changed, _anything))(rng)
        try:
            draft = parse_selection(text, READINGS)
            assert draft.probe
            good += 1
            draft.resolve(["boolean"] * draft.probe.count("typeof("))
        except UserError:
            continue
    assert good > TEXTS // 50


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5_000 + "flag" + ")" * 5_000,
        "NOT " * 5_000 + "flag",
        "-" * 5_000 + "1 = meter",
        " AND ".join(["flag"] * 5_000),
        "meter" + " + 1" * 5_000 + " = 1",
        "abs(" * 30 + "meter" + ")" * 30 + " = 1",
        "(" * 20 + "flag" + " BETWEEN TRUE AND FALSE)" * 20,
        "CASE " * 20 + "meter" + " WHEN 1 THEN 2 WHEN 3 THEN 4 END" * 20 + " = 1",
        "meter IN (" + ", ".join(map(str, range(11_000))) + ")",
        "name RLIKE '" + "a*" * 100 + "'",
    ],
    ids=lambda text: text[:12],
)
def test_deep_and_long_texts_are_refused(text: str) -> None:
    with pytest.raises(UserError):
        _read(text)


def test_a_long_or_of_equalities_is_one_list() -> None:
    selection = _read(" OR ".join(f"meter = {number}" for number in range(250)))
    assert selection.signature.holes == ("ARRAY<INT>",)


def _read(predicate_text: str) -> Selection:
    text = f"SELECT * FROM readings WHERE {predicate_text}"
    return resolve(parse_selection(text, READINGS))
