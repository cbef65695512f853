"""Panes and windows as plans: what they compute, and that their text holds no constant."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from shoal.dataplane.rows import ALWAYS, FOREVER, RosterRow
from shoal.query.windows.plan import Grouped, Panes, RollUp
from shoal.spark.windows.plan import Shapes, coarser_frame, panes_frame, windows_frame
from tests.unit.spark.small import Tuple, frame
from tests.unit.spark.windows.world import PANES, PLAIN, ROLL_UP, SECOND, brief, row, window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow

TUPLES: list[Tuple] = [
    (1, 4, 1.0),
    (1, 4, 2.0),
    (1, 5, None),
    (2, 4, 13.0),
    (11, None, 3.0),
    (-1, 7, 0.5),
]


def made(
    spark: "SparkSession", tuples: Sequence[Tuple], panes: Panes = PANES, *, grouped: bool = True
) -> "DataFrame":
    return panes_frame(frame(spark, tuples), panes, timestamp="ts", grouped=grouped)


def seconds(found: "DataFrame") -> list[dict[str, Any]]:
    """Rows with the pane's start in seconds, in order."""
    rows = [one | {"_p": int(one["_p"].timestamp())} for one in found.toArrow().to_pylist()]
    return sorted(rows, key=repr)


def rolled(
    spark: "SparkSession",
    tuples: Sequence[Tuple],
    *rows: RosterRow,
    roll_up: RollUp = PLAIN,
    after: int = ALWAYS,
    upto: int = 1000,
    whole: int = ALWAYS,
) -> "DataFrame":
    """The windows of these tuples' panes that end in (after, upto] seconds."""
    panes = made(spark, tuples).selectExpr("*", "1L AS _step", "monotonically_increasing_id() _id")
    shapes = Shapes(spark, roll_up, rows)
    ends = {"after": after if after == ALWAYS else after * SECOND, "upto": upto * SECOND}
    return windows_frame(spark, panes, roll_up, shapes, **ends, whole=whole)


def test_tuples_are_grouped_by_pane_keys_and_filters(spark: "SparkSession") -> None:
    """Also before 1970; what cannot be computed is counted, NULL is a group."""
    names = ("_p", "k0", "f0", "a0_n", "a1_s", "a2_n", "_errors")
    found = [tuple(one[name] for name in names) for one in seconds(made(spark, TUPLES))]
    assert sorted(found, key=repr) == sorted(
        [
            (1, 1, 4, 2, 3.0, 2, 0),
            (1, 2, 5, 1, None, 0, 0),
            (2, 1, 4, 1, 13.0, 1, 1),
            (11, None, None, 1, 3.0, 1, 0),
            (-1, 1, 7, 1, 0.5, 1, 0),
        ],
        key=repr,
    )
    coarse = seconds(made(spark, TUPLES, replace(PANES, pane=10 * SECOND)))
    assert sorted({one["_p"] for one in coarse}) == [-10, 0, 10]


def test_a_condition_without_constants_comes_first(spark: "SparkSession") -> None:
    panes = replace(PANES, always="(s.`kwh` > 1.5D)", errors="")
    found = seconds(made(spark, TUPLES, panes))
    assert [(one["_p"], one["a0_n"], one["_errors"]) for one in found] == [
        (1, 1, 0),
        (11, 1, 0),
        (2, 1, 0),
    ]


def test_groups_without_measures_are_distinct(spark: "SparkSession") -> None:
    found = seconds(made(spark, TUPLES, replace(PANES, measures=())))
    assert len(found) == 5
    assert list(found[0]) == ["_p", "k0", "f0", "_errors"]


def test_panes_of_an_instant(spark: "SparkSession") -> None:
    assert len(seconds(made(spark, TUPLES, replace(PANES, pane=1)))) == 5


def test_a_partial_for_each_tuple_means_the_same(spark: "SparkSession") -> None:
    passed = made(spark, TUPLES, grouped=False)
    assert passed.count() == len(TUPLES)
    columns = [column.name for column in PANES.columns()]
    assert passed.columns == made(spark, TUPLES).columns == columns
    assert passed.dtypes == made(spark, TUPLES).dtypes
    ends = (-100 * SECOND, 100 * SECOND)
    merged = seconds(coarser_frame(spark, passed, PANES, *ends))
    assert merged == seconds(made(spark, TUPLES))


def test_coarser_panes_are_those_of_the_tuples(spark: "SparkSession") -> None:
    """Of the asked time only."""
    coarse = replace(PANES, pane=10 * SECOND)
    finer = made(spark, TUPLES)
    whole = seconds(coarser_frame(spark, finer, coarse, -10 * SECOND, 20 * SECOND))
    assert whole == seconds(made(spark, TUPLES, coarse))
    part = seconds(coarser_frame(spark, finer, coarse, 0, 10 * SECOND))
    assert part == [one for one in whole if one["_p"] == 0]


def test_windows_that_slide(spark: "SparkSession") -> None:
    found = rolled(spark, [(1, 3, 1.0), (6, 3, 2.0)], row("a", window(10, 5)))
    assert brief(found.toArrow().to_pylist()) == [
        (-5, 5, 0, 1, 1.0, 1.0),
        (0, 10, 0, 2, 3.0, 1.5),
        (5, 15, 0, 1, 2.0, 2.0),
    ]


@pytest.mark.parametrize(
    ("after", "upto", "whole", "ends"),
    [
        (ALWAYS, 1000, ALWAYS, [5, 10, 15]),
        (5, 10, ALWAYS, [10]),
        (5, 14, ALWAYS, [10]),
        (ALWAYS, 1000, 0, [10, 15]),
        (ALWAYS, 1000, 1, [15]),
    ],
)
def test_only_what_is_due_and_whole(
    spark: "SparkSession", after: int, upto: int, whole: int, ends: list[int]
) -> None:
    tuples: list[Tuple] = [(1, 3, 1.0), (6, 3, 2.0)]
    wanted = row("a", window(10, 5))
    found = rolled(spark, tuples, wanted, after=after, upto=upto, whole=whole)
    assert sorted(one[1] for one in brief(found.toArrow().to_pylist())) == ends


def test_offsets_move_windows(spark: "SparkSession") -> None:
    found = rolled(spark, [(1, 3, 1.0)], row("a", window(10, 10, offset=3)))
    assert [one[:2] for one in brief(found.toArrow().to_pylist())] == [(-7, 3)]


def test_each_shape_has_windows_of_its_own(spark: "SparkSession") -> None:
    """Rows that share one are combined once; WHERE is the shape's."""
    tuples: list[Tuple] = [(1, 1, 1.0), (1, 4, 2.0), (1, 7, 4.0)]
    rows = [row("a", window(10), 5), row("b", window(10), 8), row("c", window(10), 8)]
    found = rolled(spark, tuples, *rows, roll_up=ROLL_UP).toArrow().to_pylist()
    sums = {one["_shape"]: one["a1"] for one in found}
    assert sums == {rows[0].parameters[0]: 3.0, rows[1].parameters[0]: 7.0}
    assert len(found) == 2


def test_the_columns_are_those_of_the_results(spark: "SparkSession") -> None:
    found = rolled(spark, [(1, 3, 1.0)], row("a", window(10)))
    names = [column.name for column in PLAIN.columns()]
    assert found.columns == [*names, "_shape", "_id", "_step"]
    (one,) = found.toArrow().to_pylist()
    assert (one["window_end"] - one["_time"]).microseconds == 1
    assert one["_step"] == FOREVER


def test_an_identity_is_of_shape_end_and_keys(spark: "SparkSession") -> None:
    """The same in every run, another for every window; a NULL is told from its neighbour."""
    keys = tuple(
        Grouped(name=name, expression=text, type="INT")
        for name, text in (("k0", "s.`meter`"), ("k1", "CAST(s.`kwh` AS INT)"))
    )
    panes = replace(PANES, keys=keys)
    tuples: list[Tuple] = [(1, 7, None), (1, None, 7.0), (1, 7, 7.0), (11, 7, 7.0)]

    def identities() -> list[int]:
        made_of = made(spark, tuples, panes).selectExpr("*", "1L AS _step", "1L AS _id")
        shapes = Shapes(spark, replace(PLAIN, panes=panes), [row("a", window(10))])
        found = windows_frame(
            spark,
            made_of,
            replace(PLAIN, panes=panes),
            shapes,
            after=ALWAYS,
            upto=99 * SECOND,
            whole=ALWAYS,
        )
        return sorted(found.toArrow().column("_id").to_pylist())

    first = identities()
    assert len(dict.fromkeys(first)) == 4
    assert identities() == first


@pytest.fixture
def shown_whole(spark: "SparkSession") -> Iterator[None]:
    """Plans are shown to their end."""
    name = "spark.sql.maxPlanStringLength"
    before = spark.conf.get(name)
    spark.conf.set(name, str(1 << 20))
    yield
    spark.conf.set(name, before)


@pytest.mark.usefixtures("shown_whole")
def test_no_constant_is_in_the_text(spark: "SparkSession") -> None:
    """So the code of a step is compiled once, whatever the queries and the time are."""
    texts = []
    for length, below, after, upto in ((10, 5, 0, 100), (60, 7, 100, 777)):
        found = rolled(
            spark, TUPLES, row("a", window(length), below), roll_up=ROLL_UP, after=after, upto=upto
        )
        text = found._jdf.queryExecution().analyzed().toString()
        texts.append(re.sub(r"#\d+L?|plan_id=\d+|LocalRelation.*", "", text))
    assert texts[0] == texts[1]
    assert "_shape" in texts[0]
