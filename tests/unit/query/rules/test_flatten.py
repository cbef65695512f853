"""What `flatten` rewrites, and what it leaves alone."""

import pytest

from shoal.query.rules import flatten
from tests.property.canonical_text import rewritten


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("flag AND (meter = 1 AND flag)", "(`flag` AND (`meter` = ?INT))"),
        ("flag OR (meter = 1 OR zone = 2)", "(`flag` OR (`meter` = ?INT) OR (`zone` = ?INT))"),
        ("meter = 1 AND meter = 2", "((`meter` = ?INT) AND (`meter` = ?INT))"),
        ("flag OR flag", "`flag`"),
        ("flag AND (meter = 1 OR flag)", "(`flag` AND ((`meter` = ?INT) OR `flag`))"),
    ],
)
def test_rewrite(before: str, after: str) -> None:
    assert rewritten(before, flatten) == after
