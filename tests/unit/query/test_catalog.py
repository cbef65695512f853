"""Definitions of streams: what is refused, and that JSON keeps them."""

import json
from dataclasses import replace

import pytest

from shoal.kernel.errors import LocalError, UserError
from shoal.query.catalog import (
    Column,
    SourceDef,
    StreamDef,
    format_schema,
    parse_schema,
    quote,
)
from tests.property.streams import READINGS

_FILES = {"path": "/in", "format": "json"}


def test_a_schema_of_any_alphabet() -> None:
    columns = parse_schema("ts timestamp, `größe` decimal(10, 2), 気温 double,\n Name string")
    assert [(c.name, c.type) for c in columns] == [
        ("ts", "TIMESTAMP"),
        ("größe", "DECIMAL(10,2)"),
        ("気温", "DOUBLE"),
        ("Name", "STRING"),
    ]
    assert parse_schema(format_schema(columns)) == columns


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "unreadable"),
        ("ts", "no type"),
        ("ts TIMESTAMP,", "unreadable"),
        ("ts TIMESTMP", "did you mean TIMESTAMP"),
        ("ts TIMESTAMP_NTZ", "UTC"),
        ("a ARRAY<INT>", "flat"),
        ("a DECIMAL(39,2)", "out of range"),
        ("a INT NOT NULL", "nothing more"),
        ("_step INT", "reserved"),
        ("a INT, A STRING", "declared twice"),
        ("`a b` INT", "cannot be used"),
        ("`a.b` INT", "cannot be used"),
    ],
)
def test_refused_schemas(text: str, part: str) -> None:
    with pytest.raises(UserError) as raised:
        parse_schema(text)
    assert part in str(raised.value)


def test_json_and_back() -> None:
    READINGS.validate()
    for stream in (READINGS, replace(READINGS, retain=7)):
        stored = json.loads(json.dumps(stream.to_json()))
        assert StreamDef.from_json(stored) == stream
    del stored["retain"]
    assert StreamDef.from_json(stored) == READINGS, "written before streams could say"
    with pytest.raises(LocalError):
        StreamDef.from_json({"name": "readings"})


def test_how_long_a_stream_is_kept_is_no_part_of_its_name() -> None:
    assert replace(READINGS, retain=7).canonical_name == READINGS.canonical_name


def test_the_canonical_name_tells_definitions_apart() -> None:
    others = [
        replace(READINGS, lateness=1),
        replace(READINGS, store=False),
        replace(READINGS, columns=READINGS.columns[:3]),
        replace(READINGS, source=SourceDef(kind="rate", options={"rows_per_second": "1"})),
    ]
    names = [stream.canonical_name for stream in [READINGS, *others]]
    assert len(dict.fromkeys(names)) == len(names)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"name": "Read-ings"}, "stream name"),
        ({"lateness": -1}, "negative"),
        ({"retain": -1}, "negative"),
        ({"timestamp": "meter"}, "type is INT"),
        ({"timestamp": "tss"}, "did you mean ts"),
        ({"source": SourceDef(kind="fils", options={})}, "did you mean files"),
        ({"source": SourceDef(kind="files", options={"path": "x"})}, "needs the option"),
        ({"source": SourceDef(kind="push", options={"path": "x"})}, "not known"),
        ({"source": SourceDef(kind="push", options={}), "store": False}, "has to be stored"),
        ({"source": SourceDef(kind="rate", options={"rows_per_second": "0"})}, "from 1 up"),
        ({"source": SourceDef(kind="files", options={**_FILES, "files_per_step": "x"})}, "'x'"),
        ({"columns": ()}, "1 to"),
        ({"columns": (Column(name="_id", type="INT"),)}, "reserved"),
    ],
)
def test_refused_definitions(change: dict[str, object], part: str) -> None:
    with pytest.raises(UserError) as raised:
        replace(READINGS, **change).validate()  # type: ignore[arg-type]
    assert part in str(raised.value)


def test_columns_are_found_in_any_case_and_quoted() -> None:
    assert READINGS.column("METER").name == "meter"
    assert quote("a`b") == "`a``b`"
