"""Texts of windows: what they mean, and what is none."""

import pytest

from shoal.kernel.errors import UserError
from shoal.kernel.time import DAY, HOUR, MINUTE, SECOND
from shoal.query.sql_select.durations import window_of
from shoal.query.windows.shape import Window


@pytest.mark.parametrize(
    ("texts", "window"),
    [
        (("10 minutes",), Window(length=10 * MINUTE, slide=10 * MINUTE, offset=0)),
        (("1 hour", "1 minute"), Window(length=HOUR, slide=MINUTE, offset=0)),
        (("1 hour", "60 MINUTES"), Window(length=HOUR, slide=HOUR, offset=0)),
        (("interval 1 day", "1 hour"), Window(length=DAY, slide=HOUR, offset=0)),
        (("1 hour 30 minutes",), Window(length=90 * MINUTE, slide=90 * MINUTE, offset=0)),
        (
            ("10 minutes", "1 minute", "5 seconds"),
            Window(length=10 * MINUTE, slide=MINUTE, offset=5 * SECOND),
        ),
        (("1 minute", "1 minute", "0 seconds"), Window(length=MINUTE, slide=MINUTE, offset=0)),
        (("1 microsecond",), Window(length=1, slide=1, offset=0)),
    ],
)
def test_read(texts: tuple[str, ...], window: Window) -> None:
    assert window_of(*texts) == window


@pytest.mark.parametrize(
    ("texts", "part"),
    [
        (("",), "cannot be read"),
        (("soon",), "cannot be read"),
        (("10",), "cannot be read"),
        (("0 minutes",), "no time at all"),
        (("0.0000001 seconds",), "no time at all"),
        (("-5 minutes",), "negative"),
        (("1 month",), "no fixed length"),
        (("2 Years",), "no fixed length"),
        (("1 week",), "a week is 7"),
        (("401 days",), "too long"),
        (("9" * 200 + " days",), "too long a text"),
        (("1 minute", "2 minutes"), "SLIDE is longer"),
        (("1 minute", "0 seconds"), "SLIDE '0 seconds' is no time"),
        (("1 minute", "1 minute", "1 minute"), "start of windows"),
        (("1 minute", "1 minute", "-1 seconds"), "start '-1 seconds' is negative"),
        (("100 days", "1 millisecond"), "too finely"),
        (("1 hour", "7 microseconds"), "too finely"),
    ],
)
def test_refused(texts: tuple[str, ...], part: str) -> None:
    with pytest.raises(UserError) as raised:
        window_of(*texts)
    assert part in str(raised.value)
    assert raised.value.hint
