"""Patterns that could throw in Spark, or take forever, are refused."""

import re

import pytest

from shoal.kernel.errors import UserError
from shoal.query.terms.patterns import check_like, check_regex


@pytest.mark.parametrize("pattern", ["", "a%", "_", r"\%", r"\\", "100/%"])
def test_like(pattern: str) -> None:
    check_like(pattern, "\\")


@pytest.mark.parametrize("pattern", ["a\\", r"\a", r"a\b%"])
def test_refused_like(pattern: str) -> None:
    with pytest.raises(UserError):
        check_like(pattern, "\\")


@pytest.mark.parametrize(
    "pattern", ["^[a-z]+$", r"\d{1,3}\.\w*", "(ab|cd)x?", "(?:a|b)", "[^abc]", ".", "é+"]
)
def test_regex(pattern: str) -> None:
    check_regex(pattern)
    assert re.compile(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+",
        "(a|b)*",
        "a*b*c*d*e*",
        "a**",
        "a{1000}",
        "a{5,2}",
        "(",
        ")",
        "[",
        "[[:alpha:]&&[a]]",
        r"\1",
        r"\p{L}",
        "(?=a)",
        "(?i)a",
        "+",
        "a" * 2_000,
        "[z-a]",
    ],
)
def test_refused_regex(pattern: str) -> None:
    with pytest.raises(UserError):
        check_regex(pattern)
