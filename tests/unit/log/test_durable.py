"""Whole or absent, created once, replaced whole."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from shoal.kernel.errors import StorageError
from shoal.log.durable import create_if_absent, replace, sync_file, sync_folder


def test_created_once(tmp_path: Path) -> None:
    path = tmp_path / "record"
    assert create_if_absent(path, b"first")
    assert not create_if_absent(path, b"second")
    assert path.read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["record"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_one_of_many_threads_wins(tmp_path: Path) -> None:
    path = tmp_path / "record"
    gate = threading.Barrier(8)
    won: list[int] = []

    def attempt(number: int) -> None:
        gate.wait()
        if create_if_absent(path, str(number).encode()):
            won.append(number)

    threads = [threading.Thread(target=attempt, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert path.read_bytes() == str(won[0]).encode()
    assert os.listdir(tmp_path) == ["record"]


def test_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "record"
    replace(path, b"one")
    replace(path, b"two")
    assert path.read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["record"]


def test_sync_of_what_is_not_there_says_so(tmp_path: Path) -> None:
    sync_folder(tmp_path)
    (tmp_path / "file").write_bytes(b"x")
    sync_file(tmp_path / "file")
    with pytest.raises(StorageError) as caught:
        sync_file(tmp_path / "absent")
    assert "ENOENT" in caught.value.detail
    assert caught.value.hint


def test_missing_folder_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot write"):
        create_if_absent(tmp_path / "gone" / "record", b"x")
    with pytest.raises(StorageError, match="cannot write"):
        replace(tmp_path / "gone" / "record", b"x")


def test_full_disk_is_a_storage_error(tmp_path: Path) -> None:
    """A limit on file size stands in for a full disk: the write fails half-way."""
    code = (
        "import resource, signal, sys, pathlib\n"
        "from shoal.log.durable import create_if_absent\n"
        "from shoal.kernel.errors import StorageError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "path = pathlib.Path(sys.argv[1]) / 'record'\n"
        "try:\n"
        "    create_if_absent(path, b'x' * 100_000)\n"
        "except StorageError as error:\n"
        "    print(error.what)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("cannot write")
    assert os.listdir(tmp_path) == []
