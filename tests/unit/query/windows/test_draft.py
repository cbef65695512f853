"""Golden windows: a query in, panes, roll-up, shape, parameters and outputs out.

Each file of tests/golden/query/windows has a story line and blocks: the query, `----`, the result.
`--update` rewrites the results; a new case is a query and the line `----`.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.kernel.errors import LocalError, UserError
from shoal.query.draft import parse_selection
from shoal.query.selection import parameters_from_json, parameters_to_json
from shoal.query.windows.draft import parse_query
from shoal.query.windows.plan import Projected, Windowed
from tests.property.spark_types import query_answers, resolve, resolve_query
from tests.property.streams import READINGS

FOLDER = Path(__file__).parents[3] / "golden" / "query" / "windows"
FILES = sorted(path.name for path in FOLDER.glob("*.txt"))


@pytest.mark.parametrize("name", FILES)
def test_queries(name: str, golden: Callable[[str, str], None]) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    story, *blocks = text.strip().split("\n\n")
    shown = [story, *(_block(block.split("\n----")[0]) for block in blocks)]
    golden(f"query/windows/{name}", "\n\n".join(shown) + "\n")


def _block(query: str) -> str:
    try:
        found = resolve_query(parse_query(query, READINGS))
        lines = _windowed(found) if isinstance(found, Windowed) else _projected(found)
    except UserError as error:
        lines = str(error).splitlines()
    return "\n".join([query, "----", *(line.rstrip() for line in lines)])


def _windowed(query: Windowed) -> list[str]:
    panes, where, having = query.roll_up.panes, query.roll_up.where, query.roll_up.having
    parameters = (query.shape.number, *query.parameters)
    stored = parameters_to_json(having, parameters)
    assert repr(parameters_from_json(having, stored)) == repr(parameters)
    window = query.shape.window
    lines = [f"window     {window.length} slide {window.slide} offset {window.offset}"]
    lines.append(f"pane       {panes.pane}")
    for part in (*panes.keys, *panes.filters):
        lines.append(f"{part.name}         {part.expression} {part.type}")
    for measure in panes.measures:
        made = "; ".join(partial.make for partial in measure.partials)
        lines.append(f"{measure.name}         {measure.type} {made}")
    lines += [f"always     {panes.always}"] if panes.always else []
    lines += [f"errors     {panes.errors}"] if panes.errors else []
    if query.roll_up.where.condition != "TRUE":
        shown = ", ".join(map(repr, query.shape.parameters))
        lines += [f"where      {where.condition}  [{shown}]"]
    assert having.condition.startswith("(s.`_shape` = p.p0)")
    rest = having.condition.removeprefix("(s.`_shape` = p.p0)").removeprefix(" AND ")
    shown = ", ".join(map(repr, query.parameters))
    lines += [f"having     {rest}  [{shown}]"] if rest else []
    lines += [f"raises     {having.errors}"] if having.errors else []
    return lines + [f"output     {out.name} {out.type} {out.expression}" for out in query.outputs]


def _projected(query: Projected) -> list[str]:
    selection = query.selection
    shown = ", ".join(map(repr, selection.parameters))
    lines = [f"columns    {', '.join(selection.columns)}"]
    lines.append(f"condition  {selection.signature.condition}  [{shown}]")
    return lines + [f"output     {out.name} {out.type} {out.expression}" for out in query.outputs]


def test_a_query_without_a_select_list_of_its_own_is_the_selection_it_was() -> None:
    text = "SELECT ts, kwh FROM readings WHERE kwh > 1.5 AND meter IN (1, 2)"
    found = resolve_query(parse_query(text, READINGS))
    assert isinstance(found, Projected)
    assert found.selection == resolve(parse_selection(text, READINGS))
    assert [out.expression for out in found.outputs] == ["s.`ts`", "s.`kwh`"]


def test_probes_differ_only_where_types_can() -> None:
    text = "SELECT sum(kwh) AS k FROM readings [RANGE 1 HOUR] WHERE meter = {} HAVING sum(kwh) > {}"
    one, other = (parse_query(text.format(*pair), READINGS) for pair in ((1, 2), (7, 8)))
    longer = parse_query(text.format(1, 100), READINGS)
    assert one.probe == other.probe != longer.probe
    assert "sum(s.`kwh`) OVER () AS a0" in one.probe
    assert "typeof((s.`a0` > 1)) AS u1" in one.probe


def test_every_question_has_an_answer() -> None:
    draft = parse_query("SELECT count(*) AS n FROM readings [RANGE 1 HOUR]", READINGS)
    with pytest.raises(LocalError, match="one type for each question"):
        draft.resolve(query_answers(draft)[:-1])


def test_an_aggregate_has_the_type_that_spark_says() -> None:
    draft = parse_query("SELECT sum(meter) AS n FROM readings [RANGE 1 HOUR]", READINGS)
    with pytest.raises(LocalError, match="sum is a BIGINT here, and a INT to Spark"):
        draft.resolve([answer.replace("BIGINT", "INT") for answer in query_answers(draft)])


def test_what_spark_says_is_told() -> None:
    draft = parse_query("SELECT count(*) AS n FROM readings [RANGE 1 HOUR]", READINGS)
    error = draft.refusal("[DATATYPE_MISMATCH.X] Cannot resolve it. SQLSTATE: 42K09\nplan")
    assert error.what == "query has no meaning to Spark"
    assert error.detail == "Cannot resolve it."


def test_operators_of_users_stay_out_of_panes() -> None:
    def read(text: str) -> Windowed | Projected:
        draft = parse_query(text, READINGS, extra_functions=("scramble",))
        return draft.resolve(query_answers(draft))

    with pytest.raises(UserError, match="an installed operator cannot be used in keys"):
        read("SELECT sum(scramble(kwh)) AS k FROM readings [RANGE 1 HOUR]")
    found = read("SELECT sum(kwh) AS k FROM readings [RANGE 1 HOUR] WHERE scramble(kwh) > 1")
    assert isinstance(found, Windowed)
    assert found.roll_up.where.may_throw
    assert [part.expression for part in found.roll_up.panes.filters] == ["s.`kwh`"]
