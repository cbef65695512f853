"""A script to statements: the grammar around queries, written by hand over tokens.

    CREATE STREAM name (column TYPE, ...) [TIMESTAMP BY column] [LATENESS duration] [STORE NONE]
        [IDLE ADVANCES] [RETAIN duration] FROM kind(option => value, ...)
    CREATE STREAM name AS query                DROP STREAM name
    CREATE QUERY name [WITHIN duration] [LOSS AT MOST n PERCENT] [WEIGHT n] [FROM 'instant']
        [INTO kind(option => value, ...)] AS query
    ALTER QUERY name SET [WITHIN ..] [LOSS ..] [WEIGHT ..] [AS query]
    DROP QUERY name [NOW]                      SHOW STREAMS | QUERIES
    DESCRIBE [STREAM | QUERY] name             EXPLAIN query
    query

Promises   any text gives statements or a UserError with what, hint, and the place in the whole
           script, also where a query inside is wrong; clauses come in any order, each once.
Not here   what a query is (`sql.py`); whether names exist, and carrying statements out (`cli/`).
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlglot.tokenizer_core import Token, TokenType

from shoal.kernel.errors import UserError
from shoal.kernel.ids import check_name
from shoal.kernel.time import Instant, parse_duration, parse_instant
from shoal.query.catalog import Column, SourceDef, StreamDef, check_columns
from shoal.query.sql_select.flatten import stream_read
from shoal.query.sql_tokens import Cursor, check_text, tokens_of
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
    Place,
    Select,
    Show,
    Statement,
)
from shoal.query.terms.types import parse_type

__all__ = ["SCRIPT_MAX", "parse_script"]

#: Characters of a script: some thousand statements. Reading takes seconds for each million.
SCRIPT_MAX = 1_048_576

#: The words a query begins with.
_QUERIES = ("SELECT", "WITH")
_UNITS = ("microsecond", "millisecond", "second", "minute", "hour", "day")
_STREAM = "CREATE STREAM name (ts TIMESTAMP, meter INT) TIMESTAMP BY ts FROM files(path => '...')"
_QUERY = "CREATE QUERY name [WITHIN ..] [LOSS ..] [WEIGHT ..] [FROM ..] [INTO ..] AS SELECT ..."
_ALTER = "ALTER QUERY name SET AS SELECT ..., or SET WEIGHT 2"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Clause:
    """What a clause says, and where it begins."""

    value: Any
    at: Place


def parse_script(text: str) -> tuple[Statement, ...]:
    """The statements of a script, in order; at least one.

    >>> [type(statement).__name__ for statement in parse_script("SHOW STREAMS; DROP QUERY hot")]
    ['Show', 'DropQuery']
    """
    check_text(text, kind="script", characters_max=SCRIPT_MAX)
    hint = "close every quote and comment"
    found = []
    part: list[Token] = []
    for token in tokens_of(text, kind="script", hint=hint):
        if token.token_type != TokenType.SEMICOLON:
            part.append(token)
        elif part:
            found.append(_statement(Cursor(text, part)))
            part = []
    if part:
        found.append(_statement(Cursor(text, part)))
    if not found:
        hint = "write one or more, separated by semicolons"
        raise UserError("there is no statement", hint=hint, line=1, column=1)
    return tuple(found)


def _statement(cursor: Cursor) -> Statement:
    at = cursor.place
    if cursor.word() in _QUERIES:
        return _select(cursor)
    read = _STATEMENTS[_first(cursor)]
    statement = read(cursor, at)
    if not cursor.ended:
        raise cursor.refusal(["the end of the statement"], hint="put a semicolon between two")
    return statement


def _first(cursor: Cursor) -> str:
    """Take the words that say what kind of statement it is."""
    where = "CREATE STREAM, CREATE QUERY, ALTER, DROP, SHOW, DESCRIBE, EXPLAIN, SELECT or WITH"
    cursor.usage = f"a statement begins with {where}"
    begins = list(dict.fromkeys([*(kind.split()[0] for kind in _STATEMENTS), *_QUERIES]))
    if cursor.word() not in begins:
        wrong = cursor.refusal(begins)
        what = f"a statement cannot begin with {cursor.shown[:60]!r}"
        raise _wrong(what, cursor.place, detail=wrong.detail, hint=wrong.hint)
    first = cursor.phrase([cursor.word()])
    cursor.kind = first
    seconds = [kind.split()[1] for kind in _STATEMENTS if kind.split()[0] == first and " " in kind]
    if not seconds:
        return first
    cursor.usage = "write " + " or ".join(f"{first} {second} ..." for second in seconds)
    cursor.kind = f"{first} {cursor.phrase(seconds)}"
    return cursor.kind


# Streams


def _create_stream(cursor: Cursor, at: Place) -> Statement:
    cursor.usage = f"write {_STREAM}"
    name_at = cursor.place
    name = _name(cursor, "stream")
    if cursor.take("AS"):
        return DeriveStream(name=name, select=_select(cursor), at=at)
    columns_at = cursor.place
    if not cursor.take("("):
        raise cursor.refusal(["(", "AS"])
    columns = _columns(cursor)
    with _within(columns_at):
        check_columns(columns)
    clauses = _clauses(cursor, _STREAM_CLAUSES)
    source = clauses.get("FROM")
    if source is None:
        hint = "end it with FROM files(path => '...', format => 'json'), rate(...) or push()"
        raise _wrong(f"stream {name} has no source", cursor.place, hint=hint)
    by = clauses.get("TIMESTAMP BY")
    stream = StreamDef(
        name=name,
        columns=columns,
        timestamp="" if by is None else by.value,
        lateness=_value(clauses, "LATENESS", 0),
        store="STORE NONE" not in clauses,
        idle_advances="IDLE ADVANCES" in clauses,
        source=source.value,
        retain=_value(clauses, "RETAIN", 0),
    )
    # What is still unchecked: the type of the event time, and whether this source can go unstored.
    unstored = clauses.get("STORE NONE") if stream.source.kind == "push" else None
    about = unstored or by
    with _within(name_at if about is None else about.at):
        if by is not None:
            stream = _with_event_time(stream)
        stream.validate()
    return CreateStream(stream=stream, at=at)


def _with_event_time(stream: StreamDef) -> StreamDef:
    """The stream with its event time spelled as the column was declared."""
    return StreamDef.from_json(
        stream.to_json() | {"timestamp": stream.column(stream.timestamp).name}
    )


def _columns(cursor: Cursor) -> tuple[Column, ...]:
    columns: list[Column] = []
    names: dict[str, None] = {}
    while True:
        at = cursor.place
        name = cursor.name("a column")
        type_at = cursor.place
        text = cursor.skip_to(",", ")")
        if not text:
            raise cursor.refusal([f"the type of column {name}"])
        with _within(type_at):
            columns.append(Column(name=name, type=parse_type(text)))
        with _within(at):
            check_columns(tuple(columns if name.lower() in names else columns[-1:]))
        names[name.lower()] = None
        if cursor.take(")"):
            return tuple(columns)
        cursor.expect(",")


def _source(cursor: Cursor) -> SourceDef:
    at = cursor.place
    kind, options = _call(cursor, "a source")
    source = SourceDef(kind=kind, options=options)
    with _within(at):
        source.validate()
    return source


def _drop_stream(cursor: Cursor, at: Place) -> Statement:
    cursor.usage = "write DROP STREAM name"
    return DropStream(name=_name(cursor, "stream"), at=at)


# Queries


def _create_query(cursor: Cursor, at: Place) -> Statement:
    cursor.usage = f"write {_QUERY}"
    name = _name(cursor, "query")
    clauses = _clauses(cursor, _QUERY_CLAUSES)
    select = clauses.get("AS")
    if select is None:
        raise cursor.refusal(phrase for phrase in _QUERY_CLAUSES if phrase not in clauses)
    return CreateQuery(
        name=name,
        within=_value(clauses, "WITHIN", None),
        loss=_value(clauses, "LOSS AT MOST", 0.0),
        weight=_value(clauses, "WEIGHT", 1.0),
        start=_value(clauses, "FROM", None),
        into=_value(clauses, "INTO", None),
        select=select.value,
        at=at,
    )


def _alter_query(cursor: Cursor, at: Place) -> Statement:
    cursor.usage = f"write {_ALTER}"
    name = _name(cursor, "query")
    cursor.expect("SET")
    clauses = _clauses(cursor, _ALTER_CLAUSES)
    if not clauses:
        raise cursor.refusal(_ALTER_CLAUSES)
    return AlterQuery(
        name=name,
        within=_value(clauses, "WITHIN", None),
        loss=_value(clauses, "LOSS AT MOST", None),
        weight=_value(clauses, "WEIGHT", None),
        select=_value(clauses, "AS", None),
        at=at,
    )


def _drop_query(cursor: Cursor, at: Place) -> Statement:
    cursor.usage = "write DROP QUERY name, or DROP QUERY name NOW"
    name = _name(cursor, "query")
    now = cursor.take("NOW")
    if not cursor.ended and not now:
        raise cursor.refusal(["NOW", "the end of the statement"])
    return DropQuery(name=name, now=now, at=at)


def _select(cursor: Cursor) -> Select:
    """All that is left, as a query; it must be one by its form."""
    if cursor.word() not in _QUERIES:
        raise cursor.refusal(_QUERIES)
    text, at = cursor.rest()
    with _within(at):
        return Select(text=text, stream=stream_read(text), at=at)


# Looking


def _show(cursor: Cursor, at: Place) -> Statement:
    cursor.usage = "write SHOW STREAMS or SHOW QUERIES"
    return Show(what=cursor.phrase(("STREAMS", "QUERIES")).lower(), at=at)


def _describe(cursor: Cursor, at: Place) -> Statement:
    cursor.usage = "write DESCRIBE name, or DESCRIBE STREAM name, or DESCRIBE QUERY name"
    kind = cursor.word().lower() if cursor.word() in ("STREAM", "QUERY") else ""
    if kind and not cursor.is_last:
        cursor.expect(kind.upper())
        return Describe(kind=kind, name=_name(cursor, kind), at=at)
    return Describe(kind="", name=_name(cursor, "stream or query"), at=at)


def _explain(cursor: Cursor, at: Place) -> Statement:
    cursor.usage = "write EXPLAIN SELECT ..."
    return Explain(select=_select(cursor), at=at)


# Parts


def _name(cursor: Cursor, kind: str) -> str:
    at = cursor.place
    name = cursor.name(f"a {kind}")
    with _within(at):
        return check_name(kind, name)


def _clauses(cursor: Cursor, known: Mapping[str, Callable[[Cursor], Any]]) -> Mapping[str, _Clause]:
    """All clauses up to the end of the statement, each at most once."""
    found: dict[str, _Clause] = {}
    firsts = {phrase.split()[0]: phrase for phrase in known}
    while not cursor.ended:
        at = cursor.place
        phrase = firsts.get(cursor.word(), "")
        if phrase in found:
            hint = "say it once"
            raise _wrong(f"{cursor.kind} has two clauses {phrase}", at, hint=hint)
        if not phrase:
            raise cursor.refusal(phrase for phrase in known if phrase not in found)
        cursor.phrase([phrase])
        found[phrase] = _Clause(value=known[phrase](cursor), at=at)
    return found


def _value(clauses: Mapping[str, _Clause], phrase: str, absent: Any) -> Any:
    return clauses[phrase].value if phrase in clauses else absent


def _said(cursor: Cursor) -> bool:
    """A clause that says all by being there."""
    return True


def _column_name(cursor: Cursor) -> str:
    return cursor.name("a column")


def _duration(cursor: Cursor) -> int:
    """INTERVAL 10 SECONDS, INTERVAL '10' SECOND, INTERVAL '1 hour 30 minutes'; microseconds."""
    usage = "write a duration as INTERVAL 10 SECONDS"
    if not cursor.take("INTERVAL"):
        raise cursor.refusal(["INTERVAL"], hint=usage)
    at = cursor.place
    parts: list[str] = []
    while (part := cursor.number() or cursor.text()) is not None:
        parts.append(part)
        if not any(character.isalpha() for character in part):
            parts.append(_unit(cursor))
    if not parts:
        raise cursor.refusal(["a number and a unit"], hint=usage)
    with _within(at):
        return parse_duration(" ".join(parts))


def _unit(cursor: Cursor) -> str:
    units = [unit.upper() for unit in _UNITS]
    word = cursor.word()
    if word.removesuffix("S") not in units:
        raise cursor.refusal([f"{unit}S" for unit in units])
    return cursor.name("a unit")


def _bound(cursor: Cursor) -> int:
    at = cursor.place
    duration = _duration(cursor)
    if duration <= 0:
        raise _wrong("a latency bound is longer than nothing", at, hint="WITHIN INTERVAL 2 SECONDS")
    return duration


def _percent(cursor: Cursor) -> float:
    at = cursor.place
    value = _number(cursor)
    if not 0 <= value < 100:
        hint = "write LOSS AT MOST 5 PERCENT; 0 for none"
        raise _wrong("a tolerated loss is from 0 to less than 100 percent", at, hint=hint)
    cursor.expect("PERCENT")
    return value / 100


def _weight(cursor: Cursor) -> float:
    at = cursor.place
    value = _number(cursor)
    if not 0 < value < math.inf:
        raise _wrong("a weight is a number above 0", at, hint="write WEIGHT 2; 1 is the usual")
    return value


def _number(cursor: Cursor) -> float:
    at = cursor.place
    text = cursor.number()
    if text is None:
        raise cursor.refusal(["a number"])
    try:
        return float(text)
    except ValueError:
        raise _wrong(f"number {text[:50]!r} cannot be read", at, hint="write 2 or 2.5") from None


def _instant(cursor: Cursor) -> Instant:
    at = cursor.place
    text = cursor.text()
    if text is None:
        raise cursor.refusal(["an instant"], hint="write FROM '2026-03-01 12:00:00'")
    with _within(at):
        return parse_instant(text)


def _into(cursor: Cursor) -> Into:
    at = cursor.place
    kind, options = _call(cursor, "a sink")
    return Into(kind=kind, options=options, at=at)


def _call(cursor: Cursor, what: str) -> tuple[str, Mapping[str, str]]:
    """kind(option => value, ...): values are text, numbers, TRUE or FALSE; all become text."""
    usage = f"write {what} as files(path => '...', format => 'json')"
    kind = cursor.name(what).lower()
    options: dict[str, str] = {}
    if not cursor.take("("):
        raise cursor.refusal(["("], hint=usage)
    while not cursor.take(")"):
        if options and not cursor.take(","):
            raise cursor.refusal([",", ")"], hint=usage)
        at = cursor.place
        option = cursor.name("an option").lower()
        if option in options:
            raise _wrong(f"option {option} is given twice", at, hint="say it once")
        if not cursor.take("=>"):
            raise cursor.refusal(["=>"], hint=usage)
        options[option] = _option(cursor, usage)
    return kind, options


def _option(cursor: Cursor, usage: str) -> str:
    text = cursor.text()
    if text is None:
        text = cursor.number()
    if text is None and cursor.word() in ("TRUE", "FALSE"):
        text = cursor.name("a value").lower()
    if text is None:
        raise cursor.refusal(["a text", "a number", "TRUE", "FALSE"], hint=usage)
    return text


def _wrong(what: str, at: Place, *, detail: str = "", hint: str) -> UserError:
    return UserError(what, detail=detail, hint=hint, line=at.line, column=at.column)


@contextmanager
def _within(at: Place) -> Iterator[None]:
    """Errors of the part that begins here are told with their place in the script."""
    try:
        yield
    except UserError as error:
        raise at.told(error) from None


_STREAM_CLAUSES: Mapping[str, Callable[[Cursor], Any]] = {
    "TIMESTAMP BY": _column_name,
    "LATENESS": _duration,
    "STORE NONE": _said,
    "IDLE ADVANCES": _said,
    "RETAIN": _duration,
    "FROM": _source,
}
_WISHES: Mapping[str, Callable[[Cursor], Any]] = {
    "WITHIN": _bound,
    "LOSS AT MOST": _percent,
    "WEIGHT": _weight,
}
_QUERY_CLAUSES = {**_WISHES, "FROM": _instant, "INTO": _into, "AS": _select}
_ALTER_CLAUSES = {**_WISHES, "AS": _select}
_STATEMENTS: Mapping[str, Callable[[Cursor, Place], Statement]] = {
    "CREATE STREAM": _create_stream,
    "CREATE QUERY": _create_query,
    "ALTER QUERY": _alter_query,
    "DROP STREAM": _drop_stream,
    "DROP QUERY": _drop_query,
    "SHOW": _show,
    "DESCRIBE": _describe,
    "EXPLAIN": _explain,
}
