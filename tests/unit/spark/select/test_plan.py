"""A meeting of tuples and rows gives what a loop over both gives, whatever the index did."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from shoal.dataplane.rows import RosterRow
from shoal.query.draft import parse_selection
from shoal.query.selection import Key, Range, Signature
from shoal.spark.select import roster as roster_module
from shoal.spark.select.index import ROWS_PER_KEY, Member
from shoal.spark.select.plan import ERROR, MATCH, Meeting
from shoal.spark.select.roster import KEEP_ONE, build
from tests.property.spark_types import resolve
from tests.unit.spark.small import (
    ABOVE,
    EQUAL,
    RATIO,
    SECOND,
    STREAM,
    Tuple,
    frame,
    matched,
    row,
    signature,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

#: Meter and kwh repeat with different periods; each is NULL now and then, kwh is also 0 and NaN.
TUPLES: list[Tuple] = [
    (n, n % 7 or None, [None, float("nan"), 0.0, -1.5, 0.5, 2.25, 9.0, 1e300][n % 8])
    for n in range(1, 60)
]
Matches = Callable[[Any, Tuple], bool]
ONE_OF = signature(
    "(array_contains(p.p0, s.`meter`))",
    "ARRAY<INT>",
    keys=[Key(expression="s.`meter`", hole=0, many=True)],
)
BETWEEN = signature(
    "((s.`kwh` >= p.p0) AND (s.`kwh` < p.p1))",
    "DOUBLE",
    "DOUBLE",
    ranged=Range(expression="s.`kwh`", lower=0, lower_strict=False, upper=1, upper_strict=True),
)


def member(selection: Signature, *rows: RosterRow) -> Member:
    return Member(instance=f"select-{selection.key[:12]}", signature=selection, rows=rows)


def meet(
    spark: "SparkSession", *members: Member, tuples: Sequence[Tuple] = TUPLES, step: int = 1
) -> list[dict[str, Any]]:
    """What the members' rows find."""
    meeting = Meeting(build(spark, members), timestamp="ts")
    found: list[dict[str, Any]] = (
        meeting.results(frame(spark, tuples, step=step)).toArrow().to_pylist()
    )
    return found


def loop(rows: Sequence[RosterRow], matches: Matches) -> list[tuple[str, int]]:
    """Every row with every tuple."""
    return sorted(
        (one.query, ordinal)
        for one in rows
        for ordinal, some in enumerate(TUPLES)
        if matches(one.parameters, some)
    )


def above(kwh: float | None, bound: Any) -> bool:
    """In Spark NaN is greater than every number."""
    if kwh is None or bound is None:
        return False
    return kwh != kwh or kwh > bound


def test_the_index_leaves_nothing_out_and_adds_nothing(spark: "SparkSession") -> None:
    """Equality, lists, bounds with and without a search, and none of a member's in another's.

    A NULL on either side matches nothing; a value that stands in a list twice, and a row that
    spans several bins, find a tuple once; the same name in another member is another query.
    """
    many = 2 * ROWS_PER_KEY + 8
    few_above = signature(f"({ABOVE.condition})", "DOUBLE", ranged=ABOVE.range)
    expected: list[tuple[Signature, list[RosterRow], Matches]] = [
        (EQUAL, [row(f"q{n}", n) for n in range(9)], lambda p, t: t[1] == p[0]),
        (few_above, [row(f"q{n}", n / 3) for n in range(3)], lambda p, t: above(t[2], p[0])),
        (ABOVE, [row(f"q{n}", n / 3 - 2) for n in range(many)], lambda p, t: above(t[2], p[0])),
        (
            ONE_OF,
            [row("q1", (2, 5, 2, None)), row("q2", ())],
            lambda p, t: bool(t[1] and t[1] in p[0]),
        ),
        (
            BETWEEN,
            [row(f"q{n}", n - 20.0, n / 2) for n in range(many)],
            lambda p, t: t[2] is not None and p[0] <= t[2] < p[1],
        ),
    ]
    nulls = {ABOVE: row("null", None), EQUAL: row("null", None), ONE_OF: row("null", None)}
    found = meet(
        spark,
        *(member(s, *rows, *([nulls[s]] if s in nulls else [])) for s, rows, _ in expected),
    )
    for number, (_, rows, matches) in enumerate(expected):
        mine = [one for one in found if one["_m"] == number]
        assert mine, "the tuples are made so that there is something"
        assert matched(mine) == loop(rows, matches)


def test_a_group_in_several_parts(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
    """Long predicates are cut apart; numbers of members go on."""
    monkeypatch.setattr(roster_module, "PREDICATES_MAX", 1)
    roster = build(spark, [member(EQUAL, row("a", 3)), member(ABOVE, row("b", 2.0))])
    assert [part.first for part in roster.parts] == [0, 1]
    results = Meeting(roster, timestamp="ts").results(frame(spark, TUPLES))
    found = results.toArrow().to_pylist()
    assert {(one["_m"], one["_query"]) for one in found} == {(0, "a"), (1, "b")}
    assert matched(found) == loop([row("a", 3)], lambda _, t: t[1] == 3) + loop(
        [row("b", 2.0)], lambda _, t: above(t[2], 2.0)
    )


def test_intervals(spark: "SparkSession") -> None:
    """From, exclusive, to until, inclusive (Q1); since, exclusive, to cut, inclusive (Q2)."""
    timed = row("timed", -9.0, start=10 * SECOND, until=20 * SECOND)
    steps = {(3, 4): True, (4, 9): False, (0, 3): False, (0, 4): True}
    staged = [row(f"{since} to {cut}", -9.0, since=since, cut=cut) for since, cut in steps]
    found = matched(meet(spark, member(ABOVE, timed, *staged), step=4))
    expected = loop([timed], lambda _, t: 10 < t[0] <= 20 and above(t[2], -9.0))
    assert [one for one in found if one[0] == "timed"] == expected
    there = {one.query for one in staged if any(query == one.query for query, _ in found)}
    assert there == {f"{since} to {cut}" for (since, cut), live in steps.items() if live}


def test_results_carry_the_tuple(spark: "SparkSession") -> None:
    """All columns that any row of the group asks for, and the identity."""
    rows = [row("q", 3, columns=("kwh",)), row("r", 4, version=2, columns=("meter",))]
    found = meet(spark, member(EQUAL, *rows), tuples=[(5, 3, 2.5), (6, 4, 1.0)])
    assert sorted(found, key=lambda one: str(one["_query"])) == [
        {"_m": 0, "_query": "q", "_version": 1, "kwh": 2.5, "meter": 3, "_id": 1 << 35},
        {"_m": 0, "_query": "r", "_version": 2, "kwh": 1.0, "meter": 4, "_id": 1 << 35 | 1},
    ]


def test_what_cannot_be_computed_is_told_apart(spark: "SparkSession") -> None:
    """Q3: a tuple for which the predicate would have raised is no match, and is counted."""
    ratio = [row("r", 1.0)]
    found = meet(spark, member(RATIO, *ratio), member(EQUAL, row("e", 3)))
    failed = [one for one in found if one[ERROR]]
    assert matched(failed) == loop(ratio, lambda _, t: t[2] == 0.0)
    assert not any(one[MATCH] for one in failed)
    whole = [one for one in found if one[MATCH]]
    expected = loop(ratio, lambda _, t: bool(t[1] and t[2] and t[2] == t[2] and t[1] / t[2] > 1))
    expected_nan = loop(ratio, lambda _, t: t[1] is not None and t[2] is not None and t[2] != t[2])
    equal = loop([row("e", 3)], lambda _, t: t[1] == 3)
    assert matched(whole) == sorted(expected + expected_nan + equal)


def read(where: str) -> Signature:
    """The signature of a predicate over the small stream."""
    return resolve(parse_selection(f"SELECT * FROM readings WHERE {where}", STREAM)).signature


def remainder(meter: int | None, by: int | None) -> tuple[int | None, bool]:
    """The safe value of `meter % by`, and whether computing it would have raised."""
    if meter is None or by is None:
        return None, False
    return (None, True) if by == 0 else (meter % by, False)


def whole(kwh: float | None) -> tuple[int | None, bool]:
    """The same of `CAST(kwh AS INT)`."""
    if kwh is None:
        return None, False
    return (int(kwh), False) if abs(kwh) < 1e9 else (None, True)


def both(parts: Sequence[tuple[int | None, bool, Any]]) -> tuple[bool, bool]:
    """Whether conjuncts (value, raised, wanted) match, and whether they count as an error."""
    equal = [value is not None and value == wanted for value, _, wanted in parts]
    raised = [failed for _, failed, _ in parts]
    possible = all(e or r for e, r in zip(equal, raised, strict=True))
    return all(equal), any(raised) and possible


def test_Q1_constants_inside_a_key_and_keys_that_fail(spark: "SparkSession") -> None:
    """Found by slots where rows pay for them, and every failure is counted once (Q3)."""
    inner, lists = read("meter % 2 = 1"), read("meter % 2 IN (1, 3)")
    two = read("meter % 2 = 1 AND CAST(kwh AS INT) = 1")
    assert [(key.hole, key.inner, key.fails) for key in two.keys] == [
        (1, (0,), True),
        (2, (), True),
    ]
    divisors = (0, 2, 3, 5, None)
    rows = {
        inner: [row(f"q{a}_{b}", a, b) for a in divisors for b in (0, 1, 2, 3, None)],
        lists: [row(f"l{a}_{n}", a, (n, None, n + 1)) for a in divisors for n in range(5)],
        two: [row(f"t{a}_{b}_{c}", a, b, c) for a in divisors for b in (0, 1) for c in (-1, 0, 2)],
        read("abs(meter) = 3 AND kwh > 1"): [],
    }
    few = [row("few1", 2, 1), row("few2", 3, 1), row("few3", 0, 1)]
    members = [member(some, *found) for some, found in rows.items()]
    (classes,) = [part.classes for part in build(spark, members).parts]
    assert [len(found.slots) for found in classes if found.inner_types] == [5, 5]
    assert not any(
        part.inner_types for part in build(spark, [member(inner, *few)]).parts[0].classes
    )

    def judged(some: Signature, one: RosterRow, t: Tuple) -> tuple[bool, bool]:
        by: Any
        by, wanted, *rest = one.parameters
        value, failed = remainder(t[1], by)
        if some is two:
            return both([(value, failed, wanted), (*whole(t[2]), rest[0])])
        several = wanted if isinstance(wanted, tuple) else (wanted,)
        return value is not None and value in several, failed

    for groups in (list(rows.items()), [(inner, few)]):
        found = meet(spark, *(member(some, *mine) for some, mine in groups))
        for mark, place in ((MATCH, 0), (ERROR, 1)):
            expected = [
                (one.query, ordinal)
                for some, mine in groups
                for one in mine
                for ordinal, t in enumerate(TUPLES)
                if judged(some, one, t)[place]
            ]
            assert expected
            assert matched(one for one in found if one[mark]) == sorted(expected)


def test_a_share_of_the_tuples(spark: "SparkSession") -> None:
    """Whoever keeps less looks at some of what whoever keeps more looks at; always the same."""
    many = [(n, 3, 1.0) for n in range(2000)]
    rows = [row("whole", 3), row("half", 3, keep=0.5), row("tenth", 3, keep=0.1)]
    found = meet(spark, member(EQUAL, *rows), tuples=many)
    ids: dict[str, list[int]] = {}
    for query, ordinal in matched(found):
        ids.setdefault(query, []).append(ordinal)
    assert len(ids["whole"]) == 2000
    assert 900 < len(ids["half"]) < 1100
    assert 150 < len(ids["tenth"]) < 250
    assert set(ids["tenth"]) < set(ids["half"])


def test_the_tuples_are_shown_before_any_is_dropped(spark: "SparkSession") -> None:
    """And only while somebody sheds, for looking costs."""
    seen: list[Any] = []

    def watch(tuples: Any) -> Any:
        seen.append(tuples)
        return tuples

    shed = Meeting(build(spark, [member(EQUAL, row("q", 3, keep=0.5))]), timestamp="ts")
    shed.results(frame(spark, TUPLES), watch=watch)
    (shown,) = seen
    (told,) = shown.selectExpr("count(*)", f"min(_h) >= 0 AND max(_h) < {KEEP_ONE}").collect()
    assert tuple(told) == (len(TUPLES), True)
    whole = Meeting(build(spark, [member(EQUAL, row("q", 3))]), timestamp="ts")
    whole.results(frame(spark, TUPLES), watch=watch)
    assert len(seen) == 1


def test_nobody_asks_for_anything(spark: "SparkSession") -> None:
    """A step without rows is a step: it finds nothing."""
    assert meet(spark, member(EQUAL), member(ABOVE)) == []


def test_no_constant_is_in_the_text(spark: "SparkSession") -> None:
    """So the compiled code is the same whatever queries ask for; and only holes are replaced."""
    odd = signature("((s.`meter` = p.p0) OR (s.`p.p1` = p.p1))", "INT", "INT")
    plan = Meeting(build(spark, [member(odd, row("q", 7654321, 3))]), timestamp="ts")._plans[0]
    assert "7654321" not in str(plan.on)
    assert "s.p.p1 = p.p1_int" in str(plan.on).replace("`", "")
