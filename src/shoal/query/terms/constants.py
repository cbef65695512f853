r"""Constants as Spark SQL text, for the few that are part of a signature and not parameters.

    5          INT       5            1.5         DOUBLE    1.5D
    19782      DATE      CAST('2024-02-29' AS DATE)
    "it's"     STRING    'it\'s'

Promises   the text has exactly the value and the type; Spark puts nothing else in its place
           (it would substitute a dollar sign with braces, also inside quotes).
Not here   reading constants (`literals.py`); parameters, which are never text.
"""

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from shoal.kernel.errors import LocalError, UserError
from shoal.kernel.time import DAY
from shoal.query.selection import Value
from shoal.query.terms.types import INTEGRAL, element_of, is_decimal

__all__ = ["constant_text"]

_SUFFIX = {"TINYINT": "Y", "SMALLINT": "S", "INT": "", "BIGINT": "L"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def constant_text(value: Value, type_: str) -> str:
    """A constant of this type.

    >>> constant_text(-5, "BIGINT"), constant_text(Decimal("5.00"), "DECIMAL(12,2)")
    ('(-5L)', 'CAST(5.00BD AS DECIMAL(12,2))')
    """
    if value is None:
        return "NULL" if type_ == "VOID" else f"CAST(NULL AS {type_})"
    if isinstance(value, tuple):
        element = element_of(type_)
        return f"array({', '.join(constant_text(item, element) for item in value)})"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, Decimal) and is_decimal(type_):
        return f"CAST({value:f}BD AS {type_})"
    if isinstance(value, float):
        return _real(value, type_)
    if isinstance(value, int) and type_ in INTEGRAL:
        text = f"{value}{_SUFFIX[type_]}"
        return f"({text})" if value < 0 else text
    if isinstance(value, int) and type_ in ("DATE", "TIMESTAMP"):
        return _time(value, type_)
    raise LocalError(f"constant {value!r} is not of type {type_}")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024")
    return f"'{escaped}'"


def _real(value: float, type_: str) -> str:
    if math.isnan(value) or math.isinf(value):
        name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return f"CAST('{name}' AS {type_})"
    text = f"{value!r}D" if value >= 0 and not _is_negative_zero(value) else f"({value!r}D)"
    return text if type_ == "DOUBLE" else f"CAST({text} AS {type_})"


def _is_negative_zero(value: float) -> bool:
    return value == 0 and math.copysign(1, value) < 0


def _time(value: int, type_: str) -> str:
    try:
        moment = _EPOCH + timedelta(microseconds=value if type_ == "TIMESTAMP" else value * DAY)
    except OverflowError:
        raise UserError(
            f"a {type_} before year 1 or after 9999 cannot be used here", hint="write another"
        ) from None
    text = moment.replace(tzinfo=None).isoformat(sep=" ")
    return (
        f"CAST('{text}Z' AS TIMESTAMP)" if type_ == "TIMESTAMP" else f"CAST('{text[:10]}' AS DATE)"
    )
