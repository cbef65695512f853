"""Every operator and function a query may use, and how each is kept from throwing.

A function is on the list if it is deterministic, reads nothing but its arguments, and yields a
value no longer than its arguments together. In ANSI mode, Spark's default, some throw for some
values; those have a *safe form* per kind of argument, which is NULL instead. What throws and
has no safe form is not on the list. In a safe form `{0}` is the first argument, `{type}` the
type of the result.

Promises   nothing that reaches the JVM, a file, the network, the clock or chance; no text bomb.
Not here   conversions (`terms/safe.py`); what the functions mean: Spark's documentation.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from shoal.query.terms.types import FRACTIONAL, INTEGRAL, is_decimal

__all__ = ["FUNCTIONS", "OPERATORS", "RIGHT_FIRST", "SYNONYMS", "Function", "kind_of", "why_not"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """What is known of one function: how many arguments, which are fixed, its safe forms."""

    least: int
    most: int
    #: How many of the first arguments may be text; later ones Spark would cast, and may throw.
    text: int = 0
    #: Positions that Spark wants constant: they stay in the text and in the signature.
    fixed: tuple[int, ...] = ()
    #: Safe form by kind of the first argument; a kind that is missing never throws.
    safe: Mapping[str, str] | None = None


def _plain(
    names: str, least: int, most: int | None = None, *, text: int = 0
) -> dict[str, Function]:
    """Functions that never throw, by the number of their arguments."""
    top = least if most is None else most
    return {name: Function(least=least, most=top, text=text) for name in names.split()}


_INTEGRAL_OR_DECIMAL = ("integral", "decimal")
_ALL = ("integral", "decimal", "fractional", "other")

#: Of a DOUBLE, `floor` is a BIGINT, and throws for what is none: NaN and beyond 2 to the 63.
_WHOLE = "if({0} BETWEEN -9.223372036854775808E18D AND 9.223372036854775808E18D, whole({0}), NULL)"

#: Operators that can throw. `/` and `%` throw for a zero of any type.
OPERATORS: Mapping[str, Mapping[str, str]] = {
    "+": dict.fromkeys(_INTEGRAL_OR_DECIMAL, "try_add({0}, {1})"),
    "-": dict.fromkeys(_INTEGRAL_OR_DECIMAL, "try_subtract({0}, {1})"),
    "*": dict.fromkeys(_INTEGRAL_OR_DECIMAL, "try_multiply({0}, {1})"),
    "/": dict.fromkeys(_ALL, "try_divide({0}, {1})"),
    "%": dict.fromkeys(_ALL, "try_mod({0}, {1})"),
    # The one overflow is the smallest BIGINT div -1; there is no try_ form.
    "div": {
        "integral": "if({1} = -1, try_subtract(0L, CAST({0} AS BIGINT)), "
        "CAST({0} AS BIGINT) div nullif(CAST({1} AS BIGINT), 0L))"
    },
    "negative": {"integral": "try_subtract(CAST(0 AS {type}), {0})"},
}

#: Operators of which Spark evaluates the right operand first, and the left only if needed.
RIGHT_FIRST = ("/", "%", "div")

#: Another name for the same thing; the canonical form has the second.
SYNONYMS = {
    "nvl": "coalesce",
    "ifnull": "coalesce",
    "ucase": "upper",
    "lcase": "lower",
    "char_length": "length",
    "character_length": "length",
    "len": "length",
    "substr": "substring",
    "ceiling": "ceil",
    "power": "pow",
    "sign": "signum",
    "day": "dayofmonth",
    "date_diff": "datediff",
    "dateadd": "date_add",
    "sha": "sha1",
    "regexp_like": "rlike",
    "regexp": "rlike",
    "iff": "if",
}

FUNCTIONS: Mapping[str, Function] = {
    # Choice: lazy from left to right; what is not reached cannot throw.
    **_plain("coalesce", 1, 50, text=50),
    **_plain("nullif", 2, text=2),
    **_plain("nanvl", 2),
    **_plain("greatest least", 2, 50, text=50),
    **_plain("isnan", 1),
    # Numbers: IEEE 754 functions of one argument give NULL or NaN outside their domain.
    **_plain("sqrt cbrt exp expm1 ln log2 log10 log1p signum degrees radians", 1),
    **_plain("sin cos tan asin acos atan sinh cosh tanh", 1),
    **_plain("pow atan2", 2),
    "floor": Function(least=1, most=1, safe={"fractional": _WHOLE.replace("whole", "floor")}),
    "ceil": Function(least=1, most=1, safe={"fractional": _WHOLE.replace("whole", "ceil")}),
    "abs": Function(
        least=1,
        most=1,
        safe={"integral": "if({0} < 0, try_subtract(CAST(0 AS {type}), {0}), {0})"},
    ),
    "pmod": Function(least=2, most=2, safe=dict.fromkeys(_ALL, "pmod({0}, nullif({1}, 0))")),
    # The scale is part of the result's type for DECIMAL, so Spark wants it constant.
    "round": Function(least=1, most=2, fixed=(1,)),
    "bround": Function(least=1, most=2, fixed=(1,)),
    # Text: nothing here is longer than its arguments together.
    **_plain("upper lower length trim ltrim rtrim reverse initcap ascii md5 sha1 crc32", 1, text=1),
    **_plain("startswith endswith contains instr", 2, text=2),
    **_plain("left right", 2, text=1),
    **_plain("substring", 2, 3, text=1),
    **_plain("translate", 3, text=3),
    **_plain("concat hash xxhash64", 1, 20, text=20),
    # Time: UTC; of DATE or TIMESTAMP.
    **_plain("year quarter month dayofmonth dayofweek weekday dayofyear weekofyear", 1),
    **_plain("hour minute second last_day unix_date", 1),
    **_plain("unix_seconds unix_millis unix_micros", 1),
    **_plain("date_add date_sub datediff", 2),
    "date_trunc": Function(least=2, most=2, fixed=(0,)),
    "trunc": Function(least=2, most=2, fixed=(1,)),
}

_REASONS = {
    "it is not deterministic": "rand randn random uuid shuffle monotonically_increasing_id now "
    "current_date current_timestamp curdate localtimestamp current_time spark_partition_id",
    "it reaches out of the query": "reflect java_method try_reflect input_file_name "
    "input_file_block_start input_file_block_length current_user user session_user "
    "current_database current_catalog current_schema version",
    "it can make a value far larger than its arguments": "repeat space rpad lpad sequence "
    "replace regexp_replace array_repeat overlay format_string printf explode",
    "it is an aggregate": "sum count avg mean min max stddev variance first last any every some "
    "count_if approx_count_distinct percentile collect_list collect_set bool_and bool_or",
    "it can throw and has no form that does not": "to_date to_timestamp to_number make_date "
    "make_timestamp date_format element_at parse_url url_decode from_json get_json_object",
}


def why_not(name: str) -> str:
    """Why a function is not on the list, if there is more to say than that it is not."""
    for reason, names in _REASONS.items():
        if name in names.split():
            return reason
    return ""


def kind_of(type_: str) -> str:
    """The kind of argument that chooses a safe form."""
    if type_ in INTEGRAL:
        return "integral"
    if is_decimal(type_):
        return "decimal"
    return "fractional" if type_ in FRACTIONAL else "other"
