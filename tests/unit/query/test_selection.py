"""Selections are plain data: they validate, and JSON keeps every bit of a parameter."""

import json
import math
from dataclasses import replace
from decimal import Decimal

import pytest

from shoal.kernel.errors import LocalError
from shoal.query.draft import parse_selection
from shoal.query.selection import Value, parameters_from_json, parameters_to_json
from tests.property.spark_types import resolve
from tests.property.streams import READINGS

SELECTION = resolve(parse_selection("SELECT ts, Meter FROM readings WHERE meter = 7", READINGS))


def test_columns_are_not_in_the_signature() -> None:
    other = resolve(parse_selection("SELECT * FROM readings WHERE 7 = meter", READINGS))
    assert SELECTION.columns == ("ts", "meter")
    assert other.signature == SELECTION.signature
    assert other.signature.instance.startswith("select-")
    assert len(other.signature.key) == 40


@pytest.mark.parametrize(
    ("hole", "value"),
    [
        ("DOUBLE", 0.1),
        ("DOUBLE", math.inf),
        ("DOUBLE", -0.0),
        ("DECIMAL(10,2)", Decimal("5.00")),
        ("BINARY", b"\x00\xff"),
        ("STRING", "é'"),
        ("BOOLEAN", True),
        ("TIMESTAMP", -1),
        ("INT", None),
        ("ARRAY<DECIMAL(3,1)>", (Decimal("1.5"), None)),
        ("ARRAY<DOUBLE>", (0.1, 1e300)),
    ],
)
def test_parameters_through_json(hole: str, value: Value) -> None:
    signature = replace(SELECTION.signature, holes=(hole,))
    text = json.dumps(parameters_to_json(signature, [value]), allow_nan=False)
    assert repr(parameters_from_json(signature, json.loads(text))) == repr((value,))
    replace(SELECTION, signature=signature, parameters=(value,)).validate()


@pytest.mark.parametrize("parameters", [(), ("7",), (7, 8), (True,), (7.0,)])
def test_parameters_that_do_not_fit(parameters: tuple[Value, ...]) -> None:
    with pytest.raises(LocalError):
        replace(SELECTION, parameters=parameters).validate()


def test_nan_through_json() -> None:
    signature = replace(SELECTION.signature, holes=("DOUBLE",))
    stored = parameters_to_json(signature, [math.nan])
    (found,) = parameters_from_json(signature, stored)
    assert isinstance(found, float)
    assert math.isnan(found)
