"""The doctor finds roots that do not keep what the log needs, and leaves them as they were."""

import os
import shutil
from collections import namedtuple
from collections.abc import Sequence
from pathlib import Path

import pytest

from shoal.kernel.errors import StorageError
from shoal.log import doctor
from shoal.log.doctor import Finding, examine, refuse_if_unfit
from shoal.log.durable import TEMPORARY_MARK
from tests.unit.log import roots


def found(findings: Sequence[Finding], check: str) -> Finding:
    (finding,) = [item for item in findings if item.check == check]
    return finding


@pytest.mark.slow
def test_a_good_root(root: Path) -> None:
    findings = examine(root)
    assert [item.check for item in findings] == [
        "rights",
        "create-if-absent",
        "sync",
        "space",
        "clock",
        "leftovers",
    ]
    assert found(findings, "create-if-absent").level == "good"
    assert "processes agreed" in found(findings, "create-if-absent").what
    assert all(item.what for item in findings)
    assert list(root.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "create",
    [
        roots.last_one_wins,
        roots.nobody_wins,
        roots.no_hard_links,
        roots.no_such_call,
        roots.threads_only,
    ],
    ids=lambda create: create.__name__,
)
def test_a_root_without_create_if_absent_is_refused(root: Path, create: doctor.Create) -> None:
    findings = examine(root, create=create)
    finding = found(findings, "create-if-absent")
    assert finding.level == "refuse"
    assert finding.hint
    with pytest.raises(StorageError, match="cannot be a root") as caught:
        refuse_if_unfit(root, findings)
    assert caught.value.detail
    assert caught.value.hint
    assert list(root.iterdir()) == []


@pytest.fixture
def no_race(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_race_threads", "_race_processes"):
        monkeypatch.setattr(doctor, name, lambda folder, create: [1] * doctor.ROUNDS)


def test_what_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "none"):
        (finding,) = examine(path)
        assert finding.level == "refuse"
        assert finding.hint


@pytest.mark.usefixtures("no_race")
def test_rights(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root.chmod(0o755)
    finding = found(examine(root), "rights")
    assert (finding.level, "0755" in finding.what) == ("warn", True)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    (finding,) = examine(root)
    assert finding.level == "refuse"


@pytest.mark.usefixtures("no_race")
def test_space(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    for free, level in ((1 << 40, "good"), (1 << 30, "warn"), (1 << 20, "refuse")):
        monkeypatch.setattr(shutil, "disk_usage", lambda path, free=free: usage(1, 1, free))
        assert found(examine(root), "space").level == level


@pytest.mark.usefixtures("no_race")
def test_clocks(root: Path) -> None:
    now = (root.stat().st_mtime_ns + 60_000_000_000) / 1e9
    for clock, level in ((lambda: now, "warn"), (lambda: 1_000.0, "refuse")):
        finding = found(examine(root, clock=clock), "clock")
        assert finding.level == level
        assert "NTP" in finding.hint
    backwards = iter([now, now - 100.0])
    assert found(examine(root, clock=lambda: next(backwards)), "clock").level == "refuse"


@pytest.mark.usefixtures("no_race")
def test_leftovers(root: Path) -> None:
    (root / "rosters").mkdir()
    for name, age in (("old", True), ("new", False)):
        path = root / "rosters" / f"{name}{TEMPORARY_MARK}ab"
        path.write_bytes(b"xyz")
        if age:
            os.utime(path, (0, 0))
    finding = found(examine(root), "leftovers")
    assert finding.level == "warn"
    assert "1 unfinished files" in finding.what
    assert "3 bytes" in finding.what
    assert (root / "rosters" / f"old{TEMPORARY_MARK}ab").exists()


@pytest.mark.usefixtures("no_race")
def test_a_disk_that_cannot_sync(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    findings = examine(root)
    finding = found(findings, "writing")
    assert finding.level == "refuse"
    assert finding.hint
    with pytest.raises(StorageError):
        refuse_if_unfit(root, findings)


@pytest.mark.usefixtures("no_race")
def test_a_root_that_is_fit_is_not_refused(root: Path) -> None:
    refuse_if_unfit(root, examine(root))
