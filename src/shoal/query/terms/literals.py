"""Constants: their exact conversion to another type, as Spark would convert them.

Promises   what is converted has exactly the value that Spark computes with, in ANSI mode, with
           the session's time zone UTC; what cannot be converted exactly is a UserError.
Not here   finding out which type a constant is coerced to (`draft.py`).

DATE is days and TIMESTAMP microseconds since 1970-01-01, UTC (see `selection.Value`).
"""

import math
import re
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from shoal.kernel.errors import UserError
from shoal.kernel.time import DAY
from shoal.query.selection import Value
from shoal.query.terms.types import INTEGRAL, decimal_parts, is_decimal

__all__ = ["convert", "decimal_type", "single", "unescape"]

_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_INTEGER = re.compile(r"[+-]?[0-9]+")
_REAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_PLAIN = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)")
_SPECIAL = re.compile(r"nan|[+-]?(?:inf|infinity)", re.IGNORECASE)
_TRUE = ("t", "true", "y", "yes", "1")
_FALSE = ("f", "false", "n", "no", "0")
_DATE = re.compile(r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2}))?)?")
_TIMESTAMP = re.compile(
    r"([0-9]{4}(?:-[0-9]{1,2}(?:-[0-9]{1,2})?)?)"
    r"(?:[ T]([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{1,6}))?)?"
    r"\s*(Z|UTC|GMT|[+-][0-9]{1,2}:[0-9]{2})?)?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[01][0-7]{2}|.)", re.DOTALL)


def unescape(body: str) -> str:
    r"""The value of a quoted literal's inner text, by Spark's escapes.

    >>> unescape(r"a\tb\u0041\%")
    'a\tbA\\%'
    """
    return _ESCAPE.sub(_unescape_one, body)


def _unescape_one(match: re.Match[str]) -> str:
    text = match.group(1)
    if text[0] in "uU" and len(text) > 1:
        code = int(text[1:], 16)
        return chr(code) if code <= 0x10FFFF and not 0xD800 <= code < 0xE000 else "\ufffd"
    if len(text) == 3:
        return chr(int(text, 8))
    # LIKE has a use for these two, so Spark keeps their backslash.
    return "\\" + text if text in "%_" else _ESCAPES.get(text, text)


def decimal_type(value: Decimal) -> str:
    """The type Spark gives a decimal constant.

    >>> decimal_type(Decimal("5.25")), decimal_type(Decimal("0.00")), decimal_type(Decimal(5))
    ('DECIMAL(3,2)', 'DECIMAL(2,2)', 'DECIMAL(1,0)')
    """
    _, digits, exponent = value.as_tuple()
    scale = max(-int(exponent), 0)
    return f"DECIMAL({max(len(digits) + max(int(exponent), 0), scale)},{scale})"


def single(exact: Fraction) -> float:
    """The FLOAT nearest to an exact number, ties to even, as a Python float.

    Rounding to DOUBLE first would round twice.
    """
    try:
        bits = struct.unpack("<i", struct.pack("<f", float(exact)))[0]
    except OverflowError:
        raise _cannot(str(float(exact)), "FLOAT", "out of range") from None
    near = []
    for candidate in (bits - 1, bits, bits + 1):
        number: float = struct.unpack("<f", struct.pack("<i", max(candidate, -(2**31))))[0]
        if math.isfinite(number):
            near.append((abs(Fraction(number) - exact), candidate & 1, number))
    return min(near)[2]


def convert(value: Value, source: str, target: str) -> Value:
    """The value as Spark casts it from type to type; UserError if that is not exact.

    >>> convert(5, "INT", "DECIMAL(12,2)"), convert("2024-02-29", "STRING", "DATE")
    (Decimal('5.00'), 19782)
    """
    if value is None or source == target:
        return value
    if isinstance(value, str):
        return _from_string(value.strip(" \t\r\n"), target, value)
    if source == "DATE" and target == "TIMESTAMP" and isinstance(value, int):
        return value * DAY
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise _cannot(str(value), target, f"it is a {source}")
    return _from_number(value, source, target)


def _from_number(value: int | float | Decimal, source: str, target: str) -> Value:
    if target == "DOUBLE":
        return float(value)
    if target == "FLOAT" and not isinstance(value, float):
        return single(Fraction(value))
    if isinstance(value, float) or source in ("DATE", "TIMESTAMP"):
        raise _cannot(str(value), target, f"it is a {source}")
    if is_decimal(target):
        return _to_decimal(Decimal(value), target)
    if target in INTEGRAL and value == int(value):
        return _in_range(int(value), target)
    raise _cannot(str(value), target, f"it is a {source}")


def _in_range(value: int, target: str) -> int:
    half = 1 << (_BITS[target] - 1)
    if not -half <= value < half:
        raise _cannot(str(value), target, f"the range is {-half} to {half - 1}")
    return value


def _to_decimal(value: Decimal, target: str) -> Decimal:
    precision, scale = decimal_parts(target)
    sign, digits, exponent = value.as_tuple()
    zeros = int(exponent) + scale
    if zeros < 0 and any(digits[zeros:]):
        raise _cannot(str(value), target, f"it has more than {scale} digits after the point")
    kept = digits[:zeros] if zeros < 0 else (*digits, *(0,) * zeros)
    while kept and kept[0] == 0:
        kept = kept[1:]
    if len(kept) > precision:
        raise _cannot(str(value), target, f"it has more than {precision - scale} whole digits")
    # A context would round to 28 digits; building from digits is exact.
    return Decimal((sign, kept or (0,), -scale))


def _from_string(text: str, target: str, original: str) -> Value:
    if target == "BINARY":
        return original.encode()
    if target in INTEGRAL and _INTEGER.fullmatch(text):
        return _in_range(int(text), target) if len(text) <= 40 else _overflow(text, target)
    if target in ("DOUBLE", "FLOAT") and _SPECIAL.fullmatch(text):
        return float(text)
    if target == "DOUBLE" and _REAL.fullmatch(text):
        return float(text)
    if target == "FLOAT" and _PLAIN.fullmatch(text):
        return single(Fraction(text))
    if is_decimal(target) and _PLAIN.fullmatch(text):
        return _to_decimal(Decimal(text), target)
    if target == "BOOLEAN" and text.lower() in _TRUE + _FALSE:
        return text.lower() in _TRUE
    if target == "DATE":
        return (_date_of(text, target) - date(1970, 1, 1)).days
    if target == "TIMESTAMP":
        return _instant_of(text)
    raise _cannot(repr(original), target, "the text has another form")


def _overflow(text: str, target: str) -> int:
    raise _cannot(text, target, "it is out of range")


def _date_of(text: str, target: str) -> date:
    match = _DATE.fullmatch(text)
    if not match:
        raise _cannot(repr(text), target, "the text has another form")
    year, month, day = match.groups(default="1")
    try:
        return date(int(year), int(month), int(day))
    except ValueError as error:
        raise _cannot(repr(text), target, str(error)) from error


def _instant_of(text: str) -> int:
    match = _TIMESTAMP.fullmatch(text)
    if not match:
        raise _cannot(repr(text), "TIMESTAMP", "the text has another form")
    day, hour, minute, second, fraction, zone = match.groups()
    start = _date_of(day, "TIMESTAMP")
    micros = int((fraction or "").ljust(6, "0"))
    try:
        moment = datetime(
            start.year,
            start.month,
            start.day,
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
            micros,
            tzinfo=UTC,
        )
    except ValueError as error:
        raise _cannot(repr(text), "TIMESTAMP", str(error)) from error
    return (moment - _EPOCH) // timedelta(microseconds=1) - _offset(zone)


def _offset(zone: str | None) -> int:
    if not zone or zone[0] not in "+-":
        return 0
    hours, minutes = zone[1:].split(":")
    span = timedelta(hours=int(hours), minutes=int(minutes))
    if span > timedelta(hours=18) or int(minutes) > 59:
        raise _cannot(repr(zone), "TIMESTAMP", "an offset is at most 18 hours")
    return (span if zone[0] == "+" else -span) // timedelta(microseconds=1)


_FORMS = {
    "DATE": "write 'yyyy-mm-dd'",
    "TIMESTAMP": "write 'yyyy-mm-dd hh:mm:ss.ffffff', with Z or an offset such as +02:00 "
    "unless it is UTC",
    "BOOLEAN": "write TRUE or FALSE",
    "BINARY": "write X'00ff'",
}


def _cannot(shown: str, target: str, detail: str) -> UserError:
    hint = _FORMS.get(target, f"write a constant that a {target} holds exactly")
    return UserError(f"constant {shown} cannot become {target}", detail=detail, hint=hint)
