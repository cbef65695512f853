"""The canonical form as a whole: settled after one pass over it, and known by its version."""

from random import Random

import pytest

from shoal.query.canonical import VERSION, conjuncts, normalise
from tests.property.canonical_text import canonical, read
from tests.property.predicates import predicate, spell


def test_no_predicate_no_conjuncts() -> None:
    assert conjuncts(None) == ()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("NOT (meter = 1 OR meter = 2)", "meter NOT IN (2, 1)"),
        ("NOT (kwh BETWEEN 1 AND 2)", "1 > kwh OR kwh > 2"),
        ("(zone = 1 OR flag) OR zone = 2", "flag OR zone IN (2, 1)"),
    ],
)
def test_rules_together(one: str, other: str) -> None:
    assert canonical(one) == canonical(other)


def test_a_canonical_form_is_its_own() -> None:
    rng = Random(1)
    for _ in range(200):
        form = normalise(read(spell(rng, predicate(rng))))
        assert normalise(form) == form


def test_a_change_of_rules_changes_the_version() -> None:
    """Golden files show the forms; whoever changes them raises this number too."""
    assert VERSION == 1
