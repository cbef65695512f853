"""What windowed queries share: tables' columns, and numbers that are the same everywhere."""

from dataclasses import replace

from shoal.query.selection import Signature
from shoal.query.windows.plan import Grouped, Measure, Panes, Partial, RollUp, Shape
from shoal.query.windows.shape import Window

SUM = Partial(name="a0_s", type="DOUBLE", make="sum(s.`kwh`)", merge="sum(`a0_s`)")
COUNT = Partial(name="a0_n", type="BIGINT", make="count(s.`kwh`)", merge="sum(`a0_n`)")
PANES = Panes(
    stream="readings",
    reads="v1 stream readings",
    pane=1_000_000,
    keys=(Grouped(name="k0", expression="s.`zone`", type="INT"),),
    filters=(Grouped(name="f0", expression="s.`meter`", type="INT"),),
    always="",
    errors="",
    measures=(Measure(name="a0", type="DOUBLE", partials=(SUM, COUNT), final="`a0_s` / `a0_n`"),),
    name="v1 panes",
)
TRUE = Signature(
    stream="panes",
    holes=(),
    keys=(),
    range=None,
    condition="TRUE",
    errors="",
    may_throw=False,
    name="v1 true",
)
ROLL_UP = RollUp(panes=PANES, where=TRUE, having=TRUE, name="v1 roll-up")


def test_the_columns_of_panes() -> None:
    assert [(column.name, column.type) for column in PANES.columns()] == [
        ("_p", "TIMESTAMP"),
        ("k0", "INT"),
        ("f0", "INT"),
        ("a0_s", "DOUBLE"),
        ("a0_n", "BIGINT"),
        ("_errors", "BIGINT"),
    ]


def test_the_columns_of_windows() -> None:
    assert [column.name for column in ROLL_UP.columns()] == [
        "window_start",
        "window_end",
        "k0",
        "a0",
        "_time",
        "_errors",
    ]


def test_a_name_is_an_identity() -> None:
    other = replace(PANES, name="v1 others")
    assert PANES.instance != other.instance
    assert PANES.key != other.key
    assert PANES.instance.startswith("panes-")
    assert ROLL_UP.instance.startswith("rollup-")
    assert ROLL_UP.key != replace(ROLL_UP, name="v1 another").key


def test_the_number_of_a_shape_is_the_same_in_every_run() -> None:
    """And it tells windows and constants apart, also those that only look alike."""
    window = Window(length=600, slide=60, offset=0)
    shape = Shape(window=window, parameters=(7, "x", None))
    assert shape.number == Shape(window=window, parameters=(7, "x", None)).number
    assert shape.number == 6460097215956201974
    others = [
        replace(shape, window=replace(window, offset=1)),
        replace(shape, parameters=("7", "x", None)),
        replace(shape, parameters=(7.0, "x", None)),
        replace(shape, parameters=()),
    ]
    numbers = [one.number for one in (shape, *others)]
    assert len(dict.fromkeys(numbers)) == len(numbers)
    assert all(-(1 << 63) <= number < 1 << 63 for number in numbers)
