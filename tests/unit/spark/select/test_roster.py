"""The roster as a frame: slots of constants, levels of keep, parts, and Spark's own hash."""

from typing import TYPE_CHECKING

import pytest

from shoal.dataplane.rows import ALWAYS, FOREVER
from shoal.query.selection import Signature
from shoal.spark.select import roster as roster_module
from shoal.spark.select.index import ROWS_PER_KEY, Member
from shoal.spark.select.roster import KEEP_LEVELS, KEEP_ONE, build, keep_threshold, slot
from tests.unit.spark.small import ABOVE, EQUAL, RATIO, row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def member(selection: Signature, *rows: object) -> Member:
    return Member(
        instance=f"select-{selection.key[:12]}",
        signature=selection,
        rows=rows,  # type: ignore[arg-type]
    )


def test_slots_are_named_by_hole_and_type() -> None:
    """Signatures of equal types share one; others never do."""
    types = ["DOUBLE", "DECIMAL(10,2)", "DECIMAL(10,3)", "ARRAY<INT>", "INT"]
    names = [slot(hole, kind) for hole in (0, 1) for kind in types]
    assert len(dict.fromkeys(names)) == len(names)
    assert slot(0, "DOUBLE") == "p0_double"
    assert all(name.replace("_", "").isalnum() for name in names)


def test_levels_of_keep_are_rounded_up() -> None:
    """Nobody looks at less than was granted; where there are too many, the lowest are raised."""
    shares = [(n + 1) / 20 for n in range(KEEP_LEVELS + 4)]
    rows = [row(f"q{n}", 1, keep=share) for n, share in enumerate(shares)]
    levels = roster_module._keep_levels([*rows, row("whole", 1)])
    assert len(levels) == KEEP_LEVELS
    assert list(levels) == sorted(levels)
    granted = [keep_threshold(one, levels) / KEEP_ONE for one in rows]
    assert all(got >= share - 1 / KEEP_ONE for got, share in zip(granted, shares, strict=True))
    assert granted[4:] == pytest.approx(shares[4:], abs=1 / KEEP_ONE)
    assert granted[:4] == [granted[4]] * 4
    assert keep_threshold(row("whole", 1), levels) == KEEP_ONE
    assert roster_module._keep_levels([row("whole", 1)]) == ()


def test_members_are_cut_into_parts_by_the_length_of_their_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In order, and a predicate that is too long by itself is a part of its own."""
    members = [member(some) for some in (EQUAL, ABOVE, RATIO, EQUAL)]
    for most in (1, 40, 70, 10_000):
        monkeypatch.setattr(roster_module, "PREDICATES_MAX", most)
        chunks = roster_module._chunks(members)
        assert [one for chunk in chunks for one in chunk] == members
        assert all(chunks)
        sizes = [sum(len(one.signature.condition) for one in chunk) for chunk in chunks]
        assert all(
            size <= most or len(chunk) == 1 for size, chunk in zip(sizes, chunks, strict=True)
        )
    assert len(roster_module._chunks(members)) == 1
    monkeypatch.setattr(roster_module, "PREDICATES_MAX", 1)
    assert len(roster_module._chunks(members)) == 4


@pytest.mark.slow
def test_a_roster(spark: "SparkSession") -> None:
    """One row for each way to meet a row, under the hash that a tuple computes."""
    equal = [
        row("a", 3, start=5, since=2, keep=0.25, columns=("ts",)),
        row("none", None, columns=("ts",)),
    ]
    above = [row(f"q{n}", float(n), columns=("kwh", "ts")) for n in range(2 * ROWS_PER_KEY)]
    roster = build(spark, [member(EQUAL, *equal), member(ABOVE, *above)])
    assert (roster.size, roster.columns) == (len(equal) + len(above), ("ts", "kwh"))
    assert roster.keep_levels == (KEEP_ONE // 4,)
    (part,) = roster.parts
    rows = part.frame.toArrow().to_pylist()
    (mine,) = [one for one in rows if one["_m"] == 0]
    (key,) = spark.sql("SELECT xxhash64(0, CAST(3 AS INT), 0)").collect()[0]
    assert mine == {
        "_k": key,
        "_m": 0,
        "_query": "a",
        "_version": 1,
        "_start": 5,
        "_until": FOREVER,
        "_since": 2,
        "_cut": FOREVER,
        "_keep": KEEP_ONE // 4,
        "p0_int": 3,
        "p0_double": None,
    }
    others = [one for one in rows if one["_m"] == 1]
    assert {one["_query"]: one["p0_double"] for one in others} == {
        one.query: one.parameters[0] for one in above
    }
    assert {(one["_start"], one["_keep"], one["p0_int"]) for one in others} == {
        (ALWAYS, KEEP_ONE, None)
    }
    assert [list(arrays) for arrays in part.arrays] == [[], ["_e1"]], "a search pays for one"


@pytest.mark.slow
def test_shares_are_one_row(spark: "SparkSession") -> None:
    """Levels, padded, and what the most generous row looks at; none while nobody sheds."""
    halves = [row("a", 3, keep=0.5), row("b", 3, keep=0.25)]
    frame = build(spark, [member(EQUAL, *halves)]).keep_frame
    assert frame is not None
    (levels,) = frame.collect()[0]
    half = KEEP_ONE // 2
    assert levels == [half // 2, half, *[KEEP_ONE] * (KEEP_LEVELS - 2), half]
    frame = build(spark, [member(EQUAL, *halves, row("whole", 3))]).keep_frame
    assert frame is not None
    assert frame.collect()[0][0][KEEP_LEVELS] == KEEP_ONE
    assert build(spark, [member(EQUAL, row("whole", 3))]).keep_frame is None
