"""Texts of RANGE, SLIDE and start offset to a window, with everything refused that is none.

Promises   what is returned is a valid `Window`; lengths are whole microseconds, and never depend
           on a calendar.
Not here   where the texts stand in a query (`ranges.py`, `expressions.py`); the arithmetic
           (`windows/shape.py`).
"""

import re

from shoal.kernel.errors import UserError
from shoal.kernel.time import DAY, parse_duration
from shoal.query.windows.shape import Window

__all__ = ["LENGTH_MAX", "OVERLAP_MAX", "PANES_MAX", "window_of"]

#: Longest window, microseconds: a leap year and some. Its panes are kept as long. A guess.
LENGTH_MAX = 400 * DAY
#: Windows that one tuple may belong to: every slide rolls all of them up. A guess.
OVERLAP_MAX = 100_000
#: Panes of one window: a roll-up reads them all. A guess.
PANES_MAX = 1_000_000
#: Characters of a duration; longer ones are slips.
_TEXT_MAX = 100

_CALENDAR = re.compile(r"\b(?:months?|years?|quarters?)\b", re.IGNORECASE)
_WEEKS = re.compile(r"\bweeks?\b", re.IGNORECASE)
_HINT = "write a number and a unit, such as '10 minutes' or '1 hour 30 minutes'"


def window_of(length: str, slide: str | None = None, start: str | None = None) -> Window:
    """The window of these texts; tumbling without a slide.

    >>> window_of("10 minutes", "1 minute", "5 seconds")
    Window(length=600000000, slide=60000000, offset=5000000)
    """
    long = _microseconds("RANGE", length)
    step = long if slide is None else _microseconds("SLIDE", slide)
    offset = 0 if start is None else _microseconds("start", start, least=0)
    if step > long:
        raise UserError(
            "SLIDE is longer than RANGE",
            detail=f"{slide} against {length}: tuples between two windows would be in none",
            hint="slide by the range or less",
        )
    if offset >= step:
        raise UserError(
            "the start of windows is not before their second one",
            detail=f"{start} against a slide of {slide or length}",
            hint="write a start shorter than the slide",
        )
    window = Window(length=long, slide=step, offset=offset)
    if long > OVERLAP_MAX * step or long > PANES_MAX * window.pane:
        raise UserError(
            "windows overlap too finely",
            detail=f"a window of {long} microseconds has panes of {window.pane}, "
            f"and there is one each {step}",
            hint="choose a longer slide, or lengths with a common unit",
        )
    window.validate()
    return window


def _microseconds(what: str, text: str, *, least: int = 1) -> int:
    """The length of a text, which is at least so long."""
    plain = re.sub(r"^\s*interval\b", "", text, flags=re.IGNORECASE).strip()
    if _CALENDAR.search(plain):
        detail = "months and years have no fixed length"
        raise UserError(f"{what} {text[:60]!r} cannot be used", detail=detail, hint="write days")
    if _WEEKS.search(plain):
        raise UserError(f"{what} {text[:60]!r} cannot be used", hint="write days: a week is 7")
    if plain.startswith("-"):
        raise UserError(f"{what} {text[:60]!r} is negative", hint=_HINT)
    if len(plain) > _TEXT_MAX:
        raise UserError(f"{what} {text[:60]!r} is too long a text", hint=_HINT)
    try:
        found = parse_duration(plain)
    except UserError as error:
        detail = error.detail
        raise UserError(f"{what} {text[:60]!r} cannot be read", detail=detail, hint=_HINT) from None
    if found < least:
        raise UserError(f"{what} {text[:60]!r} is no time at all", hint=_HINT)
    if found > LENGTH_MAX:
        what = f"{what} {text[:60]!r} is too long"
        raise UserError(what, hint=f"windows have at most {LENGTH_MAX // DAY} days")
    return found
