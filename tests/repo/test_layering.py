"""The dependency rule of docs/map.md holds, and a violation of it is refused."""

import ast
import os
import re
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

from tests.repo.source import PURE, ROOT, SRC, python_modules, report, source_modules

CONTRACTS = ROOT / ".importlinter"

#: (file, line added to it, what the refusal must name): one per kind of violation.
VIOLATIONS = (
    ("kernel/ids.py", "import shoal.query", "shoal.kernel is not allowed to import shoal.query"),
    ("spark/__init__.py", "import shoal.cli", "shoal.spark is not allowed to import shoal.cli"),
    ("kernel/time.py", "import time", "shoal.kernel is not allowed to import time"),
    ("kernel/ids.py", "from random import Random", "not allowed to import random"),
    ("dataplane/__init__.py", "import asyncio", "shoal.dataplane is not allowed to import asyncio"),
    ("query/__init__.py", "def f():\n    import threading", "not allowed to import threading"),
    ("log/__init__.py", "import pyspark.sql", "shoal.log -> pyspark"),
    ("spark/__init__.py", "import deltalake", "shoal.spark -> deltalake"),
    ("kernel/errors.py", "import sqlglot", "shoal.kernel.errors -> sqlglot"),
    ("log/__init__.py", "import rich.table", "shoal.log -> rich"),
    ("utils/__init__.py", "", "utils"),
)


def lint(*, config: Path, source: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter over the package under `source`."""
    command = [
        str(Path(sys.executable).with_name("lint-imports")),
        *("--no-logo", "--no-cache", "--config", str(config)),
    ]
    environment = {**os.environ, "PYTHONPATH": str(source), "COLUMNS": "200"}
    return subprocess.run(
        command, cwd=source, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_the_rule_holds() -> None:
    """Run the contracts on the tree as it is."""
    done = lint(config=CONTRACTS, source=SRC)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_every_kind_of_violation_is_refused(tmp_path: Path) -> None:
    """Inject all of them into a copy; the refusal names each."""
    shutil.copytree(SRC / "shoal", tmp_path / "shoal")
    for file, line, _ in VIOLATIONS:
        path = tmp_path / "shoal" / file
        path.parent.mkdir(exist_ok=True)
        with path.open("a", encoding="utf-8") as text:
            text.write(f"\n{line}\n")
    done = lint(config=CONTRACTS, source=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    missed = [f"{file}: {line!r}" for file, line, named in VIOLATIONS if named not in said]
    report([*missed, *([done.stdout] if missed else [])], "extend .importlinter: this got through")


def test_the_contracts_name_all_of_the_pure_side() -> None:
    """A folder of the pure side that exists is in the `pure` contract."""
    parser = ConfigParser()
    parser.read(CONTRACTS, encoding="utf-8")
    named = parser["importlinter:contract:pure"]["source_modules"].split()
    existing = [f"shoal.{name}" for name in PURE if (SRC / "shoal" / name).is_dir()]
    assert sorted(named) == sorted(existing)


def test_only_the_sql_files_of_query_know_sqlglot() -> None:
    """The contract allows sqlglot under query/; this test, only in sql.py, sql_*.py and sql_*/."""
    complaints = [
        f"{module.place}:{node.lineno}: imports {name}"
        for module in source_modules()
        if not _may_know_sqlglot(module.name)
        for node in ast.walk(module.tree)
        for name in _imported(node)
        if name.partition(".")[0] == "sqlglot"
    ]
    report(complaints, "let query/sql.py hand on a type of our own")


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("shoal.query.sql", True),
        ("shoal.query.sql_terms", True),
        ("shoal.query.sql_select.flatten", True),
        ("shoal.query.draft", False),
        ("shoal.query.windows.draft", False),
        ("shoal.query.windows.sql_select", False),
    ],
)
def test_where_sqlglot_may_be_known(name: str, allowed: bool) -> None:
    """The check above lets in what is named for SQL, and nothing else."""
    assert _may_know_sqlglot(name) is allowed


def _may_know_sqlglot(name: str) -> bool:
    return re.fullmatch(r"shoal\.query\.sql(_\w+(\.\w+)?)?", name) is not None


def test_shoal_itself_hands_on_lazily() -> None:
    """`import shoal` loads nothing: only `__getattr__` imports, and only from shoal.cli."""
    report(
        eager_imports((SRC / "shoal" / "__init__.py").read_text(encoding="utf-8")),
        "import from shoal.cli, inside `__getattr__` or under TYPE_CHECKING",
    )


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ("from shoal.cli.local import connect", True),
        ("def __getattr__(name):\n    from shoal.log import root", True),
        ("def connect():\n    import shoal.cli.local", True),
        ("def __getattr__(name):\n    from shoal.cli.local import connect", False),
    ],
)
def test_an_eager_import_is_refused(line: str, refused: bool) -> None:
    """The check above catches what it is for."""
    assert bool(eager_imports(line)) is refused


def eager_imports(text: str) -> list[str]:
    """The imports of Shoal that `shoal/__init__.py` must not make."""
    tree = ast.parse(text)
    allowed: dict[ast.AST, None] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__getattr__":
            allowed |= dict.fromkeys(ast.walk(node))
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            allowed |= dict.fromkeys(ast.walk(node))
    complaints = []
    for node in ast.walk(tree):
        for name in _imported(node):
            if name.partition(".")[0] != "shoal":
                continue
            if node not in allowed or not name.startswith("shoal.cli"):
                complaints.append(f"src/shoal/__init__.py:{node.lineno}: imports {name}")
    return complaints


def test_shipped_code_imports_no_tests() -> None:
    """Neither src nor benchmarks import tests; src imports no benchmarks."""
    complaints = []
    for module in python_modules():
        if module.name.startswith("tests."):
            continue
        banned = ("tests",) if module.name.startswith("benchmarks") else ("tests", "benchmarks")
        for node in ast.walk(module.tree):
            tops = [name.partition(".")[0] for name in _imported(node)]
            complaints += [f"{module.place}: imports {top}" for top in tops if top in banned]
    report(complaints, "what both need belongs to src/shoal")


def test_no_module_is_a_drawer() -> None:
    """A module is named for what it holds."""
    drawers = ("utils", "util", "helpers", "misc", "common", "base")
    complaints = [m.place for m in source_modules() if m.name.split(".")[-1] in drawers]
    report(complaints, "name it for the one thing it holds, or put each line where it belongs")


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        return [node.module]
    return []
