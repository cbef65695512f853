"""What a stream is declared to be: columns, event time, lateness, source.

Promises   names keep their declared spelling and are found without regard to case; a definition
           goes to JSON and back unchanged; a wrong word is answered with the nearest right one.
Not here   storing definitions and deciding who wins a name (`log/`); types (`terms/types.py`).
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.kernel.errors import LocalError, UserError
from shoal.kernel.ids import check_name
from shoal.query.terms.types import nearest, parse_type

__all__ = [
    "COLUMNS_MAX",
    "SOURCE_OPTIONS",
    "Column",
    "SourceDef",
    "StreamDef",
    "check_columns",
    "format_schema",
    "parse_schema",
    "quote",
]

#: Columns of one stream: every one costs statistics in each commit; a guess.
COLUMNS_MAX = 1_000
#: Characters of a column's name.
NAME_MAX = 128
#: What each kind of source can be told; the first names are required.
SOURCE_OPTIONS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "files": (
        ("path", "format"),
        ("pattern", "header", "delimiter", "files_per_step", "split_by"),
    ),
    "rate": (("rows_per_second",), ("splits", "seed")),
    "push": ((), ()),
}
#: Options that are whole numbers from 1 up.
_COUNTS = ("files_per_step", "rows_per_second", "splits")
#: Characters that Delta readers cannot take in a column's name, and what we quote with.
_FORBIDDEN = " ,;{}()\n\t=.`"
_SEPARATORS = re.compile(r"\s*(?:`((?:[^`]|``)*)`|([^\s,()`]+))\s*")
_FORMATS = ("json", "csv", "parquet")
_CANONICAL_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a stream; every column may be NULL."""

    name: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDef:
    """Where a stream's tuples come from; options are text, as written."""

    kind: str
    options: Mapping[str, str] = field(hash=False)

    def validate(self) -> None:
        """Raise UserError unless kind and options are known and complete."""
        if self.kind not in SOURCE_OPTIONS:
            known = list(SOURCE_OPTIONS)
            hint = nearest(self.kind, known) or "one of " + ", ".join(known)
            raise UserError(f"source kind {self.kind!r} is not known", hint=hint)
        required, optional = SOURCE_OPTIONS[self.kind]
        known = [*required, *optional]
        for option in self.options:
            if option not in known:
                hint = nearest(option, known) or "possible: " + (", ".join(known) or "none")
                what = f"option {option!r} of source {self.kind} is not known"
                raise UserError(what, hint=hint)
        for option in required:
            if not self.options.get(option):
                what = f"source {self.kind} needs the option {option!r}"
                raise UserError(what, hint=f"write {self.kind}({option} => '...')")
        for option in _COUNTS:
            given = self.options.get(option, "1")
            if not given.isdecimal() or int(given) < 1:
                what = f"{option} {given!r} of source {self.kind} cannot be used"
                raise UserError(what, hint="write a whole number from 1 up")
        if self.kind == "files" and self.options["format"] not in _FORMATS:
            hint = nearest(self.options["format"], list(_FORMATS)) or ", ".join(_FORMATS)
            raise UserError(f"format {self.options['format']!r} cannot be read", hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDef:
    """The definition of a source stream.

    `timestamp` names the event-time column ("" if the source has none: ingest gives one).
    `store` False means STORE NONE: readers go to the source. `idle_advances`: with no data at
    all the watermark follows the clock. `retain` is how far behind the watermark tuples and
    results are kept at least, in microseconds; 0 keeps them for good. It is no part of the name.
    """

    name: str
    columns: tuple[Column, ...]
    timestamp: str
    lateness: int
    store: bool
    idle_advances: bool
    source: SourceDef
    retain: int = 0

    def validate(self) -> None:
        """Raise UserError unless the definition can be run."""
        check_name("stream", self.name)
        self.source.validate()
        check_columns(self.columns)
        if self.lateness < 0:
            what = f"lateness of stream {self.name} is negative"
            raise UserError(what, detail=f"{self.lateness} microseconds", hint="0 or more")
        if self.retain < 0:
            what = f"stream {self.name} cannot be kept for a negative time"
            raise UserError(what, detail=f"{self.retain} microseconds", hint="0 keeps everything")
        if self.source.kind == "push" and not self.store:
            raise UserError(
                f"stream {self.name} has to be stored",
                detail="its tuples are pushed: there is no source to read them from again",
                hint="leave STORE NONE away, or let a program write files",
            )
        if not self.timestamp:
            return
        column = self.column(self.timestamp)
        if column.type != "TIMESTAMP":
            raise UserError(
                f"column {column.name} of stream {self.name} cannot be the event time",
                detail=f"its type is {column.type}",
                hint="choose a column of type TIMESTAMP",
            )

    def column(self, name: str) -> Column:
        """The column of this name, whatever its case; else UserError with the nearest name."""
        wanted = name.lower()
        for column in self.columns:
            if column.name.lower() == wanted:
                return column
        known = [column.name for column in self.columns]
        hint = nearest(name, known) or "columns: " + ", ".join(known[:20])
        raise UserError(f"column {name!r} of stream {self.name} is not known", hint=hint)

    @property
    def canonical_name(self) -> str:
        """The text that names this stream for good; another definition has another text."""
        parts = (
            f"v{_CANONICAL_VERSION} stream {self.name}",
            f"({format_schema(self.columns)})",
            f"by {quote(self.timestamp)}" if self.timestamp else "by ingest",
            f"lateness {self.lateness}",
            "stored" if self.store else "store none",
            "idle advances" if self.idle_advances else "idle waits",
            f"from {self.source.kind}",
            json.dumps(dict(self.source.options), sort_keys=True, ensure_ascii=False),
        )
        return " ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """A plain mapping for the catalog."""
        return {
            "name": self.name,
            "columns": [{"name": c.name, "type": c.type} for c in self.columns],
            "timestamp": self.timestamp,
            "lateness": self.lateness,
            "store": self.store,
            "idle_advances": self.idle_advances,
            "source": {"kind": self.source.kind, "options": dict(self.source.options)},
            "retain": self.retain,
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "StreamDef":
        """The definition that `to_json` wrote; anything else is LocalError."""
        try:
            source = record["source"]
            return cls(
                name=record["name"],
                columns=tuple(Column(name=c["name"], type=c["type"]) for c in record["columns"]),
                timestamp=record["timestamp"],
                lateness=record["lateness"],
                store=record["store"],
                idle_advances=record["idle_advances"],
                source=SourceDef(kind=source["kind"], options=dict(source["options"])),
                retain=record.get("retain", 0),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise LocalError(
                "stream definition in the catalog cannot be read",
                detail=f"{type(error).__name__}: {error}",
                hint="the root was written by another version of Shoal, or by hand",
            ) from error


def quote(name: str) -> str:
    """A column's name as Spark SQL writes it, always in backticks.

    >>> quote("größe")
    '`größe`'
    """
    return "`" + name.replace("`", "``") + "`"


def format_schema(columns: tuple[Column, ...]) -> str:
    """The text that `parse_schema` reads back.

    >>> format_schema(parse_schema("ts timestamp, meter int"))
    '`ts` TIMESTAMP, `meter` INT'
    """
    return ", ".join(f"{quote(column.name)} {column.type}" for column in columns)


def parse_schema(text: str) -> tuple[Column, ...]:
    """The columns of a text such as `ts TIMESTAMP, meter INT, kwh DECIMAL(10,2)`."""
    columns = []
    for part in _split(text):
        match = _SEPARATORS.match(part)
        if not match:
            raise UserError(
                "schema has an empty or unreadable column",
                detail=repr(part.strip()),
                hint="write name and type, separated by commas: 'ts TIMESTAMP, meter INT'",
            )
        quoted, bare = match.groups()
        name = bare if quoted is None else quoted.replace("``", "`")
        rest = part[match.end() :]
        if not rest.strip():
            what = f"column {name!r} has no type"
            raise UserError(what, hint=f"write {name} and a type, such as {name} STRING")
        columns.append(Column(name=name, type=parse_type(rest)))
    check_columns(tuple(columns))
    return tuple(columns)


def _split(text: str) -> list[str]:
    """The parts between commas that are neither in backticks nor in parentheses."""
    parts, start, depth, quoted = [], 0, 0, False
    for at, character in enumerate(text):
        if character == "`":
            quoted = not quoted
        elif not quoted:
            depth += (character == "(") - (character == ")")
        if character == "," and not quoted and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


def check_columns(columns: tuple[Column, ...]) -> None:
    """Raise UserError unless a stream can have these columns together."""
    if not 1 <= len(columns) <= COLUMNS_MAX:
        what = f"a stream has 1 to {COLUMNS_MAX} columns"
        raise UserError(what, detail=f"here {len(columns)}", hint="declare fewer, wider columns")
    seen: dict[str, str] = {}
    for column in columns:
        _check_column_name(column.name)
        other = seen.get(column.name.lower())
        if other is not None:
            raise UserError(
                f"column {column.name!r} is declared twice",
                detail=f"names are not told apart by case; the other one is {other!r}",
                hint="rename one of them",
            )
        seen[column.name.lower()] = column.name


def _check_column_name(name: str) -> None:
    if name.startswith("_"):
        raise UserError(
            f"column name {name!r} is reserved",
            detail="names that start with an underscore are Shoal's: _step, _id, _kind ...",
            hint="choose a name that starts otherwise",
        )
    bad = [c for c in name if c in _FORBIDDEN or not c.isprintable()]
    if not name or bad or len(name) > NAME_MAX:
        raise UserError(
            f"column name {name!r} cannot be used",
            detail=f"readers of Delta tables cannot take {bad[0]!r}" if bad else "",
            hint=f"1 to {NAME_MAX} characters of any alphabet, without spaces and {_FORBIDDEN!r}",
        )
