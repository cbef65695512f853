"""Sinks as a program says them, as the catalog keeps them, and as deliveries."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import shoal
from shoal.cli.sinks import deliver_instance, deliveries, into_of, sink_of
from shoal.dataplane import commands as c
from shoal.kernel.errors import UserError
from shoal.query.catalog import Column, StreamDef
from shoal.query.windows.plan import Output
from tests.property.streams import READINGS


def test_paths_are_made_absolute_where_the_program_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "ada"))
    assert shoal.to_jsonl("out/x.jsonl").options["path"] == str(tmp_path / "out/x.jsonl")
    assert shoal.to_delta("~/t").options["path"] == str(tmp_path / "ada/t")
    assert shoal.to_delta("s3://bucket/t").options["path"] == "s3://bucket/t"


def test_a_statement_says_the_same_as_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert sink_of("jsonl", {"path": "x.jsonl"}) == shoal.to_jsonl("x.jsonl")
    said = {"path": "~/f", "format": "csv", "identity": "false"}
    assert sink_of("files", said) == shoal.to_files("~/f", format="csv", identity=False)
    assert sink_of("console", {"rows": "3"}) == shoal.to_console(rows=3)
    assert sink_of("delta", {"path": "s3://bucket/t"}) == shoal.to_delta("s3://bucket/t")


def test_every_kind_can_be_opened_as_it_is_said(tmp_path: Path) -> None:
    said = {
        "files": shoal.to_files(tmp_path / "f", format="csv", identity=False),
        "delta": shoal.to_delta(tmp_path / "d"),
        "jsonl": shoal.to_jsonl(tmp_path / "l"),
        "console": shoal.to_console(rows=3),
    }
    assert {kind: sink.kind for kind, sink in said.items()} == {kind: kind for kind in said}
    assert said["files"].options["identity"] == "false"
    assert said["delta"].options["identity"] == "true"
    assert said["console"].options["rows"] == "3"
    root = tmp_path / "root"
    kept = {kind: into_of("hot", sink, root=root) for kind, sink in said.items()}
    assert json.loads(json.dumps(kept)) == kept


def test_what_is_kept_of_a_sink(tmp_path: Path) -> None:
    assert into_of("hot", None, root=tmp_path) is None
    sink = shoal.to_jsonl("/data/x")
    first, second = (into_of("hot", sink, root=tmp_path) for _ in range(2))
    assert first is not None
    assert second is not None
    assert first["delivery"].startswith("hot-")
    assert first["delivery"] != second["delivery"]


def test_a_sink_that_cannot_be_is_refused(tmp_path: Path) -> None:
    inside = shoal.to_jsonl(tmp_path / "root" / "x")
    with pytest.raises(UserError, match="root of the mesh"):
        into_of("hot", inside, root=tmp_path / "root")
    wrong: list[object] = ["/tmp/x", {"kind": "console"}]
    for one in wrong:
        with pytest.raises(UserError, match="query hot cannot go into"):
            into_of("hot", one, root=tmp_path)  # type: ignore[arg-type]


def instance(stream: StreamDef) -> str:
    return f"{stream.name}-1"


def body(stream: str, *versions: int, into: object) -> dict[str, object]:
    columns = {1: ["ts", "kwh"], 2: ["größe"], 3: ["_ts"]}
    pieces = [{"instance": f"select-{v}", "version": v, "columns": columns[v]} for v in versions]
    return {"stream": stream, "pieces": pieces, "into": into}


def test_each_version_is_a_delivery_with_its_own_columns() -> None:
    into = {"kind": "jsonl", "options": {"path": "/x"}, "delivery": "hot-0a"}
    bodies = {"hot": body("readings", 1, 2, into=into), "quiet": body("readings", 1, into=None)}
    found = deliveries(bodies, {"readings": READINGS}, instance)
    sink = c.Sink(kind="jsonl", options={"path": "/x"})
    first = c.Delivery(
        delivery="hot-0a",
        query="hot",
        version=1,
        input="select-1",
        columns=(Column(name="ts", type="TIMESTAMP"), Column(name="kwh", type="DOUBLE")),
        timestamp="ts",
        sink=sink,
    )
    second = replace(
        first, version=2, input="select-2", columns=(Column(name="größe", type="INT"),)
    )
    assert found == {"deliver-readings-1": (first, second)}
    assert list(found) == [deliver_instance("readings-1")]


def test_a_piece_with_a_select_list_is_delivered_with_it() -> None:
    """And one of a table of its own names the event time and the types there."""
    listed = {"columns": ["kwh"], "outputs": [["twice", "(s.`kwh` * 2D)", "DOUBLE"]]}
    windowed = {"columns": ["a0"], "types": ["BIGINT"], "time": "_time"}
    pieces = [
        {"instance": "select-1", "version": 1, **listed},
        {"instance": "rollup-2", "version": 2, **windowed},
    ]
    into = {"kind": "console", "options": {}, "delivery": "x-0a"}
    whole = {"stream": "readings", "pieces": pieces, "into": into}
    (found,) = deliveries({"x": whole}, {"readings": READINGS}, instance).values()
    first, second = found
    assert first.outputs == (Output(name="twice", expression="(s.`kwh` * 2D)", type="DOUBLE"),)
    assert (first.columns, first.timestamp) == ((Column(name="kwh", type="DOUBLE"),), "ts")
    assert (second.columns, second.outputs) == ((Column(name="a0", type="BIGINT"),), ())
    assert second.timestamp == "_time"


def test_queries_go_with_their_stream() -> None:
    """And a stream without event time has the one that ingest gives."""
    into = {"kind": "console", "options": {}, "delivery": "x-0a"}
    other = replace(READINGS, name="other", timestamp="")
    streams = {"readings": READINGS, "other": other}
    bodies = {
        "a": body("readings", 1, into=into),
        "b": body("other", 3, into=into),
        "d": body("other", 1, into=into),
    }
    found = deliveries(bodies, streams, instance)
    assert {name: [d.query for d in part] for name, part in found.items()} == {
        "deliver-readings-1": ["a"],
        "deliver-other-1": ["b", "d"],
    }
    (given, _) = found["deliver-other-1"]
    assert given.timestamp == "_ts"
    assert given.columns == (Column(name="_ts", type="TIMESTAMP"),)
