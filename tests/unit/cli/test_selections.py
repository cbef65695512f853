"""From a text to its selection; what is kept of a query, and which stream it reads."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from shoal.cli.selections import Selections, Wishes, reads, stream_instance
from shoal.cli.unfinished import row_of
from shoal.dataplane import commands as c
from shoal.kernel.errors import UserError
from shoal.query.catalog import SourceDef
from shoal.query.windows.draft import parse_query
from tests.property.spark_types import query_answers
from tests.property.streams import READINGS
from tests.unit.cli.engine import CELLS, HOT, HOTTER, SEVEN, TWICE


class Asked:
    """Answers probes, and counts them."""

    def __init__(self) -> None:
        self.probes: list[str] = []

    def __call__(self, command: c.Command) -> Mapping[str, object]:
        assert isinstance(command, c.Analyze)
        self.probes.append(command.probe)
        return {"cells": tuple(CELLS[command.probe])}


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def selections(asked: Asked) -> Selections:
    return Selections({"readings": READINGS}, asked, functions=())


def test_queries_that_differ_in_constants_ask_once(selections: Selections, asked: Asked) -> None:
    first, second = selections.parse(HOT), selections.parse(HOTTER)
    assert first.signature == second.signature
    assert (first.parameters, second.parameters) == ((3.5,), (4.5,))
    assert len(asked.probes) == 1
    assert selections.instance(first) == selections.instance(second)
    assert selections.instance(selections.parse(SEVEN)) != selections.instance(first)


def test_the_same_query_over_another_definition_is_another_component(
    selections: Selections, asked: Asked
) -> None:
    elsewhere = replace(READINGS, lateness=0)
    assert stream_instance(elsewhere) != stream_instance(READINGS)
    other = Selections({"readings": elsewhere}, asked, functions=())
    assert other.instance(other.parse(HOT)) != selections.instance(selections.parse(HOT))


def test_a_stream_is_found_whatever_its_case(selections: Selections) -> None:
    assert selections.stream("ReadingS") is READINGS
    with pytest.raises(UserError, match="stream nobody is not known") as raised:
        selections.stream("nobody")
    assert raised.value.detail == "streams: readings"
    assert raised.value.hint


def test_what_is_kept_of_a_query(selections: Selections) -> None:
    found = selections.read(HOT)
    wishes = Wishes(keep=0.5, weight=2.0, within=7, loss=0.25)
    body = selections.body(HOT, found, owner="me", version=3, wishes=wishes)
    assert (body["text"], body["owner"], body["version"]) == (HOT, "me", 3)
    assert body["input"] == stream_instance(READINGS)
    (piece,) = body["pieces"]
    assert piece == {"instance": body["instance"], "version": 3, "columns": ["ts", "kwh"]}
    assert Wishes.of(body) == wishes
    row = row_of("hot", found.selection, body)
    assert (row.identity, row.parameters, row.keep, row.weight) == (("hot", 3), (3.5,), 0.5, 2.0)


def test_a_select_list_that_computes_is_kept_with_its_piece(selections: Selections) -> None:
    """And is no part of what the query shares with others."""
    found = selections.read(TWICE)
    body = selections.body(TWICE, found, owner="me", version=1, wishes=Wishes())
    assert body["columns"] == ["ts", "twice"]
    (piece,) = body["pieces"]
    assert piece["columns"] == ["ts", "kwh"]
    assert [(name, type_) for name, _, type_ in piece["outputs"]] == [
        ("ts", "TIMESTAMP"),
        ("twice", "DOUBLE"),
    ]
    assert body["instance"] == selections.instance(selections.parse(HOT))
    assert row_of("hot", found.selection, body).columns == ("ts", "kwh")


def test_a_windowed_query_is_told_apart() -> None:
    text = "SELECT zone, count(*) AS n FROM readings [RANGE 1 MINUTE] GROUP BY zone"
    draft = parse_query(text, READINGS)
    cells = {"cells": tuple(query_answers(draft))}
    selections = Selections({"readings": READINGS}, lambda _: cells, functions=())
    with pytest.raises(UserError, match="aggregates or windows cannot be run yet"):
        selections.parse(text)


def test_queries_of_older_roots_have_no_bounds() -> None:
    assert Wishes.of({"keep": 1.0, "weight": 2.0}) == Wishes(weight=2.0)


@pytest.mark.parametrize(
    "wrong",
    [
        Wishes(weight=0.0),
        Wishes(weight=float("nan")),
        Wishes(weight=float("inf")),
        Wishes(loss=-0.1),
        Wishes(loss=1.0),
        Wishes(within=0),
    ],
)
def test_impossible_wishes_are_refused(wrong: Wishes) -> None:
    with pytest.raises(UserError) as raised:
        wrong.validate()
    assert raised.value.detail
    assert raised.value.hint


def test_which_stream_a_query_reads(selections: Selections) -> None:
    """Not one that has taken its name since."""
    found = selections.read(HOT)
    body = selections.body(HOT, found, owner="me", version=1, wishes=Wishes())
    assert reads(body, READINGS)
    assert not reads(body, None)
    assert not reads(body, replace(READINGS, name="other"))
    changed = replace(READINGS, source=SourceDef(kind="rate", options={"rows_per_second": "1"}))
    assert not reads(body, changed)
    del body["input"]
    assert reads(body, changed), "of an older root"


#: What a query shows, by its text; what is refused says why.
LISTS = """
SELECT kwh, ts FROM readings
SELECT * FROM readings WHERE meter = 7
SELECT kwh AS energy, ts AS kwh FROM readings
SELECT kwh * 2 AS double_kwh, upper(name) AS n, ts FROM readings WHERE zone = 3
SELECT Kwh, `größe` AS `grö-ße`, readings.ts FROM readings
SELECT 1 AS one, 'it''s' AS text, TRUE AS yes, DATE '2024-02-29' AS day FROM readings
SELECT meter / zone AS ratio, total + 1 AS next, price * 1.5 AS dear FROM readings
SELECT CASE WHEN kwh > 5 THEN 'high' ELSE name END AS level FROM readings
SELECT CAST(name AS INT) AS number, TRY_CAST(name AS INT) AS same FROM readings
SELECT coalesce(zone, meter, -1) AS c, kwh IS NULL AS missing FROM readings
SELECT z + 1 AS zz FROM (SELECT zone * 2 AS z, meter FROM readings) WHERE meter > 3
WITH hot AS (SELECT ts, kwh - 1 AS over FROM readings WHERE kwh > 1) SELECT over FROM hot
SELECT kwh + 1 FROM readings
SELECT kwh, kwh FROM readings
SELECT kwh, meter AS KWH FROM readings
SELECT meter AS _id FROM readings
SELECT NULL AS nothing FROM readings
SELECT rand() AS r FROM readings
"""


def test_select_lists(golden: Callable[[str, str], None]) -> None:
    shown = []
    for text in LISTS.strip().splitlines():
        shown += [text, "----", *(f"  {line}" for line in said_of(text)), ""]
    golden("query/shown/select_lists.txt", "\n".join(shown))


def said_of(text: str) -> list[str]:
    def analyzed(command: c.Command) -> Mapping[str, object]:
        return {"cells": tuple(query_answers(parse_query(text, READINGS)))}

    selections = Selections({"readings": READINGS}, analyzed, functions=())
    try:
        found = selections.read(text)
    except UserError as error:
        return str(error).splitlines()
    projection = selections.projection(found)
    read = ", ".join(f"{column.name} {column.type}" for column in projection.columns)
    outputs = [f"{one.name} {one.type} = {one.expression}" for one in projection.outputs]
    return [f"reads {read}", *(outputs or ["shows them as they are"])]
