"""The aggregate functions of windows: what panes keep of each, how that merges, and its value.

    measure("avg", (Argument(text="s.`kwh`", type="DOUBLE"),), name="a0")

        a0_s  DOUBLE  make  sum(s.`kwh`)      merge  sum(`a0_s`)
        a0_n  BIGINT  make  count(s.`kwh`)    merge  sum(`a0_n`)
        a0    DOUBLE  final try_divide(`a0_s`, CAST(nullif(`a0_n`, 0L) AS DOUBLE))

Types and values are those of Spark's own aggregate over all tuples of the window at once, but:
where Spark would throw, the value is NULL; of values that are equal (0.0 and -0.0, ties of max_by)
Spark takes the first it meets, and here the choice does not depend on the order; sketches are
approximate within the error that they state (`sketches.py`).

Promises   no text throws in ANSI mode for fewer than 2^32 tuples in a group; merging may be
           repeated and may take place in any order: exact types give the same bits, DOUBLE
           the same value to 1e-9 of the magnitudes that are added.
Not here   sums and averages of exact types (`exact.py`), sketches (`sketches.py`); reading
           SELECT lists; running any of it (`spark/windows/`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from shoal.kernel.errors import LocalError, UserError
from shoal.query.selection import Value
from shoal.query.terms.types import FRACTIONAL, is_numeric
from shoal.query.windows import exact, sketches
from shoal.query.windows.plan import Measure, Partial

__all__ = ["AGGREGATES", "Aggregate", "Argument", "measure", "name_of", "why_not"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """An argument: safe text over `s.<column>` (a column, a call, or in parentheses), its type."""

    text: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """How one function may be called. `kinds` are the kinds of its arguments, one for each.

    numeric   whole numbers, DECIMAL, FLOAT and DOUBLE
    ordered   whatever a column may hold
    boolean   BOOLEAN
    ranked    what a quantile sketch can hold
    `least` and `most` count the constants that follow the arguments.
    """

    kinds: tuple[str, ...]
    least: int = 0
    most: int = 0
    synonyms: tuple[str, ...] = ()


#: `count` without an argument is count(*).
AGGREGATES: Mapping[str, Aggregate] = {
    "count": Aggregate(kinds=("ordered",)),
    "sum": Aggregate(kinds=("numeric",), synonyms=("try_sum",)),
    "avg": Aggregate(kinds=("numeric",), synonyms=("mean", "try_avg")),
    "min": Aggregate(kinds=("ordered",)),
    "max": Aggregate(kinds=("ordered",)),
    "var_pop": Aggregate(kinds=("numeric",)),
    "var_samp": Aggregate(kinds=("numeric",), synonyms=("variance",)),
    "stddev_pop": Aggregate(kinds=("numeric",)),
    "stddev_samp": Aggregate(kinds=("numeric",), synonyms=("std", "stddev")),
    "count_if": Aggregate(kinds=("boolean",), synonyms=("countif",)),
    "bool_and": Aggregate(kinds=("boolean",), synonyms=("every",)),
    "bool_or": Aggregate(kinds=("boolean",), synonyms=("any", "some")),
    "max_by": Aggregate(kinds=("ordered", "ordered")),
    "min_by": Aggregate(kinds=("ordered", "ordered")),
    "approx_count_distinct": Aggregate(kinds=("ordered",), most=1),
    "approx_percentile": Aggregate(
        kinds=("ranked",), least=1, most=2, synonyms=("percentile_approx",)
    ),
}

_NAMES = {
    name: canonical
    for canonical, known in AGGREGATES.items()
    for name in (canonical, *known.synonyms)
}

_REASONS = {
    "which tuple is the first depends on how they arrived; use min_by(x, ts) or max_by(x, ts)": (
        "first first_value last last_value any_value"
    ),
    "it would hold every tuple of the window; SELECT the tuples themselves": (
        "collect_list collect_set array_agg listagg string_agg try_listagg"
    ),
    "it needs all values of the window at once; use approx_percentile(x, 0.5)": (
        "percentile percentile_cont percentile_disc median histogram_numeric"
    ),
    "it needs all values of the window at once; GROUP BY x with count(*)": "mode approx_top_k",
    "it is not kept in panes; avg(x), avg(y), avg(x * y) and avg(x * x) together give it": (
        "corr covar_pop covar_samp regr_avgx regr_avgy regr_count regr_intercept regr_r2 "
        "regr_slope regr_sxx regr_sxy regr_syy skewness kurtosis"
    ),
    "there is one grouping only": "grouping grouping_id",
    "its value is no column's type": (
        "count_min_sketch hll_sketch_agg hll_union_agg kll_sketch_agg_bigint kll_sketch_agg_float "
        "kll_sketch_agg_double theta_sketch_agg bitmap_construct_agg"
    ),
}


def name_of(function: str) -> str:
    """The function's name in canonical form, "" if it is no aggregate that windows can have.

    >>> name_of("MEAN"), name_of("upper")
    ('avg', '')
    """
    return _NAMES.get(function.lower(), "")


def why_not(function: str, *, distinct: bool = False) -> str:
    """Why windows cannot have an aggregate, and what they can; "" if there is nothing to say."""
    if distinct:
        name = name_of(function)
        if name in ("min", "max", "bool_and", "bool_or"):
            return f"DISTINCT changes nothing in {name}; leave it out"
        if name == "count":
            return "it would hold every value of the window; use approx_count_distinct(x)"
        return "it would hold every value of the window; SELECT DISTINCT gives the values"
    for reason, names in _REASONS.items():
        if function.lower() in names.split():
            return reason
    return ""


def measure(
    function: str,
    arguments: tuple[Argument, ...],
    *,
    name: str,
    where: str = "",
    fixed: tuple[Value, ...] = (),
) -> Measure:
    """The measure of one call: its column is `name`, its partials' begin with it.

    `where` is the condition of FILTER over `s.<column>`, "" if there is none; `fixed` are the
    constants after the arguments: of approx_percentile the share and the accuracy, of
    approx_count_distinct the error.
    """
    canonical = name_of(function)
    if not canonical:
        raise LocalError(f"{function} is no aggregate", detail=why_not(function))
    known = AGGREGATES[canonical]
    rows = canonical == "count" and not arguments
    if not rows and len(arguments) != len(known.kinds):
        raise UserError(
            f"{canonical} takes {_counted(len(known.kinds))}", detail=f"{len(arguments)} are given"
        )
    if not known.least <= len(fixed) <= known.most:
        raise UserError(
            f"{canonical} takes {known.least} to {known.most} constants after its argument",
            detail=f"{len(fixed)} are given",
        )
    for kind, argument in zip(known.kinds, arguments, strict=False):
        _check(canonical, kind, argument.type)
    call = _Call(
        function=canonical,
        arguments=arguments,
        name=name,
        filter=f" FILTER (WHERE {where})" if where else "",
        where=where,
        fixed=fixed,
    )
    return _MAKERS[canonical](call)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """A call that has passed the checks."""

    function: str
    arguments: tuple[Argument, ...]
    name: str
    filter: str
    where: str
    fixed: tuple[Value, ...]

    @property
    def text(self) -> str:
        return self.arguments[0].text

    @property
    def type(self) -> str:
        return self.arguments[0].type

    def column(self, suffix: str) -> str:
        return f"`{self.name}_{suffix}`"

    def alone(self, text: str) -> str:
        """A text where the filter holds, and NULL elsewhere."""
        return f"CASE WHEN {self.where} THEN {text} END" if self.where else text

    def summed(self, suffix: str, type_: str, make: str, each: str) -> Partial:
        """A partial of which the sum over panes is that over their tuples."""
        return self.partial(suffix, type_, make, f"sum({self.column(suffix)})", each)

    def partial(self, suffix: str, type_: str, make: str, merge: str, each: str) -> Partial:
        name = f"{self.name}_{suffix}"
        return Partial(name=name, type=type_, make=make, merge=merge, each=each)

    def counted(self, text: str) -> Partial:
        """The number of tuples for which a text is not NULL."""
        each = f"CASE WHEN {self.alone(text)} IS NOT NULL THEN 1L ELSE 0L END"
        return self.summed("n", "BIGINT", f"count({text}){self.filter}", each)

    def holding(self, suffix: str, condition: str) -> Partial:
        """The number of tuples for which a condition holds."""
        each = f"CASE WHEN {self.alone(condition)} THEN 1L ELSE 0L END"
        return self.summed(suffix, "BIGINT", f"count_if({condition}){self.filter}", each)

    def measure(self, type_: str, partials: tuple[Partial, ...], final: str) -> Measure:
        return Measure(name=self.name, type=type_, partials=partials, final=final)


def _counted(number: int) -> str:
    return "one argument" if number == 1 else f"{number} arguments"


def _check(function: str, kind: str, type_: str) -> None:
    if type_ == "VOID":
        raise UserError(
            f"{function} cannot take NULL alone", hint="CAST it to the type of a column"
        )
    if kind == "numeric" and not is_numeric(type_):
        raise UserError(
            f"{function} cannot take a {type_}", hint="it takes numbers; CAST(... AS DOUBLE)"
        )
    if kind == "boolean" and type_ != "BOOLEAN":
        raise UserError(
            f"{function} cannot take a {type_}", hint="it takes a condition; compare with something"
        )
    if kind == "ranked" and not sketches.rankable(type_):
        raise UserError(
            f"{function} cannot take a {type_}",
            hint="it takes numbers, DATE and TIMESTAMP; CAST a DECIMAL of more than 18 digits",
        )


def _count(call: _Call) -> Measure:
    text = call.text if call.arguments else "1"
    return call.measure("BIGINT", (call.counted(text),), call.column("n"))


def _count_if(call: _Call) -> Measure:
    return call.measure("BIGINT", (call.holding("n", call.text),), call.column("n"))


def _sum(call: _Call) -> Measure:
    if call.type in FRACTIONAL:
        return call.measure("DOUBLE", (_fractional_sum(call),), call.column("s"))
    partials = _exact_sum(call)
    return call.measure(exact.sum_type(call.type), partials, exact.total(call.name, call.type))


def _avg(call: _Call) -> Measure:
    count = call.counted(call.text)
    if call.type in FRACTIONAL:
        final = f"try_divide({call.column('s')}, CAST(nullif({call.column('n')}, 0L) AS DOUBLE))"
        return call.measure("DOUBLE", (_fractional_sum(call), count), final)
    partials = _exact_sum(call)
    final = exact.average(call.name, call.type)
    return call.measure(exact.average_type(call.type), (*partials, count), final)


def _exact_sum(call: _Call) -> tuple[Partial, ...]:
    alone = call.alone(call.text)
    return exact.sum_partials(call.name, call.text, call.type, call.filter, alone)


def _fractional_sum(call: _Call) -> Partial:
    # Spark adds FLOAT as DOUBLE too; a sum begins with 0.0, so one -0.0 is none.
    each = f"(CAST({call.alone(call.text)} AS DOUBLE) + 0D)"
    return call.summed("s", "DOUBLE", f"sum({call.text}){call.filter}", each)


def _extreme(call: _Call) -> Measure:
    """min, max, bool_and and bool_or: they merge by themselves."""
    column = call.column("m")
    make, merge = f"{call.function}({call.text}){call.filter}", f"{call.function}({column})"
    partial = call.partial("m", call.type, make, merge, call.alone(call.text))
    final = column
    if call.type in FRACTIONAL:
        # 0.0 and -0.0 are equal: which one is met first would decide.
        final = f"CASE WHEN {column} = 0 THEN CAST(0 AS {call.type}) ELSE {column} END"
    return call.measure(call.type, (partial,), final)


def _by(call: _Call) -> Measure:
    """max_by and min_by. Of equal orderings the values decide, not which was met first."""
    extreme = call.function[:3]
    value, by = (argument.text for argument in call.arguments)
    ordering = call.arguments[1].type
    known = f"{by} IS NOT NULL"
    chosen = f"({call.where}) AND {known}" if call.where else known
    made = f"{call.function}({value}, struct({by}, {value}))"
    column, rank = call.column("v"), call.column("o")
    merged = f"{call.function}({column}, struct({rank}, {column}))"
    partials = (
        call.partial(
            "v",
            call.type,
            f"{made} FILTER (WHERE {chosen})",
            f"{merged} FILTER (WHERE {rank} IS NOT NULL)",
            f"CASE WHEN {chosen} THEN {value} END",
        ),
        call.partial(
            "o", ordering, f"{extreme}({by}){call.filter}", f"{extreme}({rank})", call.alone(by)
        ),
    )
    return call.measure(call.type, partials, column)


#: A power of two: means are added a step smaller, so that no sum of large values overflows.
_DOWN, _UP = "5.421010862427522E-20D", "1.8446744073709552E19D"


def _variance(call: _Call) -> Measure:
    """The count, the mean, and the squared distances from it: sums of squares would cancel.

    Panes are folded by the formula of Chan, Golub and LeVeque (1979), as Spark does inside.
    """
    value = f"CAST({call.text} AS DOUBLE)"
    alone = f"CAST({call.alone(call.text)} AS DOUBLE)"
    n, mean, squares = call.column("n"), call.column("m"), call.column("q")
    made_mean = f"avg({value} * {_DOWN}){call.filter} * {_UP}"
    merged_mean = (
        f"try_divide(sum(CAST({n} AS DOUBLE) * ({mean} * {_DOWN})), CAST(sum({n}) AS DOUBLE)) * "
        f"{_UP}"
    )
    made_squares = f"var_pop({value}){call.filter} * CAST(count({value}){call.filter} AS DOUBLE)"
    partials = (
        call.counted(call.text),
        call.partial("m", "DOUBLE", made_mean, merged_mean, alone),
        # One tuple is not apart from itself, unless it is NaN or infinite.
        call.partial("q", "DOUBLE", made_squares, _folded(n, mean, squares), f"({alone} * 0D)"),
    )
    return call.measure("DOUBLE", partials, _spread(call.function, n, squares))


def _folded(n: str, mean: str, squares: str) -> str:
    """The squared distances of all panes from their common mean."""
    share = "(x.n / (a.n + x.n))"
    apart = "(x.m - a.m)"
    # In this order no product overflows where the first pane meets the empty start.
    between = f"{apart} * (a.n * {share}) * {apart}"
    return (
        f"aggregate(collect_list(named_struct('n', CAST({n} AS DOUBLE), 'm', {mean}, "
        f"'q', {squares})) FILTER (WHERE {n} > 0), named_struct('n', 0D, 'm', 0D, 'q', 0D), "
        f"(a, x) -> named_struct('n', a.n + x.n, 'm', a.m + {apart} * {share}, "
        f"'q', a.q + x.q + {between}), a -> a.q)"
    )


def _spread(function: str, n: str, squares: str) -> str:
    least, degrees = (1, n) if function.endswith("_pop") else (2, f"({n} - 1L)")
    variance = f"try_divide({squares}, CAST({degrees} AS DOUBLE))"
    if function.startswith("stddev"):
        variance = f"sqrt({variance})"
    return f"CASE WHEN {n} >= {least} THEN {variance} END"


def _distinct(call: _Call) -> Measure:
    sketch = sketches.distinct(call.column("d"), call.text, call.filter, call.fixed)
    partial = call.partial("d", "BINARY", sketch.make, sketch.merge, "")
    return call.measure("BIGINT", (partial,), sketch.final)


def _percentile(call: _Call) -> Measure:
    sketch = sketches.quantile(call.column("k"), call.text, call.type, call.filter, call.fixed)
    partial = call.partial("k", "BINARY", sketch.make, sketch.merge, "")
    if call.type not in FRACTIONAL:
        return call.measure(call.type, (partial,), sketch.final)
    # A sketch has no place for NaN, which is above all numbers: it stands there as infinity.
    nans = call.holding("f", f"isnan({call.text})")
    rank = f"greatest(ceil({sketch.share} * {sketch.count}), 1L)"
    above = f"{sketch.count} > 0 AND {rank} > {sketch.count} - {call.column('f')}"
    final = f"CASE WHEN {above} THEN CAST('NaN' AS {call.type}) ELSE {sketch.final} END"
    return call.measure(call.type, (partial, nans), final)


_MAKERS: Mapping[str, Callable[[_Call], Measure]] = {
    "count": _count,
    "count_if": _count_if,
    "sum": _sum,
    "avg": _avg,
    **dict.fromkeys(("min", "max", "bool_and", "bool_or"), _extreme),
    **dict.fromkeys(("max_by", "min_by"), _by),
    **dict.fromkeys(("var_pop", "var_samp", "stddev_pop", "stddev_samp"), _variance),
    "approx_count_distinct": _distinct,
    "approx_percentile": _percentile,
}
