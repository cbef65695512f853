"""Statements as data: what a script asks for, and where each part of it stands.

    CREATE QUERY hot WEIGHT 2 AS SELECT ts FROM readings WHERE kwh > 3.5

    CreateQuery(name='hot', within=None, loss=0.0, weight=2.0, start=None, into=None,
                select=Select(text='SELECT ts FROM ...', stream='readings', at=Place(1, 30)),
                at=Place(1, 1))

Promises   plain data, without any object of a parser; durations and instants are microseconds;
           an error that is told through a Place says line and column of the whole script.
Not here   reading them from text (`sql_script.py`); carrying them out (`cli/`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from shoal.kernel.errors import UserError
from shoal.kernel.time import Instant
from shoal.query.catalog import StreamDef

__all__ = [
    "AlterQuery",
    "CreateQuery",
    "CreateStream",
    "DeriveStream",
    "Describe",
    "DropQuery",
    "DropStream",
    "Explain",
    "Into",
    "Place",
    "Select",
    "Show",
    "Statement",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where something begins in a script; both count from 1."""

    line: int
    column: int

    def told(self, error: UserError) -> UserError:
        """The error of a text that begins here, with its place in the whole script.

        >>> error = Place(line=3, column=8).told(UserError("wrong", line=1, column=5))
        >>> (error.line, error.column)
        (3, 12)
        """
        line, column = error.line or 1, error.column or 1
        return UserError(
            error.what,
            detail=error.detail,
            hint=error.hint,
            line=self.line + line - 1,
            column=self.column + column - 1 if line == 1 else column,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Select:
    """A SELECT as it was written, and the stream it reads; alone, a query without a name."""

    text: str
    stream: str
    at: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Into:
    """Where results go, as it was written; which kinds and options there are is not known here."""

    kind: str
    options: Mapping[str, str] = field(hash=False)
    at: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateStream:
    """CREATE STREAM name (columns) ... FROM source."""

    stream: StreamDef
    at: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class DeriveStream:
    """CREATE STREAM name AS SELECT ..."""

    name: str
    select: Select
    at: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class DropStream:
    """DROP STREAM name."""

    name: str
    at: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateQuery:
    """CREATE QUERY name ... AS SELECT ...

    `within` is the latency bound, None without one; `loss` the share of tuples that the query can
    do without; `start` the instant from which it counts, None for now.
    """

    name: str
    within: int | None
    loss: float
    weight: float
    start: Instant | None
    into: Into | None
    select: Select
    at: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterQuery:
    """ALTER QUERY name SET ...; what is None stays as it is."""

    name: str
    within: int | None
    loss: float | None
    weight: float | None
    select: Select | None
    at: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class DropQuery:
    """DROP QUERY name [NOW]."""

    name: str
    now: bool
    at: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Show:
    """SHOW STREAMS or SHOW QUERIES: `what` is "streams" or "queries"."""

    what: str
    at: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe:
    """DESCRIBE name: `kind` is "stream" or "query" where that was said, else empty."""

    kind: str
    name: str
    at: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Explain:
    """EXPLAIN SELECT ..."""

    select: Select
    at: Place


Statement = (
    CreateStream
    | DeriveStream
    | DropStream
    | CreateQuery
    | AlterQuery
    | DropQuery
    | Show
    | Describe
    | Explain
    | Select
)
