"""What `push_not` rewrites, and what it leaves alone."""

import pytest

from shoal.query.rules import push_not
from tests.property.canonical_text import rewritten


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("NOT meter < 1", "(`meter` >= ?INT)"),
        ("NOT NOT flag", "`flag`"),
        ("NOT (flag AND meter = 1)", "(not(`flag`) OR (`meter` <> ?INT))"),
        ("NOT (flag OR NOT flag)", "(not(`flag`) AND `flag`)"),
        ("NOT meter <=> 1", "not((`meter` <=> ?INT))"),
        ("NOT meter IS NULL", "not(is_null(`meter`))"),
        ("NOT meter IN (1, 2)", "not(in(`meter`, ?INT, ?INT))"),
    ],
)
def test_rewrite(before: str, after: str) -> None:
    assert rewritten(before, push_not) == after
