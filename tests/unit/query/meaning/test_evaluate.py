"""Conditions of signatures as functions, and the answers to probes.

The values are judged in tests/property/test_meaning.py (DuckDB) and tests/spark/test_meaning.py.
"""

import pytest

from shoal.kernel.errors import UserError
from shoal.query.draft import parse_selection
from shoal.query.meaning.evaluate import Installed, analyze, condition, errors, expression
from tests.property.streams import READINGS

COLUMNS = {column.name: column.type for column in READINGS.columns}


def test_a_selection_from_text_to_a_value() -> None:
    draft = parse_selection("SELECT ts FROM readings WHERE 10 / meter > 1 AND zone = 3", READINGS)
    selection = draft.resolve(analyze(draft.probe))
    run = condition(selection.signature, COLUMNS)
    failing = errors(selection.signature, COLUMNS)
    assert failing is not None
    for meter, matched, failed in ((5, True, False), (20, False, False), (0, None, True)):
        row = {"meter": meter, "zone": 3}
        assert run(row, selection.parameters) is matched
        assert failing(row, selection.parameters) is failed
    assert failing({"meter": 0, "zone": 4}, selection.parameters) is False


def test_what_cannot_raise_has_no_errors() -> None:
    draft = parse_selection("SELECT ts FROM readings WHERE meter = 1", READINGS)
    assert errors(draft.resolve(analyze(draft.probe)).signature, COLUMNS) is None


def test_a_users_function() -> None:
    installed = {"twice": Installed(run=lambda x: 2 * x, type="INT")}
    draft = parse_selection(
        "SELECT ts FROM readings WHERE twice(meter) = 8", READINGS, extra_functions=["twice"]
    )
    selection = draft.resolve(analyze(draft.probe, installed))
    run = condition(selection.signature, COLUMNS, installed)
    assert run({"meter": 4}, selection.parameters) is True
    with pytest.raises(UserError):
        condition(selection.signature, COLUMNS)


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(UserError):
        expression("xxhash64(s.`meter`)", COLUMNS)
    with pytest.raises(UserError):
        expression("length(s.`raw`)", COLUMNS)
    with pytest.raises(UserError):
        analyze("SELECT typeof(s.`none`) AS t0 FROM (SELECT 1 AS x) AS s")


def test_plain_forms_raise() -> None:
    run = expression("s.`meter` / s.`zone`", COLUMNS).run
    assert run({"meter": 1, "zone": 2}, ()) == 0.5
    with pytest.raises(ArithmeticError):
        run({"meter": 1, "zone": 0}, ())
