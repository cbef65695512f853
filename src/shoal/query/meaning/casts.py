"""Values from one type to another, as Spark casts them in ANSI mode, UTC.

Promises   what Spark casts is cast to the same value; what it refuses is `Raised`.
Not here   constants, which must convert exactly (`terms/literals.py`).
"""

import math
import re
import struct
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

from shoal.kernel.errors import UserError
from shoal.kernel.time import DAY, SECOND
from shoal.query.selection import Value
from shoal.query.terms.literals import convert
from shoal.query.terms.types import INTEGRAL, decimal_parts, is_decimal, is_numeric

__all__ = ["EXACT", "Raised", "cast", "fit_decimal", "fit_integer", "to_single"]

BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
#: Digits enough for any intermediate value of two DECIMALs.
EXACT = Context(prec=160, rounding=ROUND_HALF_UP, Emax=999_999, Emin=-999_999)
_EPOCH_DAY = date(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - all instants here are UTC
_WHOLE = re.compile(r"[+-]?[0-9]+")
_REAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[dDfF]?")
_SPECIAL = {"inf": math.inf, "infinity": math.inf, "nan": math.nan}
_TRUE = ("t", "true", "y", "yes", "1")
_FALSE = ("f", "false", "n", "no", "0")
_BLANK = "".join(map(chr, range(33)))


class Raised(ArithmeticError):
    """Spark would raise here."""


def to_single(value: float) -> float:
    """The FLOAT nearest to a DOUBLE."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def fit_integer(value: int, type_: str) -> int:
    """The value, if the type can hold it."""
    half = 1 << (BITS[type_] - 1)
    if -half <= value < half:
        return value
    raise Raised(f"{value} overflows {type_}")


def fit_decimal(value: Decimal, type_: str) -> Decimal:
    """The value rounded to the type's scale, if it can hold that."""
    precision, scale = decimal_parts(type_)
    if not value.is_finite() or value.adjusted() > precision:
        raise Raised(f"{value} overflows {type_}")
    rounded = EXACT.quantize(value, Decimal((0, (1,), -scale)))
    if len(rounded.as_tuple().digits) > precision and rounded != 0:
        raise Raised(f"{value} overflows {type_}")
    return rounded


def cast(value: Value, source: str, target: str) -> Value:
    """The value as the target's; Raised where Spark raises."""
    if value is None or source == target:
        return value
    if target == "STRING":
        return _to_text(value, source)
    if isinstance(value, str):
        return _from_text(value, target)
    if source == "BOOLEAN" and is_numeric(target):
        return _from_number(int(bool(value)), target)
    if target == "BOOLEAN" and is_numeric(source):
        return value != 0
    if source in ("DATE", "TIMESTAMP") or target in ("DATE", "TIMESTAMP"):
        return _time(value, source, target)
    if isinstance(value, float) and is_decimal(target) and math.isfinite(value):
        return fit_decimal(_shortest(value, source), target)
    if isinstance(value, int | float | Decimal) and is_numeric(target):
        return _from_number(value, target)
    raise UserError(f"a {source} cannot be cast to {target}", hint="cast it to what it is like")


def _from_number(value: int | float | Decimal, target: str) -> Value:
    if target in ("DOUBLE", "FLOAT"):
        number = float(value)
        return number if target == "DOUBLE" else to_single(number)
    if isinstance(value, float) and not math.isfinite(value):
        raise Raised(f"{value} is no {target}")
    if target in INTEGRAL:
        return fit_integer(int(value), target)
    return fit_decimal(Decimal(value), target)


def _shortest(value: float, source: str) -> Decimal:
    """The number with the fewest digits that is this value, of DOUBLE or of FLOAT."""
    if source == "FLOAT":
        for digits in range(1, 10):
            text = f"{value:.{digits}g}"
            if to_single(float(text)) == value:
                return Decimal(text)
    return Decimal(repr(value))


def _time(value: Value, source: str, target: str) -> Value:
    assert isinstance(value, int | float | Decimal)
    if (source, target) == ("DATE", "TIMESTAMP"):
        return int(value) * DAY
    if (source, target) == ("TIMESTAMP", "DATE"):
        return int(value) // DAY
    if source == "TIMESTAMP" and is_numeric(target):
        if target in INTEGRAL:
            return fit_integer(int(value) // SECOND, target)
        return _from_number(EXACT.divide(Decimal(value), Decimal(SECOND)), target)
    if target == "TIMESTAMP" and is_numeric(source):
        if isinstance(value, float) and not math.isfinite(value):
            raise Raised(f"{value} is no instant")
        return fit_integer(int(value * SECOND), "BIGINT")
    raise UserError(f"a {source} cannot be cast to {target}", hint="cast it to what it is like")


def _from_text(text: str, target: str) -> Value:
    stripped = text.strip(_BLANK)
    if target == "BINARY":
        return text.encode()
    if target in INTEGRAL and _WHOLE.fullmatch(stripped):
        return fit_integer(int(stripped[:60]), target)
    if target in ("DOUBLE", "FLOAT"):
        number = _real(stripped)
        return number if target == "DOUBLE" else to_single(number)
    if is_decimal(target):
        try:
            return fit_decimal(Decimal(stripped), target)
        except InvalidOperation:
            raise Raised(f"{text!r} is no {target}") from None
    if target == "BOOLEAN" and stripped.lower() in _TRUE + _FALSE:
        return stripped.lower() in _TRUE
    if target in ("DATE", "TIMESTAMP"):
        return _moment(stripped, target)
    raise Raised(f"{text!r} is no {target}")


def _real(text: str) -> float:
    bare = text.lower().lstrip("+-")
    if bare in _SPECIAL:
        return -_SPECIAL[bare] if text.startswith("-") else _SPECIAL[bare]
    if not _REAL.fullmatch(text):
        raise Raised(f"{text!r} is no number")
    return float(text.rstrip("dDfF"))


def _moment(text: str, target: str) -> Value:
    if target == "DATE":
        text = re.split("[ T]", text, maxsplit=1)[0]
    try:
        return convert(text, "STRING", target)
    except UserError:
        raise Raised(f"{text!r} is no {target}") from None


def _to_text(value: Value, source: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, float):
        return _real_text(value, source)
    if isinstance(value, Decimal):
        return f"{value:f}"
    assert isinstance(value, int | str)
    if source == "DATE":
        return (_EPOCH_DAY + timedelta(days=int(value))).isoformat()
    if source == "TIMESTAMP":
        moment = _EPOCH + timedelta(microseconds=int(value))
        text = moment.isoformat(sep=" ")
        return text.rstrip("0") if "." in text else text
    return str(value)


def _real_text(value: float, source: str) -> str:
    """As Java writes a DOUBLE: its shortest digits, with an exponent outside of 0.001 to 10^7."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = f"{_shortest(value, source):f}" if value else str(value)
        return text if "." in text else text + ".0"
    sign, digits, exponent = _shortest(value, source).normalize().as_tuple()
    head, tail = digits[0], "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{head}.{tail}E{int(exponent) + len(digits) - 1}"
