"""The catalog: one owner per name, versions that run on, history that stays."""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shoal.kernel.errors import LocalError, StorageError, UserError
from shoal.log.catalog import Catalog, Definition

RACER = """
import sys, time
from pathlib import Path
from shoal.kernel.errors import UserError
from shoal.log.catalog import Catalog
folder, me, rounds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
(folder / f"ready-{me}").touch()
while not (folder / "go").exists():
    time.sleep(0.0005)
catalog = Catalog(folder / "catalog")
for number in range(rounds):
    try:
        catalog.create("queries", f"q{number}", {"owner": me})
        print(number)
    except UserError:
        pass
"""


def test_create_get_list(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "catalog")
    assert catalog.list("streams") == ()
    assert catalog.get("streams", "readings") is None
    body = {"text": "CREATE STREAM readings", "pieces": [["readings", 0, None]]}
    made = catalog.create("streams", "Readings", body)
    assert made == Definition(kind="streams", name="readings", version=1, dropped=False, body=body)
    assert Catalog(tmp_path / "catalog").get("streams", "READINGS") == made
    catalog.create("streams", "alarms", {})
    assert [item.name for item in catalog.list("streams")] == ["alarms", "readings"]
    assert catalog.list("queries") == ()


def test_a_name_is_taken_once(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    catalog.create("queries", "hot", {"by": "a"})
    with pytest.raises(UserError, match="hot exists") as caught:
        catalog.create("queries", "HOT", {"by": "b"})
    assert caught.value.detail
    assert caught.value.hint
    catalog.create("streams", "hot", {})
    found = catalog.get("queries", "hot")
    assert found is not None
    assert found.body == {"by": "a"}


def test_alter_needs_the_newest_version(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    catalog.create("queries", "hot", {"limit": 1})
    assert catalog.alter("queries", "hot", {"limit": 2}, version=1).version == 2
    with pytest.raises(UserError, match="changed by somebody else") as caught:
        catalog.alter("queries", "hot", {"limit": 3}, version=1)
    assert "version 1" in caught.value.detail
    with pytest.raises(UserError, match="somebody else"):
        catalog.drop("queries", "hot", version=1)
    with pytest.raises(UserError, match="there is no query cold"):
        catalog.alter("queries", "cold", {}, version=1)
    assert [item.body for item in catalog.history("queries", "hot")] == [{"limit": 1}, {"limit": 2}]


def test_dropped_names_may_be_taken_again(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    catalog.create("queries", "hot", {"n": 1})
    gone = catalog.drop("queries", "hot", version=1)
    assert (gone.version, gone.dropped, gone.body) == (2, True, {"n": 1})
    assert catalog.get("queries", "hot") is None
    assert catalog.list("queries") == ()
    with pytest.raises(UserError, match="there is no query hot"):
        catalog.drop("queries", "hot", version=2)
    assert catalog.create("queries", "hot", {"n": 2}).version == 3
    assert [item.dropped for item in catalog.history("queries", "hot")] == [False, True, False]


def test_L2_two_processes_take_one_name_at_once(tmp_path: Path) -> None:
    rounds = 30
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(tmp_path), me, str(rounds)],
            env={"PYTHONPATH": "src"},
            cwd=Path(__file__).parents[3],
            stdout=subprocess.PIPE,
            text=True,
        )
        for me in ("a", "b")
    ]
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("ready-*"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.001)
    (tmp_path / "go").touch()
    won = [[int(line) for line in racer.communicate(timeout=60)[0].split()] for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0]
    assert sorted(won[0] + won[1]) == list(range(rounds))
    catalog = Catalog(tmp_path / "catalog")
    for me, numbers in zip("ab", won, strict=True):
        for number in numbers:
            found = catalog.get("queries", f"q{number}")
            assert found is not None
            assert found.body == {"owner": me}


def test_many_threads_alter_one_definition(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    catalog.create("queries", "count", {"n": 0})

    def add_one(_: int) -> None:
        while True:
            current = catalog.get("queries", "count")
            assert current is not None
            try:
                catalog.alter(
                    "queries", "count", {"n": current.body["n"] + 1}, version=current.version
                )
                return
            except UserError:
                continue

    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(add_one, range(20)))
    found = catalog.get("queries", "count")
    assert found is not None
    assert (found.body, found.version) == ({"n": 20}, 21)


def test_create_many(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    catalog.create("queries", "q3", {"mine": True})
    batch = catalog.create_many("queries", {f"q{number}": {"n": number} for number in range(20)})
    assert batch.taken == ("q3",)
    assert [item.name for item in batch.made] == [f"q{n}" for n in range(20) if n != 3]
    assert len(catalog.list("queries")) == 20
    with pytest.raises(UserError, match="the same"):
        catalog.create_many("queries", {"a": {}, "A": {}})
    with pytest.raises(LocalError):
        catalog.create_many("queries", {"good": {}, "bad": {"x": float("nan")}})
    assert catalog.get("queries", "good") is None


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".", "1a", "x" * 64, "a\x00", "ü"])
def test_names_that_leave_the_folder(tmp_path: Path, name: str) -> None:
    catalog = Catalog(tmp_path)
    for attempt in (
        lambda: catalog.create("queries", name, {}),
        lambda: catalog.get("queries", name),
        lambda: catalog.history("queries", name),
        lambda: catalog.drop("queries", name, version=1),
        lambda: catalog.create_many("queries", {name: {}}),
    ):
        with pytest.raises(UserError):
            attempt()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("body", [[], {1: 2}, {"x": b"y"}, {"x": float("inf")}])
def test_bodies_that_json_cannot_hold(tmp_path: Path, body: object) -> None:
    with pytest.raises(LocalError):
        Catalog(tmp_path).create("queries", "q", body)  # type: ignore[arg-type]
    assert Catalog(tmp_path).get("queries", "q") is None


@pytest.mark.parametrize("data", [b"", b"{", b"{}", b'{"name": "x", "version": 1}'])
def test_damaged_definitions(tmp_path: Path, data: bytes) -> None:
    catalog = Catalog(tmp_path)
    catalog.create("queries", "hot", {})
    (tmp_path / "queries" / "hot" / "00000001.json").write_bytes(data)
    with pytest.raises(StorageError) as caught:
        catalog.get("queries", "hot")
    assert caught.value.detail
    assert caught.value.hint


def test_what_a_crash_leaves_is_nobody(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    catalog.create("queries", "hot", {})
    (tmp_path / "queries" / "cold").mkdir()
    (tmp_path / "queries" / "cold" / "00000001.json.unfinished-ab").write_bytes(b"{")
    (tmp_path / "queries" / "stray").write_bytes(b"")
    assert [item.name for item in catalog.list("queries")] == ["hot"]
    assert catalog.create("queries", "cold", {}).version == 1


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = Catalog(tmp_path)
    (tmp_path / "queries").mkdir()

    def full(*arguments: object, **keywords: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.mkdir", full)
    with pytest.raises(StorageError, match="cannot create the folder of query hot"):
        catalog.create("queries", "hot", {})
