"""The data of a windowed query: its columns, and the names that components and shapes have."""

from dataclasses import replace

from shoal.query.windows.draft import parse_query
from shoal.query.windows.plan import Shape, Windowed
from shoal.query.windows.shape import Window
from tests.property.spark_types import resolve_query
from tests.property.streams import READINGS


def windowed() -> Windowed:
    """A query with one of everything."""
    text = "SELECT zone, avg(kwh) AS a FROM readings [RANGE 1 HOUR] WHERE meter > 1 GROUP BY zone"
    found = resolve_query(parse_query(text, READINGS))
    assert isinstance(found, Windowed)
    return found


def test_columns_of_the_tables() -> None:
    roll_up = windowed().roll_up
    panes = [(column.name, column.type) for column in roll_up.panes.columns()]
    assert panes[:3] == [("_p", "TIMESTAMP"), ("k0", "INT"), ("f0", "INT")]
    assert panes[3:] == [("a0_s", "DOUBLE"), ("a0_n", "BIGINT"), ("_errors", "BIGINT")]
    names = [column.name for column in roll_up.columns()]
    assert names == ["window_start", "window_end", "k0", "a0", "_time", "_errors"]


def test_the_name_decides_the_instance() -> None:
    roll_up = windowed().roll_up
    assert roll_up.panes.instance.startswith("panes-")
    assert roll_up.instance.startswith("rollup-")
    other = replace(roll_up.panes, name=roll_up.panes.name + " ")
    assert other.instance != roll_up.panes.instance
    assert other.key != roll_up.panes.key


def test_the_number_of_a_shape_is_the_same_in_every_run() -> None:
    window = Window(length=10, slide=5, offset=0)
    shape = Shape(window=window, parameters=(5, "a", 1.5))
    assert shape.number == 5378179457120513480
    assert shape.number != Shape(window=window, parameters=(5, "b", 1.5)).number
    assert shape.number != Shape(window=replace(window, slide=10), parameters=(5, "a", 1.5)).number
