"""A roster row refuses to contradict itself."""

from dataclasses import replace

import pytest

from shoal.dataplane.rows import ALWAYS, FOREVER, RosterRow
from shoal.kernel.errors import LocalError
from shoal.query.windows.plan import Shape
from shoal.query.windows.shape import Window

ROW = RosterRow(query="hot", version=1, parameters=(3.5,), columns=("ts",), since=41)


def test_a_row_counts_for_ever_unless_told_otherwise() -> None:
    """The intervals of a row that nobody bounded."""
    ROW.validate()
    assert (ROW.start, ROW.until, ROW.cut) == (ALWAYS, FOREVER, FOREVER)
    assert ROW.identity == ("hot", 1)


@pytest.mark.parametrize("keep", [0.0, -0.5, 1.5, float("nan")])
def test_keep_is_a_share(keep: float) -> None:
    """Above 0, at most 1."""
    with pytest.raises(LocalError, match="keeps"):
        replace(ROW, keep=keep).validate()


@pytest.mark.parametrize("weight", [0.0, -1.0, float("inf"), float("nan")])
def test_weight_is_above_nothing(weight: float) -> None:
    """And finite: time is divided by it."""
    with pytest.raises(LocalError, match="weighs"):
        replace(ROW, weight=weight).validate()


def test_back_fill_ends_before_the_row_is_live() -> None:
    """Or both would serve the same tuples."""
    replace(ROW, fill=41).validate()
    with pytest.raises(LocalError, match="back-filled"):
        replace(ROW, fill=42).validate()


def test_back_fill_of_windows_is_told_in_event_time() -> None:
    """An instant has nothing to do with a step."""
    shape = Shape(window=Window(length=10, slide=10, offset=0), parameters=())
    replace(ROW, fill=1_700_000_000_000_000, shape=shape).validate()
