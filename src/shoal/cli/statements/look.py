"""SHOW, DESCRIBE and EXPLAIN: plain facts from the catalog and the engine, as tables.

Promises   nothing is changed by looking; what is recorded and not enforced is called that.
Not here   how results are projected before anything has run: what is not known is said to be.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from shoal.cli.selections import Wishes, reads, stream_instance
from shoal.cli.statements.table import Table
from shoal.dataplane.reports import ComponentView, EngineView
from shoal.kernel.errors import UserError
from shoal.kernel.time import SECOND, format_instant
from shoal.log.catalog import Definition
from shoal.query.catalog import SourceDef, StreamDef
from shoal.query.selection import Value
from shoal.query.statements import Describe, Select, Show
from shoal.query.terms.types import element_of, nearest

if TYPE_CHECKING:
    from shoal.cli.local import Mesh

__all__ = ["describe", "explain", "show"]

_FACTS = ("fact", "value")
_RECORDED = "recorded, not yet enforced"
#: Values of an IN list that EXPLAIN writes out.
VALUES_SHOWN = 10


def show(mesh: "Mesh", statement: Show) -> Table:
    """SHOW STREAMS, SHOW QUERIES."""
    queries = mesh.catalog.list("queries")
    if statement.what == "streams":
        views = _views(mesh.status())
        columns = ("name", "columns", "event time", "lateness", "source", "queries", "watermark")
        return Table(
            columns=columns,
            rows=tuple(
                (
                    stream.name,
                    str(len(stream.columns)),
                    stream.timestamp or "at ingest",
                    _seconds(stream.lateness),
                    stream.source.kind,
                    str(sum(1 for query in queries if reads(query.body, stream))),
                    _watermark(views.get(stream_instance(stream))),
                )
                for stream in mesh.streams()
            ),
        )
    columns = ("name", "stream", "component", "weight", "within", "loss", "text")
    return Table(columns=columns, rows=tuple(_query_row(query) for query in queries))


def _query_row(query: Definition) -> tuple[str, ...]:
    wishes = Wishes.of(query.body)
    return (
        query.name,
        str(query.body["stream"]),
        str(query.body["instance"]),
        f"{wishes.weight:g}",
        "" if wishes.within is None else _seconds(wishes.within),
        _percent(wishes.loss) if wishes.loss else "",
        str(query.body["text"]),
    )


def describe(mesh: "Mesh", statement: Describe) -> Table:
    """DESCRIBE a stream or a query."""
    name = statement.name
    stream = {s.name: s for s in mesh.streams()}.get(name) if statement.kind != "query" else None
    query = mesh.catalog.get("queries", name) if statement.kind != "stream" else None
    if stream is not None and query is not None:
        raise UserError(
            f"{name} is a stream and a query",
            hint=f"write DESCRIBE STREAM {name}, or DESCRIBE QUERY {name}",
        )
    if stream is not None:
        return Table(columns=_FACTS, rows=tuple(_of_stream(mesh, stream)))
    if query is not None:
        return Table(columns=_FACTS, rows=tuple(_of_query(mesh, query)))
    known = [s.name for s in mesh.streams()] if statement.kind != "query" else []
    known += mesh.queries() if statement.kind != "stream" else []
    raise UserError(
        f"{statement.kind or 'stream or query'} {name} is not known",
        hint=nearest(name, known) or "SHOW STREAMS and SHOW QUERIES list what there is",
    )


def _of_stream(mesh: "Mesh", stream: StreamDef) -> Iterable[tuple[str, str]]:
    yield "stream", stream.name
    for column in stream.columns:
        mark = ", event time" if column.name == stream.timestamp else ""
        yield f"column {column.name}", column.type + mark
    if not stream.timestamp:
        yield "event time", "given at ingest"
    yield "lateness", _seconds(stream.lateness)
    yield "stored", "yes" if stream.store else "no, an index only (STORE NONE)"
    yield "without data", "the watermark advances" if stream.idle_advances else "it waits"
    yield "retained", _seconds(stream.retain) if stream.retain else "for good"
    yield "source", _source(stream.source)
    yield "instance", stream_instance(stream)
    view = _views(mesh.status()).get(stream_instance(stream))
    yield "watermark", _watermark(view)
    if view is not None:
        yield "tuples", ", ".join(f"{n} {what}" for what, n in sorted(view.counters.items()))
    names = [q.name for q in mesh.catalog.list("queries") if reads(q.body, stream)]
    shown = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    yield "queries", f"{len(names)}: {shown}" if names else "none"


def _of_query(mesh: "Mesh", query: Definition) -> Iterable[tuple[str, str]]:
    body, wishes = query.body, Wishes.of(query.body)
    yield "query", query.name
    yield "text", str(body["text"])
    yield "version", str(body["version"])
    yield "stream", str(body["stream"])
    yield from _wishes(wishes)
    into = body.get("into")
    yield "into", "its own table only" if into is None else _source_text(into)
    yield "owner", str(body["owner"])
    yield from _component(mesh.status(), str(body["instance"]))


def explain(mesh: "Mesh", select: Select) -> Table:
    """What a query would be: its plan, its signature, and what of it runs already."""
    selections = mesh.selections
    draft = selections.draft(select.text)
    types = selections.types(draft)
    asked = selections.read(select.text)
    found, signature = asked.selection, asked.selection.signature
    projection = selections.projection(asked)
    rows = [("stream", found.stream)]
    rows.append(("columns", ", ".join(column.name for column in projection.shown)))
    rows += [(f"column {one.name}", one.expression) for one in projection.outputs]
    rows += [("where", part) for part in draft.plan(types)] or [("where", "every tuple")]
    rows += [("signature", signature.name), ("key", signature.key)]
    for number, (hole, value) in enumerate(zip(signature.holes, found.parameters, strict=True)):
        rows.append((f"parameter {number}", f"{hole} {_value(value, hole)}"))
    rows += _component(mesh.status(), selections.instance(found))
    rows.append(("within, loss", f"a query's bounds are {_RECORDED}"))
    return Table(columns=_FACTS, rows=tuple(rows))


def _component(status: EngineView, instance: str) -> Iterable[tuple[str, str]]:
    """Whether a component runs here, for how many, and what its steps cost."""
    view = _views(status).get(instance)
    yield "component", instance
    if view is None:
        yield "runs here", "no, it starts with its first query"
    else:
        yield "runs here", f"yes, its roster has {view.roster_rows} rows"
    cost = {} if view is None else view.cost
    if cost:
        yield "step", f"{cost['step'] * 1e3:.1f} ms"
        yield "step, per million tuples in", f"{cost['tuple_in'] * 1e9:.0f} ms"
        yield "step, per thousand rows", f"{cost['roster'] * 1e6:.1f} ms"
    else:
        yield "step", "not known yet: it has made none"
    yield "cycle of this peer", f"{status.cycle_seconds * 1e3:.0f} ms"


def _wishes(wishes: Wishes) -> Iterable[tuple[str, str]]:
    yield "weight", f"{wishes.weight:g}"
    if wishes.within is not None:
        yield "within", f"{_seconds(wishes.within)} ({_RECORDED})"
    if wishes.loss:
        yield "loss", f"at most {_percent(wishes.loss)} ({_RECORDED})"


def _views(status: EngineView) -> dict[str, ComponentView]:
    return {view.instance: view for view in status.components}


def _watermark(view: ComponentView | None) -> str:
    if view is None:
        return "does not run here"
    return "none yet" if view.watermark is None else format_instant(view.watermark)


def _seconds(duration: int) -> str:
    return f"{duration / SECOND:g} s"


def _percent(share: float) -> str:
    return f"{share * 100:g} percent"


def _source(source: SourceDef) -> str:
    return _source_text({"kind": source.kind, "options": source.options})


def _source_text(written: Mapping[str, Any]) -> str:
    options = ", ".join(f"{key} => {value!r}" for key, value in written["options"].items())
    return f"{written['kind']}({options})"


def _value(value: Value, hole: str) -> str:
    """A constant as SQL writes it."""
    if value is None:
        return "NULL"
    if isinstance(value, tuple):
        shown = [_value(item, element_of(hole)) for item in value[:VALUES_SHOWN]]
        more = f", ... ({len(value)} values)" if len(value) > VALUES_SHOWN else ""
        return "(" + ", ".join(shown) + more + ")"
    if hole == "TIMESTAMP" and isinstance(value, int):
        return _instant(value)
    if hole == "DATE" and isinstance(value, int):
        return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else str(value)


def _instant(value: int) -> str:
    try:
        return format_instant(value)
    except OverflowError:
        return f"{value} us"
