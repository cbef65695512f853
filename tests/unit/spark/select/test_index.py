"""The index proposes every row that a tuple matches, whatever keys and ranges there are."""

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from shoal.dataplane.rows import RosterRow
from shoal.query.selection import Key, Range, Signature, Value
from shoal.spark.select.bins import order_key
from shoal.spark.select.index import (
    ROWS_PER_KEY,
    ROWS_PER_SLOT,
    SLOTS_MAX,
    Member,
    ProbeClass,
    classify,
)

_INTS = st.none() | st.integers(-3, 3)
_FLOATS = st.none() | st.sampled_from([-1.0, -0.0, 0.0, 0.5, 2.0, math.inf, math.nan])


def signature(*, many: bool = False, ranged: bool = True, key: bool = True) -> Signature:
    """`s.a` equals (one of) hole 0, and `s.x` lies between holes 1 and 2."""
    return Signature(
        stream="s",
        holes=("ARRAY<INT>" if many else "INT", "DOUBLE", "DOUBLE"),
        keys=(Key(expression="s.`a`", hole=0, many=many),) if key else (),
        range=Range(expression="s.`x`", lower=1, lower_strict=True, upper=2, upper_strict=False)
        if ranged
        else None,
        condition="",
        errors="",
        may_throw=False,
        name=f"{many} {ranged} {key}",
    )


def row(number: int, *parameters: Value) -> RosterRow:
    return RosterRow(query=f"q{number}", version=1, parameters=parameters, columns=("x",))


def matches(row_: RosterRow, found: Signature, a: Value, x: Value) -> bool:
    """The predicate itself, in plain Python."""
    if found.keys:
        wanted = row_.parameters[0]
        several = wanted if isinstance(wanted, tuple) else (wanted,)
        if a is None or not any(v is not None and order_key(v) == order_key(a) for v in several):
            return False
    if found.range is None:
        return True
    low, high = row_.parameters[1], row_.parameters[2]
    if None in (low, high, x):
        return False
    return order_key(low) < order_key(x) <= order_key(high)


def proposed(classes: tuple[ProbeClass, ...], a: Value, x: Value) -> dict[tuple[int, int], None]:
    """(member, row) pairs that a tuple meets: what the plan's hash join does."""
    found: dict[tuple[int, int], None] = {}
    for probe in classes:
        key = () if not probe.expressions else (a,)
        if a is None and key:
            continue
        # A NULL is in the lowest bin: every comparison with an edge is NULL.
        place = 0 if probe.range_expression is None or x is None else probe.bins.bin_of(x)
        for entry in probe.entries:
            same = all(order_key(e) == order_key(k) for e, k in zip(entry.key, key, strict=True))
            if same and entry.bin == place:
                found[entry.member, entry.row] = None
    return found


@given(
    st.lists(
        st.tuples(_INTS | st.lists(_INTS, max_size=3).map(tuple), _FLOATS, _FLOATS), max_size=60
    ),
    st.lists(st.tuples(_INTS, _FLOATS), max_size=12),
)
def test_no_match_is_lost(
    rows: list[tuple[Value, Value, Value]], tuples: list[tuple[Value, Value]]
) -> None:
    """Rows of several signatures, with NULLs, NaN and both zeros."""
    kinds = [signature(many=m, ranged=r, key=k) for m, r, k in _SHAPES]
    members = [
        Member(
            instance=str(number),
            signature=kind,
            rows=tuple(
                row(n, *parameters)
                for n, parameters in enumerate(rows)
                if isinstance(parameters[0], tuple) == kind.holes[0].startswith("ARRAY")
            ),
        )
        for number, kind in enumerate(kinds)
    ]
    classes = classify(members)
    for a, x in tuples:
        met = proposed(classes, a, x)
        for number, member in enumerate(members):
            for index, one in enumerate(member.rows):
                assert (number, index) in met or not matches(one, member.signature, a, x)


_SHAPES = [(m, r, k) for m in (False, True) for r in (False, True) for k in (False, True)]


def dividing(*pairs: tuple[Value, Value], **more: bool) -> Member:
    """Rows of `s.a % hole 0 = hole 1`, which fails where hole 0 is zero."""
    key = Key(expression="try_mod(s.`a`, p.p0)", hole=1, many=False, inner=(0,), fails=True)
    plain = Key(expression="s.`b`", hole=1, many=False)
    found = replace(
        signature(),
        holes=("INT", "INT"),
        keys=(key, plain) if more.get("plain") else (key,),
        range=None,
        errors="fails",
    )
    return Member(
        instance="m", signature=found, rows=tuple(row(n, *pair) for n, pair in enumerate(pairs))
    )


def test_inner_constants_are_slots() -> None:
    """Each row is in the slot of its own constants, under its value and under NULL."""
    pairs = [(n % 2 + 2, n) for n in range(2 * ROWS_PER_SLOT)]
    (found,) = classify([dividing(*pairs)])
    assert found.expressions == ("try_mod(s.`a`, i.0)",)
    assert (found.inner_types, found.slots) == (("INT",), ((2,), (3,)))
    listed = [(entry.row, entry.slot, entry.key) for entry in found.entries]
    assert listed == [(n, n % 2, (v,)) for n in range(2 * ROWS_PER_SLOT) for v in (n, None)]


def test_inner_constants_that_do_not_pay_leave_the_other_keys() -> None:
    """Too few rows for each, or too many of them: then the rest of the probe has to do."""
    few = [(n, 1) for n in range(ROWS_PER_SLOT)]
    many = [(n, 1) for n in range(SLOTS_MAX + 1) for _ in range(ROWS_PER_SLOT)]
    for pairs in (few, many):
        (bare,) = classify([dividing(*pairs)])
        assert (bare.expressions, bare.slots, len(bare.entries)) == ((), ((),), len(pairs))
        (rest,) = classify([dividing(*pairs, plain=True)])
        assert (rest.expressions, rest.inner_types) == (("s.`b`",), ())


def test_inner_holes_are_told_apart_by_their_place() -> None:
    """Signatures whose holes have other numbers share a class, and a name that looks so is left."""
    one = dividing(*[(2, n) for n in range(ROWS_PER_SLOT)])
    key = Key(expression="try_mod(s.`a`, p.p1)", hole=2, many=False, inner=(1,), fails=True)
    holes = ("STRING", "INT", "INT")
    rows = tuple(row(n, "x", 2, n) for n in range(ROWS_PER_SLOT))
    other = replace(one, signature=replace(one.signature, holes=holes, keys=(key,)), rows=rows)
    odd = replace(key, expression="try_mod(s.`p.p1`, p.p1)")
    third = replace(other, signature=replace(other.signature, keys=(odd,)))
    classes = classify([one, other, third])
    assert [found.expressions for found in classes] == [
        ("try_mod(s.`a`, i.0)",),
        ("try_mod(s.`p.p1`, i.0)",),
    ]
    assert classes[0].slots == ((2,),)


def test_members_of_equal_probes_share_a_class() -> None:
    """A hundred signatures with the same key need one probe a tuple."""
    members = [
        Member(instance=str(n), signature=signature(), rows=(row(0, n, 0.0, 1.0),))
        for n in range(100)
    ]
    assert len(classify(members)) == 1


def test_a_range_is_searched_only_where_it_pays() -> None:
    """Few rows a key: comparing is cheaper than searching."""
    few = tuple(row(n, 1, float(n), 99.0) for n in range(ROWS_PER_KEY))
    many = (*few, row(99, 1, 0.5, 99.0))
    for rows, searched in ((few, False), (many, True)):
        (found,) = classify([Member(instance="m", signature=signature(), rows=rows)])
        assert (found.range_expression is not None) == searched


def test_a_null_matches_nothing() -> None:
    """A row with a NULL key or bound has no entry."""
    rows = (row(0, None, 0.0, 1.0), *(row(n, 1, None, 1.0) for n in range(1, 40)))
    (found,) = classify([Member(instance="m", signature=signature(), rows=rows)])
    assert found.entries == ()
