"""Sums and averages of whole numbers and decimals, exact in whatever order panes are merged.

    sum of a BIGINT     a0_h, a0_l   the sum is h * 2^32 + l, with 0 <= l < 2^32
    sum of DECIMAL(p,s) a0_s         while p <= 28: there is room for 10^10 tuples
                        a0_h, a0_l   else: h * 10^20 + l, in units of the last digit

Spark's own sum of a BIGINT fails when some partial sum is out of range, which depends on the order
of tuples; here only the sum itself counts, and is NULL out of range. Spark's own average of a
BIGINT adds doubles; here the sum is exact and rounded at the end, so it is the same after any
merge. An average of a DECIMAL is divided digit by digit: `/` would round to fewer digits first.

Promises   no text throws in ANSI mode for fewer than 2^32 tuples in a group.
"""

from shoal.query.terms.types import DIGITS_MAX, decimal_parts, is_decimal
from shoal.query.windows.plan import Partial

__all__ = ["average", "average_type", "sum_partials", "sum_type", "total"]

#: The largest precision whose sum of 10^10 tuples has room in a DECIMAL.
_ROOMY = 28
_LIMB = 1 << 32
#: Digits of the lower part of a wide decimal; the upper part fits a BIGINT.
_LOWER = 20
_BASE = "10000000000BD"
_WIDE = f"DECIMAL({DIGITS_MAX},0)"


def sum_type(type_: str) -> str:
    """The type of Spark's sum of a whole number or a decimal.

    >>> sum_type("INT"), sum_type("DECIMAL(10,2)"), sum_type("DECIMAL(35,2)")
    ('BIGINT', 'DECIMAL(20,2)', 'DECIMAL(38,2)')
    """
    if not is_decimal(type_):
        return "BIGINT"
    precision, scale = decimal_parts(type_)
    return f"DECIMAL({min(DIGITS_MAX, precision + 10)},{scale})"


def average_type(type_: str) -> str:
    """The type of Spark's average of a whole number or a decimal.

    >>> average_type("INT"), average_type("DECIMAL(10,2)"), average_type("DECIMAL(38,36)")
    ('DOUBLE', 'DECIMAL(14,6)', 'DECIMAL(38,38)')
    """
    if not is_decimal(type_):
        return "DOUBLE"
    precision, scale = decimal_parts(type_)
    return f"DECIMAL({min(DIGITS_MAX, precision + 4)},{min(DIGITS_MAX, scale + 4)})"


def sum_partials(name: str, text: str, type_: str, where: str, alone: str) -> tuple[Partial, ...]:
    """What panes keep of a sum; `where` is the FILTER clause, "" if there is none; `alone` is the
    text where the filter holds, and NULL elsewhere."""
    if type_ == "BIGINT":
        low = f"sum({text} & {_LIMB - 1}L){where}"
        return (
            Partial(
                name=f"{name}_h",
                type="BIGINT",
                make=f"(sum(shiftright({text}, 32)){where} + shiftright({low}, 32))",
                merge=f"(sum(`{name}_h`) + shiftright(sum(`{name}_l`), 32))",
                each=f"shiftright({alone}, 32)",
            ),
            Partial(
                name=f"{name}_l",
                type="BIGINT",
                make=f"({low} & {_LIMB - 1}L)",
                merge=f"(sum(`{name}_l`) & {_LIMB - 1}L)",
                each=f"({alone} & {_LIMB - 1}L)",
            ),
        )
    if not is_decimal(type_):
        each = f"CAST({alone} AS BIGINT)"
        return (_summed(f"{name}_s", "BIGINT", f"sum({text}){where}", each),)
    precision, scale = decimal_parts(type_)
    kept = f"DECIMAL({DIGITS_MAX},{scale})"
    if precision <= _ROOMY:
        made = f"CAST(sum({text}){where} AS {kept})"
        return (_summed(f"{name}_s", kept, made, f"CAST({alone} AS {kept})"),)
    cut = _power(_LOWER - scale)
    upper = f"sum(CAST({text} div {cut} AS DECIMAL(28,0))){where}"
    lower = f"sum(CAST({text} % {cut} AS {kept})){where}"
    return (
        _summed(f"{name}_h", _WIDE, upper, f"CAST({alone} div {cut} AS {_WIDE})"),
        _summed(f"{name}_l", kept, lower, f"CAST({alone} % {cut} AS {kept})"),
    )


def total(name: str, type_: str) -> str:
    """The sum of what was merged, in the type of Spark's sum; NULL if that has no room for it."""
    if type_ == "BIGINT":
        return f"try_add(try_multiply(`{name}_h`, {_LIMB}L), `{name}_l`)"
    if not is_decimal(type_):
        return f"`{name}_s`"
    precision, scale = decimal_parts(type_)
    if precision <= _ROOMY:
        return f"TRY_CAST(`{name}_s` AS {sum_type(type_)})"
    return _scaled(_units(name, type_), scale, sum_type(type_))


def average(name: str, type_: str) -> str:
    """The average: the sum of what was merged by the count `<name>_n`."""
    count = f"CAST(nullif(`{name}_n`, 0L) AS DOUBLE)"
    if type_ == "BIGINT":
        whole = f"(CAST(`{name}_h` AS DOUBLE) * {_LIMB}D + CAST(`{name}_l` AS DOUBLE))"
        return f"try_divide({whole}, {count})"
    if not is_decimal(type_):
        return f"try_divide(CAST(`{name}_s` AS DOUBLE), {count})"
    result = average_type(type_)
    scale = decimal_parts(result)[1]
    more = scale - decimal_parts(type_)[1]
    quotient = _quotient("u", f"nullif(`{name}_n`, 0L)", more)
    return _scaled(_let("u", _units(name, type_), quotient), scale, result)


def _summed(name: str, type_: str, make: str, each: str) -> Partial:
    return Partial(name=name, type=type_, make=make, merge=f"sum(`{name}`)", each=each)


def _power(exponent: int) -> str:
    """A power of ten as a DECIMAL literal of as few digits as it needs."""
    return f"1{'0' * exponent}BD" if exponent >= 0 else f"0.{'0' * (-exponent - 1)}1BD"


def _let(name: str, value: str, body: str) -> str:
    """The body with a name for a value: SQL has no other way to compute it once."""
    return f"transform(array({value}), {name} -> {body})[0]"


def _scaled(units: str, scale: int, type_: str) -> str:
    """So many units of the last digit as a DECIMAL. In text, where no digit can be lost: the
    product with a power of ten would have a type of more than 38 digits, and be rounded."""
    return f"TRY_CAST(concat(CAST({units} AS STRING), 'E-{scale}') AS {type_})"


def _unscaled(value: str, scale: int) -> str:
    return f"TRY_CAST(concat(CAST({value} AS STRING), 'E{scale}') AS {_WIDE})"


def _units(name: str, type_: str) -> str:
    """The sum in units of the last digit; NULL beyond 38 digits."""
    precision, scale = decimal_parts(type_)
    if precision <= _ROOMY:
        return _unscaled(f"`{name}_s`", scale)
    cut, unit = _power(_LOWER - scale), _power(_LOWER)
    upper = f"CAST(`{name}_h` + (`{name}_l` div {cut}) AS {_WIDE})"
    lower = _unscaled(f"`{name}_l` % {cut}", scale)
    # Both parts with one sign: the upper alone is then out of range only if the sum is.
    joined = (
        "CASE WHEN t.h > 0 AND t.l < 0 THEN "
        f"try_add(try_multiply(CAST(t.h - 1 AS {_WIDE}), {unit}), {unit} + t.l) "
        "WHEN t.h < 0 AND t.l > 0 THEN "
        f"try_add(try_multiply(CAST(t.h + 1 AS {_WIDE}), {unit}), t.l - {unit}) "
        f"ELSE try_add(try_multiply(t.h, {unit}), t.l) END"
    )
    return _let("t", f"named_struct('h', {upper}, 'l', {lower})", joined)


def _quotient(units: str, count: str, more: int) -> str:
    """Units by a count, to `more` digits more, halves away from zero: by long division."""
    digits = [
        f"CAST(({units} div {_power(20)}) div {_BASE} AS {_WIDE})",
        f"CAST(({units} div {_power(20)}) % {_BASE} AS {_WIDE})",
        f"CAST(({units} % {_power(20)}) div {_BASE} AS {_WIDE})",
        f"CAST(({units} % {_power(20)}) % {_BASE} AS {_WIDE})",
    ]
    bases = [f"CAST({_BASE} AS DECIMAL(11,0))"] * 4 + [f"CAST({_power(more)} AS DECIMAL(11,0))"]
    pairs = zip(bases, [*digits, f"CAST(0 AS {_WIDE})"], strict=True)
    steps = ", ".join(f"named_struct('b', {base}, 'd', {digit})" for base, digit in pairs)
    zero = f"CAST(0 AS {_WIDE})"
    # A remainder is less than the count, a BIGINT: with ten more digits it has room.
    rest = "(CAST(a.r AS DECIMAL(19,0)) * x.b + CAST(x.d AS DECIMAL(10,0)))"
    step = (
        f"named_struct('q', CAST(try_add(try_multiply(a.q, x.b), CAST({rest} div {count} AS "
        f"{_WIDE})) AS {_WIDE}), 'r', CAST({rest} % {count} AS {_WIDE}))"
    )
    half = f"CASE WHEN abs(a.r) * 2 >= {count} THEN CAST(signum(a.r) AS {_WIDE}) ELSE {zero} END"
    return (
        f"aggregate(array({steps}), named_struct('q', {zero}, 'r', {zero}), "
        f"(a, x) -> {step}, a -> try_add(a.q, {half}))"
    )
