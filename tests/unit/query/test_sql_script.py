"""Golden statements: a script in, its statements out, or what is wrong with it and where.

Each file of tests/golden/query/statements has a story line and blocks: the script, `----`, the
result. `--update` rewrites the results; a new case is a script and the line `----`.
"""

import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from shoal.kernel.errors import UserError
from shoal.query.sql import TEXT_MAX
from shoal.query.sql_script import SCRIPT_MAX, parse_script
from shoal.query.statements import CreateQuery, Place, Select, Show, Statement

FOLDER = Path(__file__).parents[2] / "golden" / "query" / "statements"
FILES = sorted(path.name for path in FOLDER.glob("*.txt"))
_BLOCK = re.compile(r"(.*?)\n----\n(?:[^\n]+\n)*\n*", re.DOTALL)


@pytest.mark.parametrize("name", FILES)
def test_statements(name: str, golden: Callable[[str, str], None]) -> None:
    story, _, text = (FOLDER / name).read_text(encoding="utf-8").partition("\n\n")
    scripts = [match.group(1) for match in _BLOCK.finditer(text)]
    assert scripts
    shown = [story, *(f"{script}\n----\n{_told(script)}" for script in scripts)]
    golden(f"query/statements/{name}", "\n\n".join(shown) + "\n")


def _told(script: str) -> str:
    try:
        return "\n".join(line for one in parse_script(script) for line in _lines(one))
    except UserError as error:
        told = error
    assert told.hint
    assert told.line is not None
    return str(told)


def _lines(statement: Statement) -> list[str]:
    at = statement.at
    lines = [f"{type(statement).__name__} at {at.line}:{at.column}"]
    for field in fields(statement):
        value = getattr(statement, field.name)
        if isinstance(value, Select):
            value = f"{value.text!r} of {value.stream} at {value.at.line}:{value.at.column}"
        if field.name == "stream" and not isinstance(value, str):
            lines += [f"  {key} = {part!r}" for key, part in value.to_json().items()]
        elif field.name != "at":
            lines.append(f"  {field.name} = {value if field.name == 'select' else repr(value)}")
    return lines


def test_a_script_is_read_to_its_end() -> None:
    found = parse_script("SHOW STREAMS;" * 3_000)
    assert len(found) == 3_000
    assert found[-1] == Show(what="streams", at=Place(line=1, column=2_999 * 13 + 1))


def test_the_text_of_a_query_is_as_it_was_written() -> None:
    """Its own comments and line ends included, for whoever reads it in the catalog."""
    text = "SELECT ts -- when\n FROM  readings\n WHERE meter = 7"
    (found,) = parse_script(f"-- first\n CREATE QUERY q AS\n{text} -- last\n;")
    assert isinstance(found, CreateQuery)
    assert found.select == Select(text=text, stream="readings", at=Place(line=3, column=1))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "there is no statement (line 1, column 1)"),
        (" -- nothing\n", "there is no statement"),
        ("SHOW STREAMS;\nDROP QUERY '\ud800'", "all of them Unicode (line 2, column 13)"),
        ("x" * (SCRIPT_MAX + 1), f"at most {SCRIPT_MAX} characters"),
        ("\n SELECT * FROM r WHERE a = " + "x" * TEXT_MAX, f"at most {TEXT_MAX} characters"),
        ("\n SELECT * FROM r WHERE " + "(" * 5_000, "(line 2, column "),
        ("CREATE STREAM s (" + "(" * 5_000, "CREATE STREAM cannot go on with '('"),
    ],
)
def test_what_is_no_script(text: str, part: str) -> None:
    with pytest.raises(UserError) as raised:
        parse_script(text)
    assert part in str(raised.value)
