"""What a statement shows: a small table, as data and as text.

name  stream    weight
----  --------  ------
hot   readings  1
"""

from dataclasses import dataclass

__all__ = ["Table"]

#: Characters of a cell that are printed; the data has all of them.
CELL_MAX = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Columns by name, and rows of as many texts.

    >>> print(Table(columns=("name", "type"), rows=(("meter", "INT"), ("ts", "TIMESTAMP"))))
    name   type
    -----  ---------
    meter  INT
    ts     TIMESTAMP
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        lines = [self.columns, *(tuple(map(_cell, row)) for row in self.rows)]
        widths = [max(len(line[at]) for line in lines) for at in range(len(self.columns))]
        lines.insert(1, tuple("-" * width for width in widths))
        padded = (
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            for line in lines
        )
        return "\n".join(line.rstrip() for line in padded)


def _cell(text: str) -> str:
    """One line of bearable width."""
    line = " ".join(text.split())
    return line if len(line) <= CELL_MAX else line[: CELL_MAX - 3] + "..."
