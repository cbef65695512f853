"""All spellings of one meaning have one signature; no other meaning has it.

DuckDB is the judge of meaning: it reads the same predicates over rows with NULL, NaN, extremes.
"""

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.query.draft import parse_selection
from shoal.query.selection import Selection
from tests.property.predicates import Predicate, mutate, predicate, spell
from tests.property.spark_types import resolve
from tests.property.streams import READINGS

if TYPE_CHECKING:
    # As text: a type of DuckDB's in the annotations of a test outlives the interpreter's end,
    # where its library prints pages about it after pytest's last line.
    from duckdb import DuckDBPyConnection as Judge

_INTS = ("NULL", "-3", "-1", "0", "1", "2", "3", "2147483647", "-2147483648")
_ROWS = 400


@pytest.fixture(scope="module")
def rows() -> "Iterator[Judge]":
    """Rows of the columns that random predicates read."""
    rng = Random(5)
    connection = duckdb.connect(config={"threads": 1})
    connection.execute(
        "CREATE TABLE readings (id INT, meter INT, zone INT, kwh DOUBLE, total BIGINT, "
        "tiny TINYINT, name VARCHAR, flag BOOLEAN)"
    )
    kwhs = ("NULL", "'NaN'", "'Infinity'", "'-Infinity'", "0.0", "-0.0", "0.5", "1.25", "1", "1e3")
    names = ("NULL", "''", "'a'", "'b'", "'ab'", "'é'", "'it''s'")
    for at in range(_ROWS):
        values = (
            str(at),
            rng.choice(_INTS),
            rng.choice(_INTS[:7]),
            rng.choice(kwhs),
            rng.choice((*_INTS, "9223372036854775807")),
            rng.choice((*_INTS[:7], "127", "-128")),
            rng.choice(names),
            rng.choice(("NULL", "TRUE", "FALSE")),
        )
        connection.execute(f"INSERT INTO readings VALUES ({', '.join(values)})")
    yield connection
    connection.close()


def _select(text: str) -> Selection:
    return resolve(parse_selection(f"SELECT * FROM readings WHERE {text}", READINGS))


def _answer(rows: "Judge", text: str) -> list[tuple[object, ...]]:
    return rows.execute(f"SELECT id FROM readings WHERE {text} ORDER BY id").fetchall()


def _same(left: Selection, right: Selection) -> bool:
    same = left.signature == right.signature
    return same and repr(left.parameters) == repr(right.parameters)


@pytest.mark.slow
@settings(max_examples=400)
@given(st.integers(min_value=0, max_value=1_000_000))
def test_all_spellings_have_one_signature(rows: "Judge", seed: int) -> None:
    rng = Random(seed)
    node = predicate(rng)
    one, other = spell(rng, node), spell(rng, node)
    left, right = _select(one), _select(other)
    assert left.signature.name == right.signature.name, (one, other)
    assert _same(left, right), (one, other)
    assert _answer(rows, one) == _answer(rows, other), (one, other)


@pytest.mark.slow
@settings(max_examples=400)
@given(st.integers(min_value=0, max_value=1_000_000))
def test_another_meaning_has_another_signature_or_other_parameters(
    rows: "Judge", seed: int
) -> None:
    rng = Random(seed)
    node: Predicate = predicate(rng, depth=2)
    changed = mutate(rng, node)
    one, other = spell(rng, node), spell(rng, changed)
    if _same(_select(one), _select(other)):
        assert _answer(rows, one) == _answer(rows, other), (one, other)


@pytest.mark.slow
@settings(max_examples=200)
@given(st.integers(min_value=0, max_value=1_000_000))
def test_constants_are_in_no_part_of_a_signature(seed: int) -> None:
    """The same shape with other constants has the same signature."""
    rng = Random(seed)
    node = predicate(rng)
    shifted = _shift(node)
    assert _shape(_select(spell(Random(1), node))) == _shape(_select(spell(Random(1), shifted)))


def _shift(node: Predicate) -> Predicate:
    """Every whole constant a hundred higher: digits change, types do not."""
    return tuple(_shift(part) if isinstance(part, tuple) else _shifted(part) for part in node)


def _shifted(part: str) -> str:
    return str(int(part) + 100) if part.lstrip("-").isdigit() else part


def _shape(selection: Selection) -> str:
    """The name up to the order of conjuncts of equal text, which constants may decide."""
    return selection.signature.name
