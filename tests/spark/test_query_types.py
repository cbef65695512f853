"""The condition with its parameters joined in answers as Spark's own WHERE does.

For a matrix of columns and constants, and for random predicates: types come from a real probe,
the rows have NULL, NaN and extremes, and every value of the predicate is compared, not only
TRUE. Where a predicate throws, `errors` is TRUE for just those rows, and `condition` does not.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from shoal.kernel.errors import UserError
from shoal.query.draft import parse_selection
from shoal.query.selection import Selection
from shoal.query.terms.types import decimal_parts, element_of, is_decimal
from tests.property.predicates import predicate, spell
from tests.property.spark_types import answers
from tests.property.streams import READINGS

pytestmark = pytest.mark.slow

COLUMNS = [column.name for column in READINGS.columns]
CONSTANTS = (
    "5 -1 2147483647 -2147483648 9223372036854775807 5.25 -0.5 0.1 12345678.125 1e3 -1e300 5L "
    "5Y 7S 0.1F 2.5D 5.25BD '5' '-1' 'NaN' 'Infinity' ' 5 ' '0.1' 'true' '2024-02-29' "
    "'1970-01-01 00:00:01.5' NULL TRUE X'00ff' DATE'2024-02-29' TIMESTAMP'2024-02-29T12:00:00Z' "
    "DATE'0001-01-01'"
)
#: Each throws for some row, in Spark's ANSI mode, or might.
THROWING = (
    "name = 5",
    "name > 1.5",
    "day = name",
    "10 / meter > 1",
    "zone = 1 OR 10 / meter > 1",
    "10 / meter > 1 OR zone = 1",
    "NOT (zone = 1 AND 10 % meter = 1)",
    "meter + zone > 0",
    "tiny * tiny > 100",
    "tiny + 100Y > 0Y",
    "zone = 1 AND -tiny = 5",
    "abs(meter) > 1",
    "kwh > 0 AND total * 3 > 5",
    "total div meter = 1",
    "total div -1 > 0",
    "pmod(total, meter) = 1",
    "CAST(name AS INT) = 5",
    "CAST(kwh AS INT) = 5",
    "CAST(price AS DECIMAL(4,1)) > 1",
    "CAST(total AS TINYINT) = 5",
    "CASE WHEN meter <> 0 THEN 10 / meter ELSE 0 END > 1",
    "CASE WHEN zone = 1 THEN 10 / meter END > 1",
    "coalesce(meter, 10 / zone) > 1",
    "if(meter = 0, 0, 10 / meter) > 1",
    "zone IS NOT NULL AND meter % zone = 0",
    "name = 'a' AND kwh / zone > 1",
    "price * price * price * 1000000 > 1",
    "1 / kwh IS NULL",
    "floor(kwh) = 5",
    "ceil(kwh) = 5",
    "(meter + 1) * (zone - 1) > total",
    "day < TIMESTAMP '2024-02-29 12:00:00'",
)
HARMLESS = (
    "name LIKE 'a%'",
    "name NOT LIKE '%\\\\_%'",
    "name LIKE '5/%%' ESCAPE '/'",
    "name RLIKE '^[a-z5]+$'",
    "name ILIKE 'A%'",
    "name || 'x' = 'ax'",
    "upper(name) = 'A'",
    "substring(name, 1, 1) = 'a'",
    "length(name) > meter",
    "year(ts) = 2024",
    "extract(HOUR FROM ts) >= 1",
    "date_trunc('HOUR', ts) = ts",
    "date_add(day, 1) > DATE '2024-01-01'",
    "datediff(day, DATE '2024-01-01') > 5",
    "round(kwh, 1) = 0.1",
    "round(price, 1) = 5.3",
    "floor(price) = 5",
    "sqrt(kwh) > 1",
    "pow(kwh, 2) > 1",
    "coalesce(kwh, 0) > -1",
    "coalesce(price, 5) = 5",
    "nullif(tiny, 5) IS NULL",
    "nullif(price, 5.25) IS NULL",
    "greatest(meter, zone, 1) = 1",
    "least(price, 5) = 5",
    "CASE zone WHEN 1 THEN 'a' WHEN 2 THEN 'b' END = 'a'",
    "if(flag, kwh, 0) > 0",
    "price * 2 > 10",
    "price * 1.5 + meter > 100",
    "meter * 0.1 > 5",
    "kwh * 2 + meter > 10",
    "price / 3 > 1.75",
    "ratio = 0.1",
    "ratio = 0.1F",
    "ratio * 2 > kwh",
    "TRY_CAST(name AS INT) = 5",
    "CAST(meter AS STRING) = '5'",
    "CAST(ts AS DATE) = day",
    "CAST(flag AS INT) = 1",
    "meter <=> NULL",
    "meter IS DISTINCT FROM zone",
    "(meter > 1) = flag",
    "flag IS NOT TRUE",
    "meter = zone IS NULL",
    "meter IN (5, -1, NULL)",
    "meter NOT IN (5, NULL)",
    "kwh IN (0.1, 5, 1e3)",
    "kwh IN ('NaN', '5')",
    "total IN (5, 7.5)",
    "name IN ('a', '5', '')",
    "day IN ('2024-02-29', '1970-01-01')",
    "ts IN ('2024-02-29T12:00:00Z', '1970-01-01')",
    "kwh = 'NaN'",
    "kwh > 'Infinity'",
    "name = 'it''s'",
    "name = '\\u00e9'",
    "isnan(kwh) OR kwh IS NULL",
    "NOT (kwh > 1 AND meter < 3)",
    "translate(name, 'a', 'b') = 'b'",
    "hash(meter, name) % 2 = 0",
    "unix_micros(ts) > 0",
    "meter IN (1) AND price > 5.255",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One predicate and what became of it."""

    text: str
    selection: Selection


def _table() -> pa.Table:
    """Rows of every type, with NULL, NaN, infinities and extremes."""
    day, hour = 86_400_000_000, 3_600_000_000
    columns: dict[str, list[Any]] = {
        "ts": [None, 0, 1_500_000, 19782 * day + 12 * hour, -day, 253_402_300_799_999_999],
        "meter": [None, 0, 5, -1, 1, 2147483647, -2147483648, 7],
        "zone": [None, 0, 1, 2, -1, 5],
        "kwh": [None, float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 0.1, 5.0, 1e300, 2.5],
        "price": [None, "0.00", "5.25", "-0.50", "5.00", "99999999.99", "12345678.13"],
        "name": [None, "", "a", "b", "5", "-1", "é", "x_y", "it's", " 5 ", "5%", "true"],
        "flag": [None, True, False],
        "day": [None, 0, 19782, -719162, 2932896],
        "raw": [None, b"", b"\x00\xff", b"5"],
        "total": [None, 0, 5, -1, 9223372036854775807, -9223372036854775808, 7],
        "tiny": [None, 0, 5, 127, -128, -1],
        "small": [None, 0, 5, 32767, -32768, 7],
        "ratio": [None, float("nan"), 0.1, 2.5, 0.5, -1.0],
        "größe": [None, 1, 5],
    }
    rng = Random(42)
    # The first row is NULL throughout, the second is what comes first; the rest are drawn.
    rows = [{"id": 0} | dict.fromkeys(columns)]
    rows += [
        {"id": at} | {name: rng.choice(values) for name, values in columns.items()}
        for at in range(1, 40)
    ]
    fields = [pa.field("id", pa.int32())]
    fields += [pa.field(column.name, _arrow(column.type)) for column in READINGS.columns]
    arrays = [_array([row[field.name] for row in rows], field.type) for field in fields]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _array(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(type_):
        return pa.array([None if v is None else str(v) for v in values]).cast(type_)
    return pa.array(values, type_)


def _arrow(type_: str) -> pa.DataType:
    if type_.startswith("ARRAY<"):
        return pa.list_(_arrow(element_of(type_)))
    if is_decimal(type_):
        return pa.decimal128(*decimal_parts(type_))
    return {
        "BOOLEAN": pa.bool_(),
        "TINYINT": pa.int8(),
        "SMALLINT": pa.int16(),
        "INT": pa.int32(),
        "BIGINT": pa.int64(),
        "FLOAT": pa.float32(),
        "DOUBLE": pa.float64(),
        "STRING": pa.string(),
        "BINARY": pa.binary(),
        "DATE": pa.date32(),
        "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    }[type_]


@pytest.fixture(scope="module")
def tuples(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DataFrame]:
    """The rows, read from a file, so that Spark compiles what it computes on them."""
    path: Path = tmp_path_factory.mktemp("query") / "rows.parquet"
    pq.write_table(_table(), path)
    frame = spark.read.parquet(str(path))
    frame.createOrReplaceTempView("readings")
    yield frame
    spark.catalog.dropTempView("readings")


class Probes:
    """Answers of Spark to probes, kept."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._kept: dict[str, list[str]] = {}

    def select(self, text: str) -> Selection:
        """The selection of a predicate, with Spark's types."""
        draft = parse_selection(f"SELECT meter FROM readings WHERE {text}", READINGS)
        if draft.probe not in self._kept:
            try:
                row = self._session.sql(draft.probe).collect()[0]
            except PySparkException as error:
                raise draft.refusal(str(error)) from error
            self._kept[draft.probe] = list(row)
        return draft.resolve(self._kept[draft.probe])


@pytest.fixture(scope="module")
def probes(spark: SparkSession) -> Probes:
    """One cache of answers for the module."""
    return Probes(spark)


def _parameters(spark: SparkSession, cases: Sequence[Case]) -> DataFrame:
    """One row with the parameters of all cases, as `c<case>_<hole>`."""
    names, arrays = ["nothing"], [pa.array([None], pa.int32())]
    for at, case in enumerate(cases):
        pairs = zip(case.selection.signature.holes, case.selection.parameters, strict=True)
        for number, (hole, value) in enumerate(pairs):
            names.append(f"c{at}_{number}")
            listed = None if value is None else [*value] if isinstance(value, tuple) else value
            if isinstance(listed, list):
                inner = _array(listed, _arrow(element_of(hole)))
                arrays.append(pa.ListArray.from_arrays([0, len(listed)], inner))
            else:
                arrays.append(_array([listed], _arrow(hole)))
    return spark.createDataFrame(pa.Table.from_arrays(arrays, names=names))


def _bind(text: str, at: int) -> str:
    return re.sub(r"\bp\.p(\d+)\b", rf"p.c{at}_\1", text)


def _values(spark: SparkSession, cases: Sequence[Case]) -> list[list[tuple[Any, ...]]]:
    """For each case and row: id, condition, errors."""
    _parameters(spark, cases).createOrReplaceTempView("parameters")
    shown = []
    for at, case in enumerate(cases):
        signature = case.selection.signature
        shown.append(f"{_bind(signature.condition, at)} AS k{at}")
        shown.append(f"{_bind(signature.errors, at) or 'FALSE'} AS e{at}")
    query = f"SELECT s.id, {', '.join(shown)} FROM readings AS s CROSS JOIN parameters AS p"
    rows = sorted(spark.sql(query).collect(), key=lambda row: row[0])
    spark.catalog.dropTempView("parameters")
    return [
        [(row[0], row[1 + 2 * at], row[2 + 2 * at]) for row in rows] for at in range(len(cases))
    ]


def _agree(spark: SparkSession, cases: Sequence[Case]) -> None:
    """Condition and predicate have one value for each row, and nothing throws."""
    for start in range(0, len(cases), 40):
        part = cases[start : start + 40]
        predicates = ", ".join(f"({case.text}) AS w{at}" for at, case in enumerate(part))
        rows = spark.sql(f"SELECT id, {predicates} FROM readings").collect()
        plain = sorted(rows, key=lambda row: row[0])
        for at, values in enumerate(_values(spark, part)):
            for row, (number, found, raised) in zip(plain, values, strict=True):
                context = (part[at].text, part[at].selection, number)
                assert found == row[1 + at], context
                assert raised is not True, context


def test_every_column_against_every_constant(
    spark: SparkSession, tuples: DataFrame, probes: Probes
) -> None:
    constants = re.findall(r"[A-Z]*'[^']*'|\S+", CONSTANTS)
    operators = ("=", "<", ">=", "<>", "<=>")
    cases, refused = [], 0
    for at, column in enumerate(COLUMNS):
        for number, constant in enumerate(constants):
            if column == "name" and not constant.startswith(("'", "NULL")):
                continue  # casts text, and throws: see below
            text = f"`{column}` {operators[(at + number) % len(operators)]} {constant}"
            try:
                selection = probes.select(text)
            except UserError:
                refused += 1
                continue
            if selection.signature.errors:
                continue
            cases.append(Case(text=text, selection=selection))
    assert len(cases) > 180
    _agree(spark, cases)


def test_beyond_bigint_null_stays_null(
    spark: SparkSession, tuples: DataFrame, probes: Probes
) -> None:
    """A known difference: Spark folds this comparison to TRUE, for NULL too."""
    text = "total < 99999999999999999999.5"
    case = Case(text=text, selection=probes.select(text))
    nulls = [number for number, found, _ in _values(spark, [case])[0] if found is None]
    assert nulls
    assert set(nulls) < set(_evaluate(spark, text, list(range(40))))


def test_predicates_that_cannot_throw(
    spark: SparkSession, tuples: DataFrame, probes: Probes
) -> None:
    cases = [Case(text=text, selection=probes.select(text)) for text in HARMLESS]
    _agree(spark, cases)


def test_random_predicates(spark: SparkSession, tuples: DataFrame, probes: Probes) -> None:
    rng = Random(99)
    cases = []
    for _ in range(60):
        text = spell(rng, predicate(rng))
        cases.append(Case(text=text, selection=probes.select(text)))
    _agree(spark, cases)


def test_errors_are_where_spark_throws(
    spark: SparkSession, tuples: DataFrame, probes: Probes
) -> None:
    cases = [Case(text=text, selection=probes.select(text)) for text in THROWING]
    thrown = 0
    for case, values in zip(cases, _values(spark, cases), strict=True):
        context = (case.text, case.selection.signature)
        calm = [number for number, _, raised in values if not raised]
        wild = [number for number, _, raised in values if raised]
        matching = [number for number, found, raised in values if found and not raised]
        # All rows that are said to be calm in one go: none throws, and the same ones match.
        assert _evaluate(spark, case.text, calm) == matching, context
        for number in wild[:2]:
            assert _evaluate(spark, case.text, [number]) == "throws", (*context, number)
        thrown += bool(wild)
    assert thrown > len(THROWING) // 2


def _evaluate(spark: SparkSession, text: str, rows: list[int]) -> list[int] | str:
    """Which of these rows match, or that Spark throws."""
    listed = ", ".join(map(str, rows))
    frame = spark.sql(f"SELECT * FROM readings WHERE id IN ({listed})")
    try:
        return sorted(row[0] for row in frame.where(text).select("id").collect())
    except PySparkException:
        return "throws"


def test_the_stand_in_for_tests_without_java_answers_as_spark_does(
    spark: SparkSession, probes: Probes
) -> None:
    folder = Path(__file__).parents[1] / "golden" / "query"
    compared = 0
    for path in sorted(folder.glob("*.txt")):
        for block in path.read_text(encoding="utf-8").strip().split("\n\n")[1:]:
            text = block.split("\n----")[0]
            try:
                draft = parse_selection(f"SELECT meter FROM readings WHERE {text}", READINGS)
                draft.resolve(answers(draft))
            except UserError:
                continue
            row = spark.sql(draft.probe).collect()[0]
            assert [str(cell).upper() for cell in row] == answers(draft), text
            compared += 1
    assert compared > 90
