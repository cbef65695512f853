"""Instants and durations: whole microseconds, UTC."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.kernel.errors import UserError
from shoal.kernel.time import DAY, HOUR, format_instant, parse_duration, parse_instant

_FIRST, _LAST = parse_instant("0001-01-01"), parse_instant("9999-12-31T23:59:59.999999")


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("10 seconds", 10_000_000),
        ("1 minute 30 seconds", 90_000_000),
        ("1.5 hours", 3 * HOUR // 2),
        ("0 seconds", 0),
        ("7 days", 7 * DAY),
        ("250 milliseconds", 250_000),
        ("3 microseconds", 3),
        ("1MINUTE", 60_000_000),
    ],
)
def test_durations(text: str, micros: int) -> None:
    """Parts add up; units are written in any case, one or many."""
    assert parse_duration(text) == micros


@pytest.mark.parametrize("text", ["36526 days", "9" * 400 + " days", "30000 days " * 2])
def test_durations_that_are_too_long(text: str) -> None:
    """They would not fit beside instants."""
    with pytest.raises(UserError):
        parse_duration(text)


@pytest.mark.parametrize("text", ["", "  ", "ten seconds", "10", "10 parsecs", "5 s", "-1 second"])
def test_durations_that_cannot_be_read(text: str) -> None:
    """Refused with a hint."""
    with pytest.raises(UserError):
        parse_duration(text)


@given(st.integers(_FIRST, _LAST))
def test_instants_go_to_text_and_back(instant: int) -> None:
    """Every instant that has a text has one text."""
    assert parse_instant(format_instant(instant)) == instant


def test_offsets() -> None:
    """Without one a text is UTC."""
    assert parse_instant("1970-01-01 00:00:01") == 1_000_000
    assert parse_instant("1970-01-01T02:00:01+02:00") == 1_000_000
    assert parse_instant("1969-12-31T23:59:59.999999Z") == -1


@pytest.mark.parametrize("text", ["", "yesterday", "2024-13-01", "2024-02-30", "12:00"])
def test_instants_that_cannot_be_read(text: str) -> None:
    """Refused with a hint."""
    with pytest.raises(UserError, match="cannot be read"):
        parse_instant(text)
