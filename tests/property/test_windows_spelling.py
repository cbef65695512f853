"""All spellings of a windowed query are one; another meaning is another query.

What Spark makes of the texts is judged in tests/spark/test_query_windows.py.
"""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.query.windows.draft import parse_query
from shoal.query.windows.plan import Output, Windowed
from tests.property.spark_types import resolve_query
from tests.property.streams import READINGS
from tests.property.windowed import mutate, query, spell

pytestmark = pytest.mark.slow

SEEDS = st.integers(min_value=0, max_value=1_000_000)


def _windowed(text: str) -> Windowed:
    found = resolve_query(parse_query(text, READINGS))
    assert isinstance(found, Windowed)
    return found


def _said(found: Windowed) -> tuple[object, ...]:
    """All that a query is, but for the order of its columns."""
    outputs: dict[str, Output] = {out.name: out for out in found.outputs}
    return found.roll_up, found.shape, repr(found.parameters), outputs


@settings(max_examples=200)
@given(SEEDS)
def test_all_spellings_are_one_query(seed: int) -> None:
    rng = Random(seed)
    node = query(rng)
    one, other = spell(rng, node), spell(rng, node)
    left, right = _windowed(one), _windowed(other)
    assert left.roll_up.panes.name == right.roll_up.panes.name, (one, other)
    assert left.roll_up.name == right.roll_up.name, (one, other)
    assert _said(left) == _said(right), (one, other)


@settings(max_examples=150)
@given(SEEDS)
def test_another_meaning_is_another_query(seed: int) -> None:
    rng = Random(seed)
    node = query(rng)
    one, other = spell(rng, node), spell(rng, mutate(rng, node))
    assert _said(_windowed(one)) != _said(_windowed(other)), (one, other)


@settings(max_examples=100)
@given(SEEDS)
def test_constants_of_conditions_are_in_no_name(seed: int) -> None:
    """Other constants in HAVING and other windows of one pane change neither panes nor roll-up."""
    rng = Random(seed)
    length = rng.randrange(2, 60)
    having = f"HAVING sum(kwh) {rng.choice(('<', '>', '='))} {{}} AND count(*) > {{}}"
    text = "SELECT sum(kwh) AS s FROM readings [RANGE {} SECONDS] WHERE meter IN ({}) " + having
    one = _windowed(text.format(60 * length, rng.randrange(9), rng.randrange(9), rng.randrange(9)))
    values = (rng.randrange(99), rng.randrange(999), rng.randrange(9999))
    other = _windowed(text.format(60 * (2 * length + 1), *values))
    if one.shape.window.pane == other.shape.window.pane:
        assert one.roll_up == other.roll_up
    assert one.roll_up.where == other.roll_up.where
    assert one.shape != other.shape
