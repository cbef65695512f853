"""What `membership` rewrites, and what it leaves alone."""

import pytest

from shoal.query.rules import membership
from tests.property.canonical_text import rewritten


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("meter IN (7)", "(`meter` = ?INT)"),
        ("meter IN (7, 7)", "(`meter` = ?INT)"),
        ("meter = 1 OR meter = 2", "in(`meter`, ?INT, ?INT)"),
        ("meter = 1 OR meter = 2.5", "((`meter` = ?INT) OR (`meter` = ?DECIMAL(2,1)))"),
        ("meter = 1 AND meter = 2", "((`meter` = ?INT) AND (`meter` = ?INT))"),
        ("meter <> 1 AND meter NOT IN (2, 3)", "not(in(`meter`, ?INT, ?INT, ?INT))"),
        ("meter <> 1 AND NOT meter IN (1)", "(`meter` <> ?INT)"),
        ("meter <> 1 OR meter <> 2", "((`meter` <> ?INT) OR (`meter` <> ?INT))"),
        ("meter = 1 OR zone = 2", "((`meter` = ?INT) OR (`zone` = ?INT))"),
        ("meter = zone OR meter = 2", "((`meter` = `zone`) OR (`meter` = ?INT))"),
    ],
)
def test_rewrite(before: str, after: str) -> None:
    assert rewritten(before, membership) == after
