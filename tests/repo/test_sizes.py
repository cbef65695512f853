"""The sizes we hold ourselves to (docs/style.md). When a limit hurts, split by promise."""

import ast
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.repo.source import Module, exceptions, python_modules, report, source_modules

LINE_COLUMNS_MAX = 100
FUNCTION_LINES_MAX = 60
MODULE_LINES_MAX = 500
PACKAGE_MODULES_MAX = 9
NESTING_MAX = 3

_BLOCKS = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.TryStar, ast.Match)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def test_lines() -> None:
    """No line of Python is longer than 100 columns."""
    complaints = [
        f"{module.place}:{number}: {len(line)} columns"
        for module in python_modules()
        for number, line in enumerate(module.text.splitlines(), start=1)
        if len(line) > LINE_COLUMNS_MAX
    ]
    report(complaints, f"at most {LINE_COLUMNS_MAX} columns")


def test_functions() -> None:
    """No function is longer than 60 lines, its docstring included."""
    sizes = {
        f"{module.place}:{node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for module, node in _functions()
    }
    _hold(sizes, limit=FUNCTION_LINES_MAX, section="function", unit="lines")


def test_modules() -> None:
    """No module is longer than 500 lines."""
    sizes = {module.place: len(module.text.splitlines()) for module in python_modules()}
    _hold(sizes, limit=MODULE_LINES_MAX, section="module", unit="lines")


def test_packages() -> None:
    """No package has more than nine modules; more needs a reason."""
    sizes = Counter(
        module.name.rpartition(".")[0]
        for module in source_modules()
        if module.path.name != "__init__.py"
    )
    _hold(sizes, limit=PACKAGE_MODULES_MAX, section="package", unit="modules")


def test_nesting() -> None:
    """No block lies deeper than three inside its function."""
    depths = {f"{module.place}:{node.name}": _depth(node.body) for module, node in _functions()}
    _hold(depths, limit=NESTING_MAX, section="nesting", unit="deep")


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        ("x = 1", 0),
        ("if a: b", 1),
        ("if a: b\nelif c: d\nelse: e", 1),
        ("for a in b:\n if c:\n  with d:\n   e", 3),
        ("try:\n f()\nexcept E:\n if a: b", 2),
        ("match a:\n case 1:\n  while b: c", 2),
        ("if a:\n b\nelse:\n if c: d\n e", 2),
    ],
)
def test_depth_is_counted_as_it_reads(text: str, depth: int) -> None:
    """An `elif` is no deeper than its `if`; every other block inside a block is."""
    assert _depth(ast.parse(text).body) == depth


def _hold(sizes: dict[str, int], *, limit: int, section: str, unit: str) -> None:
    excused = exceptions(section)
    complaints = [
        f"{name}: {size} {unit}, at most {limit}"
        for name, size in sizes.items()
        if size > max(limit, excused.get(name, {}).get(unit, 0))
    ]
    complaints += [
        f"exceptions.toml [{section}] {name!r}: not needed any more, or it gives no reason"
        for name, entry in excused.items()
        if sizes.get(name, 0) <= limit or not entry.get("reason")
    ]
    advice = f"split by promise, or say why in tests/repo/exceptions.toml under [{section}]:\n"
    report(complaints, f'{advice}    "<name>" = {{ {unit} = <number>, reason = "..." }}')


def _functions() -> Iterator[tuple[Module, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for module in python_modules():
        for node in ast.walk(module.tree):
            if isinstance(node, _FUNCTIONS):
                yield module, node


def _depth(body: list[ast.stmt]) -> int:
    return max((_depth_of(node) for node in body), default=0)


def _depth_of(node: ast.stmt) -> int:
    if not isinstance(node, _BLOCKS):
        return 0
    return max(_depth(body) + 1 - _flat(node, body) for body in _bodies(node))


def _flat(node: ast.stmt, body: list[ast.stmt]) -> int:
    """An `elif` is written as an `if` in an else, but it reads at the same depth."""
    is_elif = isinstance(node, ast.If) and body is node.orelse and len(body) == 1
    return int(is_elif and isinstance(body[0], ast.If))


def _bodies(node: ast.stmt) -> list[list[ast.stmt]]:
    if isinstance(node, ast.Match):
        return [case.body for case in node.cases]
    bodies = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
    return bodies + [handler.body for handler in getattr(node, "handlers", [])]
