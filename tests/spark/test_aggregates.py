"""Aggregates by partials are Spark's own over the whole, whatever chunks and orders are merged.

For every function and every type of argument: groups with NULL, NaN, infinities, extremes, nothing
at all and sums that overflow, in random chunks (from one tuple each to all in one), merged in two
stages and from tuples that pass through. DuckDB judges where it has the function.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, localcontext
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from shoal.kernel.errors import UserError
from shoal.log.types import arrow_type
from shoal.query.terms.types import FRACTIONAL, INTEGRAL, decimal_parts, is_decimal
from shoal.query.windows.aggregates import AGGREGATES, Argument, measure
from shoal.query.windows.exact import average_type, sum_type
from shoal.query.windows.plan import Measure

pytestmark = pytest.mark.slow

TYPES = (
    *("TINYINT", "INT", "BIGINT", "FLOAT", "DOUBLE"),
    *("DECIMAL(5,2)", "DECIMAL(18,4)", "DECIMAL(28,3)", "DECIMAL(29,0)", "DECIMAL(35,10)"),
    *("DECIMAL(38,0)", "DECIMAL(38,30)", "DECIMAL(38,38)"),
    *("STRING", "BINARY", "BOOLEAN", "DATE", "TIMESTAMP"),
)
#: The JVM compiles these; the others are interpreted, which takes a fraction of the time.
COMPILED = ("BIGINT", "DOUBLE", "DECIMAL(35,10)")
FILTER = "s.w"
#: Groups in which DuckDB overflows, or refuses NaN and infinities.
WILD = ("edge", "cancel", "special", "huge", "opposite", "over", "brim", "infinite", "nan")
SPREADS = ("var_pop", "var_samp", "stddev_pop", "stddev_samp")
EXACT_SUMS = ("sum", "avg")
#: Spark's own, where it would throw: its form that gives NULL.
OF_SPARK = {"sum": "try_sum", "avg": "try_avg"}
#: What a sketch is compared with: so few values are counted exactly.
OF_SKETCH = {"approx_count_distinct": "count(DISTINCT {0})"}
#: Functions that mean the same in DuckDB.
OF_DUCKDB = ("count", "sum", "avg", "min", "max", "bool_and", "bool_or", "count_if", *SPREADS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One call, and the measure that is made of it."""

    function: str
    filtered: bool
    fixed: tuple[float, ...]
    measure: Measure

    def text(self, function: str) -> str:
        """The call in the SQL of Spark or DuckDB."""
        pair = self.function in ("max_by", "min_by")
        arguments = ["s.x", "s.y"] if pair else ["s.x"]
        pattern = OF_SKETCH.get(function)
        told = ", ".join([*arguments, *map(repr, self.fixed)])
        made = pattern.format("s.x") if pattern else f"{function}({told})"
        return f"{made} FILTER (WHERE {FILTER})" if self.filtered else made


def cases(type_: str) -> list[Case]:
    """Every call whose first argument may have this type, with and without FILTER."""
    calls = [
        (function, fixed, where)
        for function, known in AGGREGATES.items()
        for fixed in ([(0.0,), (0.5,), (0.97,)] if known.least else [()])
        for where in ("", FILTER)
    ]
    found: list[Case] = []
    for function, fixed, where in calls:
        made = made_of(function, type_, name=f"a{len(found)}", where=where, fixed=fixed)
        if made is not None:
            case = Case(function=function, filtered=bool(where), fixed=fixed, measure=made)
            found.append(case)
    return found


def made_of(
    function: str, type_: str, *, name: str, where: str, fixed: tuple[float, ...]
) -> Measure | None:
    """The measure of a call; None if it takes no argument of this type."""
    both = (Argument(text="s.`x`", type=type_), Argument(text="s.`y`", type="INT"))
    arguments = both[: len(AGGREGATES[function].kinds)]
    try:
        return measure(function, arguments, name=name, where=where, fixed=fixed)
    except UserError:
        return None


# Data


def values(type_: str, rng: Random) -> Mapping[str, list[Any]]:
    """Groups of values, by what is special about them."""
    few = _numbers(type_, rng) if is_number(type_) else _others(type_, rng)
    some = few["plain"]
    return {
        "null": [None] * 5,
        "one": some[:1],
        "hidden": some[:7],
        "holes": [value if rng.random() < 0.6 else None for value in some],
        **few,
    }


def is_number(type_: str) -> bool:
    return type_ in INTEGRAL or type_ in FRACTIONAL or is_decimal(type_)


def _numbers(type_: str, rng: Random) -> dict[str, list[Any]]:
    if type_ in FRACTIONAL:
        return _floats(type_, rng)
    if is_decimal(type_):
        digits, scale = decimal_parts(type_)
        top, unit = 10**digits - 1, scale
    else:
        bits = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}[type_]
        top, unit = 2**bits - 1, 0
    low = top if is_decimal(type_) else top + 1

    def all_of(units: Sequence[int]) -> list[Any]:
        if not is_decimal(type_):
            return list(units)
        return [Decimal((int(one < 0), tuple(map(int, str(abs(one)))), -unit)) for one in units]

    middle = top // 1000 + 10
    cancel = [top, -low, top - 1, -top, top - 2, -top, 7, -3, 1] * 3
    return {
        "plain": all_of([rng.randint(-middle, middle) for _ in range(40)]),
        "edge": all_of([top, -low, top, top - 1, top, 1, top, top - 2]),
        "edge down": all_of([-low, -low, 0, -low + 1, -low]),
        "cancel": all_of(rng.sample(cancel, len(cancel))),
        # One more than the largest sum, and the largest itself.
        "brim": all_of([top, 1, -1]),
        "over": all_of([top, 1]),
        "thirds": all_of([top // 3, top // 3 - 1, 5]),
        "halves": all_of([1, 0, 0, 0, 0, 0, 0, 0]),
        "small": all_of([rng.randint(-9, 9) for _ in range(23)]),
        "edge apart": all_of([top - rng.randint(0, 9) for _ in range(5)]),
    }


def _floats(type_: str, rng: Random) -> dict[str, list[Any]]:
    huge = 3.0e38 if type_ == "FLOAT" else 1.7e308
    inf, nan = math.inf, math.nan
    found: dict[str, list[Any]] = {
        "plain": [rng.uniform(-1000, 1000) for _ in range(40)],
        "apart": [1e6 + rng.random() for _ in range(40)],
        "special": [1.0, inf, 2.5, nan, -inf, 3.0],
        "infinite": [1.0, inf, 2.5],
        "nan": [nan, 1.0, 2.0, nan],
        "nans": [nan, nan],
        "zeros": [0.0, -0.0, -0.0, 0.0],
        "huge": [huge, huge * 0.9, huge * 0.95, 1.0],
        "huge alike": [huge] * 6,
        "opposite": [huge, -huge, huge, -huge],
        "tiny": [5e-324, 1e-300, -1e-310, 2.5e-323],
    }
    if type_ == "FLOAT":
        rounded = pa.array([0.0], pa.float32())
        for name, items in found.items():
            rounded = pa.array(items, pa.float64()).cast(pa.float32(), safe=False)
            found[name] = rounded.to_pylist()
    return found


def _others(type_: str, rng: Random) -> dict[str, list[Any]]:
    if type_ == "BOOLEAN":
        return {"plain": [rng.random() < 0.5 for _ in range(20)], "true": [True] * 4}
    if type_ == "DATE":
        day = date(2024, 2, 29)
        wide = [date(1, 1, 1), date(9999, 12, 31), day, date(1582, 10, 15)]
        return {"plain": [day + timedelta(rng.randint(-999, 999)) for _ in range(30)], "edge": wide}
    if type_ == "TIMESTAMP":
        now = datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC)
        wide = [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC), now]
        plain = [now + timedelta(microseconds=rng.randint(-(10**12), 10**12)) for _ in range(30)]
        return {"plain": plain, "edge": wide}
    texts = ["", "a", "A", "é", "e\u0301", "zz", "a b", "😀", "\u0000", "ß"]
    words = [rng.choice(texts) + rng.choice(texts) for _ in range(40)]
    if type_ == "STRING":
        return {"plain": words, "empty": ["", ""]}
    return {"plain": [word.encode() for word in words], "empty": [b"", b"\x00", b"\xff"]}


def table(type_: str) -> pa.Table:
    """The groups, each in four trials with chunks of its own: g, t, x, y, w, chunk, part."""
    rng = Random(f"aggregates {type_}")
    rows = []
    for group, items in values(type_, rng).items():
        whole = [(value, _order(rng), _kept(group, rng)) for value in items]
        for trial in range(4):
            shuffled = rng.sample(whole, len(whole))
            chunks = (1, 3, 7, 1_000_000)[trial]
            rows += [(group, trial, *row, rng.randrange(chunks)) for row in shuffled]
    columns = list(zip(*rows, strict=True))
    kinds = [pa.string(), pa.int32(), arrow_type(type_), pa.int32(), pa.bool_(), pa.int32()]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    return pa.table(arrays, names=["g", "t", "x", "y", "w", "chunk"])


def _order(rng: Random) -> int | None:
    return None if rng.random() < 0.2 else rng.randrange(1_000_000)


def _kept(group: str, rng: Random) -> bool | None:
    return False if group == "hidden" else rng.choice([True, True, False, None])


# Results


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """The values by partials, and what was kept on the way."""

    chunks: pa.Table
    tuples: pa.Table
    stages: tuple[pa.Table, ...]


def merged(session: SparkSession, found: list[Case]) -> Paths:
    """The values by partials: in two stages of merging, and with tuples passed through."""
    partials = [part for case in found for part in case.measure.partials]
    simple = [case for case in found if all(part.each for part in case.measure.partials)]
    passed = [part for case in simple for part in case.measure.partials]

    def stage(texts: Sequence[str], source: pa.Table | str, keys: str, by: str) -> pa.Table:
        """One query over what the one before gave, as if it had been stored between."""
        if isinstance(source, pa.Table):
            session.createDataFrame(source).createOrReplaceTempView("stage")
        name = "stage" if isinstance(source, pa.Table) else source
        query = f"SELECT {keys}, {', '.join(texts)} FROM {name} AS s {by}"
        return session.sql(query).toArrow()

    def finished(source: pa.Table, some: list[Case]) -> pa.Table:
        finals = [f"{case.measure.final} AS `{case.measure.name}`" for case in some]
        return stage(finals, source, "g, t", "")

    makes = [f"{part.make} AS `{part.name}`" for part in partials]
    merges = [f"{part.merge} AS `{part.name}`" for part in partials]
    chunks = stage(makes, "aggregated", "g, t, chunk", "GROUP BY g, t, chunk")
    halves = stage(merges, chunks, "g, t, chunk % 2 AS half", "GROUP BY g, t, chunk % 2")
    wholes = stage(merges, halves, "g, t", "GROUP BY g, t")
    eaches = [f"{part.each} AS `{part.name}`" for part in passed]
    tuples = stage(eaches, "aggregated", "g, t", "")
    again = [f"{part.merge} AS `{part.name}`" for part in passed]
    return Paths(
        chunks=finished(wholes, found),
        tuples=finished(stage(again, tuples, "g, t", "GROUP BY g, t"), simple),
        stages=(chunks, halves, wholes, tuples),
    )


def by_group(results: pa.Table) -> dict[tuple[str, int], dict[str, Any]]:
    return {(row["g"], row.get("t", 0)): row for row in results.to_pylist()}


@pytest.fixture
def compiled(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    """Interpret what is not to be compiled: each query runs once, over a few rows."""
    keys = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    if request.node.callspec.params["type_"] in COMPILED:
        yield
        return
    for key, value in keys.items():
        spark.conf.set(key, value)
    yield
    for key in keys:
        spark.conf.unset(key)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("type_", TYPES)
def test_partials_give_what_spark_gives_over_the_whole(spark: SparkSession, type_: str) -> None:
    data = table(type_)
    spark.createDataFrame(data).createOrReplaceTempView("aggregated")
    found = cases(type_)
    paths = merged(spark, found)
    check_types(found, paths)
    asked = ", ".join(
        f"{case.text(OF_SPARK.get(case.function, case.function))} AS {case.measure.name}"
        for case in found
    )
    query = f"SELECT g, {asked} FROM aggregated AS s WHERE t = 0 GROUP BY g"
    own = spark.sql(query).toArrow()
    check_final_types(found, own)
    expected = by_group(own)
    groups = {key: rows_of(data, key) for key in expected}
    for path, table_of in (("chunks", paths.chunks), ("tuples", paths.tuples)):
        results = by_group(table_of)
        assert len(results) == 4 * len(expected)
        simple = [case for case in found if case.measure.name in table_of.column_names]
        assert len(simple) >= len(found) / 2
        pairs = itertools.product(results.items(), simple)
        for ((group, trial), row), case in pairs:
            judge = Judge(case=case, type=type_, rows=groups[group, 0])
            told = f"{path} {group} {trial} {case.text(case.function)}"
            judge.check(row[case.measure.name], expected[group, 0], told)
    compare_with_duckdb(data, type_, found, by_group(paths.chunks), groups)


def check_types(found: list[Case], paths: Paths) -> None:
    partials = {part.name: part for case in found for part in case.measure.partials}
    for stage in paths.stages:
        for name in stage.column_names:
            if name in partials:
                kept = stage.schema.field(name).type
                assert kept == arrow_type(partials[name].type), f"{kept} of {partials[name]}"
    check_final_types(found, paths.chunks)


def check_final_types(found: list[Case], results: pa.Table) -> None:
    for case in found:
        kind = results.schema.field(case.measure.name).type
        assert kind == arrow_type(case.measure.type), case.text(case.function)


def rows_of(data: pa.Table, key: tuple[str, int]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = data.select(["g", "t", "x", "y", "w"]).to_pylist()
    return [row for row in rows if (row["g"], row["t"]) == key]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Says whether a value is right: to the bit, or to 1e-9 of what was added."""

    case: Case
    type: str
    rows: list[dict[str, Any]]

    @property
    def items(self) -> list[Any]:
        rows = [row for row in self.rows if row["w"] or not self.case.filtered]
        return [row["x"] for row in rows if row["x"] is not None]

    def check(self, value: Any, own: Mapping[str, Any], told: str) -> None:
        spark = own[self.case.measure.name]
        told = f"{told}: {value!r}, Spark has {spark!r}"
        if self.case.function == "approx_percentile":
            # Spark's own holds doubles: it loses digits of a BIGINT, and the order of NaN.
            truth = self.ranked()
            assert self.alike(value, truth), f"{told}, is {truth!r}"
            return
        if self.case.function in EXACT_SUMS and self.type not in FRACTIONAL:
            truth = self.truth()
            # Spark's sum may overflow on the way to one that does not.
            assert spark is None or self.alike(spark, truth), f"{told}, is {truth!r}"
            assert self.alike(value, truth), f"{told}, is {truth!r}"
            return
        assert self.alike(value, spark), told

    def truth(self) -> Any:
        """Exact sums and averages in their types; None where the type has no room."""
        if not self.items:
            return None
        with localcontext(prec=200):
            total = sum(map(Decimal, self.items), Decimal(0))
            if self.case.function == "sum":
                return fitted(total, sum_type(self.type))
            if is_decimal(self.type) and fitted(total, sum_type(self.type)) is None:
                return None
            return fitted(total / len(self.items), average_type(self.type))

    def ranked(self) -> Any:
        """The nearest rank; NaN is above all numbers."""
        ordered = sorted(self.items, key=lambda item: (item != item, item))
        place = max(math.ceil(self.case.fixed[0] * len(ordered)), 1)
        return ordered[place - 1] if ordered else None

    def alike(self, value: Any, other: Any) -> bool:
        if not isinstance(value, float) or not isinstance(other, float):
            return type(value) is type(other) and value == other
        if math.isnan(value) or math.isnan(other):
            return math.isnan(value) == math.isnan(other) or self.overflows
        if self.case.function in (*EXACT_SUMS, *SPREADS):
            return math.isclose(value, other, rel_tol=1e-9, abs_tol=self.slack) or (
                self.overflows and not math.isfinite(value)
            )
        return value == other

    @property
    def slack(self) -> float:
        """1e-9 of the magnitudes that were added; of a variance, of what rounding leaves of it."""
        sizes = [abs(float(item)) for item in self.items]
        if self.case.function in SPREADS:
            # A spread is known to the rounding of the values: 1e-16 of them, and no better.
            blur = 1e-15 * max(sizes, default=0.0)
            return blur * blur * 1e6 if self.case.function.startswith("var") else blur * 1e3
        magnitude = 1e-9 * sum(sizes)
        return magnitude if self.case.function == "sum" else magnitude / max(len(sizes), 1)

    @property
    def overflows(self) -> bool:
        """Whether doubles overflow on the way: then it depends on the order where."""
        sizes = [abs(float(item)) for item in self.items if not math.isnan(float(item))]
        square = self.case.function in SPREADS
        return self.type == "DOUBLE" and max(sizes, default=0.0) > (1e150 if square else 1e307)


def fitted(value: Decimal, type_: str) -> Any:
    """An exact value in a type: rounded as Spark rounds, None if it is too large."""
    if type_ == "DOUBLE":
        return float(value)
    if type_ == "BIGINT":
        return int(value) if -(2**63) <= value < 2**63 else None
    digits, scale = decimal_parts(type_)
    found = value.quantize(Decimal(1).scaleb(-scale), rounding=ROUND_HALF_UP)
    return found if abs(found.scaleb(scale)) < 10**digits else None


def compare_with_duckdb(
    data: pa.Table,
    type_: str,
    found: list[Case],
    results: Mapping[tuple[str, int], dict[str, Any]],
    groups: Mapping[tuple[str, int], list[dict[str, Any]]],
) -> None:
    """Every function that DuckDB has, in the groups where its own limits do not show."""
    known = [case for case in found if case.function in OF_DUCKDB]
    asked = ", ".join(f"{case.text(case.function)} AS {case.measure.name}" for case in known)
    tame = [group for group, _ in groups if not any(word in group for word in WILD)]
    names = ", ".join(f"'{name}'" for name in tame)
    query = f"SELECT g, {asked} FROM data AS s WHERE t = 0 AND g IN ({names}) GROUP BY g"
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("data", data)
        judged = by_group(connection.sql(query).to_arrow_table())
    assert len(judged) >= 5
    for key, row in judged.items():
        for case in known:
            judge = Judge(case=case, type=type_, rows=groups[key])
            value, other = results[key][case.measure.name], row[case.measure.name]
            if case.function == "avg" and is_decimal(type_) and judge.truth() is None:
                continue  # Spark's type has no room for it, a DOUBLE has
            told = f"{key} {case.text(case.function)}: {value!r}, DuckDB has {other!r}"
            assert judge.alike(value, as_spark(other, value, case)), told


def as_spark(other: Any, value: Any, case: Case) -> Any:
    """DuckDB's value in Spark's type: its sums are wider, its averages of decimals doubles."""
    if case.function == "count_if" and other is None:
        return 0
    if isinstance(other, Decimal) and isinstance(value, int):
        return int(other)
    if isinstance(value, Decimal) and isinstance(other, float):
        half = Decimal(1).scaleb(-decimal_parts(case.measure.type)[1]) / 2
        close = abs(Decimal(other) - value) <= half + abs(value) * Decimal("1e-12")
        return value if close else other
    return other


def test_sketches_keep_their_errors(spark: SparkSession) -> None:
    count = 60_000
    spark.sql(
        f"SELECT id * 7919 % {count} AS x, CAST(id % 37 AS INT) AS chunk FROM range({count})"
    ).createOrReplaceTempView("sketched")
    argument = (Argument(text="s.`x`", type="BIGINT"),)
    made = {
        "a0": measure("approx_count_distinct", argument, name="a0"),
        "a1": measure("approx_count_distinct", argument, name="a1", fixed=(0.2,)),
        "a2": measure("approx_percentile", argument, name="a2", fixed=(0.25,)),
        "a3": measure("approx_percentile", argument, name="a3", fixed=(0.99, 100)),
    }
    partials = [part for one in made.values() for part in one.partials]
    makes = ", ".join(f"{part.make} AS `{part.name}`" for part in partials)
    merges = ", ".join(f"{part.merge} AS `{part.name}`" for part in partials)
    finals = ", ".join(f"{one.final} AS `{name}`" for name, one in made.items())
    chunks = f"SELECT chunk, {makes} FROM sketched AS s GROUP BY chunk"
    halves = f"SELECT chunk % 2 AS half, {merges} FROM ({chunks}) GROUP BY chunk % 2"
    (row,) = spark.sql(f"SELECT {finals} FROM (SELECT {merges} FROM ({halves}))").collect()
    # Five standard errors; and several times the error that holds in 99 of 100 cases.
    assert abs(row.a0 - count) < 5 * 0.0163 * count
    assert abs(row.a1 - count) < 5 * 0.2 * count
    assert abs(row.a2 - 0.25 * count) < 5 * 0.003 * count
    assert abs(row.a3 - 0.99 * count) < 5 * 0.01 * count
