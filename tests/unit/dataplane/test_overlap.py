"""Turns side by side: together they are given the time that passed, no more and no less."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.dataplane.overlap import Overlap
from shoal.kernel.errors import LocalError
from shoal.kernel.time import SECOND


def test_alone_all_time_is_one_s_own() -> None:
    overlap = Overlap()
    number = overlap.begin(5 * SECOND)
    assert overlap.end(number, 8 * SECOND) == 1.0


def test_side_by_side_time_is_shared() -> None:
    overlap = Overlap()
    first = overlap.begin(0)
    second = overlap.begin(2 * SECOND)
    assert overlap.end(first, 3 * SECOND) == pytest.approx(2.5 / 3)
    assert overlap.end(second, 5 * SECOND) == pytest.approx(2.5 / 3)


def test_a_clock_that_stands_still_or_goes_back_shares_too() -> None:
    overlap = Overlap()
    first, second = overlap.begin(SECOND), overlap.begin(SECOND)
    assert overlap.end(first, SECOND) == 0.5
    assert overlap.end(second, 0) == 1.0


def test_a_turn_ends_once() -> None:
    overlap = Overlap()
    number = overlap.begin(0)
    overlap.end(number, 1)
    with pytest.raises(LocalError, match="does not run"):
        overlap.end(number, 2)


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 1000)), min_size=1, max_size=8))
def test_nothing_is_lost_and_nothing_counted_twice(turns: list[tuple[int, int]]) -> None:
    """However turns overlap, their own times sum to the time in which anything ran."""
    events = sorted(
        [(begin, 1, n) for n, (begin, _) in enumerate(turns)]
        + [(begin + length, 0, n) for n, (begin, length) in enumerate(turns)]
    )
    overlap, numbers, own = Overlap(), dict[int, int](), 0.0
    for at, begins, n in events:
        if begins:
            numbers[n] = overlap.begin(at)
        else:
            share = overlap.end(numbers[n], at)
            assert 0 < share <= 1
            own += share * turns[n][1]
    ran = {instant for begin, length in turns for instant in range(begin, begin + length)}
    assert own == pytest.approx(len(ran))
