"""Windows as arithmetic: every window is due once, and panes divide it."""

import random
from itertools import pairwise

import pytest

from shoal.kernel.errors import LocalError
from shoal.kernel.time import DAY, HOUR, MILLISECOND, MINUTE, SECOND
from shoal.query.windows.shape import INSTANT, LADDER, Window, pane_start


@pytest.mark.parametrize(
    ("length", "slide", "offset"),
    [(10, 0, 0), (10, 11, 0), (0, 0, 0), (10, 5, 5), (10, 5, -1)],
)
def test_what_is_no_window(length: int, slide: int, offset: int) -> None:
    with pytest.raises(LocalError, match="is none"):
        Window(length=length, slide=slide, offset=offset).validate()
    Window(length=10, slide=5, offset=4).validate()


@pytest.mark.parametrize(
    ("length", "slide", "offset", "pane"),
    [
        (10 * MINUTE, MINUTE, 0, MINUTE),
        (10 * MINUTE, MINUTE, 10 * SECOND, 10 * SECOND),
        (HOUR, HOUR, 0, HOUR),
        (3 * DAY, DAY, 0, DAY),
        (7 * SECOND, 7 * SECOND, 0, SECOND),
        (15 * MILLISECOND, 5 * MILLISECOND, 0, MILLISECOND),
        (7, 7, 0, INSTANT),
    ],
)
def test_the_longest_pane_that_divides(length: int, slide: int, offset: int, pane: int) -> None:
    assert Window(length=length, slide=slide, offset=offset).pane == pane


def test_each_pane_divides_the_next() -> None:
    assert all(not longer % shorter for shorter, longer in pairwise(LADDER))
    assert LADDER[0] % INSTANT == 0


def test_ends_before_and_after_1970() -> None:
    assert list(Window(length=10, slide=5, offset=2).ends(-10, 12)) == [-8, -3, 2, 7, 12]
    assert list(Window(length=10, slide=10, offset=0).ends(0, 30)) == [10, 20, 30]
    assert not Window(length=10, slide=10, offset=0).ends(0, 9)


@pytest.mark.parametrize("seed", range(30))
def test_Q1_each_window_is_due_once(seed: int) -> None:
    """Wherever the time is cut."""
    rng = random.Random(seed)
    slide = rng.randrange(1, 40)
    window = Window(length=slide + rng.randrange(40), slide=slide, offset=rng.randrange(slide))
    window.validate()
    cuts = sorted(rng.choices(range(-200, 200), k=6))
    parts = [end for at, upto in pairwise(cuts) for end in window.ends(at, upto)]
    assert parts == list(window.ends(cuts[0], cuts[-1]))
    start = window.offset + window.length
    assert parts == [n for n in range(cuts[0] + 1, cuts[-1] + 1) if (n - start) % slide == 0]


def test_a_pane_begins_at_or_before_its_instants() -> None:
    assert [pane_start(instant, 10) for instant in (-11, -10, -1, 0, 9, 10)] == [
        -20,
        -10,
        -10,
        0,
        0,
        10,
    ]
