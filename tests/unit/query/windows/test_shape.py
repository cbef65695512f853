"""Windows as arithmetic: which are due, and the pane that divides them. Promise Q1."""

import itertools
from random import Random

import pytest

from shoal.kernel.errors import LocalError
from shoal.kernel.time import HOUR, MILLISECOND, MINUTE, SECOND
from shoal.query.windows.shape import INSTANT, LADDER, Window, pane_start


def test_Q1_every_window_is_due_once() -> None:
    """However the watermark advances, the ends of all intervals together are all ends."""
    rng = Random(3)
    for _ in range(200):
        slide = rng.randrange(1, 50)
        window = Window(
            length=slide + rng.randrange(0, 99), slide=slide, offset=rng.randrange(slide)
        )
        window.validate()
        marks = sorted(rng.randrange(-500, 500) for _ in range(8))
        due = [
            end for before, after in itertools.pairwise(marks) for end in window.ends(before, after)
        ]
        every = [
            end
            for end in range(marks[0] + 1, marks[-1] + 1)
            if (end - window.length - window.offset) % slide == 0
        ]
        assert due == every


@pytest.mark.parametrize(
    ("window", "pane"),
    [
        (Window(length=HOUR, slide=HOUR, offset=0), HOUR),
        (Window(length=HOUR, slide=10 * MINUTE, offset=0), 10 * MINUTE),
        (Window(length=90 * SECOND, slide=30 * SECOND, offset=0), 10 * SECOND),
        (Window(length=HOUR, slide=HOUR, offset=5 * SECOND), SECOND),
        (Window(length=7 * MILLISECOND, slide=7 * MILLISECOND, offset=0), MILLISECOND),
        (Window(length=7, slide=7, offset=0), INSTANT),
    ],
)
def test_the_pane_is_the_longest_that_divides(window: Window, pane: int) -> None:
    assert window.pane == pane


def test_each_step_of_the_ladder_divides_the_next() -> None:
    assert all(not long % short for short, long in itertools.pairwise(LADDER))


def test_panes_are_aligned_to_the_epoch() -> None:
    assert [pane_start(at, 10) for at in (-11, -10, -1, 0, 9, 10)] == [-20, -10, -10, 0, 0, 10]


@pytest.mark.parametrize(
    ("length", "slide", "offset"), [(1, 2, 0), (1, 0, 0), (2, 1, 1), (2, 2, -1)]
)
def test_what_is_no_window(length: int, slide: int, offset: int) -> None:
    with pytest.raises(LocalError):
        Window(length=length, slide=slide, offset=offset).validate()
