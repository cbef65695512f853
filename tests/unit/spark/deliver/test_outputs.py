"""Select lists on rows: values, names and order; what fails, fails for its own query only."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from shoal.dataplane.projection import Projection
from shoal.kernel.errors import LocalError, UserError
from shoal.log.types import arrow_type
from shoal.query.catalog import Column, parse_schema
from shoal.query.windows.plan import Output
from shoal.spark.deliver.outputs import Computing, computed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

COLUMNS = parse_schema(
    "ts TIMESTAMP, `m-x` INT, kwh DOUBLE, name STRING, price DECIMAL(10,2), day DATE, raw BINARY"
)
NOON = datetime(2024, 2, 29, 12, 0, tzinfo=UTC)


def rows(count: int, *, first: int = 0) -> pa.Table:
    some = range(first, first + count)
    values: dict[str, list[Any]] = {
        "ts": [NOON.replace(second=i % 60) for i in some],
        "m-x": [None if i % 5 == 4 else i for i in some],
        "kwh": [i / 8 for i in some],
        "name": [f"n{i % 3}" for i in some],
        "price": [Decimal(i) / 4 for i in some],
        "day": [NOON.date() for _ in some],
        "raw": [bytes([i % 256]) for i in some],
    }
    arrays = [pa.array(values[c.name], arrow_type(c.type)) for c in COLUMNS]
    return pa.table(arrays, names=[column.name for column in COLUMNS])


def listed(**outputs: tuple[str, str]) -> Projection:
    made = [Output(name=n, expression=text, type=kind) for n, (text, kind) in outputs.items()]
    return Projection.of(COLUMNS, made)


def test_O1_values_are_those_of_spark_in_the_order_of_the_rows(spark: "SparkSession") -> None:
    projection = listed(
        twice=("try_multiply(s.`m-x`, 2)", "INT"),
        energy=("s.`kwh`", "DOUBLE"),
        KWH=("upper(s.`name`)", "STRING"),
        one=("1", "INT"),
        nothing=("CAST(NULL AS DATE)", "DATE"),
        by_zero=("try_divide(s.`kwh`, CAST(s.`m-x` AS DOUBLE))", "DOUBLE"),
        minute=("date_trunc('MINUTE', s.`ts`)", "TIMESTAMP"),
        cents=("CAST((s.`price` * 100) AS DECIMAL(14,2))", "DECIMAL(14,2)"),
        raw=("s.`raw`", "BINARY"),
    )
    found = computed(spark, rows(5000), projection)
    assert found.schema == pa.schema([(c.name, arrow_type(c.type)) for c in projection.shown])
    assert found.column("energy").to_pylist() == [i / 8 for i in range(5000)]
    twice = found.column("twice").to_pylist()
    assert twice == [None if i % 5 == 4 else 2 * i for i in range(5000)]
    assert found.slice(3, 1).to_pylist() == [
        {
            "twice": 6,
            "energy": 0.375,
            "KWH": "N0",
            "one": 1,
            "nothing": None,
            "by_zero": 0.125,
            "minute": NOON,
            "cents": Decimal("75.00"),
            "raw": b"\x03",
        }
    ]
    assert found.column("by_zero")[0].as_py() is None


def test_nothing_is_asked_of_spark_where_nothing_is_computed() -> None:
    renamed = listed(a=("s.`kwh`", "DOUBLE"), b=("s.`kwh`", "DOUBLE"))
    assert computed(None, rows(2), renamed).to_pydict() == {"a": [0.0, 0.125], "b": [0.0, 0.125]}
    plain = Projection(columns=(COLUMNS[2], COLUMNS[1]))
    assert computed(None, rows(1), plain).to_pydict() == {"kwh": [0.0], "m-x": [0]}
    none = computed(None, rows(0), listed(one=("1 + 1", "INT")))
    assert none.schema == pa.schema([("one", pa.int32())])
    with pytest.raises(LocalError, match="need a session"):
        computed(None, rows(1), listed(one=("1 + 1", "INT")))


def test_queries_with_one_select_list_are_computed_together(spark: "SparkSession") -> None:
    computing = Computing(spark, listed(twice=("try_multiply(s.`m-x`, 2)", "INT")))
    parts = [rows(3), rows(0), rows(4, first=10)]
    numbers = [computing.add(part) for part in parts]
    found = [computing.take(number).column("twice").to_pylist() for number in numbers]
    assert found == [[0, 2, 4], [], [20, 22, 24, 26]]
    again = computing.take(numbers[2])
    assert again.column("twice").to_pylist() == [20, 22, 24, 26]


def test_Q3_who_has_a_row_that_raises_fails_alone(spark: "SparkSession") -> None:
    raising = "CASE WHEN s.`m-x` = 11 THEN raise_error('no elevens') ELSE s.`m-x` END"
    computing = Computing(spark, listed(x=(raising, "INT")))
    numbers = [computing.add(part) for part in (rows(3), rows(4, first=10), rows(2, first=20))]
    assert computing.take(numbers[0]).column("x").to_pylist() == [0, 1, 2]
    with pytest.raises(UserError) as failed:
        computing.take(numbers[1])
    assert failed.value.what == "the select list of a query cannot be computed"
    assert "no elevens" in failed.value.detail
    assert computing.take(numbers[2]).column("x").to_pylist() == [20, 21]


def test_a_list_may_read_columns_that_it_does_not_show(spark: "SparkSession") -> None:
    wide = Projection.of(
        (Column(name="m-x", type="INT"), Column(name="kwh", type="DOUBLE")),
        [Output(name="kwh", expression="(s.`kwh` > 0.1D)", type="BOOLEAN")],
    )
    assert computed(spark, rows(2), wide).to_pydict() == {"kwh": [False, True]}
