"""Golden selections: a predicate in, everything that is derived from it out.

Each file of tests/golden/query has a story line and blocks: the predicate, `----`, the result.
`--update` rewrites the results; a new case is a predicate and the line `----`.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.kernel.errors import UserError
from shoal.query.draft import parse_selection
from shoal.query.selection import Selection, parameters_from_json, parameters_to_json
from tests.property.spark_types import resolve
from tests.property.streams import READINGS

FOLDER = Path(__file__).parents[2] / "golden" / "query"
FILES = sorted(path.name for path in FOLDER.glob("*.txt"))


@pytest.mark.parametrize("name", FILES)
def test_selections(name: str, golden: Callable[[str, str], None]) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    story, *blocks = text.strip().split("\n\n")
    shown = [story, *(_block(block.split("\n----")[0]) for block in blocks)]
    golden(f"query/{name}", "\n\n".join(shown) + "\n")


def _block(predicate: str) -> str:
    try:
        draft = parse_selection(f"SELECT meter FROM readings WHERE {predicate}", READINGS)
        lines = _lines(resolve(draft))
    except UserError as error:
        lines = str(error).splitlines()
    return "\n".join([predicate, "----", *lines])


def _lines(selection: Selection) -> list[str]:
    signature = selection.signature
    stored = parameters_to_json(signature, selection.parameters)
    assert repr(parameters_from_json(signature, stored)) == repr(selection.parameters)
    lines = [
        "name       " + signature.name.partition(" where ")[2],
        "holes      " + ", ".join(signature.holes),
        "parameters " + ", ".join(map(repr, selection.parameters)),
    ]
    for key in signature.keys:
        inner = "".join(f" (inner p{hole})" for hole in key.inner)
        marks = " (many)" * key.many + inner + " (fails)" * key.fails
        lines.append(f"key        {key.expression} = p{key.hole}{marks}")
    if signature.range:
        lines.append(f"range      {signature.range}")
    lines.append("condition  " + signature.condition)
    if signature.errors:
        lines.append("errors     " + signature.errors)
    return [line.rstrip() for line in lines]
