"""From the text of a query to its selection, and what the catalog keeps of it.

    {"text": "SELECT ts FROM readings WHERE kwh > 3.5", "owner": ..., "stream": "readings",
     "input": "readings-0c1d...", "instance": "select-3f2a...", "version": 1, "columns": ["ts"],
     "keep": 1.0, "weight": 1.0, "within": null, "loss": 0.0, "into": null,
     "pieces": [{"instance": "select-3f2a...", "version": 1, "columns": ["ts"]}]}

A piece is what one version has in one table, and what it shows of it (`dataplane/projection.py`).

`input` is the instance of the stream that the text was read against: a stream that is dropped and
created again with another definition is another one.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.dataplane import commands as c
from shoal.dataplane.projection import Projection
from shoal.kernel.errors import UserError
from shoal.kernel.ids import instance_of, key_of
from shoal.query.catalog import Column, StreamDef
from shoal.query.selection import Selection
from shoal.query.sql_select.flatten import stream_read
from shoal.query.windows.draft import QueryDraft, parse_query
from shoal.query.windows.plan import Projected, Windowed
from shoal.spark.frames import all_columns

__all__ = ["Selections", "Wishes", "reads", "stream_instance"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What a query asks for beside its answer.

    `keep` and `weight` act. The latency bound `within`, in microseconds, and the tolerated `loss`,
    a share of the tuples, are kept for whoever will decide by them.
    """

    keep: float = 1.0
    weight: float = 1.0
    within: int | None = None
    loss: float = 0.0

    def validate(self) -> None:
        """Raise UserError unless each is possible."""
        if not 0.0 < self.weight < math.inf:
            what = f"weight {self.weight:g} cannot be used"
            raise UserError(what, detail="a weight is a number above 0", hint="1 is the usual")
        if not 0.0 <= self.loss < 1.0:
            what = f"loss {self.loss:g} cannot be used"
            detail = "the tolerated loss is a share of the tuples, from 0 to less than 1"
            raise UserError(what, detail=detail, hint="0.05 is 5 percent")
        if self.within is not None and self.within <= 0:
            what = "a latency bound is longer than nothing"
            raise UserError(what, detail=f"{self.within} microseconds", hint="'2 seconds'")

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> "Wishes":
        """As the catalog has them; queries of older roots have no bound and no loss."""
        return cls(
            keep=body["keep"],
            weight=body["weight"],
            within=body.get("within"),
            loss=body.get("loss", 0.0),
        )


class Selections:
    """Reads the text of queries over the streams of a mesh; asks the engine for types."""

    def __init__(
        self,
        streams: Mapping[str, StreamDef],
        call: Callable[[c.Command], Mapping[str, object]],
        *,
        functions: Sequence[str],
    ) -> None:
        #: By name; the mesh changes it.
        self.streams = streams
        self._call = call
        self._functions = tuple(functions)
        self._types: dict[str, tuple[str, ...]] = {}

    def stream(self, name: str) -> StreamDef:
        """The stream of this name, or UserError with those there are."""
        known = self.streams.get(name.lower())
        if known is None:
            raise UserError(
                f"stream {name} is not known",
                detail="streams: " + (", ".join(self.streams) or "none yet"),
                hint="create it first: CREATE STREAM, or mesh.create_stream(...)",
            )
        return known

    def parse(self, sql: str) -> Selection:
        """The selection that a text asks for."""
        return self.read(sql).selection

    def read(self, sql: str) -> Projected:
        """The selection that a text asks for, and what it shows of it."""
        draft = self.draft(sql)
        found = draft.resolve(self.types(draft))
        if isinstance(found, Windowed):
            raise UserError(
                "a query with aggregates or windows cannot be run yet",
                detail="it can be read, but nothing here computes it",
                hint="SELECT expressions FROM stream WHERE ... can be run",
            )
        return found

    def draft(self, sql: str) -> QueryDraft:
        """The query but for its types."""
        stream = self.stream(stream_read(sql))
        return parse_query(sql, stream, extra_functions=self._functions)

    def types(self, draft: QueryDraft) -> tuple[str, ...]:
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

    def instance(self, found: Selection) -> str:
        """The component that serves a selection."""
        stream = stream_instance(self.streams[found.stream])
        return instance_of("select", f"{found.signature.name} over {stream}")

    def projection(self, found: Projected) -> Projection:
        """What a query shows of the table of its component."""
        types = self._types_of(found.selection)
        columns = [Column(name=name, type=types[name]) for name in found.selection.columns]
        return Projection.of(columns, found.outputs)

    def body(
        self, sql: str, found: Projected, *, owner: str, version: int, wishes: Wishes
    ) -> dict[str, Any]:
        """What the catalog keeps of a version of a query."""
        instance, projection = self.instance(found.selection), self.projection(found)
        said = projection.to_json(self._types_of(found.selection))
        return {
            "text": sql,
            "owner": owner,
            "stream": found.selection.stream,
            "input": stream_instance(self.streams[found.selection.stream]),
            "instance": instance,
            "version": version,
            "columns": [column.name for column in projection.shown],
            "keep": wishes.keep,
            "weight": wishes.weight,
            "within": wishes.within,
            "loss": wishes.loss,
            "pieces": [{"instance": instance, "version": version, **said}],
        }

    def _types_of(self, found: Selection) -> Mapping[str, str]:
        return {column.name: column.type for column in all_columns(self.streams[found.stream])}


def stream_instance(stream: StreamDef) -> str:
    """The instance that ingests a stream; another definition is another instance."""
    return f"{stream.name}-{key_of(stream.canonical_name)[:12]}"


def reads(body: Mapping[str, Any], stream: StreamDef | None) -> bool:
    """Whether a query reads this very stream, not another one of its name."""
    if stream is None or body["stream"] != stream.name:
        return False
    # Older roots do not say which; their streams could not be dropped.
    return body.get("input") in (None, stream_instance(stream))
