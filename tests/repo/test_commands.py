"""The commands that people and machines start: they parse, and what is written of them is so."""

import os
import re
import subprocess
import tomllib

from tests.repo.source import ROOT, read, report, text_files

SCRIPTS = [ROOT / ".ci" / "run", *sorted((ROOT / "tools").iterdir())]


def targets() -> list[str]:
    """The targets of the Makefile."""
    return re.findall(r"^([a-z]+):", read(ROOT / "Makefile"), flags=re.MULTILINE)


def test_scripts_parse_and_are_executable() -> None:
    """A shell script stops at its first error, parses, and can be started."""
    complaints = []
    for script in SCRIPTS:
        lines = read(script).splitlines()
        if not lines or "bash" not in lines[0]:
            continue
        if subprocess.run(["bash", "-n", str(script)], check=False).returncode:
            complaints.append(f"{script.name}: does not parse")
        if "set -euo pipefail" not in lines:
            complaints.append(f"{script.name}: does not stop at errors")
        if not os.access(script, os.X_OK):
            complaints.append(f"{script.name}: not executable")
    report(complaints, "see tools/setup for the form")


def test_continuous_integration_runs_what_people_run() -> None:
    """`.ci/run` ends in `make test`."""
    assert read(ROOT / ".ci" / "run").rstrip().endswith("exec make test")


def test_commands_in_documents_exist() -> None:
    """Every `make x` in a document is a target."""
    known = targets()
    complaints = []
    for path in text_files():
        if path.suffix != ".md":
            continue
        for name in re.findall(r"(?:`|^)make ([a-z]+)", read(path), flags=re.MULTILINE):
            if name not in known:
                complaints.append(f"{path.relative_to(ROOT)}: make {name}")
    report(complaints, f"the targets are: {', '.join(known)}")


def test_help_lists_every_target() -> None:
    """`make` says what there is; targets that only serve others are not for people."""
    said = re.findall(r"make ([a-z]+)", read(ROOT / "Makefile"))
    inner = ("help", "java", "static")
    complaints = [name for name in targets() if name not in said and name not in inner]
    report(complaints, "add it to `help` in the Makefile")


def would_run(*words: str) -> str:
    """What `make` would do, without doing it."""
    return subprocess.run(
        ["make", "--dry-run", "--no-print-directory", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_java_is_asked_for_where_it_is_needed() -> None:
    """The control plane needs none: not its tests, and not its benchmarks."""
    benchmarks = sorted(path.parent.name for path in (ROOT / "benchmarks").glob("*/__main__.py"))
    asked = [name for name in benchmarks if "java_version" in would_run("bench", f"NAME={name}")]
    assert asked == ["install", "log", "sharing"]
    assert "java_version" not in would_run("control")
    assert "java_version" in would_run("spark")


def test_benchmarks_are_named_where_people_look() -> None:
    """All of them, in `help` and by `make bench` alone."""
    benchmarks = [path.parent.name for path in (ROOT / "benchmarks").glob("*/__main__.py")]
    for said in (would_run("help"), would_run("bench")):
        missing = [name for name in benchmarks if not re.search(rf"\b{name}\b", said)]
        assert not missing, said


def test_tests_of_the_control_plane_are_there() -> None:
    """Every path that `make control` gives to pytest exists."""
    paths = re.findall(r"tests/[a-z/_.]+", would_run("control"))
    assert len(paths) > 10
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_versions_are_pinned() -> None:
    """A dependency is a name and one version: no range, no address."""
    project = tomllib.loads(read(ROOT / "pyproject.toml"))
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    for extra in project["project"]["optional-dependencies"].values():
        wanted += extra
    complaints = [one for one in wanted if not re.fullmatch(r"[a-z0-9-]+==[0-9.]+", one)]
    report(complaints, "write name==version")
