"""What no committed file may contain: notes to ourselves, and traces of one machine."""

import re

import pytest

from tests.repo.source import ROOT, read, report, text_files

#: Written in pieces, so that this file does not find itself.
BANNED = {
    "a note to ourselves": r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b",
    "the host of a package registry": (
        r"pypi\."
        r"org|python"
        r"hosted|repo1?\.maven|arti"
        r"factory|dev"
        r"pi\b|"
        r"--(?:extra-)?index-"
        r"url|--find-"
        r"links|trusted-"
        r"host"
    ),
    "a path of one machine": (
        r"(?<![\w.>}\])*/-])/(?:ro"
        r"ot|ho"
        r"me|wo"
        r"rk|Us"
        r"ers)/\w|/opt/wh"
        r"eels|/tmp/ve"
        r"nv"
    ),
}


@pytest.mark.parametrize("what", BANNED)
def test_no_file_contains(what: str) -> None:
    """Search every text file of the repository."""
    pattern = re.compile(BANNED[what])
    complaints = [
        f"{path.relative_to(ROOT)}:{number}: {what}: {line.strip()[:80]}"
        for path in text_files()
        for number, line in enumerate(read(path).splitlines(), start=1)
        if pattern.search(line)
    ]
    report(complaints, "do it now or write an issue; pin versions only; use relative paths")


@pytest.mark.parametrize(
    ("line", "caught"),
    [
        ("# TO" + "DO: later", True),
        ("cd /ro" + "ot/shoal", True),
        ("path = '/ho" + "me/ann/x'", True),
        ("<root>/tables and tmp_path / 'root'", False),
        ("pip install --index-" + "url x", True),
    ],
)
def test_the_patterns_catch_what_they_are_for(line: str, caught: bool) -> None:
    """One line of each kind, and one that only looks like it."""
    assert any(re.search(pattern, line) for pattern in BANNED.values()) is caught
