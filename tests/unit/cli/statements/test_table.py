"""A table as text: one line a row, columns in line, nothing that runs over."""

from shoal.cli.statements.table import CELL_MAX, Table


def test_columns_are_in_line() -> None:
    table = Table(columns=("a", "long name"), rows=(("x", ""), ("größer", "1")))
    assert str(table).splitlines() == ["a       long name", "------  ---------", "x", "größer  1"]


def test_a_table_without_rows_has_its_head() -> None:
    assert str(Table(columns=("a", "b"), rows=())).splitlines() == ["a  b", "-  -"]


def test_long_cells_are_cut_and_lines_are_joined_in_print_only() -> None:
    text = "SELECT ts\n  FROM readings " + "x" * CELL_MAX
    table = Table(columns=("text",), rows=((text,),))
    last = str(table).splitlines()[2]
    assert last.startswith("SELECT ts FROM readings xxx")
    assert last.endswith("...")
    assert len(last) == CELL_MAX
    assert table.rows[0][0] == text
