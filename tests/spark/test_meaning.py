"""The evaluator of conditions (query/meaning/) gives Spark's values, row by row.

The same predicates and rows as in test_query_types.py: columns against constants, what can throw,
what cannot, and random ones. Compared are the types that a probe is answered with, the value of
`condition` and that of `errors`.
"""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from shoal.kernel.errors import UserError
from shoal.query.draft import parse_selection
from shoal.query.meaning.evaluate import analyze, condition, errors
from tests.property.predicates import predicate, spell
from tests.property.streams import READINGS
from tests.spark import test_query_types as matrix
from tests.spark.test_query_types import Case, Probes

pytestmark = pytest.mark.slow

_COLUMNS = {column.name: column.type for column in READINGS.columns}
#: Listed functions that the evaluator leaves to Spark.
_LEFT_OUT = ("hash(meter, name) % 2 = 0",)


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Any]]:
    """The rows as Spark sees them, under the name that predicates use."""
    path: Path = tmp_path_factory.mktemp("meaning") / "rows.parquet"
    table = matrix._table()
    pq.write_table(table, path)
    spark.read.parquet(str(path)).createOrReplaceTempView("readings")
    yield [{name: _plain(value) for name, value in row.items()} for row in table.to_pylist()]
    spark.catalog.dropTempView("readings")


def _plain(value: Any) -> Any:
    """As the evaluator has it: an instant in microseconds, a date in days."""
    if isinstance(value, datetime):
        return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return (value - date(1970, 1, 1)).days if isinstance(value, date) else value


def _predicates() -> list[str]:
    rng = Random(7)
    constants = re.findall(r"[A-Z]*'[^']*'|\S+", matrix.CONSTANTS)
    operators = ("=", "<", ">=", "<>", "<=>")
    pairs = [
        f"`{column}` {operators[(at + number) % len(operators)]} {constant}"
        for at, column in enumerate(matrix.COLUMNS)
        for number, constant in enumerate(constants)
    ]
    drawn = [spell(rng, predicate(rng)) for _ in range(20)]
    listed = [*matrix.THROWING, *matrix.HARMLESS, *_MORE]
    # A third of the pairs, a different one for each column: each probe is a query of Spark's.
    return [*pairs[::3], *drawn, *(text for text in listed if text not in _LEFT_OUT)]


#: What the others do not reach.
_MORE = (
    "CAST(kwh AS STRING) = '5.0'",
    "CAST(ratio AS STRING) = '0.1'",
    "CAST(kwh AS DECIMAL(20,3)) > 2",
    "CAST(ratio AS DECIMAL(10,4)) = 0.1",
    "CAST(ts AS STRING) > '1970-01-01 00:00:01'",
    "CAST(day AS STRING) < '2024'",
    "CAST(price AS STRING) = '5.25'",
    "CAST(total AS STRING) LIKE '9%'",
    "CAST(kwh AS BIGINT) > 1",
    "CAST(ts AS BIGINT) > 1",
    "CAST(name AS DOUBLE) > 1",
    "CAST(name AS DECIMAL(5,1)) > 1",
    "CAST(name AS BOOLEAN)",
    "CAST(name AS TIMESTAMP) IS NULL",
    "CAST(flag AS STRING) = 'true'",
    "CAST(meter AS BOOLEAN)",
    "kwh % 2 > 0.5",
    "price % 3 = 2.25",
    "price - meter > 0",
    "price / tiny > 1",
    "ratio * ratio > 0.2",
    "-kwh < 0",
    "-price < 0",
    "bround(kwh, 0) = 2",
    "bround(price, 1) = 5.2",
    "round(kwh) = 3",
    "left(name, 2) = 'it'",
    "right(name, 1) = '%'",
    "instr(name, '_') = 2",
    "contains(name, 'y') OR startswith(name, '5') OR endswith(name, 'e')",
    "trim(name) = '5' AND ltrim(name) <> rtrim(name)",
    "reverse(name) = 'y_x'",
    "ascii(name) > 60",
    "substring(name, -2, 1) = '_'",
    "concat(name, CAST(meter AS STRING)) = 'a5'",
    "month(ts) = 2 OR quarter(ts) = 4 OR dayofmonth(ts) = 31",
    "dayofweek(day) = 5 OR weekday(day) = 3 OR dayofyear(day) = 60",
    "weekofyear(day) = 9",
    "minute(ts) = 59 AND second(ts) = 59",
    "last_day(day) > DATE '2000-01-01'",
    "date_sub(day, 1) < DATE '2000-01-01'",
    "date_trunc('MONTH', ts) = TIMESTAMP '2024-02-01 00:00:00'",
    "date_trunc('WEEK', ts) < ts",
    "trunc(day, 'YEAR') = DATE '2024-01-01'",
    "unix_date(day) > 5 OR unix_seconds(ts) = 1 OR unix_millis(ts) = 1500",
    "signum(kwh) = 1",
    "nanvl(kwh, 7) = 7",
    "greatest(kwh, ratio) > 2",
    "least(kwh, ratio) < 0",
    "ln(kwh) < 0",
    "exp(kwh) > 10",
    "total % tiny = 1",
)


def test_values_and_types_are_sparks(spark: SparkSession, rows: list[Any]) -> None:
    probes = Probes(spark)
    cases = []
    for text in _predicates():
        try:
            cases.append(Case(text=text, selection=probes.select(text)))
        except UserError:
            continue
        draft = parse_selection(f"SELECT meter FROM readings WHERE {text}", READINGS)
        assert list(analyze(draft.probe)) == probes._kept[draft.probe], text
    assert len(cases) > 200
    for start in range(0, len(cases), 40):
        part = cases[start : start + 40]
        for case, values in zip(part, matrix._values(spark, part), strict=True):
            _compare(case, values, rows)


def _compare(case: Case, values: list[tuple[Any, ...]], rows: list[Any]) -> None:
    signature, parameters = case.selection.signature, case.selection.parameters
    run, failing = condition(signature, _COLUMNS), errors(signature, _COLUMNS)
    for row, (number, found, raised) in zip(rows, values, strict=True):
        context = (case.text, signature.condition, parameters, number, row)
        assert run(row, parameters) is found, context
        assert (False if failing is None else failing(row, parameters)) is raised, context
