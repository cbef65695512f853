"""Approximate aggregates: the sketches that Spark can merge, and the error they state.

    approx_count_distinct   HLL of Apache DataSketches; standard error 1.04 / sqrt(2^lg)
    approx_percentile       KLL of Apache DataSketches; error in rank 2.296 / k^0.9723 (99 %)

Spark's functions of these names use sketches of their own that do not merge in SQL, so a value may
differ from Spark's within both errors. A KLL sketch of no more than k values is exact.
"""

import math
from dataclasses import dataclass
from decimal import Decimal

from shoal.kernel.errors import UserError
from shoal.query.selection import Value
from shoal.query.terms.types import FRACTIONAL, INTEGRAL, decimal_parts, is_decimal

__all__ = ["Sketch", "distinct", "quantile", "rankable"]

#: 2^12 registers: an error of 1.6 % in 4 KiB.
LG_DEFAULT, LG_MIN, LG_MAX = 12, 4, 21
#: An error in rank of 0.3 %; a sketch holds some 3 k values at most.
K_DEFAULT, K_MIN, K_MAX = 1000, 8, 65_535
#: The widest DECIMAL whose units fit a BIGINT.
_UNITS_MAX = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """One sketch's texts; `count` is how many values it has seen, `share` the one asked for."""

    make: str
    merge: str
    final: str
    count: str = ""
    share: str = ""


def distinct(column: str, text: str, where: str, fixed: tuple[Value, ...]) -> Sketch:
    """How many different values. The hash is Spark's, which knows that 0.0 is -0.0."""
    lg = _registers(fixed[0]) if fixed else LG_DEFAULT
    hashed = f"CASE WHEN {text} IS NOT NULL THEN xxhash64({text}) END"
    return Sketch(
        make=f"hll_sketch_agg({hashed}, {lg}){where}",
        merge=f"hll_union_agg({column}, false)",
        final=f"hll_sketch_estimate({column})",
    )


def rankable(type_: str) -> bool:
    """Whether a quantile sketch holds such values as they are."""
    if is_decimal(type_):
        return decimal_parts(type_)[0] <= _UNITS_MAX
    return type_ in INTEGRAL or type_ in FRACTIONAL or type_ in ("DATE", "TIMESTAMP")


def quantile(column: str, text: str, type_: str, where: str, fixed: tuple[Value, ...]) -> Sketch:
    """The value below which a share of all lies."""
    share = _share(fixed[0])
    k = _size(fixed[1]) if len(fixed) > 1 else K_DEFAULT
    kind = "double" if type_ in FRACTIONAL else "bigint"
    count = f"kll_sketch_get_n_{kind}({column})"
    # Spark refuses to look into an empty sketch.
    some = f"CASE WHEN {count} > 0 THEN {column} END"
    found = f"kll_sketch_get_quantile_{kind}({some}, {share})"
    return Sketch(
        make=f"kll_sketch_agg_{kind}({_held(text, type_)}, {k}){where}",
        merge=f"kll_merge_agg_{kind}({column}, {k})",
        final=_taken(found, type_),
        count=count,
        share=share,
    )


def _held(text: str, type_: str) -> str:
    """The value as a sketch holds it."""
    if type_ in FRACTIONAL:
        value = f"CAST({text} AS DOUBLE)"
        return f"CASE WHEN isnan({value}) THEN CAST('Infinity' AS DOUBLE) ELSE {value} END"
    if type_ == "DATE":
        return f"CAST(unix_date({text}) AS BIGINT)"
    if type_ == "TIMESTAMP":
        return f"unix_micros({text})"
    if is_decimal(type_):
        return f"CAST({text} * 1{'0' * decimal_parts(type_)[1]}BD AS BIGINT)"
    return f"CAST({text} AS BIGINT)"


def _taken(found: str, type_: str) -> str:
    """The value that a sketch held."""
    if type_ == "DATE":
        return f"date_from_unix_date(CAST({found} AS INT))"
    if type_ == "TIMESTAMP":
        return f"timestamp_micros({found})"
    if is_decimal(type_):
        scale = decimal_parts(type_)[1]
        return f"TRY_CAST(concat(CAST({found} AS STRING), 'E-{scale}') AS {type_})"
    return found if type_ in ("BIGINT", "DOUBLE") else f"CAST({found} AS {type_})"


def _number(value: Value, what: str) -> float:
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return float(value)
    raise UserError(f"{what} has to be a number", detail=f"{value!r} is given")


def _share(value: Value) -> str:
    share = _number(value, "the share of approx_percentile")
    if not 0 <= share <= 1:
        raise UserError(
            "the share of approx_percentile is out of range",
            detail=f"{share:g} is given",
            hint="0.5 is the median, 0.99 the value that one in a hundred exceeds",
        )
    return f"{share!r}D"


def _size(value: Value) -> int:
    """The k for an accuracy: an error in rank of at most one by it."""
    accuracy = _number(value, "the accuracy of approx_percentile")
    k = (2.296 * accuracy) ** (1 / 0.9723) if accuracy > 0 else 0.0
    if not 0 < k <= K_MAX:
        raise UserError(
            "the accuracy of approx_percentile is out of range",
            detail=f"{accuracy:g} is given",
            hint="1 to 20000: an error in rank of one by it; by default about 360",
        )
    return max(math.ceil(k), K_MIN)


def _registers(value: Value) -> int:
    error = _number(value, "the error of approx_count_distinct")
    for lg in range(LG_MIN, LG_MAX + 1):
        if 1.04 / math.sqrt(2**lg) <= error <= 0.39:
            return lg
    raise UserError(
        "the error of approx_count_distinct is out of range",
        detail=f"{error:g} is given",
        hint="0.001 to 0.39: the standard error by the count; by default 0.016",
    )
