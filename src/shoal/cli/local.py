"""One peer in this process: the Python way in.

    import shoal

    with shoal.connect("/tmp/meters") as mesh:
        mesh.create_stream("readings", "ts TIMESTAMP, meter INT, kwh DOUBLE", timestamp="ts",
                           lateness="10 seconds", source=shoal.files("in/", format="json"))
        hot = mesh.select("hot", "SELECT ts, meter, kwh FROM readings WHERE kwh > 3.5")
        mesh.drain()
        print(hot.rows())

A mesh that is opened again on the same root goes on where it was: streams and queries are in the
catalog, rows in the roster logs, positions in the tables. What was written to the catalog but had
not reached a roster yet is put right at the start.
"""

import contextlib
import os
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from shoal.cli.query import Query
from shoal.cli.results import read_rows
from shoal.cli.sinks import deliver_instance, deliveries, into_of
from shoal.cli.sources import arrow_rows
from shoal.cli.unfinished import last_of, row_of, text_of, unfinished
from shoal.dataplane import commands as c
from shoal.dataplane.reports import EngineView, Report
from shoal.dataplane.rows import FOREVER, RosterRow
from shoal.kernel.errors import LocalError, ShoalError, UserError
from shoal.kernel.ids import check_name, instance_of, key_of
from shoal.kernel.time import parse_duration, parse_instant
from shoal.log.catalog import Catalog, Definition
from shoal.log.root import Root
from shoal.log.spool import Spool
from shoal.query.catalog import SourceDef, StreamDef, parse_schema
from shoal.query.draft import Draft, parse_selection
from shoal.query.selection import Selection
from shoal.query.sql import stream_of
from shoal.spark.engine import SparkEngine, wall_clock
from shoal.spark.ingest.component import SPOOL_BYTES_MAX
from shoal.spark.session import Session, build, check, running

__all__ = ["Mesh", "connect", "stream_instance"]

#: Seconds that a command may take before the caller is told; a step of a busy peer is shorter.
COMMAND_TIMEOUT = 120.0
#: Longest wait between two looks while components catch up; a step that ends is noticed at once.
DRAIN_LOOK = 0.1


def connect(
    root: str | Path,
    *,
    spark: Session | None = None,
    master: str = "local[2]",
    conf: Mapping[str, str] | None = None,
    functions: Sequence[str] = (),
) -> "Mesh":
    """Open the mesh under a root with one peer in this process.

    A Spark session that is given, or that runs already, is used and left running. `functions`
    names functions of the session that predicates may use beside the built-in ones; a row whose
    function raises is suspended by itself.
    """
    opened = Root.open(root)
    active = spark or running()
    if active is None:
        session = build(master, conf or {})
        return Mesh(opened, session, owns_session=True, functions=functions)
    check(active)
    return Mesh(opened, active, owns_session=False, functions=functions)


class Mesh:
    """A root and a peer that runs its components. Close it, or use it in a `with` block."""

    def __init__(
        self,
        root: Root,
        session: Session,
        *,
        owns_session: bool,
        functions: Sequence[str] = (),
    ) -> None:
        self._root = root
        self._functions = tuple(functions)
        self._session = session
        self._owns_session = owns_session
        self._catalog = Catalog(root.path / "catalog")
        self._owner = f"{socket.gethostname()}-{os.getpid()}"
        self._engine = SparkEngine(session, root, owner=self._owner)
        self._types: dict[str, tuple[str, ...]] = {}
        self._streams: dict[str, StreamDef] = {}
        self._running: dict[str, None] = {}
        self._spools: dict[str, Spool] = {}
        try:
            self._resume()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Mesh":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Streams

    def create_stream(
        self,
        name: str,
        schema: str,
        *,
        source: SourceDef,
        timestamp: str = "",
        lateness: str = "0 seconds",
        store: bool = True,
        idle_advances: bool = False,
        retain: str | None = None,
    ) -> StreamDef:
        """Define a stream and start to read it. `store=False` keeps an index only.

        `retain` is how long tuples and results are kept, in event time; without it, for good.
        """
        stream = StreamDef(
            name=check_name("stream", name),
            columns=parse_schema(schema),
            timestamp=timestamp,
            lateness=parse_duration(lateness),
            store=store,
            idle_advances=idle_advances,
            source=source,
            retain=0 if retain is None else parse_duration(retain),
        )
        stream.validate()
        if timestamp:
            stream = replace(stream, timestamp=stream.column(timestamp).name)
        made = self._catalog.create("streams", stream.name, stream.to_json())
        try:
            self._start_stream(stream)
        except ShoalError:
            # A definition that cannot run would keep the mesh from being opened again.
            self._catalog.drop("streams", stream.name, version=made.version)
            del self._streams[stream.name]
            raise
        return stream

    def append(
        self,
        stream: str,
        rows: pa.Table | Sequence[Mapping[str, Any]],
        *,
        client: str,
        sequence: int,
    ) -> int:
        """Push rows; durable when this returns. The same sequence of a client counts once."""
        known = self._stream(stream)
        if known.source.kind != "push":
            raise UserError(
                f"stream {known.name} does not take pushed rows",
                detail=f"its source is {known.source.kind}",
                hint="create it with source=shoal.push()",
            )
        instance = stream_instance(known)
        if instance not in self._spools:
            folder = self._root.folder("spools", instance)
            self._spools[instance] = Spool(folder, bytes_max=SPOOL_BYTES_MAX)
        position = self._spools[instance].append(client, sequence, arrow_rows(known, rows))
        self._engine.announce(instance)
        return position

    # Queries

    def select(
        self,
        name: str,
        sql: str,
        *,
        start: str | None = None,
        keep: float = 1.0,
        weight: float = 1.0,
        into: c.Sink | None = None,
    ) -> "Query":
        """Add a query. It counts from now on, or from `start`, an instant in the past."""
        sinks = {} if into is None else {name: into}
        return self.select_many([(name, sql)], start=start, keep=keep, weight=weight, into=sinks)[0]

    def select_many(
        self,
        queries: Iterable[tuple[str, str]],
        *,
        start: str | None = None,
        keep: float = 1.0,
        weight: float = 1.0,
        into: Mapping[str, c.Sink] = MappingProxyType({}),
    ) -> list["Query"]:
        """Add many queries at once; all are checked before the first is accepted."""
        begin = None if start is None else parse_instant(start)
        parsed = [(check_name("query", name), sql, self._parse(sql)) for name, sql in queries]
        versions = {name: self._next_version(name) for name, _, _ in parsed}
        bodies = {
            name: {
                **self._body(sql, found, version=versions[name], keep=keep, weight=weight),
                "into": into_of(name, into.get(name), root=self._root.path),
            }
            for name, sql, found in parsed
        }
        batch = self._catalog.create_many("queries", bodies)
        if batch.taken:
            self._forget(batch.made)
            raise UserError(
                f"query {batch.taken[0]} exists already",
                detail=f"{len(batch.taken)} of {len(bodies)} names are taken; none was added",
                hint="choose another name, or alter or drop the one that exists",
            )
        rows: dict[str, list[RosterRow]] = {}
        for name, _, found in parsed:
            rows.setdefault(self._instance(found), []).append(row_of(name, found, bodies[name]))
        selections = {self._instance(found): found for _, _, found in parsed}
        added: list[tuple[str, str]] = []
        try:
            for found in selections.values():
                self._start_select(found)
            self._deliver(bodies)
            for instance, some in rows.items():
                self._call(c.AddRows(instance=instance, rows=tuple(some), begin=begin))
                added += [(instance, row.query) for row in some]
        except ShoalError:
            for instance, query in added:
                self._call(c.DropRow(instance=instance, query=query, now=True))
            for definition in batch.made:
                with contextlib.suppress(ShoalError):  # its sink may not have been accepted yet
                    self._of_sink(c.EndDelivery, definition)
            self._forget(batch.made)
            raise
        return [Query(self, name) for name, _, _ in parsed]

    def _next_version(self, name: str) -> int:
        """A name that was used before goes on counting, so that no two rows are confused."""
        history = self._catalog.history("queries", name)
        return history[-1].version + 1 if history else 1

    def query(self, name: str) -> "Query":
        """The query of this name."""
        self._definition(name)
        return Query(self, check_name("query", name))

    def queries(self) -> list[str]:
        """The names of all queries, in order."""
        return [definition.name for definition in self._catalog.list("queries")]

    def drain(self, *, timeout: float = 600.0) -> None:
        """Wait until everything that was there when this was called has been answered."""
        asked = wall_clock()
        for stream in self._streams.values():
            self._engine.announce(stream_instance(stream))
        deadline = time.monotonic() + timeout
        seen = 0
        while (worst := self._engine.lagging(asked)) is not None:
            if time.monotonic() > deadline:
                raise UserError(
                    f"{worst.instance} has not caught up after {timeout:g} seconds",
                    detail=worst.reason or f"{worst.lag} commits of its input are left",
                    hint="give drain() more time, or look at mesh.status()",
                )
            seen = self._engine.wait(seen, timeout=DRAIN_LOOK)

    def status(self) -> EngineView:
        """What runs here, and how far it is."""
        return self._engine.view()

    def reports(self) -> tuple[Report, ...]:
        """Steps and incidents since the last call."""
        return self._engine.reports()

    def close(self) -> None:
        """Stop after the steps that are running; everything goes on at the next `connect`."""
        self._engine.close()
        if self._owns_session:
            self._session.stop()

    # For Query

    def alter(self, name: str, sql: str) -> None:
        """Give a query another text: from one instant on the new one counts."""
        definition = self._definition(name)
        found = self._parse(sql)
        old = dict(definition.body)
        if found.stream != old["stream"]:
            raise UserError(
                f"query {name} cannot change its stream",
                detail=f"it reads {old['stream']}, the new text reads {found.stream}",
                hint="drop it and create it again: its results are another table's",
            )
        version = definition.version + 1
        body = self._body(sql, found, version=version, keep=old["keep"], weight=old["weight"])
        body["pieces"] = [*old["pieces"], *body["pieces"]]
        body["into"] = old.get("into")
        target = self._start_select(found)
        self._deliver({name: body})
        self._catalog.alter("queries", name, body, version=definition.version)
        row = row_of(name, found, body)
        self._call(c.ReplaceRow(source=str(old["instance"]), target=target, row=row))

    def drop(self, name: str, *, now: bool) -> None:
        """End a query; its results stay readable."""
        definition = self._definition(name)
        instance = str(definition.body["instance"])
        earlier = dict.fromkeys(piece["instance"] for piece in definition.body["pieces"])
        for other in earlier if now else ():
            if other != instance:
                # What it still owed of an earlier version; it may have been over long ago.
                with contextlib.suppress(LocalError):
                    self._call(c.DropRow(instance=other, query=name, now=True))
        self._call(c.DropRow(instance=instance, query=name, now=now))
        self._catalog.drop("queries", name, version=definition.version)
        self._of_sink(c.EndDelivery, definition)

    def resume(self, name: str) -> None:
        """Try the sink of a query again that was suspended because it failed."""
        self._of_sink(c.ResumeDelivery, self._definition(name))

    def keep(self, name: str, share: float) -> None:
        """Let a query look at a share of the tuples."""
        instance = str(self._definition(name).body["instance"])
        self._call(c.SetKeep(instance=instance, query=name, keep=share))

    def results(self, name: str, *, after: int) -> pa.Table:
        """A query's results, also of its earlier versions, in order."""
        body = self._catalog.history("queries", name)[-1].body
        stream = self._stream(str(body["stream"]))
        return read_rows(self._root, name, body["pieces"], stream, after=after)

    # Inside

    def _call(self, command: c.Command) -> Mapping[str, object]:
        return self._engine.call(command, timeout=COMMAND_TIMEOUT)

    def _deliver(self, bodies: Mapping[str, Mapping[str, Any]]) -> None:
        """Register the sinks of queries, before their rows can bring any result."""
        for instance, added in deliveries(bodies, self._streams, stream_instance).items():
            self._start_deliver(instance)
            self._call(c.AddDeliveries(instance=instance, deliveries=added))

    def _start_deliver(self, instance: str) -> None:
        if instance not in self._running:
            self._call(c.Start(component=c.Deliver(instance=instance), weight=1.0))
            self._running[instance] = None

    def _of_sink(
        self, command: type[c.EndDelivery] | type[c.ResumeDelivery], definition: Definition
    ) -> None:
        into = definition.body.get("into")
        if into is not None:
            instance = deliver_instance(stream_instance(self._stream(definition.body["stream"])))
            self._call(command(instance=instance, delivery=into["delivery"]))

    def _stream(self, name: str) -> StreamDef:
        known = self._streams.get(name.lower())
        if known is None:
            raise UserError(
                f"stream {name} is not known",
                detail="streams: " + (", ".join(self._streams) or "none yet"),
                hint="create it first: mesh.create_stream(...)",
            )
        return known

    def _definition(self, name: str) -> Definition:
        definition = self._catalog.get("queries", name)
        if definition is None:
            raise UserError(
                f"query {name} is not known", hint="mesh.queries() lists those that run"
            )
        return definition

    def _parse(self, sql: str) -> Selection:
        stream = self._stream(stream_of(sql))
        draft = parse_selection(sql, stream, extra_functions=self._functions)
        return draft.resolve(self._cells(draft))

    def _cells(self, draft: Draft) -> tuple[str, ...]:
        """The types that Spark gives a draft; queries that differ in constants ask the same."""
        if not draft.probe:
            return ()
        if draft.probe not in self._types:
            try:
                answer = self._call(c.Analyze(probe=draft.probe))
            except UserError as error:
                raise draft.refusal(error.detail) from error
            self._types[draft.probe] = answer["cells"]  # type: ignore[assignment]
        return self._types[draft.probe]

    def _body(
        self, sql: str, found: Selection, *, version: int, keep: float, weight: float
    ) -> dict[str, Any]:
        instance = self._instance(found)
        return {
            "text": sql,
            "owner": self._owner,
            "stream": found.stream,
            "instance": instance,
            "version": version,
            "columns": list(found.columns),
            "keep": keep,
            "weight": weight,
            "pieces": [{"instance": instance, "version": version, "columns": list(found.columns)}],
        }

    def _instance(self, found: Selection) -> str:
        stream = stream_instance(self._streams[found.stream])
        return instance_of("select", f"{found.signature.name} over {stream}")

    def _start_stream(self, stream: StreamDef) -> None:
        self._streams[stream.name] = stream
        component = c.Ingest(instance=stream_instance(stream), stream=stream)
        self._call(c.Start(component=component, weight=1.0))

    def _start_select(self, found: Selection) -> str:
        instance = self._instance(found)
        if instance not in self._running:
            self._begin(instance, found)
        return instance

    def _begin(self, instance: str, found: Selection) -> tuple[RosterRow, ...]:
        stream = self._streams[found.stream]
        component = c.Select(
            instance=instance,
            input=stream_instance(stream),
            stream=stream,
            signature=found.signature,
        )
        answer = self._call(c.Start(component=component, weight=1.0))
        self._running[instance] = None
        return answer["rows"]  # type: ignore[return-value]

    def _forget(self, made: Iterable[Definition]) -> None:
        for definition in made:
            self._catalog.drop("queries", definition.name, version=definition.version)

    def _resume(self) -> None:
        """Start what the catalog knows; put right what a crash left between catalog and roster."""
        for definition in self._catalog.list("streams"):
            stream = StreamDef.from_json(definition.body)
            self._start_stream(stream)
            delivers = deliver_instance(stream_instance(stream))
            if (self._root.path / "deliveries" / delivers).exists():
                self._start_deliver(delivers)
        known: dict[str, list[RosterRow]] = {}
        for roster in unfinished(self._root):
            for row in roster.rows:
                known.setdefault(row.query, []).append(row)
            texts = (text_of(self._catalog, row) for row in roster.due)
            text = next((text for text in texts if text is not None), None)
            if text is not None:
                self._start_select(self._parse(text))
        for definition in self._catalog.list("queries"):
            rows = known.get(definition.name, [])
            missing = all(row.version != definition.body["version"] for row in rows)
            if missing:
                self._start_select(self._parse(str(definition.body["text"])))
            self._deliver({definition.name: definition.body})
            if missing:
                self._put_right(definition, rows)

    def _put_right(self, definition: Definition, rows: Sequence[RosterRow]) -> None:
        """Add the row of a query that a crash kept from its roster: from where the last ended."""
        found = self._parse(str(definition.body["text"]))
        row = row_of(definition.name, found, definition.body)
        last = last_of(definition, rows)
        if last is not None and last.until == FOREVER:
            source = self._start_select(self._parse(str(text_of(self._catalog, last))))
            target = self._start_select(found)
            self._call(c.ReplaceRow(source=source, target=target, row=row))
            return
        begin = None
        if last is not None:
            row, begin = replace(row, keep=last.keep), last.until
        self._call(c.AddRows(instance=self._start_select(found), rows=(row,), begin=begin))


def stream_instance(stream: StreamDef) -> str:
    """The instance that ingests a stream; another definition is another instance."""
    return f"{stream.name}-{key_of(stream.canonical_name)[:12]}"
