"""A promise that the code names is kept in four places, and grep finds all four.

    named     in a docstring under src/shoal
    check     in a `validate` function or module, or in a checker or oracle of the tests
    mutant    in tests/mutants: a broken variant that the check must catch
    test      a test whose name contains the promise, such as `test_L2_a_repeated_step`

The table is the whole list so far; a promise is asked for as soon as a docstring names it.
"""

import ast
import re
from functools import cache

import pytest

from tests.repo.source import Module, docstrings, python_modules, source_modules

PROMISES = {
    "L1": "a commit is visible whole or not at all",
    "L2": "no step is committed twice",
    "L3": "after a higher epoch's commit, no lower epoch commits",
    "L4": "a reader at any position within the horizon sees every row once",
    "Q1": "a query's output equals its SQL over the tuples of its interval",
    "Q2": "the output does not depend on step boundaries, crashes or who else is there",
    "Q3": "changing or breaking a query changes no other query's results",
    "O1": "results come in the order of commits",
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
}

_CHECKS = re.compile(r"(^|[._])(checkers\.\w+|(checker|oracle|validate)s?\w*)$")
_TEST = re.compile(r"test_(?:\w*_)?([A-Z]\d)(?:_|$)")


def named() -> list[str]:
    """The promises that docstrings under src/shoal name so far."""
    words: dict[str, None] = {}
    for module in source_modules():
        for text in docstrings(module.tree):
            words |= dict.fromkeys(re.findall(r"\b[A-Z]\d\b", text))
    return [name for name in PROMISES if name in words]


@pytest.mark.parametrize("promise", named())
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
