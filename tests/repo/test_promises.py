"""A promise that the code names is kept in four places, and grep finds all four.

    named     in a docstring under src/shoal
    check     in a `validate` function or module, or in a checker or oracle of the tests
    mutant    in tests/mutants: a broken variant that the check must catch
    test      a test whose name contains the promise, such as `test_L2_a_repeated_step`

A promise is asked for as soon as a docstring names it. A number that the table does not have is
refused, and the table has the same numbers as docs/model.md.
"""

import ast
import re
from functools import cache

import pytest

from tests.repo.source import (
    ROOT,
    Module,
    docstrings,
    python_modules,
    read,
    report,
    source_modules,
)

PROMISES = {
    "L1": "a commit is visible whole or not at all",
    "L2": "no step is committed twice",
    "L3": "after a higher epoch's commit, no lower epoch commits",
    "L4": "a reader at any position within the horizon sees every row once",
    "Q1": "a query's output equals its SQL over the tuples of its interval",
    "Q2": "the output does not depend on step boundaries, crashes or who else is there",
    "Q3": "changing or breaking a query changes no other query's results",
    "O1": "results come in the order of commits",
    "M1": "each epoch has one owner",
    "S3": "what was shed is counted, per query",
    "W1": "whatever bytes arrive, the outcome is a message or RemoteError, within bounds",
    "P1": "every question to a peer is answered exactly once",
    "R1": "with fewer simultaneous losses of neighbours than copies no record is lost",
    "R2": "when faults stop, the ring is one ring, and every look-up is right",
    "D1": "what is withdrawn or whose owner is gone is not found and never comes back",
    "D2": "at one keeper the version of a record never goes back",
    "D3": "every question to the directory is answered in time",
    "G1": "while the ring is whole, a broadcast reaches every peer once",
    "G2": "when faults have stopped, every live peer has every fact within a bound",
    "G3": "of two versions of a fact the higher holds, at every peer",
    "G4": "what was removed does not come back",
    "H1": "what a host has acknowledged is there after any crash or loss of power",
    "H2": "strangers cost a bounded amount",
    "H3": "nobody is heard without a certificate that names it and holds",
    "H4": "what waits to be sent is bounded",
    "H5": "nothing behind a write begins before it is durable",
}

_NUMBER = re.compile(r"\b[A-Z]\d\b")
_CHECKS = re.compile(r"(^|[._])(checkers\.\w+|(checker|oracle|validate)s?\w*)$")
_TEST = re.compile(r"test_(?:\w*_)?([A-Z]\d)(?:_|$)")


def _promises(module: Module) -> str:
    """What a module promises in its first lines, or nothing."""
    text = ast.get_docstring(module.tree) or ""
    found = re.search(r"^Promises.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    return found.group() if found else ""


@cache
def named() -> dict[str, list[str]]:
    """The promises that docstrings under src/shoal name so far, and where."""
    words: dict[str, list[str]] = {}
    for module in source_modules():
        for text in docstrings(module.tree):
            for name in dict.fromkeys(_NUMBER.findall(text)):
                words.setdefault(name, []).append(module.place)
    return words


def unknown(found: dict[str, list[str]]) -> list[str]:
    """Numbers that nobody has said the meaning of."""
    return [f"{name} in {', '.join(at)}" for name, at in found.items() if name not in PROMISES]


def test_every_number_is_in_the_table() -> None:
    """Else a docstring could name a promise that nothing asks for."""
    report(unknown(named()), "add it to PROMISES and to the table of docs/model.md, or rename it")


def test_a_number_that_is_not_in_the_table_is_caught() -> None:
    assert unknown({"Z9": ["src/shoal/x.py"], "L1": []}) == ["Z9 in src/shoal/x.py"]


def test_every_promise_is_named_somewhere() -> None:
    """A promise that no docstring names is one that nobody keeps."""
    assert [name for name in PROMISES if name not in named()] == []


def test_the_model_has_the_same_promises() -> None:
    """docs/model.md says in words what the table here lists."""
    rows = re.findall(r"^\| \*\*([A-Z]\d)\*\* \|", read(ROOT / "docs" / "model.md"), re.MULTILINE)
    assert sorted(rows) == sorted(PROMISES)


@pytest.mark.parametrize(
    "module",
    [m for m in source_modules() if m.package == "host" and _promises(m)],
    ids=lambda module: module.place,
)
def test_promises_of_hosts_have_numbers(module: Module) -> None:
    """What a module of host/ promises in its first lines is one of the table, or follows one."""
    assert _NUMBER.search(_promises(module)), (
        f"{module.place}: which promise of docs/model.md is it?"
    )


@pytest.mark.parametrize("promise", [name for name in PROMISES if name in named()])
def test_kept_in_all_four_places(promise: str) -> None:
    """Check, mutant and test exist for what a docstring promises."""
    places = {
        "check": [m.place for m in python_modules() if _mentions(_check_text(m), promise)],
        "mutant": [m.place for m in _mutants() if _mentions(m.text, promise)],
        "test": [m.place for m in python_modules() if promise in _tested(m)],
    }
    missing = [what for what, found in places.items() if not found]
    assert not missing, (
        f"{promise} ({PROMISES[promise]}) has no {' and no '.join(missing)}; found: {places}. "
        "Where each belongs: the first lines of tests/repo/test_promises.py"
    )


def _mentions(text: str, promise: str) -> bool:
    return re.search(rf"(?<![A-Za-z0-9]){promise}(?![A-Za-z0-9])", text) is not None


def _mutants() -> list[Module]:
    return [m for m in python_modules() if m.name.startswith("tests.mutants")]


@cache
def _check_text(module: Module) -> str:
    """The text of what checks: a checking module as a whole, else its checking functions."""
    if module.name.startswith("tests.repo"):
        return ""
    if _CHECKS.search(module.name) and not module.name.rpartition(".")[2].startswith("test_"):
        return module.text
    return "\n".join(
        ast.unparse(node)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and _CHECKS.search(node.name.lower())
    )


@cache
def _tested(module: Module) -> list[str]:
    if not module.name.startswith("tests."):
        return []
    return [
        promise
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef)
        for promise in _TEST.findall(node.name)
    ]
