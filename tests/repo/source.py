"""The repository as material for tests: its files, modules and syntax trees.

Everything in tests/repo reads through here, so that all of them mean the same files.
"""

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"
TESTS = ROOT / "tests"

#: Folders of the pure side: no I/O, no clock, no threads, no hidden randomness.
PURE = ("kernel", "wire", "query", "dataplane", "control", "peer")

_HIDDEN_BUT_OURS = (".ci", ".gitignore", ".importlinter")
_MADE_BY_TOOLS = ("__pycache__", "build", "dist", "spark-warehouse", "metastore_db")
_NOT_TEXT = (".png", ".parquet", ".pyc", ".arrow", ".gz", ".zip", ".crc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A Python file of the repository; `name` is dotted, such as `shoal.kernel.ids`."""

    path: Path
    name: str

    @property
    def place(self) -> str:
        """Where it is, as a person would say it: the path below the root."""
        return str(self.path.relative_to(ROOT))

    @property
    def package(self) -> str:
        """The folder under src/shoal it belongs to: `kernel` for `shoal.kernel.ids`."""
        parts = self.name.split(".")
        return parts[1] if len(parts) > 1 else ""

    @property
    def text(self) -> str:
        """Its source."""
        return _text(self.path)

    @property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return _tree(self.path)


def source_modules() -> list[Module]:
    """All modules under src/shoal."""
    return _modules(SRC)


def python_modules() -> list[Module]:
    """All Python files of the repository, also tests, benchmarks and tools."""
    found = source_modules()
    for folder in ("tests", "benchmarks", "tools"):
        found += _modules(ROOT / folder, prefix=folder)
    return found


def pure_modules() -> list[Module]:
    """The modules of the pure side."""
    return [module for module in source_modules() if module.package in PURE]


def text_files() -> list[Path]:
    """Every text file that is, or would be, committed."""
    return [path for path in sorted(_walk(ROOT)) if path.suffix not in _NOT_TEXT]


def read(path: Path) -> str:
    """The text of a file; what is not UTF-8 is replaced."""
    return _text(path)


def exceptions(section: str) -> dict[str, Any]:
    """A section of exceptions.toml: what may break a rule, and why."""
    tables = tomllib.loads((Path(__file__).parent / "exceptions.toml").read_text("utf-8"))
    found: dict[str, Any] = tables.get(section, {})
    return found


def docstrings(tree: ast.Module) -> Iterator[str]:
    """All docstrings of a module: its own, and those of its classes and functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def report(complaints: list[str], advice: str) -> None:
    """Fail with all complaints at once, and say what to do."""
    assert not complaints, "\n".join([*complaints, "", advice])


def _modules(folder: Path, *, prefix: str = "") -> list[Module]:
    found = []
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        if path.name == "__init__.py":
            parts = parts[:-1]
        name = ".".join([prefix, *parts] if prefix else parts)
        found.append(Module(path=path, name=name))
    return found


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        hidden = path.name.startswith(".") and path.name not in _HIDDEN_BUT_OURS
        if hidden or path.name in _MADE_BY_TOOLS or path.name.endswith(".egg-info"):
            continue
        if path.is_dir():
            yield from _walk(path)
        else:
            yield path


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(_text(path), filename=str(path))
