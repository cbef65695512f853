"""A mesh is opened again: start what the catalog knows, and put right what a crash left behind.

Promises   Q1  what the catalog has acknowledged and no roster has is added, from where the query's
               last version ended.
Not here   which rows are over (`unfinished.py`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from shoal.cli.running import Running
from shoal.cli.selections import Selections, reads
from shoal.cli.unfinished import body_of, last_of, row_of, unfinished
from shoal.dataplane import commands as c
from shoal.dataplane.rows import FOREVER, RosterRow
from shoal.log.catalog import Catalog, Definition
from shoal.log.root import Root
from shoal.query.catalog import StreamDef

__all__ = ["resume"]

_Call = Callable[[c.Command], Mapping[str, object]]


def resume(
    root: Root, catalog: Catalog, running: Running, selections: Selections, call: _Call
) -> None:
    """Start streams, deliveries, components that owe results, and every query."""
    for definition in catalog.list("streams"):
        running.start_stream(StreamDef.from_json(definition.body))
    running.start_delivers(root.path / "deliveries")
    known: dict[str, list[RosterRow]] = {}
    for roster in unfinished(root):
        for row in roster.rows:
            known.setdefault(row.query, []).append(row)
        bodies = [body_of(catalog, row) for row in roster.due]
        for body in bodies:
            # The stream may have been dropped since, and another one may have its name.
            if body is not None and reads(body, selections.streams.get(body["stream"])):
                running.start_select(selections.parse(str(body["text"])))
                break
    for definition in catalog.list("queries"):
        rows = known.get(definition.name, [])
        newest = next((row for row in rows if row.version == definition.body["version"]), None)
        if newest is None:
            running.start_select(selections.parse(str(definition.body["text"])))
        running.deliver({definition.name: definition.body})
        if newest is None:
            _put_right(catalog, running, selections, call, definition, rows)
        elif newest.weight != definition.body["weight"] and newest.until == newest.cut == FOREVER:
            _weigh(call, definition)


def _weigh(call: _Call, definition: Definition) -> None:
    """The catalog has a weight that a crash kept from the row."""
    body = definition.body
    call(c.SetWeight(instance=body["instance"], query=definition.name, weight=body["weight"]))


def _put_right(
    catalog: Catalog,
    running: Running,
    selections: Selections,
    call: _Call,
    definition: Definition,
    rows: Sequence[RosterRow],
) -> None:
    """Add the row of a query that a crash kept from its roster: from where the last ended."""
    found = selections.parse(str(definition.body["text"]))
    row = row_of(definition.name, found, definition.body)
    target = running.start_select(found)
    last = last_of(definition, rows)
    if last is not None and last.until == FOREVER:
        before = body_of(catalog, last) or definition.body
        source = running.start_select(selections.parse(str(before["text"])))
        call(c.ReplaceRow(source=source, target=target, row=row))
        return
    begin = None
    if last is not None:
        row, begin = replace(row, keep=last.keep), last.until
    call(c.AddRows(instance=target, rows=(row,), begin=begin))
