"""Instants and durations: integer microseconds, UTC, never a float and never a clock.

An *instant* counts microseconds since 1970-01-01T00:00:00Z. Nothing here reads a clock: time is
an argument everywhere below the shells.
"""

import re
from datetime import UTC, datetime, timedelta

from shoal.kernel.errors import UserError

__all__ = [
    "DAY",
    "HOUR",
    "MILLISECOND",
    "MINUTE",
    "SECOND",
    "Instant",
    "format_instant",
    "parse_duration",
    "parse_instant",
]

Instant = int

MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_UNITS = {
    "microsecond": 1,
    "millisecond": MILLISECOND,
    "second": SECOND,
    "minute": MINUTE,
    "hour": HOUR,
    "day": DAY,
}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+?)s?(?![a-z])\s*", re.IGNORECASE)
#: Longest duration, a hundred years: what is longer is a slip, and would not fit beside instants.
DURATION_MAX = 36_525 * DAY
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_duration(text: str) -> int:
    """Microseconds of a text such as `10 seconds`; several parts add up.

    >>> parse_duration("1 minute 30 seconds")
    90000000
    """
    total = 0
    position = 0
    while position < len(text):
        match = _DURATION.match(text, position)
        unit = _UNITS.get(match.group(2).lower()) if match else None
        if match is None or unit is None:
            raise UserError(
                f"duration {text!r} cannot be read",
                detail=f"stopped at {text[position:]!r}",
                hint="write a number and a unit, such as '10 seconds' or '1 hour 30 minutes'",
            )
        amount = float(match.group(1)) * unit
        if total + amount > DURATION_MAX:
            what = f"duration {text[:60]!r} is too long"
            raise UserError(what, detail="more than 100 years", hint="write a shorter one")
        total += round(amount)
        position = match.end()
    if not text.strip():
        raise UserError("duration is empty", hint="write a number and a unit: '10 seconds'")
    return total


def parse_instant(text: str) -> Instant:
    """The instant of an ISO 8601 text; a text without an offset is UTC.

    >>> parse_instant("1970-01-01 00:00:01")
    1000000
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise UserError(
            f"instant {text!r} cannot be read",
            detail=str(error),
            hint="write ISO 8601, such as '2026-03-01 12:00:00' or '2026-03-01T12:00:00+02:00'",
        ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def format_instant(instant: Instant) -> str:
    """ISO 8601 text of an instant, in UTC.

    >>> format_instant(1_000_000)
    '1970-01-01T00:00:01Z'
    """
    moment = _EPOCH + timedelta(microseconds=instant)
    return moment.replace(tzinfo=None).isoformat() + "Z"
