"""A root is created once, proves itself, and refuses what it cannot serve."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import shoal.log.root
from shoal.kernel.errors import LocalError, StorageError
from shoal.log.root import FORMAT, Root, make_folder


def test_created_once_and_private(root: Path) -> None:
    path = root / "mesh"
    first, second = Root.open(path), Root.open(str(path))
    assert first == second
    assert len(first.mesh) == 16
    assert path.stat().st_mode & 0o777 == 0o700
    assert json.loads((path / "shoal.json").read_text())["format"] == FORMAT
    assert sorted(p.name for p in path.iterdir()) == ["shoal.json"]


def test_a_newer_format_is_refused(root: Path) -> None:
    Root.open(root)
    (root / "shoal.json").write_text('{"format": 99, "mesh": "x"}')
    with pytest.raises(StorageError, match="has format 99") as caught:
        Root.open(root)
    assert caught.value.detail
    assert caught.value.hint


@pytest.mark.parametrize("content", ["", "[]", '{"mesh": "x"}', "not json"])
def test_an_unreadable_marker_is_refused(root: Path, content: str) -> None:
    Root.open(root)
    (root / "shoal.json").write_text(content)
    with pytest.raises(StorageError, match=r"cannot read .*shoal\.json"):
        Root.open(root)


def test_a_store_that_creates_twice_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shoal.log.root, "create_if_absent", lambda path, data: True)
    with pytest.raises(StorageError, match="only once"):
        Root.open(root)


def test_a_root_that_cannot_be_written_is_refused(root: Path) -> None:
    (root / "file").write_text("in the way")
    with pytest.raises(StorageError, match="cannot create folder"):
        Root.open(root / "file" / "mesh")


@pytest.mark.slow
def test_a_read_only_root_is_refused(root: Path) -> None:
    """A read-only bind mount in a mount namespace of its own, where the machine allows one."""
    code = (
        "import sys; from shoal.log.root import Root\n"
        "from shoal.kernel.errors import StorageError\n"
        "try: Root.open(sys.argv[1])\n"
        "except StorageError as error: print(error)\n"
    )
    mount = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1"'
    script = f'{{ {mount}; }} || exit 77; exec "$2" -c "$3" "$1"'
    command = ["unshare", "-m", "sh", "-c", script, "sh", str(root), sys.executable, code]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("no unshare on this machine")
    if done.returncode in (1, 77) and not done.stdout and "Traceback" not in done.stderr:
        pytest.skip(f"no mount namespace on this machine: {done.stderr.strip()}")
    assert "read-only" in done.stdout, done.stderr


@pytest.mark.parametrize("instance", ["", "A", "../up", "a/b", ".hidden", "_x", "a" * 201])
def test_instances_are_safe_as_names(root: Path, instance: str) -> None:
    with pytest.raises(LocalError, match="cannot name a folder"):
        Root.open(root).table(instance)


def test_names_inside_a_table(root: Path) -> None:
    table = Root.open(root).table("select-3f2a.dead")
    assert not table.exists()
    assert table.path == root / "tables" / "select-3f2a.dead"
    assert table.entry(7).name == "00000000000000000007.json"
    assert table.entry_kept(7).parent.name == "_history"
    assert table.checkpoint(7).name == "00000000000000000007.checkpoint.parquet"


def test_folders_are_made_private_all_the_way(root: Path) -> None:
    make_folder(root / "a" / "b" / "c")
    make_folder(root / "a" / "b" / "c")
    assert [(root / p).stat().st_mode & 0o777 for p in ("a", "a/b", "a/b/c")] == [0o700] * 3
    assert Root.open(root).folder("rosters", "x").is_dir()
