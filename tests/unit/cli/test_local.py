"""The way in: what it refuses, what it undoes, and what it does again after a restart.

Most tests run on an engine that only remembers what it was asked. Results are judged in
tests/spark, and so are crashes between catalog and roster.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import shoal
from shoal.cli import local
from shoal.cli.local import Mesh, stream_instance
from shoal.dataplane import commands as c
from shoal.dataplane.rows import FOREVER
from shoal.kernel.errors import LocalError, ShoalError, UserError
from shoal.log.rosterlog import RosterLog
from tests.unit.cli.engine import HOT, HOTTER, SCHEMA, SEVEN, Engine, again, engine, view

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def opened(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mesh]:
    """A mesh on an engine that does nothing, with one stream that takes pushed rows."""
    monkeypatch.setattr(local, "SparkEngine", Engine)
    mesh = again(root)
    mesh.create_stream("readings", SCHEMA, timestamp="TS", source=shoal.push())
    yield mesh
    mesh.close()


def test_the_event_time_has_its_declared_spelling(opened: Mesh) -> None:
    (start,) = engine(opened).of(c.Start)
    assert start.component.stream.timestamp == "ts"


def test_a_stream_that_cannot_start_leaves_nothing(opened: Mesh, root: Path) -> None:
    """Or its definition would keep the mesh from being opened again."""
    engine(opened).refuses = c.Start
    with pytest.raises(UserError, match="no room"):
        opened.create_stream("other", SCHEMA, timestamp="ts", source=shoal.push())
    engine(opened).refuses = type(None)
    with pytest.raises(UserError, match="stream other is not known"):
        opened.select("q", "SELECT ts FROM other")
    assert len(engine(again(root)).of(c.Start)) == 1
    opened.create_stream("other", SCHEMA, timestamp="ts", source=shoal.push())


def test_a_name_of_a_stream_is_taken_once(opened: Mesh) -> None:
    with pytest.raises(UserError, match="exists already"):
        opened.create_stream("READINGS", SCHEMA, source=shoal.push())
    assert len(engine(opened).of(c.Start)) == 1


def test_another_definition_is_another_instance(opened: Mesh) -> None:
    other = opened.create_stream("other", SCHEMA, source=shoal.push())
    opened.create_stream("third", SCHEMA, timestamp="ts", source=shoal.push())
    names = [start.component.instance for start in engine(opened).of(c.Start)]
    assert len(dict.fromkeys(names)) == 3
    assert stream_instance(other) in names


def test_queries_of_one_signature_share_a_component(opened: Mesh) -> None:
    opened.select_many([("a", HOT), ("b", HOTTER)], keep=0.5, weight=2.0)
    (add,) = engine(opened).of(c.AddRows)
    assert [(row.query, row.parameters) for row in add.rows] == [("a", (3.5,)), ("b", (4.5,))]
    assert {(row.version, row.keep, row.weight) for row in add.rows} == {(1, 0.5, 2.0)}
    assert len(engine(opened).of(c.Start)) == 2
    assert len(engine(opened).of(c.Analyze)) == 1
    opened.select("s", SEVEN)
    assert len(engine(opened).of(c.Start)) == 3
    assert opened.queries() == ["a", "b", "s"]


def test_the_past_is_asked_for_as_an_instant(opened: Mesh) -> None:
    opened.select("a", HOT, start="1970-01-01T00:00:01Z")
    opened.select("b", HOT)
    assert [add.begin for add in engine(opened).of(c.AddRows)] == [1_000_000, None]


def test_one_name_that_is_taken_adds_none(opened: Mesh) -> None:
    opened.select("b", HOT)
    with pytest.raises(UserError, match="query b exists already") as raised:
        opened.select_many([("a", HOT), ("b", SEVEN), ("d", HOT)])
    assert "none was added" in raised.value.detail
    assert opened.queries() == ["b"]
    assert len(engine(opened).of(c.AddRows)) == 1


def test_one_text_that_is_wrong_adds_none(opened: Mesh) -> None:
    with pytest.raises(UserError):
        opened.select_many([("a", HOT), ("b", "SELECT nothing FROM readings")])
    assert opened.queries() == []
    assert engine(opened).of(c.AddRows) == []


def test_what_the_engine_refuses_is_undone(opened: Mesh) -> None:
    """The first component took its rows; the second did not."""
    real = engine(opened).call

    def full(command: c.Command, *, timeout: float) -> Mapping[str, object]:
        if isinstance(command, c.AddRows) and engine(opened).of(c.AddRows):
            raise UserError("no room")
        return real(command, timeout=timeout)

    engine(opened).call = full  # type: ignore[method-assign]
    with pytest.raises(UserError, match="no room"):
        opened.select_many([("a", HOT), ("s", SEVEN)])
    assert opened.queries() == []
    (add,) = engine(opened).of(c.AddRows)
    drops = engine(opened).of(c.DropRow)
    assert drops == [c.DropRow(instance=add.instance, query=add.rows[0].query, now=True)]


def test_a_sink_of_a_query_that_was_refused_is_free_again(opened: Mesh, tmp_path: Path) -> None:
    engine(opened).refuses = c.AddRows
    with pytest.raises(UserError, match="no room"):
        opened.select("a", HOT, into=shoal.to_jsonl(tmp_path / "a.jsonl"))
    (added,), (ended,) = (engine(opened).of(kind) for kind in (c.AddDeliveries, c.EndDelivery))
    assert ended.delivery == added.deliveries[0].delivery
    engine(opened).refuses = c.AddDeliveries
    with pytest.raises(UserError, match="no room"):
        opened.select("a", HOT, into=shoal.to_jsonl(tmp_path / "a.jsonl"))
    assert opened.queries() == []


def test_what_spark_cannot_type_is_said_of_the_predicate(opened: Mesh) -> None:
    with pytest.raises(UserError, match="no meaning to Spark") as raised:
        opened.select("a", "SELECT ts FROM readings WHERE kwh > ts")
    assert raised.value.detail == "no such > here"


def test_a_stream_that_is_read_is_not_dropped(opened: Mesh) -> None:
    """Not even where nobody else would notice; the queries are named."""
    opened.select_many([(f"q{number:02}", HOT) for number in range(12)])
    with pytest.raises(UserError, match="stream readings is read by queries") as raised:
        opened.drop_stream("Readings")
    assert raised.value.detail.startswith("q00, q01, ")
    assert raised.value.detail.endswith("q09 and 2 more")
    assert raised.value.hint == "drop them first: DROP QUERY q00"
    assert engine(opened).of(c.Stop) == []


def test_a_dropped_stream_is_read_no_more(opened: Mesh, root: Path) -> None:
    """Its readers stop first; its name is free, and another definition is another instance."""
    opened.select("a", HOT).drop()
    ingest, select = (start.component.instance for start in engine(opened).of(c.Start))
    opened.drop_stream("readings")
    assert [stop.instance for stop in engine(opened).of(c.Stop)] == [select, ingest]
    assert opened.streams() == []
    for call in (lambda: opened.drop_stream("readings"), lambda: opened.select("b", HOT)):
        with pytest.raises(UserError, match="stream readings is not known"):
            call()
    with pytest.raises(UserError, match="stream readings is not known"):
        opened.append("readings", [], client="c", sequence=0)
    other = opened.create_stream("readings", SCHEMA, source=shoal.push())
    assert stream_instance(other) != ingest
    assert [stream.name for stream in again(root).streams()] == ["readings"]


def test_results_outlive_their_stream(opened: Mesh) -> None:
    """With the columns that the stream had then."""
    query = opened.select("a", SEVEN)
    query.drop()
    opened.drop_stream("readings")
    assert query.to_arrow().column_names[:2] == ["ts", "meter"]
    opened.create_stream("readings", "kwh DOUBLE", source=shoal.push())
    assert query.to_arrow().column_names[:2] == ["ts", "meter"]
    assert query.rows() == []


def test_wishes_are_kept_and_changed(opened: Mesh) -> None:
    query = opened.select("a", HOT, within="2 seconds", loss=0.05)
    query.alter(loss=0.1)
    body = opened._definition("a").body
    assert (body["within"], body["loss"], body["version"]) == (2_000_000, 0.1, 1)
    assert engine(opened).of(c.SetWeight) == []
    query.alter(HOTTER, within="1 second")
    body = opened._definition("a").body
    assert (body["within"], body["loss"]) == (1_000_000, 0.1)
    for wrong in ({"weight": 0.0}, {"loss": 1.0}, {"within": "0 seconds"}):
        with pytest.raises(UserError):
            query.alter(**wrong)  # type: ignore[arg-type]
        with pytest.raises(UserError):
            opened.select("b", HOT, **wrong)  # type: ignore[arg-type]
    assert opened.queries() == ["a"]


def test_a_name_that_is_used_again_counts_on(opened: Mesh) -> None:
    opened.select("a", HOT).drop()
    opened.select("a", HOT)
    first, second = engine(opened).of(c.AddRows)
    assert second.rows[0].version > first.rows[0].version


def test_alter_replaces_the_row_where_it_is(opened: Mesh) -> None:
    query = opened.select("a", HOT, keep=0.5, weight=3.0)
    query.alter(HOTTER)
    query.alter(SEVEN)
    same, moved = engine(opened).of(c.ReplaceRow)
    assert same.source == same.target == moved.source != moved.target
    assert (same.row.version, moved.row.version) == (2, 3)
    assert (moved.row.parameters, moved.row.keep, moved.row.weight) == ((7,), 0.5, 3.0)
    body = opened._definition("a").body
    assert [piece["version"] for piece in body["pieces"]] == [1, 2, 3]
    assert [piece["columns"] for piece in body["pieces"]][2] == ["ts", "meter"]


def test_a_drop_now_reaches_every_component_that_still_owes(opened: Mesh) -> None:
    """Also where the older version is over and forgotten; without `now` it comes to its end."""
    for name in ("a", "b"):
        query = opened.select(name, HOT)
        query.alter(SEVEN)
        query.alter(HOTTER)
        query.alter(SEVEN)
    above, equal = (
        engine(opened).of(c.ReplaceRow)[0].source,
        engine(opened).of(c.ReplaceRow)[0].target,
    )
    real = engine(opened).call

    def forgotten(command: c.Command, *, timeout: float) -> Mapping[str, object]:
        answer = real(command, timeout=timeout)
        if isinstance(command, c.DropRow) and command.instance == above:
            raise LocalError("query a is not in the roster")
        return answer

    engine(opened).call = forgotten  # type: ignore[method-assign]
    opened.query("a").drop(now=True)
    opened.query("b").drop()
    drops = [(drop.query, drop.instance, drop.now) for drop in engine(opened).of(c.DropRow)]
    assert drops == [("a", above, True), ("a", equal, True), ("b", equal, False)]
    assert opened.queries() == []


def test_alter_cannot_change_the_stream(opened: Mesh) -> None:
    opened.create_stream("other", SCHEMA, timestamp="ts", source=shoal.push())
    query = opened.select("a", HOT)
    with pytest.raises(UserError, match="cannot change its stream"):
        query.alter(HOT.replace("readings", "other"))
    assert engine(opened).of(c.ReplaceRow) == []


def test_a_sink_is_known_before_any_result(opened: Mesh, tmp_path: Path) -> None:
    query = opened.select("a", HOT, into=shoal.to_jsonl(tmp_path / "a.jsonl"))
    kinds = [type(command) for command in engine(opened).asked]
    assert kinds.index(c.AddDeliveries) < kinds.index(c.AddRows)
    (added,) = engine(opened).of(c.AddDeliveries)
    query.resume()
    query.drop(now=True)
    (resumed,), (ended,) = (engine(opened).of(kind) for kind in (c.ResumeDelivery, c.EndDelivery))
    delivery = added.deliveries[0].delivery
    assert (resumed.delivery, ended.delivery) == (delivery, delivery)
    assert added.instance == resumed.instance == ended.instance


def test_what_is_not_known_is_said_with_what_is(opened: Mesh) -> None:
    with pytest.raises(UserError, match="stream reading is not known") as raised:
        opened.select("a", "SELECT ts FROM reading")
    assert raised.value.detail == "streams: readings"
    for call in (opened.query, opened.resume):
        with pytest.raises(UserError, match="query nobody is not known"):
            call("nobody")


def test_pushed_rows_are_durable_and_counted_once(opened: Mesh, root: Path) -> None:
    rows = [{"meter": 7}]
    assert opened.append("READINGS", rows, client="c", sequence=0) == 1
    assert opened.append("readings", pa.table({"meter": [8]}), client="c", sequence=1) == 2
    assert opened.append("readings", rows, client="c", sequence=0) <= 2
    again(root)
    assert again(root).append("readings", rows, client="d", sequence=0) == 3
    with pytest.raises(UserError, match="do not fit"):
        opened.append("readings", pa.table({"meter": ["x"]}), client="c", sequence=2)


def test_only_a_stream_of_pushed_rows_takes_them(opened: Mesh, tmp_path: Path) -> None:
    files = shoal.files(tmp_path, format="json")
    opened.create_stream("filed", SCHEMA, timestamp="ts", source=files)
    with pytest.raises(UserError, match="does not take pushed rows"):
        opened.append("filed", [], client="c", sequence=0)


def test_a_restart_puts_right_what_no_roster_has(opened: Mesh, root: Path) -> None:
    """This engine forgets every row, so all are missing; what was dropped stays dropped."""
    opened.select("a", HOT)
    opened.select("b", SEVEN).drop()
    fresh = again(root)
    (add,) = engine(fresh).of(c.AddRows)
    assert [row.query for row in add.rows] == ["a"]
    assert add.rows[0].parameters == (3.5,)
    assert fresh.queries() == ["a"]


def test_a_restart_goes_on_with_the_share_that_was_set_last(opened: Mesh, root: Path) -> None:
    """The crash came between the end of the old row and the new one."""
    query = opened.select("a", HOT)
    (added,) = engine(opened).of(c.AddRows)
    (row,) = added.rows
    log = RosterLog(root / "rosters" / added.instance)
    (root / "rosters" / added.instance).mkdir(parents=True)
    log.claim(1)
    log.put([replace(row, keep=0.25, until=7)])
    engine(opened).refuses = c.ReplaceRow
    with pytest.raises(UserError, match="no room"):
        query.alter(SEVEN)
    (put,) = engine(again(root)).of(c.AddRows)
    assert (put.begin, put.rows[0].version, put.rows[0].keep) == (7, 2, 0.25)


def test_a_mesh_that_cannot_open_lets_go(
    opened: Mesh, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Engine] = []

    class Refusing(Engine):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.refuses = c.Start
            made.append(self)

    monkeypatch.setattr(local, "SparkEngine", Refusing)
    with pytest.raises(ShoalError, match="no room"):
        again(root)
    assert made[0].closed


def test_drain_waits_until_nobody_is_behind_or_says_who_is(opened: Mesh) -> None:
    behind = view("select", lag=1, looked=FOREVER)
    engine(opened).behind = [behind, behind, None]
    opened.drain(timeout=60)
    assert engine(opened).behind == [None]
    engine(opened).behind = [behind]
    with pytest.raises(UserError, match="select-1 has not caught up after 0 seconds") as raised:
        opened.drain(timeout=0)
    assert raised.value.detail == "the disk is full"


def test_a_session_that_was_given_is_left_running(root: Path, spark: "SparkSession") -> None:
    with shoal.connect(root, spark=spark) as mesh:
        assert mesh.queries() == []
    assert spark.range(3).count() == 3


def test_a_session_that_would_give_other_results_is_refused(
    root: Path, spark: "SparkSession"
) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        with pytest.raises(UserError, match=r"timeZone = Asia/Tokyo"):
            shoal.connect(root, spark=spark)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
