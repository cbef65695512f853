"""What the listed functions do, and the type of what they give.

A function here is strict: NULL in any argument gives NULL, and it is not called. Those that look
at their arguments one by one (coalesce, case, ...) are in `evaluate.py`. A listed function that is
missing here (hashes, and those whose last bit is the library's) is refused by name.

Promises   for arguments of the types that `types_of` lets in, the value is Spark's; where Spark
           raises, `Raised`.
"""

import calendar
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from typing import Any

from shoal.kernel.time import DAY, HOUR, MILLISECOND, MINUTE, SECOND
from shoal.query.meaning.casts import EXACT, Raised, fit_integer
from shoal.query.terms.types import decimal_parts, is_decimal

__all__ = ["FUNCTIONS", "Function"]

Given = Callable[[Sequence[str]], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """The type of the result by those of the arguments, and the value by the arguments.

    `as_types`: what arguments are cast to before, by position; the last one counts for the rest.
    """

    given: Given
    run: Callable[..., Any]
    as_types: tuple[str, ...] = ()


def _always(type_: str) -> Given:
    return lambda _: type_


def _first(types: Sequence[str]) -> str:
    return types[0]


def _real(run: Callable[[float], float | None]) -> Function:
    """Of one DOUBLE; NULL or NaN outside of its domain, never an exception."""

    def guarded(value: float) -> float | None:
        if math.isnan(value):
            return math.nan
        try:
            return run(value)
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    return Function(given=_always("DOUBLE"), run=guarded, as_types=("DOUBLE",))


def _log(run: Callable[[float], float], least: float) -> Callable[[float], float | None]:
    return lambda value: run(value) if value > least else None


def _pow(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except ValueError:
        return math.inf if base == 0 else math.nan
    except OverflowError:
        odd = exponent == math.floor(exponent) and exponent % 2 == 1
        return -math.inf if base < 0 and odd else math.inf


def _signum(value: float) -> float:
    return value if value == 0 else math.copysign(1.0, value)


# Numbers


def _whole_type(types: Sequence[str]) -> str:
    if is_decimal(types[0]):
        precision, scale = decimal_parts(types[0])
        return f"DECIMAL({max(precision - scale + min(scale, 1), 1)},0)"
    return "BIGINT"


def _whole(rounding: str, by: Callable[[float], int]) -> Callable[[Any], Any]:
    def run(value: int | float | Decimal) -> int | Decimal:
        if isinstance(value, Decimal):
            return value.to_integral_value(rounding=rounding)
        if isinstance(value, float):
            if not math.isfinite(value):
                raise Raised(f"{value} has no whole part")
            return max(min(by(value), (1 << 63) - 1), -(1 << 63))
        return value

    return run


def _round_type(types: Sequence[str]) -> str:
    if is_decimal(types[0]):
        precision, scale = decimal_parts(types[0])
        # The scale is not known to the type alone: `evaluate` passes it in the second place.
        kept = min(scale, int(types[1])) if len(types) > 1 and types[1].isdecimal() else 0
        return f"DECIMAL({min(precision - scale + 1 + kept, 38)},{kept})"
    return types[0]


def _round(rounding: str) -> Callable[..., Any]:
    def run(value: int | float | Decimal, scale: int = 0) -> int | float | Decimal:
        if isinstance(value, float) and not math.isfinite(value):
            return value
        unit = Decimal((0, (1,), -scale))
        exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
        if -int(exact.as_tuple().exponent) <= scale:
            return value
        rounded = exact.quantize(unit, rounding=rounding, context=EXACT)
        return float(rounded) if isinstance(value, float) else type(value)(rounded)

    return run


def _pmod(value: Any, by: Any) -> Any:
    if isinstance(value, float):
        rest = math.nan if math.isinf(value) or math.isnan(by) else math.fmod(value, by)
        return math.fmod(rest + by, by) if rest < 0 else rest
    rest = abs(value) % abs(by) if value >= 0 else -(abs(value) % abs(by))
    if rest >= 0:
        return rest
    rest += by
    return abs(rest) % abs(by) if rest >= 0 else -(abs(rest) % abs(by))


# Text


def _substring(text: Any, position: int, length: int = 1 << 31) -> Any:
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    return text[max(start, 0) : max(start + length, 0)]


def _translate(text: str, old: str, new: str) -> str:
    table: dict[int, str] = {}
    for at, character in enumerate(old):
        table.setdefault(ord(character), new[at : at + 1])
    return text.translate(table)


def _text(run: Callable[..., Any], type_: str = "STRING") -> Function:
    return Function(given=_always(type_), run=run, as_types=("STRING",))


# Time


def _day(days: int) -> date:
    return date(1970, 1, 1) + timedelta(days=days)


def _calendar(run: Callable[[date], int]) -> Function:
    return Function(given=_always("INT"), run=lambda days: run(_day(days)), as_types=("DATE",))


def _clock(unit: int, most: int) -> Function:
    run = lambda instant: instant // unit % most  # noqa: E731
    return Function(given=_always("INT"), run=run, as_types=("TIMESTAMP",))


def _since(unit: int) -> Function:
    run = lambda instant: instant // unit  # noqa: E731
    return Function(given=_always("BIGINT"), run=run, as_types=("TIMESTAMP",))


def _last_day(days: int) -> int:
    day = _day(days)
    return days + calendar.monthrange(day.year, day.month)[1] - day.day


_PLAIN_UNITS = {"SECOND": SECOND, "MINUTE": MINUTE, "HOUR": HOUR, "DAY": DAY}


def _trunc(day: date, unit: str) -> date:
    match unit.upper():
        case "YEAR" | "YYYY" | "YY":
            return day.replace(month=1, day=1)
        case "QUARTER":
            return day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1)
        case "MONTH" | "MON" | "MM":
            return day.replace(day=1)
        case "WEEK":
            return day - timedelta(days=day.weekday())
    raise Raised(f"unit {unit!r} is not known")


def _date_trunc(unit: str, instant: int) -> int:
    plain = _PLAIN_UNITS.get(unit.upper())
    if plain is not None:
        return instant - instant % plain
    return (_trunc(_day(instant // DAY), unit) - date(1970, 1, 1)).days * DAY


def _date(run: Callable[..., int], *as_types: str, given: str = "DATE") -> Function:
    return Function(given=_always(given), run=run, as_types=as_types)


def _date_add(days: int, more: int) -> int:
    return fit_integer(days + more, "INT")


FUNCTIONS: Mapping[str, Function] = {
    "abs": Function(given=_first, run=abs),
    "floor": Function(given=_whole_type, run=_whole(ROUND_FLOOR, math.floor)),
    "ceil": Function(given=_whole_type, run=_whole(ROUND_CEILING, math.ceil)),
    "round": Function(given=_round_type, run=_round(ROUND_HALF_UP)),
    "bround": Function(given=_round_type, run=_round(ROUND_HALF_EVEN)),
    "pmod": Function(given=_first, run=_pmod),
    "isnan": Function(given=_always("BOOLEAN"), run=math.isnan, as_types=("DOUBLE",)),
    "sqrt": _real(math.sqrt),
    "cbrt": _real(math.cbrt),
    "exp": _real(math.exp),
    "ln": _real(_log(math.log, 0.0)),
    "log2": _real(_log(math.log2, 0.0)),
    "log10": _real(_log(math.log10, 0.0)),
    "log1p": _real(_log(math.log1p, -1.0)),
    "signum": _real(_signum),
    "sin": _real(math.sin),
    "cos": _real(math.cos),
    "pow": Function(given=_always("DOUBLE"), run=_pow, as_types=("DOUBLE",)),
    "upper": _text(str.upper),
    "lower": _text(str.lower),
    "length": _text(len, "INT"),
    "trim": _text(lambda text: text.strip(" ")),
    "ltrim": _text(lambda text: text.lstrip(" ")),
    "rtrim": _text(lambda text: text.rstrip(" ")),
    "reverse": _text(lambda text: text[::-1]),
    "ascii": _text(lambda text: ord(text[0]) if text else 0, "INT"),
    "startswith": _text(str.startswith, "BOOLEAN"),
    "endswith": _text(str.endswith, "BOOLEAN"),
    "contains": _text(lambda text, part: part in text, "BOOLEAN"),
    "instr": _text(lambda text, part: text.find(part) + 1, "INT"),
    "concat": _text(lambda *parts: "".join(parts)),
    "||": _text(lambda left, right: left + right),
    "translate": _text(_translate),
    "left": Function(
        given=_first, run=lambda text, n: text[: max(n, 0)], as_types=("STRING", "INT")
    ),
    "right": Function(
        given=_first, run=lambda text, n: text[-n:] if n > 0 else "", as_types=("STRING", "INT")
    ),
    "substring": Function(given=_first, run=_substring, as_types=("STRING", "INT")),
    "year": _calendar(lambda day: day.year),
    "quarter": _calendar(lambda day: (day.month + 2) // 3),
    "month": _calendar(lambda day: day.month),
    "dayofmonth": _calendar(lambda day: day.day),
    "dayofweek": _calendar(lambda day: day.isoweekday() % 7 + 1),
    "weekday": _calendar(date.weekday),
    "dayofyear": _calendar(lambda day: day.timetuple().tm_yday),
    "weekofyear": _calendar(lambda day: day.isocalendar()[1]),
    "hour": _clock(HOUR, 24),
    "minute": _clock(MINUTE, 60),
    "second": _clock(SECOND, 60),
    "last_day": _date(_last_day, "DATE"),
    "unix_date": _date(lambda days: days, "DATE", given="INT"),
    "unix_seconds": _since(SECOND),
    "unix_millis": _since(MILLISECOND),
    "unix_micros": _since(1),
    "date_add": _date(_date_add, "DATE", "INT"),
    "date_sub": _date(lambda days, less: _date_add(days, -less), "DATE", "INT"),
    "datediff": _date(lambda end, start: end - start, "DATE", given="INT"),
    "date_trunc": _date(_date_trunc, "STRING", "TIMESTAMP", given="TIMESTAMP"),
    "trunc": _date(
        lambda days, unit: (_trunc(_day(days), unit) - date(1970, 1, 1)).days, "DATE", "STRING"
    ),
}
