"""Bisection finds exactly the guilty, in about 2 g log n trials."""

import math
from collections.abc import Callable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from shoal.dataplane.rows import RosterRow
from shoal.spark.select.bisect import GUILTY_MOST, bisect


def rows(count: int) -> list[RosterRow]:
    return [RosterRow(query=f"q{n}", version=1, parameters=(n,), columns=()) for n in range(count)]


def failing(guilty: Sequence[int]) -> Callable[[Sequence[RosterRow]], Exception | None]:
    """A step that fails if one of these is in it."""

    def survives(some: Sequence[RosterRow]) -> Exception | None:
        found = [row.parameters[0] for row in some if row.parameters[0] in guilty]
        return ValueError(f"\n  row {found[0]} is ill\nand more") if found else None

    return survives


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1)))))
def test_exactly_the_guilty(drawn: tuple[int, "set[int]"]) -> None:
    """No healthy row is blamed; of many guilty ones, as many as one round takes."""
    count, guilty = drawn
    found = bisect("c", rows(count), failing(sorted(guilty)))
    blamed = [row.parameters[0] for row in found.rows]
    assert blamed == sorted(guilty)[:GUILTY_MOST]
    assert all("is ill" in reason for reason in found.reasons)
    assert found.trials <= 2 + 2 * max(1, len(blamed)) * (math.ceil(math.log2(count)) + 1)


def test_the_rows_are_not_to_blame() -> None:
    """A step that fails with no rows at all is ill for another reason."""
    found = bisect("c", rows(9), lambda some: OSError("the disk is full"))
    assert (found.rows, found.trials) == ((), 1)


def test_nothing_fails_any_more() -> None:
    """The trouble has gone: nobody is guilty."""
    found = bisect("c", rows(9), lambda some: None)
    assert (found.rows, found.trials) == ((), 2)


def test_a_reason_without_words() -> None:
    """An exception that says nothing is named."""
    found = bisect("c", rows(1), lambda some: KeyError() if some else None)
    assert found.reasons == ("KeyError()",)
