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
from shoal.cli.results import projection_of, read_rows
from shoal.cli.resume import resume
from shoal.cli.running import Running
from shoal.cli.selections import Selections, Wishes, reads, stream_instance
from shoal.cli.sinks import into_of
from shoal.cli.sources import Pushed
from shoal.cli.statements.run import Result, run
from shoal.cli.unfinished import row_of
from shoal.dataplane import commands as c
from shoal.dataplane.projection import agree
from shoal.dataplane.reports import EngineView, Report
from shoal.dataplane.rows import RosterRow
from shoal.kernel.errors import LocalError, ShoalError, UserError
from shoal.kernel.ids import check_name
from shoal.kernel.time import parse_duration, parse_instant
from shoal.log.catalog import Catalog, Definition
from shoal.log.root import Root
from shoal.query.catalog import SourceDef, StreamDef, parse_schema
from shoal.query.windows.plan import Projected
from shoal.spark.engine import SparkEngine, wall_clock
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
        self._session = session
        self._owns_session = owns_session
        self._catalog = Catalog(root.path / "catalog")
        self._owner = f"{socket.gethostname()}-{os.getpid()}"
        self._engine = SparkEngine(session, root, owner=self._owner)
        self._streams: dict[str, StreamDef] = {}
        self.selections = Selections(self._streams, self._call, functions=functions)
        self._running = Running(self._streams, self.selections, self._call)
        self._pushed = Pushed(root)
        try:
            resume(root, self._catalog, self._running, self.selections, self._call)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Mesh":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def root(self) -> Path:
        """The folder in which everything is kept."""
        return self._root.path

    @property
    def catalog(self) -> Catalog:
        """The definitions of streams and queries, to look at."""
        return self._catalog

    def sql(self, text: str) -> "Result":
        """Carry out the statements of a script in order; what the last one gives.

        A query for CREATE QUERY, ALTER QUERY and SELECT, a definition for CREATE STREAM, a table
        for SHOW, DESCRIBE and EXPLAIN, None for DROP. All are read before the first is carried
        out.
        """
        return run(self, text)

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
        return self.define_stream(stream)

    def define_stream(self, stream: StreamDef) -> StreamDef:
        """The same, given its definition."""
        stream.validate()
        if stream.timestamp:
            stream = replace(stream, timestamp=stream.column(stream.timestamp).name)
        made = self._catalog.create("streams", stream.name, stream.to_json())
        try:
            self._running.start_stream(stream)
        except ShoalError:
            # A definition that cannot run would keep the mesh from being opened again.
            self._catalog.drop("streams", stream.name, version=made.version)
            del self._streams[stream.name]
            raise
        return stream

    def drop_stream(self, name: str) -> None:
        """Forget a stream that no query reads; its tuples and all results stay on disk.

        What is due to queries that were dropped before, within the lateness, does not come any
        more.
        """
        stream = self._stream(name)
        readers = [q.name for q in self._catalog.list("queries") if reads(q.body, stream)]
        if readers:
            more = f" and {len(readers) - 10} more" if len(readers) > 10 else ""
            raise UserError(
                f"stream {stream.name} is read by queries",
                detail=", ".join(readers[:10]) + more,
                hint=f"drop them first: DROP QUERY {readers[0]}",
            )
        definition = self._catalog.get("streams", stream.name)
        if definition is not None:
            self._catalog.drop("streams", stream.name, version=definition.version)
        self._pushed.forget(stream)
        self._running.stop_stream(stream)

    def streams(self) -> list[StreamDef]:
        """The definitions of all streams, by name."""
        return [self._streams[name] for name in sorted(self._streams)]

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
        position = self._pushed.append(known, rows, client=client, sequence=sequence)
        self._engine.announce(stream_instance(known))
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
        within: str | None = None,
        loss: float = 0.0,
        into: c.Sink | None = None,
    ) -> "Query":
        """Add a query. It counts from now on, or from `start`, an instant in the past.

        The latency bound `within` and the tolerated `loss`, a share of the tuples, are recorded and
        not yet enforced.
        """
        (query,) = self.select_many(
            [(name, sql)],
            start=start,
            keep=keep,
            weight=weight,
            within=within,
            loss=loss,
            into={} if into is None else {name: into},
        )
        return query

    def select_many(
        self,
        queries: Iterable[tuple[str, str]],
        *,
        start: str | None = None,
        keep: float = 1.0,
        weight: float = 1.0,
        within: str | None = None,
        loss: float = 0.0,
        into: Mapping[str, c.Sink] = MappingProxyType({}),
    ) -> list["Query"]:
        """Add many queries at once; all are checked before the first is accepted."""
        begin = None if start is None else parse_instant(start)
        bound = None if within is None else parse_duration(within)
        wishes = Wishes(keep=keep, weight=weight, within=bound, loss=loss)
        wishes.validate()
        read = self.selections.read
        parsed = [(check_name("query", name), sql, read(sql)) for name, sql in queries]
        versions = {name: self._next_version(name) for name, _, _ in parsed}
        bodies = {
            name: {
                **self._body(sql, found, version=versions[name], wishes=wishes),
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
            row = row_of(name, found.selection, bodies[name])
            rows.setdefault(str(bodies[name]["instance"]), []).append(row)
        selections = {bodies[name]["instance"]: found.selection for name, _, found in parsed}
        added: list[tuple[str, str]] = []
        try:
            for selection in selections.values():
                self._running.start_select(selection)
            self._running.deliver(bodies)
            for instance, some in rows.items():
                self._call(c.AddRows(instance=instance, rows=tuple(some), begin=begin))
                added += [(instance, row.query) for row in some]
        except ShoalError:
            for instance, query in added:
                self._call(c.DropRow(instance=instance, query=query, now=True))
            for definition in batch.made:
                with contextlib.suppress(ShoalError):  # its sink may not have been accepted yet
                    self._running.of_sink(c.EndDelivery, definition.body)
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

    def alter(
        self,
        name: str,
        sql: str | None = None,
        *,
        weight: float | None = None,
        within: str | None = None,
        loss: float | None = None,
    ) -> None:
        """Give a query another text, which counts from one instant on, or other wishes."""
        definition = self._definition(name)
        old = Wishes.of(definition.body)
        wishes = replace(
            old,
            weight=old.weight if weight is None else weight,
            within=old.within if within is None else parse_duration(within),
            loss=old.loss if loss is None else loss,
        )
        wishes.validate()
        if sql is not None:
            self._alter_text(definition, sql, wishes)
            return
        told = {"weight": wishes.weight, "within": wishes.within, "loss": wishes.loss}
        body = {**definition.body, **told}
        self._catalog.alter("queries", definition.name, body, version=definition.version)
        if wishes.weight != old.weight:
            self._weigh(definition.name, body)

    def _alter_text(self, definition: Definition, sql: str, wishes: Wishes) -> None:
        asked = self.selections.read(sql)
        found, name, old = asked.selection, definition.name, dict(definition.body)
        if found.stream != old["stream"]:
            raise UserError(
                f"query {name} cannot change its stream",
                detail=f"it reads {old['stream']}, the new text reads {found.stream}",
                hint="drop it and create it again: its results are another table's",
            )
        version = definition.version + 1
        body = self._body(sql, asked, version=version, wishes=wishes)
        earlier = [projection_of(piece, self._stream_of(old)) for piece in old["pieces"]]
        agree(name, earlier, self.selections.projection(asked))
        body["pieces"] = [*old["pieces"], *body["pieces"]]
        body["into"] = old.get("into")
        target = self._running.start_select(found)
        self._running.deliver({name: body})
        self._catalog.alter("queries", name, body, version=definition.version)
        row = row_of(name, found, body)
        self._call(c.ReplaceRow(source=str(old["instance"]), target=target, row=row))

    def _weigh(self, name: str, body: Mapping[str, Any]) -> None:
        self._running.start_select(self.selections.parse(str(body["text"])))
        command = c.SetWeight(instance=body["instance"], query=name, weight=body["weight"])
        self._call(command)

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
        self._running.of_sink(c.EndDelivery, definition.body)

    def resume(self, name: str) -> None:
        """Try the sink of a query again that was suspended because it failed."""
        self._running.of_sink(c.ResumeDelivery, self._definition(name).body)

    def keep(self, name: str, share: float) -> None:
        """Let a query look at a share of the tuples."""
        instance = str(self._definition(name).body["instance"])
        self._call(c.SetKeep(instance=instance, query=name, keep=share))

    def results(self, name: str, *, after: int) -> pa.Table:
        """A query's results, also of its earlier versions, in order."""
        body = self._catalog.history("queries", name)[-1].body
        stream = self._stream_of(body)
        pieces = body["pieces"]
        return read_rows(self._root, name, pieces, stream, after=after, session=self._session)

    # Inside

    def _call(self, command: c.Command) -> Mapping[str, object]:
        return self._engine.call(command, timeout=COMMAND_TIMEOUT)

    def _stream(self, name: str) -> StreamDef:
        return self.selections.stream(name)

    def _stream_of(self, body: Mapping[str, Any]) -> StreamDef:
        """The stream that a query reads or read, also one that was dropped since."""
        name = str(body["stream"])
        known = self._streams.get(name)
        if known is not None and reads(body, known):
            return known
        for definition in reversed(self._catalog.history("streams", name)):
            stream = StreamDef.from_json(definition.body)
            if reads(body, stream):
                return stream
        return self._stream(name)

    def _definition(self, name: str) -> Definition:
        definition = self._catalog.get("queries", name)
        if definition is None:
            raise UserError(
                f"query {name} is not known",
                hint="SHOW QUERIES, or mesh.queries(), lists those that run",
            )
        return definition

    def _body(self, sql: str, found: Projected, *, version: int, wishes: Wishes) -> dict[str, Any]:
        return self.selections.body(sql, found, owner=self._owner, version=version, wishes=wishes)

    def _forget(self, made: Iterable[Definition]) -> None:
        for definition in made:
            self._catalog.drop("queries", definition.name, version=definition.version)
