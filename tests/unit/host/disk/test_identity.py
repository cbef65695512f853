"""A home is one peer's; each life has a higher number, and it is durable before it is used."""

from pathlib import Path

import pytest

from shoal.host.disk import identity as module
from shoal.host.disk.identity import begin, of_machines
from shoal.host.disk.store import Store
from shoal.kernel.errors import UserError


def life(home: Path, *, name: str = "p1", mesh: str = "m") -> int:
    store = Store(home)
    try:
        return begin(store, name=name, mesh=mesh)
    finally:
        store.close()


def test_every_life_is_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "wall_seconds", lambda: 1_000)
    assert [life(tmp_path) for _ in range(3)] == [1_000, 1_001, 1_002]
    monkeypatch.setattr(module, "wall_seconds", lambda: 5)  # somebody set the clock back
    assert life(tmp_path) == 1_003


def test_a_lost_disk_is_a_later_life_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "wall_seconds", lambda: 1_000)
    before = life(tmp_path / "old")
    monkeypatch.setattr(module, "wall_seconds", lambda: 1_010)
    assert life(tmp_path / "new") > before


def test_it_is_durable_before_it_is_used(tmp_path: Path) -> None:
    store = Store(tmp_path)
    incarnation = begin(store, name="p1", mesh="m")
    store.close()
    again = Store(tmp_path)
    assert again.values["host/incarnation"] == str(incarnation).encode()
    again.close()


@pytest.mark.parametrize("other", [{"name": "p2"}, {"mesh": "n"}])
def test_a_home_is_one_peers(tmp_path: Path, other: dict[str, str]) -> None:
    first = life(tmp_path)
    with pytest.raises(UserError, match="home belongs to") as raised:
        life(tmp_path, **other)
    assert "--home" in raised.value.hint
    assert life(tmp_path) > first


def test_machines_see_their_own_keys() -> None:
    values = {"host/name": b"p1", "ring/next": b"p2"}
    assert of_machines(values) == {"ring/next": b"p2"}
