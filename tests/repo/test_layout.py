"""Every module says what it is for and what is public, and has its test where one looks for it."""

import ast
from pathlib import Path

import pytest

from tests.repo.source import (
    ROOT,
    TESTS,
    Module,
    exceptions,
    python_modules,
    report,
    source_modules,
)

UNIT = TESTS / "unit"
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def test_every_folder_is_a_package() -> None:
    """A folder without `__init__.py` is not installed and not type-checked."""
    folders = dict.fromkeys(module.path.parent for module in source_modules())
    complaints = [
        f"{folder.relative_to(ROOT)}: no __init__.py"
        for folder in folders
        if folder.name != "src" and not (folder / "__init__.py").exists()
    ]
    report(complaints, "add it, with a docstring that says what the folder is for")


@pytest.mark.parametrize("module", source_modules(), ids=lambda module: module.place)
def test_opens_with_a_docstring(module: Module) -> None:
    """A module explains itself first."""
    text = ast.get_docstring(module.tree)
    assert text, f"{module.place}: open with what it is for, what it promises, what is elsewhere"


@pytest.mark.parametrize("module", source_modules(), ids=lambda module: module.place)
def test_public_names(module: Module) -> None:
    """A function or class is in `__all__` or it is private."""
    defined = _public_definitions(module.tree)
    listed = _all_of(module.tree)
    if module.path.name == "__main__.py" or (listed is None and not defined):
        return
    assert listed is not None, f"{module.place}: has no __all__"
    missing = [name for name in defined if name not in listed]
    assert not missing, f"{module.place}: {missing} in __all__, or with a leading underscore"


def test_every_module_has_its_test() -> None:
    """tests/unit mirrors src/shoal; what is tested elsewhere is listed with its reason."""
    excused = exceptions("unit_map")
    complaints = []
    for module in source_modules():
        name = module.name.removeprefix("shoal.")
        if _all_of(module.tree) is None and module.path.name != "__main__.py":
            continue  # nothing is defined here
        tested = any(path.exists() for path in _test_files(module))
        if not tested and name not in excused:
            complaints.append(f"{module.place}: no {_test_files(module)[0].relative_to(ROOT)}")
        if tested and name in excused:
            complaints.append(f"exceptions.toml: {name} has its test now; remove the entry")
    report(
        complaints,
        "write the test file, or say in tests/repo/exceptions.toml under [unit_map] where it is:\n"
        '    "log.x" = { tested_in = "tests/races/test_x.py", reason = "..." }',
    )


def test_excuses_hold() -> None:
    """An excused module exists, and so does the place that tests it instead."""
    names = [module.name.removeprefix("shoal.") for module in source_modules()]
    complaints = []
    for name, entry in exceptions("unit_map").items():
        if name not in names:
            complaints.append(f"exceptions.toml: there is no module shoal.{name}")
        if not entry.get("reason") or not (ROOT / entry.get("tested_in", "-")).exists():
            complaints.append(f"exceptions.toml: {name} needs `tested_in` that exists and a reason")
    report(complaints, "mend the entry under [unit_map]")


def test_every_unit_test_has_its_module() -> None:
    """No test file outlives what it tested."""
    expected = dict.fromkeys(path for m in python_modules() for path in _test_files(m))
    found = sorted(UNIT.rglob("test_*.py"))
    complaints = [str(path.relative_to(ROOT)) for path in found if path not in expected]
    report(complaints, "rename or move it: tests/unit/<package>/test_<module>.py")


def _test_files(module: Module) -> list[Path]:
    """Where the test of a module may be, the usual place first."""
    parts = module.name.split(".")
    if parts[0] == "shoal":
        parts = parts[1:] or ["shoal"]
    name = f"test_{parts[-1].strip('_')}.py"
    places = [UNIT.joinpath(*parts[:-1], name)]
    if parts[0] == "spark":  # what needs a session may live with the Spark tests
        places.append(TESTS.joinpath(*parts[:-1], name))
    return places


def _all_of(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    return None


def _public_definitions(tree: ast.Module) -> list[str]:
    """Functions and classes; a constant may stand in the open without being offered."""
    names = [node.name for node in tree.body if isinstance(node, _DEFINITIONS)]
    return [name for name in names if not name.startswith("_")]
