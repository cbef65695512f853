"""Where a query's results go, as a program says it: `mesh.select(..., into=shoal.to_files(...))`.

Rows carry the query's columns and `_version`, `_step`, `_id` (which version of the query, which
commit, which tuple); `identity=False` leaves these three out.
"""

import secrets
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from shoal.cli.results import projection_of
from shoal.dataplane import commands as c
from shoal.kernel.errors import UserError
from shoal.query.catalog import StreamDef
from shoal.spark.deliver.sinks.contract import check_sink
from shoal.spark.ingest.judge import event_time

__all__ = [
    "deliver_instance",
    "deliveries",
    "into_of",
    "sink_of",
    "to_console",
    "to_delta",
    "to_files",
    "to_jsonl",
]


def to_files(path: str | Path, *, format: str, identity: bool = True) -> c.Sink:  # noqa: A002
    """A folder of files, one for each step with results: parquet, json or csv. Exactly once."""
    return _sink("files", path=path, format=format, identity=identity)


def to_delta(path: str | Path, *, identity: bool = True) -> c.Sink:
    """A Delta table, a new one or one that exists. Exactly once."""
    return _sink("delta", path=path, identity=identity)


def to_jsonl(path: str | Path, *, identity: bool = True) -> c.Sink:
    """One file that grows by a JSON object a result. Exactly once."""
    return _sink("jsonl", path=path, identity=identity)


def to_console(*, rows: int = 20, identity: bool = True) -> c.Sink:
    """Standard output: the first rows of each step. At least once."""
    return c.Sink(kind="console", options={"rows": str(rows), "identity": _said(identity)})


def sink_of(kind: str, options: Mapping[str, str]) -> c.Sink:
    """The sink of a statement: a path in it begins where this process stands."""
    given = {"identity": "true", **options}
    if "path" in given:
        given["path"] = _place(given["path"])
    return c.Sink(kind=kind, options=given)


def _sink(kind: str, *, path: str | Path, identity: bool, **options: str) -> c.Sink:
    place = _place(path)
    return c.Sink(kind=kind, options={"path": place, **options, "identity": _said(identity)})


def _place(path: str | Path) -> str:
    place = str(path)
    return place if "://" in place else str(Path(place).expanduser().absolute())


def _said(flag: bool) -> str:
    return "true" if flag else "false"


def deliver_instance(stream_instance: str) -> str:
    """The component that delivers results of queries over a stream."""
    return f"deliver-{stream_instance}"


def into_of(name: str, sink: c.Sink | None, *, root: Path) -> dict[str, Any] | None:
    """What the catalog keeps about a query's sink; None where it has none."""
    if sink is None:
        return None
    if not isinstance(sink, c.Sink):
        raise UserError(
            f"results of query {name} cannot go into {sink!r}",
            hint="into=shoal.to_files(...), to_delta(...), to_jsonl(...) or to_console()",
        )
    check_sink(sink, root=root)
    delivery = f"{name}-{secrets.token_hex(4)}"
    return {"kind": sink.kind, "options": dict(sink.options), "delivery": delivery}


def deliveries(
    bodies: Mapping[str, Mapping[str, Any]],
    streams: Mapping[str, StreamDef],
    instance_of_stream: Callable[[StreamDef], str],
) -> dict[str, tuple[c.Delivery, ...]]:
    """The deliveries of queries that have a sink, by the component that runs them."""
    found: dict[str, tuple[c.Delivery, ...]] = {}
    for name, body in bodies.items():
        if body.get("into"):
            stream = streams[body["stream"]]
            instance = deliver_instance(instance_of_stream(stream))
            found[instance] = (*found.get(instance, ()), *_pieces(name, body, stream))
    return found


def _pieces(name: str, body: Mapping[str, Any], stream: StreamDef) -> Iterable[c.Delivery]:
    into = body["into"]
    for piece in body["pieces"]:
        projection = projection_of(piece, stream)
        yield c.Delivery(
            delivery=into["delivery"],
            query=name,
            version=piece["version"],
            input=piece["instance"],
            columns=projection.columns,
            outputs=projection.outputs,
            timestamp=piece.get("time", event_time(stream)),
            sink=c.Sink(kind=into["kind"], options=into["options"]),
        )
