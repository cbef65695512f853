"""What `between` rewrites, and what it leaves alone."""

import pytest

from shoal.query.rules import between
from tests.property.canonical_text import rewritten


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("meter BETWEEN 1 AND 2", "((`meter` >= ?INT) AND (`meter` <= ?INT))"),
        ("meter NOT BETWEEN 1 AND 2", "not(((`meter` >= ?INT) AND (`meter` <= ?INT)))"),
        ("meter >= 1", "(`meter` >= ?INT)"),
    ],
)
def test_rewrite(before: str, after: str) -> None:
    assert rewritten(before, between) == after
