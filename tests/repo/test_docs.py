"""Documents are true: links lead somewhere, examples run.

A Python block of a page runs after the blocks above it, in one namespace and in an empty folder.
The word after the language says what it needs:

    ```python          plain Python; a block that starts with >>> runs as a doctest
    ```python spark    uses the tests' Spark session, as `spark` or through shoal.connect
    ```sh              is parsed; `make x` in it must be a target (test_commands.py)

Files that an example reads are made by the function of its page in tests/repo/pages.py.
"""

import doctest
import importlib
import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.repo import pages
from tests.repo.source import ROOT, Module, read, report, source_modules, text_files

_FENCE = re.compile(r"^( *)```([^\n`]*)\n(.*?)^\1``` *$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)|<img [^>]*src=\"([^\"]+)\"")
_MENTION = re.compile(r"\b((?:docs|tests|tools|benchmarks)/[\w./-]+\.(?:md|svg|py|toml))")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block of a page; `line` is where it starts."""

    page: Path
    line: int
    language: str
    words: tuple[str, ...]
    text: str

    @property
    def place(self) -> str:
        """Where it is."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def markdown() -> list[Path]:
    """All pages of the repository."""
    return [path for path in text_files() if path.suffix == ".md"]


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of one page, in order."""
    text = read(page)
    for match in _FENCE.finditer(text):
        words = match.group(2).split()
        yield Block(
            page=page,
            line=text.count("\n", 0, match.start()) + 1,
            language=words[0] if words else "",
            words=tuple(words[1:]),
            text=match.group(3),
        )


def python_pages(*, spark: bool) -> list[Path]:
    """The pages with Python in them: those that need Spark, or the others."""
    found = []
    for page in markdown():
        python = [block for block in blocks(page) if block.language == "python"]
        if python and any("spark" in block.words for block in python) is spark:
            found.append(page)
    return found


def _name(value: object) -> str:
    return str(value.relative_to(ROOT)) if isinstance(value, Path) else str(value)


@pytest.mark.parametrize("page", markdown(), ids=_name)
def test_links_lead_somewhere(page: Path) -> None:
    """A relative link names a file, and its anchor names a heading."""
    complaints = []
    prose = _FENCE.sub("", read(page))
    for match in _LINK.finditer(prose):
        target = match.group(1) or match.group(2)
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists():
            complaints.append(f"{target}: no such file")
        elif anchor and anchor not in _anchors(file):
            complaints.append(f"{target}: no such heading")
    report(complaints, f"mend the links of {page.relative_to(ROOT)}")


def test_mentioned_files_exist() -> None:
    """A page or test that some text names is there."""
    complaints = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in text_files()
        if "tests" not in path.parts or path.suffix == ".md"
        for name in _MENTION.findall(read(path))
        if not (ROOT / name).exists() and "<" not in name and "NNNN" not in name
    ]
    report(complaints, "write the file, or do not name it")


@pytest.mark.slow
@pytest.mark.parametrize("page", python_pages(spark=False), ids=_name)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the Python blocks of a page."""
    _run(page, tmp_path, monkeypatch, {})


@pytest.mark.slow
@pytest.mark.parametrize("page", python_pages(spark=True), ids=_name)
def test_examples_run_on_spark(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: Any
) -> None:
    """Run the Python blocks of a page that needs Spark."""
    _run(page, tmp_path, monkeypatch, {"spark": spark})


@pytest.mark.parametrize("page", markdown(), ids=_name)
def test_other_blocks_parse(page: Path) -> None:
    """Shell, JSON and TOML are well-formed; every block says what it is."""
    complaints = []
    for block in blocks(page):
        try:
            _parse(block)
        except ValueError as error:
            complaints.append(f"{block.place}: {error}")
    report(complaints, "a block names its language; prose and sketches are `text`")


def modules_with_examples() -> list[Module]:
    """The modules whose docstrings hold examples."""
    return [module for module in source_modules() if ">>> " in module.text]


@pytest.mark.parametrize("module", modules_with_examples(), ids=lambda module: module.place)
def test_docstring_examples_run(module: Module) -> None:
    """Run the examples in the docstrings of a module."""
    failed = doctest.testmod(importlib.import_module(module.name), optionflags=doctest.ELLIPSIS)
    assert failed.failed == 0, f"{module.place}: see the captured output"


def _run(
    page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, namespace: dict[str, Any]
) -> None:
    monkeypatch.chdir(folder)
    pages.prepare(str(page.relative_to(ROOT)), folder)
    namespace["__name__"] = "page"
    for block in blocks(page):
        if block.language != "python":
            continue
        if block.text.lstrip().startswith(">>>"):
            _run_doctest(block, namespace)
        else:
            padded = "\n" * block.line + block.text
            exec(compile(padded, str(block.page), "exec"), namespace)


def _run_doctest(block: Block, namespace: dict[str, Any]) -> None:
    parser = doctest.DocTestParser()
    test = parser.get_doctest(block.text, namespace, block.place, str(block.page), block.line)
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=said.append, clear_globs=False)
    namespace.update(test.globs)
    assert not said, "".join(said)


def _parse(block: Block) -> None:
    if not block.language:
        raise ValueError("a block without a language")
    if block.language in ("sh", "bash", "console"):
        done = subprocess.run(
            ["bash", "-n"], input=block.text, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ValueError(done.stderr.strip())
    elif block.language == "json":
        json.loads(block.text)
    elif block.language == "toml":
        tomllib.loads(block.text)


def _anchors(page: Path) -> list[str]:
    found = []
    for heading in re.findall(r"^#+ (.*)$", _FENCE.sub("", read(page)), flags=re.MULTILINE):
        words = re.sub(r"[^\w\- ]", "", heading.strip().lower())
        found.append(words.replace(" ", "-"))
    return found
