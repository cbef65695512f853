"""What `order` rewrites, and what it leaves alone."""

import pytest

from shoal.query.rules import order
from tests.property.canonical_text import rewritten


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("zone = 1 OR meter = 2", "((`meter` = ?INT) OR (`zone` = ?INT))"),
        ("zone <> 0 AND 1 / zone > 2", "((`zone` <> ?INT) AND ((?INT / `zone`) > ?INT))"),
        ("zone = 1 OR name = 2", "((`zone` = ?INT) OR (`name` = ?INT))"),
        (
            "flag IS TRUE OR meter IS NULL",
            "(is_null(`meter`) OR is_true(`flag`))",
        ),
    ],
)
def test_rewrite(before: str, after: str) -> None:
    assert rewritten(before, order) == after
