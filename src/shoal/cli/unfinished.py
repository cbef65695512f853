"""What a root still owes: rosters with rows that may yet bring results.

A restart serves them all, whether their query is still in the catalog or was dropped with results
due, and whether its newest version runs in this component or in another.

A crash may also have come between a query's definition in the catalog and its row in the roster.
Then the row follows from both: the text from the catalog, and from the row before it, if the
query had one, where to go on and which share of the tuples to look at.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.dataplane.rows import RosterRow
from shoal.log.catalog import Catalog, Definition
from shoal.log.reader import Reader
from shoal.log.root import Root
from shoal.log.rosterlog import RosterLog
from shoal.query.selection import Selection

__all__ = ["Unfinished", "body_of", "last_of", "row_of", "unfinished"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """All rows of a component, and those of them that are not over."""

    instance: str
    rows: tuple[RosterRow, ...]
    due: tuple[RosterRow, ...]


def unfinished(root: Root) -> tuple[Unfinished, ...]:
    """The rosters under a root, by instance."""
    folder = root.path / "rosters"
    if not folder.is_dir():
        return ()
    found = []
    for path in sorted(entry for entry in folder.iterdir() if entry.is_dir()):
        rows = RosterLog(path).load().rows
        head = Reader.head(root, path.name)
        facts: Mapping[str, int] = {} if head is None else head.transactions
        due = tuple(row for row in rows if not _over(row, facts))
        found.append(Unfinished(instance=path.name, rows=rows, due=due))
    return tuple(found)


def body_of(catalog: Catalog, row: RosterRow) -> Mapping[str, Any] | None:
    """The definition of this version of a query; None if it never reached the catalog."""
    for definition in reversed(catalog.history("queries", row.query)):
        if definition.body.get("version") == row.version:
            return definition.body
    return None


def row_of(name: str, found: Selection, body: Mapping[str, Any]) -> RosterRow:
    """The row of a query as its definition has it."""
    return RosterRow(
        query=name,
        version=int(body["version"]),
        parameters=found.parameters,
        columns=found.columns,
        keep=body["keep"],
        weight=body["weight"],
    )


def last_of(definition: Definition, rows: Sequence[RosterRow]) -> RosterRow | None:
    """The newest row of a query; rows of a dropped query that had its name are not its own."""
    mine = [piece["version"] for piece in definition.body["pieces"]]
    return max(
        (row for row in rows if row.version in mine), key=lambda row: row.version, default=None
    )


def _over(row: RosterRow, facts: Mapping[str, int]) -> bool:
    """No tuple can match any more: the watermark has passed its end, or its steps are done."""
    watermark = facts.get("wm")
    positions = [value for key, value in facts.items() if key.startswith("in/")]
    filled = facts.get(f"fill/{row.query}/{row.version}", 0) >= row.fill
    past = watermark is not None and row.until < watermark
    return filled and (past or (bool(positions) and row.cut <= min(positions)))
