"""Leases hold the horizon while they last, and say so when they no longer do."""

import os
from pathlib import Path

import pytest

from shoal.kernel.errors import LocalError, StorageError, UserError
from shoal.log.leases import REMOVE_AFTER, Lease, Leases


def test_the_lowest_position_that_has_not_expired(tmp_path: Path) -> None:
    leases = Leases(tmp_path / "leases")
    assert leases.horizon(0) is None
    leases.register("slow", position=3, expires=100)
    leases.register("fast", position=9, expires=200)
    assert leases.horizon(99) == 3
    assert leases.horizon(100) == 9
    assert leases.horizon(200) is None
    assert Leases(tmp_path / "leases").list(50) == (
        Lease(reader="fast", position=9, expires=200),
        Lease(reader="slow", position=3, expires=100),
    )


def test_renewed_in_time(tmp_path: Path) -> None:
    leases = Leases(tmp_path)
    leases.register("r", position=3, expires=100)
    leases.renew("r", position=5, expires=300, now=99)
    assert leases.horizon(250) == 5
    with pytest.raises(LocalError, match="goes back"):
        leases.renew("r", position=4, expires=400, now=100)
    leases.register("r", position=1, expires=400)
    assert leases.horizon(250) == 1


def test_renewed_too_late(tmp_path: Path) -> None:
    leases = Leases(tmp_path)
    leases.register("r", position=3, expires=100)
    for reader, now in (("r", 100), ("unknown", 0)):
        with pytest.raises(UserError, match="expired") as caught:
            leases.renew(reader, position=5, expires=300, now=now)
        assert caught.value.detail
        assert caught.value.hint


def test_expired_leases_are_removed_later(tmp_path: Path) -> None:
    leases = Leases(tmp_path)
    leases.register("r", position=3, expires=100)
    assert leases.horizon(99 + REMOVE_AFTER) is None
    assert os.listdir(tmp_path) == ["r.json"]
    assert leases.horizon(100 + REMOVE_AFTER) is None
    assert os.listdir(tmp_path) == []


def test_released(tmp_path: Path) -> None:
    leases = Leases(tmp_path / "leases")
    leases.release("nobody")
    leases.register("r", position=3, expires=100)
    leases.release("r")
    leases.release("r")
    assert leases.horizon(0) is None


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".", "A", "x" * 200, "a\x00"])
def test_names_that_leave_the_folder(tmp_path: Path, name: str) -> None:
    leases = Leases(tmp_path)
    with pytest.raises(UserError):
        leases.register(name, position=0, expires=1)
    with pytest.raises(UserError):
        leases.renew(name, position=0, expires=1, now=0)
    with pytest.raises(UserError):
        leases.release(name)


def test_positions_begin_at_zero(tmp_path: Path) -> None:
    with pytest.raises(LocalError):
        Leases(tmp_path).register("r", position=-1, expires=1)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"position": "3", "expires": 1}'])
def test_a_damaged_lease_keeps_everything(tmp_path: Path, data: bytes) -> None:
    leases = Leases(tmp_path)
    leases.register("good", position=3, expires=100)
    (tmp_path / "bad.json").write_bytes(data)
    with pytest.raises(StorageError) as caught:
        leases.horizon(0)
    assert caught.value.detail
    assert caught.value.hint
