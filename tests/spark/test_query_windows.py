"""Panes and roll-ups made from a text give what Spark gives for that text.

The texts of panes are run over rows with NULL, NaN and extremes, merged into windows, filtered
and finished, all as plain SQL; Spark's own answer to the text judges. Types come from real probes,
and the stand-in for tests without Java must answer them alike.
"""

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from shoal.kernel.errors import UserError
from shoal.query.selection import Value
from shoal.query.terms.constants import constant_text
from shoal.query.windows.draft import parse_query
from shoal.query.windows.plan import Panes, Projected, Windowed
from tests.property.spark_types import query_answers
from tests.property.streams import READINGS

pytestmark = pytest.mark.slow

_MINUTE = 60_000_000
_TUMBLING = "window(ts, '10 minutes')"
_SLIDING = "window(ts, '10 minutes', '5 minutes', '1 minute')"
#: Each is valid for Spark as it stands, and throws for no row.
QUERIES = (
    f"SELECT window.start, window.end, count(*) AS n FROM readings GROUP BY {_TUMBLING}",
    f"SELECT window.end AS e, zone, sum(kwh) AS s, avg(meter) AS m FROM readings "
    f"WHERE meter > 1 AND flag GROUP BY zone, {_SLIDING}",
    f"SELECT zone AS z, count(kwh) AS n, max(name) AS top FROM readings WHERE kwh IS NOT NULL "
    f"GROUP BY 1, {_TUMBLING} HAVING count(*) > 1 AND z IS NOT NULL",
    f"SELECT zone > 1 AS high, flag, min(price) AS p, sum(price) * 1.5 AS s FROM readings "
    f"GROUP BY flag, zone > 1, {_TUMBLING} HAVING sum(price) > 2 OR flag",
    f"SELECT date_trunc('hour', ts) AS h, count(*) AS n FROM readings WHERE name IN ('a', 'b', '') "
    f"GROUP BY h, {_SLIDING}",
    f"SELECT window.start AS b, sum(total) FILTER (WHERE zone = 1 OR meter < 3) AS s, "
    f"count(*) FILTER (WHERE name LIKE 'a%') AS n FROM readings GROUP BY {_TUMBLING}",
    f"SELECT n, z + 1 AS z FROM (SELECT zone AS z, count(*) AS n FROM readings WHERE meter <> 2 "
    f"GROUP BY zone, {_TUMBLING}) AS w WHERE n > 1 AND z = 1",
    f"WITH a AS (SELECT ts, meter * 2 AS m, zone FROM readings WHERE kwh >= 0) "
    f"SELECT zone, max(m) AS m FROM a WHERE m BETWEEN 2 AND 8 GROUP BY zone, {_TUMBLING}",
    f"SELECT zone, coalesce(name, 'none') AS name, avg(kwh) AS k FROM readings "
    f"WHERE abs(meter) > 1 OR zone = 0 GROUP BY zone, coalesce(name, 'none'), {_TUMBLING}",
    f"SELECT CASE WHEN zone = 1 THEN 'one' ELSE 'other' END AS k, stddev(meter) AS d, "
    f"bool_or(flag) AS f FROM readings WHERE NOT (meter = 1 AND zone = 2) GROUP BY 1, {_TUMBLING}",
    f"SELECT day, count(*) AS n FROM readings WHERE day > '2024-01-01' AND price * 2 > 1.5 "
    f"GROUP BY day, {_TUMBLING} HAVING max(day) < DATE '2030-01-01'",
    f"SELECT meter % 3 AS m, max(ts) AS last FROM readings WHERE meter % 2 = 1 "
    f"GROUP BY meter % 3, {_SLIDING} HAVING window.end > '2000-01-01'",
    f"SELECT DISTINCT window.start AS b, zone, kwh > 1 AS k FROM readings "
    f"GROUP BY zone, kwh > 1, {_TUMBLING}",
    f"SELECT sum(kwh / 2) / count(*) AS x, 'a' AS t, 5L AS five, 0.5 AS half FROM readings "
    f"GROUP BY {_TUMBLING} HAVING window.start >= TIMESTAMP '2024-02-29 00:10:00'",
    "SELECT DISTINCT ts, zone FROM readings WHERE meter < 5",
    "SELECT ts, count(*) AS n FROM readings GROUP BY ts HAVING count(*) > 1",
    "SELECT meter * 2 AS m, upper(name) AS u, kwh, 1.5 AS c, ts FROM readings WHERE zone = 1",
    "SELECT m FROM (SELECT meter + 1 AS m, zone AS z FROM readings WHERE flag) AS t WHERE z > 0",
)


def _table() -> pa.Table:
    """Rows of half an hour, with NULL, NaN and extremes of what cannot overflow."""
    rng = Random(7)
    start = 19782 * 86_400_000_000
    choices: dict[str, Sequence[Any]] = {
        "ts": [start + minute * _MINUTE for minute in range(0, 30, 2)],
        "meter": [None, 0, 1, 2, 3, 5, 7],
        "zone": [None, 0, 1, 2],
        "kwh": [None, float("nan"), float("inf"), 0.0, -0.0, 0.5, 2.5, 10.0],
        "price": [None, "0.00", "5.25", "-0.50", "1.10"],
        "name": [None, "", "a", "b", "ab", "é"],
        "flag": [None, True, False],
        "day": [None, 0, 19782],
        "raw": [None, b"", b"\x00\xff"],
        "total": [None, 0, 5, 9223372036854775807 // 1000],
        "tiny": [None, 0, 5],
        "small": [None, 0, 5],
        "ratio": [None, 0.5],
        "größe": [None, 1],
    }
    types = {
        "ts": pa.timestamp("us", tz="UTC"),
        "kwh": pa.float64(),
        "price": pa.decimal128(10, 2),
        "name": pa.string(),
        "flag": pa.bool_(),
        "day": pa.date32(),
        "raw": pa.binary(),
        "total": pa.int64(),
        "tiny": pa.int8(),
        "small": pa.int16(),
        "ratio": pa.float32(),
    }
    columns = {}
    for name, values in choices.items():
        drawn = [rng.choice(values) for _ in range(120)]
        type_ = types.get(name, pa.int32())
        if name == "price":
            columns[name] = pa.array(drawn).cast(type_)
        else:
            columns[name] = pa.array(drawn, type_)
    return pa.table(columns)


@pytest.fixture(scope="module")
def tuples(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DataFrame]:
    """The rows, as the view `readings`."""
    path: Path = tmp_path_factory.mktemp("windows") / "rows.parquet"
    pq.write_table(_table(), path)
    frame = spark.read.parquet(str(path))
    frame.createOrReplaceTempView("readings")
    yield frame
    spark.catalog.dropTempView("readings")


def _read(spark: SparkSession, text: str) -> Windowed | Projected:
    draft = parse_query(text, READINGS)
    row = [str(cell) for cell in spark.sql(draft.probe).collect()[0]]
    assert [cell.upper() for cell in row] == query_answers(draft), draft.probe
    return draft.resolve(row)


def _bound(text: str, holes: Sequence[str], values: Sequence[Value]) -> str:
    """A condition with its constants in place of its holes."""
    return re.sub(
        r"\bp\.p(\d+)\b", lambda m: constant_text(values[int(m[1])], holes[int(m[1])]), text
    )


def _panes(panes: Panes) -> str:
    start = f"unix_micros(s.`ts`) - pmod(unix_micros(s.`ts`), {panes.pane})"
    grouped = [f"timestamp_micros({start}) AS `_p`"]
    grouped += [f"{part.expression} AS `{part.name}`" for part in (*panes.keys, *panes.filters)]
    partials = [part for measure in panes.measures for part in measure.partials]
    made = [f"{part.make} AS `{part.name}`" for part in partials]
    errors = f"count_if({panes.errors or 'FALSE'}) AS `_errors`"
    by = ", ".join(str(at + 1) for at in range(len(grouped)))
    always = f" WHERE {panes.always}" if panes.always else ""
    listed = ", ".join([*grouped, *made, errors])
    return f"SELECT {listed} FROM readings AS s{always} GROUP BY {by}"


def _rolled_up(query: Windowed) -> str:
    """All windows of the panes in the view `panes`, as plain SQL."""
    panes, window = query.roll_up.panes, query.shape.window
    base = 19782 * 86_400_000_000
    if window.length == 1:
        ends = "SELECT DISTINCT `_p` AS window_start, `_p` + INTERVAL 1 MICROSECOND AS window_end"
        windows = f"{ends} FROM panes"
    else:
        rows = [
            f"(timestamp_micros({end - window.length}), timestamp_micros({end}))"
            for end in window.ends(base - 1, base + 60 * _MINUTE)
        ]
        windows = f"SELECT * FROM VALUES {', '.join(rows)} AS v(window_start, window_end)"
    where = query.roll_up.where
    passing = _bound(where.condition, where.holes, query.shape.parameters)
    keys = ["w.window_start", "w.window_end", *(f"s.`{key.name}`" for key in panes.keys)]
    partials = [part for measure in panes.measures for part in measure.partials]
    merged = [f"{part.merge} AS `{part.name}`" for part in partials]
    joined = (
        f"SELECT {', '.join([*keys, *merged])} FROM panes AS s JOIN ({windows}) AS w "
        f"ON s.`_p` >= w.window_start AND s.`_p` < w.window_end WHERE {passing} "
        f"GROUP BY {', '.join(keys)}"
    )
    plain = [key.replace("w.", "").replace("s.", "") for key in keys]
    finals = [f"{measure.final} AS `{measure.name}`" for measure in panes.measures]
    number = constant_text(query.shape.number, "BIGINT")
    listed = ", ".join([*plain, *finals, f"{number} AS `_shape`"])
    having = query.roll_up.having
    values = (query.shape.number, *query.parameters)
    condition = _bound(having.condition, having.holes, values)
    outputs = ", ".join(f"{out.expression} AS `{out.name}`" for out in query.outputs)
    return f"SELECT {outputs} FROM (SELECT {listed} FROM ({joined})) AS s WHERE {condition}"


def _projected(query: Projected) -> str:
    signature = query.selection.signature
    where = _bound(signature.condition, signature.holes, query.selection.parameters)
    outputs = ", ".join(f"{out.expression} AS `{out.name}`" for out in query.outputs)
    return f"SELECT {outputs} FROM readings AS s WHERE {where}"


def _rows(frame: DataFrame) -> list[tuple[str, ...]]:
    return sorted(tuple(map(_shown, row)) for row in frame.collect())


def _shown(value: Any) -> str:
    """A value as text: sums of DOUBLE to nine digits, and zero without its sign."""
    if isinstance(value, float) and math.isfinite(value):
        return f"{value + 0.0:.9g}"
    return repr(value)


@pytest.mark.parametrize("text", QUERIES)
def test_a_query_gives_what_spark_gives(spark: SparkSession, tuples: DataFrame, text: str) -> None:
    query = _read(spark, text)
    plain = spark.sql(text)
    if isinstance(query, Windowed):
        spark.sql(_panes(query.roll_up.panes)).createOrReplaceTempView("panes")
        found = spark.sql(_rolled_up(query))
    else:
        found = spark.sql(_projected(query))
    types = [f"{field.dataType.simpleString()}".upper() for field in found.schema.fields]
    assert [out.type for out in query.outputs] == types
    assert [field.dataType for field in plain.schema.fields] == [
        field.dataType for field in found.schema.fields
    ]
    rows = _rows(plain)
    assert rows
    assert _rows(found) == rows
    spark.catalog.dropTempView("panes")


def test_what_could_throw_is_null_and_counted(spark: SparkSession, tuples: DataFrame) -> None:
    text = (
        f"SELECT 10 / zone AS k, sum(10 / meter) FILTER (WHERE flag) AS s FROM readings "
        f"GROUP BY 10 / zone, {_TUMBLING}"
    )
    query = _read(spark, text)
    assert isinstance(query, Windowed)
    spark.sql(_panes(query.roll_up.panes)).createOrReplaceTempView("panes")
    total = spark.sql("SELECT sum(`_errors`) FROM panes").collect()[0][0]
    wrong = "SELECT count(*) FROM readings WHERE zone = 0 OR (flag AND meter = 0)"
    assert total == spark.sql(wrong).collect()[0][0] > 0
    nulls = text.replace("10 / zone", "10 / nullif(zone, 0)").replace(
        "10 / meter", "10 / nullif(meter, 0)"
    )
    assert _rows(spark.sql(_rolled_up(query))) == _rows(spark.sql(nulls))
    spark.catalog.dropTempView("panes")


def test_the_stand_in_answers_all_golden_probes_as_spark_does(spark: SparkSession) -> None:
    folder = Path(__file__).parents[1] / "golden" / "query" / "windows"
    compared = 0
    for path in sorted(folder.glob("*.txt")):
        for block in path.read_text(encoding="utf-8").strip().split("\n\n")[1:]:
            text = block.split("\n----")[0]
            try:
                draft = parse_query(text, READINGS)
                draft.resolve(query_answers(draft))
            except UserError:
                continue
            row = spark.sql(draft.probe).collect()[0]
            assert [str(cell).upper() for cell in row] == query_answers(draft), text
            compared += 1
    assert compared > 40
