"""What import contracts cannot see on the pure side: order, identity, clocks and files.

The order of a built-in set of strings changes with PYTHONHASHSEED, and so would every decision
that iterates over one. `hash` and `id` change from run to run.
"""

import ast

import pytest

from tests.repo.source import Module, pure_modules

BANNED_NAMES = {
    "set": "use a dict: dict.fromkeys(...) keeps its order",
    "frozenset": "use a tuple, or a dict whose values are None",
    "hash": "use a digest from hashlib: it is the same in every run",
    "id": "give the thing a name of its own",
    "open": "reading and writing belongs to a shell: pass text or bytes in",
    "print": "return what is to be said",
    "input": "take it as an argument",
    "eval": "write what it should do",
    "exec": "write what it should do",
    "__import__": "import at the top of the file",
    "globals": "pass it in",
}
BANNED_CALLS = {
    "now": "time is an argument",
    "utcnow": "time is an argument",
    "today": "time is an argument",
    "import_module": "import at the top of the file",
}


@pytest.mark.parametrize("module", pure_modules(), ids=lambda module: module.place)
def test_pure(module: Module) -> None:
    """No construct on the pure side depends on more than its arguments."""
    assert not (found := impurities(module.tree)), f"{module.place}:" + "\n".join(found)


@pytest.mark.parametrize(
    "line",
    [
        "for name in set(names): f(name)",
        "x = {1, 2}",
        "x = {n for n in names}",
        "x = list(map(hash, names))",
        "text = open(path).read()",
        "now = datetime.now(UTC)",
        "async def f(): ...",
    ],
)
def test_an_impure_line_is_caught(line: str) -> None:
    """The check above catches what it is for."""
    assert impurities(ast.parse(line))


def test_a_pure_line_passes() -> None:
    """Attributes and keys may have the names of built-ins."""
    assert not impurities(ast.parse("x = rows.set(1); y = x.id; z = {'id': 1}; f(now)"))


def impurities(tree: ast.Module) -> list[str]:
    """What a syntax tree does that no module of the pure side may."""
    return [
        f"{getattr(node, 'lineno', 0)}: {what}"
        for node in ast.walk(tree)
        for what in _complaints(node)
    ]


def _complaints(node: ast.AST) -> list[str]:
    match node:
        case ast.Set() | ast.SetComp():
            return ["a built-in set; use a dict or a tuple, whose order is defined"]
        case ast.Name(id=name, ctx=ast.Load()) if name in BANNED_NAMES:
            return [f"`{name}`; {BANNED_NAMES[name]}"]
        case ast.Call(func=ast.Attribute(attr=name)) if name in BANNED_CALLS:
            return [f"`.{name}()`; {BANNED_CALLS[name]}"]
        case ast.AsyncFunctionDef() | ast.Await():
            return ["async; the pure side has nothing to wait for"]
        case _:
            return []
