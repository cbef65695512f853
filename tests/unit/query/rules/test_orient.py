"""What `orient` rewrites, and what it leaves alone."""

import pytest

from shoal.query.rules import orient
from tests.property.canonical_text import rewritten


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("1 < meter", "(`meter` > ?INT)"),
        ("zone >= meter", "(`meter` <= `zone`)"),
        ("zone > zone", "(`zone` < `zone`)"),
        ("1 / zone < meter", "((?INT / `zone`) < `meter`)"),
        ("1 = 2", "(?INT = ?INT)"),
        ("NULL <=> meter", "(`meter` <=> ?VOID)"),
    ],
)
def test_rewrite(before: str, after: str) -> None:
    assert rewritten(before, orient) == after
