"""The command: what a person sees, and the exit code that a script sees."""

import sys
from pathlib import Path

import pytest

from shoal.cli import demo
from shoal.cli.main import main
from shoal.kernel.errors import StorageError
from shoal.log import doctor
from shoal.log.doctor import Finding


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """The exit code of `shoal words`."""
    monkeypatch.setattr(sys, "argv", ["shoal", *words])
    with pytest.raises(SystemExit) as raised:
        main()
    return int(raised.value.code or 0)


def findings(monkeypatch: pytest.MonkeyPatch, *found: Finding) -> list[Path]:
    asked: list[Path] = []

    def examine(root: Path) -> tuple[Finding, ...]:
        asked.append(root)
        return found

    monkeypatch.setattr(doctor, "examine", examine)
    return asked


def test_doctor_of_a_good_root(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asked = findings(
        monkeypatch,
        Finding(check="rights", level="good", what="mode 0700"),
        Finding(check="space", level="warn", what="1 GB is left", hint="free some"),
    )
    assert run(monkeypatch, "doctor", str(tmp_path)) == 0
    assert asked == [tmp_path]
    assert capsys.readouterr().out.splitlines() == [
        "good    rights: mode 0700",
        "warn    space: 1 GB is left",
        "        hint: free some",
    ]


def test_doctor_of_a_root_that_cannot_hold_a_mesh(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    findings(
        monkeypatch,
        Finding(check="rights", level="good", what="mode 0700"),
        Finding(check="sync", level="refuse", what="no sync"),
        Finding(check="space", level="good", what="enough"),
    )
    assert run(monkeypatch, "doctor", str(tmp_path)) == 1


def test_an_error_is_said_in_three_parts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def examine(root: Path) -> tuple[Finding, ...]:
        raise StorageError(f"{root.name} is full", detail="0 bytes left", hint="free some")

    monkeypatch.setattr(doctor, "examine", examine)
    assert run(monkeypatch, "doctor", str(tmp_path)) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        f"error: {tmp_path.name} is full",
        "  detail: 0 bytes left",
        "  hint: free some",
    ]


@pytest.mark.parametrize("code", [0, 1, 2])
def test_the_code_of_the_demo_is_the_commands(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    monkeypatch.setattr(demo, "main", lambda: code)
    assert run(monkeypatch, "demo") == code


def test_without_a_command_it_says_what_there_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch) == 2
    said = capsys.readouterr()
    assert all(word in said.out + said.err for word in ("doctor", "demo"))
