"""Carries out statements, one after the other.

Promises   all statements are read before the first is carried out; those before a failed one stay
           carried out, and the error says which one failed, by line and column.
Not here   reading them (`query/sql_script.py`); what SHOW, DESCRIBE and EXPLAIN say (`look.py`).
"""

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from shoal.cli.query import Query
from shoal.cli.sinks import sink_of
from shoal.cli.sources import source_of
from shoal.cli.statements.look import describe, explain, show
from shoal.cli.statements.table import Table
from shoal.kernel.errors import LocalError, UserError
from shoal.kernel.time import format_instant
from shoal.query.catalog import StreamDef
from shoal.query.sql_script import parse_script
from shoal.query.statements import (
    AlterQuery,
    CreateQuery,
    CreateStream,
    DeriveStream,
    Describe,
    DropQuery,
    DropStream,
    Explain,
    Into,
    Select,
    Show,
    Statement,
)
from shoal.spark.deliver.sinks.contract import check_sink

if TYPE_CHECKING:
    from shoal.cli.local import Mesh

__all__ = ["Result", "run"]

#: What a statement gives.
Result = Query | StreamDef | Table | None


def run(mesh: "Mesh", text: str) -> Result:
    """Carry out a script; what its last statement gives."""
    result: Result = None
    for statement in parse_script(text):
        if isinstance(statement, CreateQuery) and statement.into is not None:
            _check_sink(mesh, statement.into)
        try:
            result = _carry_out(mesh, statement)
        except UserError as error:
            raise _told(error, statement) from error
    return result


def _told(error: UserError, statement: Statement) -> UserError:
    """The error with its place in the script; one with a place of its own is the query's."""
    select = statement if isinstance(statement, Select) else getattr(statement, "select", None)
    if error.line is not None and select is not None:
        return select.at.told(error)
    return statement.at.told(error)


def _carry_out(mesh: "Mesh", statement: Statement) -> Result:
    match statement:
        case CreateStream():
            return _create_stream(mesh, statement)
        case DeriveStream():
            raise UserError(
                f"stream {statement.name} cannot be derived from another yet",
                detail="a stream has a source: files(...), rate(...) or push()",
                hint=f"CREATE QUERY {statement.name} AS SELECT ... has the same results",
            )
        case DropStream():
            mesh.drop_stream(statement.name)
            return None
        case CreateQuery():
            return _create_query(mesh, statement)
        case Select():
            return mesh.select(f"query_{secrets.token_hex(4)}", statement.text)
        case AlterQuery() | DropQuery():
            return _change_query(mesh, statement)
        case Show():
            return show(mesh, statement)
        case Describe():
            return describe(mesh, statement)
        case Explain():
            return explain(mesh, statement.select)
        case _:
            raise LocalError(f"statement {statement!r} is not known")


def _create_stream(mesh: "Mesh", statement: CreateStream) -> StreamDef:
    stream = statement.stream
    return mesh.define_stream(replace(stream, source=source_of(stream.source)))


def _create_query(mesh: "Mesh", statement: CreateQuery) -> Query:
    into = statement.into
    return mesh.select(
        statement.name,
        statement.select.text,
        start=None if statement.start is None else format_instant(statement.start),
        weight=statement.weight,
        within=_bound(statement.within),
        loss=statement.loss,
        into=None if into is None else sink_of(into.kind, into.options),
    )


def _change_query(mesh: "Mesh", statement: AlterQuery | DropQuery) -> Query | None:
    query = mesh.query(statement.name)
    if isinstance(statement, DropQuery):
        query.drop(now=statement.now)
        return None
    query.alter(
        None if statement.select is None else statement.select.text,
        weight=statement.weight,
        within=_bound(statement.within),
        loss=statement.loss,
    )
    return query


def _bound(within: int | None) -> str | None:
    return None if within is None else f"{within} microseconds"


def _check_sink(mesh: "Mesh", into: Into) -> None:
    """What is wrong with a sink is told at its place, not at the query's."""
    try:
        check_sink(sink_of(into.kind, into.options), root=mesh.root)
    except UserError as error:
        raise into.at.told(error) from error
