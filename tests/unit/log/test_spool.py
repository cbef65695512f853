"""The spool: durable before acknowledged, accepted once, gapless, bounded."""

import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from shoal.kernel.errors import LocalError, StorageError, UserError
from shoal.log import spool
from shoal.log.durable import TEMPORARY_MARK, create_if_absent
from shoal.log.objects import file_names
from shoal.log.spool import Spool, SpoolEntry
from tests.unit.log import crash

FOREVER = 1 << 60

PUSHER = """
import sys
from pathlib import Path
import pyarrow as pa
from shoal.log.objects import file_names
from shoal.log.spool import Spool
folder, client, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
store = Spool(folder, bytes_max=1 << 30)
for number in range(count):
    rows = pa.table({"who": [client], "n": [number]})
    position = store.append(client, number, rows)
    assert store.append(client, number, rows) <= position
"""


def opened(folder: Path, bytes_max: int = 1 << 30) -> Spool:
    return Spool(folder, bytes_max=bytes_max)


def rows(*values: int) -> pa.Table:
    return pa.table({"n": list(values)})


def sequences(store: Spool) -> list[tuple[str, int]]:
    entries = store.entries(store.released, store.head)
    return [(entry.client, entry.sequence) for entry in entries]


def test_batches_come_back_as_they_were(tmp_path: Path) -> None:
    store = opened(tmp_path / "spool")
    schema = pa.schema(
        [("n", pa.int64()), ("s", pa.string())], metadata={b"made": b"by the client"}
    )
    table = pa.table({"n": [1, None], "s": ["a", "ü"]}, schema=schema)
    assert store.append("c", 0, table) == 1
    assert store.append("c", 1, rows()) == 2
    for reader in (store, opened(tmp_path / "spool")):
        first, second = reader.entries(0, 99)
        assert (first.position, first.client, first.sequence, first.rows) == (1, "c", 0, 2)
        assert first.bytes == first.path.stat().st_size
        assert reader.read(first).equals(table, check_metadata=True)
        assert reader.read(second).num_rows == 0
        assert [entry.position for entry in reader.entries(1, 2)] == [2]
        assert reader.entries(2, 2) == ()
        assert reader.head == 2


def test_L2_a_repeated_batch_is_acknowledged_and_not_stored(tmp_path: Path) -> None:
    store, other = opened(tmp_path), opened(tmp_path)
    assert store.append("a", 0, rows(1)) == 1
    assert store.append("b", 0, rows(2)) == 2
    assert store.append("a", 1, rows(3)) == 3
    for again in (store, other, opened(tmp_path)):
        assert again.append("a", 1, rows(9)) == 3
        assert again.append("a", 0, rows(9)) == 1
        assert again.append("b", 0, rows(9)) == 2
        assert again.last("a") == 1
        assert again.last("nobody") is None
    assert sequences(store) == [("a", 0), ("b", 0), ("a", 1)]


def test_a_gap_is_refused(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for sequence in (1, 7):
        with pytest.raises(UserError, match="cannot be accepted yet") as caught:
            store.append("c", sequence, rows(1))
        assert "batch 0 first" in caught.value.hint
    store.append("c", 0, rows(1))
    with pytest.raises(UserError, match="batch 2") as caught:
        store.append("c", 2, rows(1))
    assert "batch 1 first" in caught.value.hint
    assert store.head == 1


def test_released_batches_stay_known(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for number in range(5):
        store.append("c", number, rows(number))
    store.release(3, now=100, forget_after=50)
    assert sorted(path.name for path in tmp_path.glob("*.arrow")) == [
        f"{4:020d}.arrow",
        f"{5:020d}.arrow",
    ]
    for again in (store, opened(tmp_path)):
        assert (again.released, again.head) == (3, 5)
        assert again.append("c", 4, rows(9)) == 5
        assert 1 <= again.append("c", 0, rows(9)) <= 3
        with pytest.raises(StorageError, match="batches 1 to 3") as caught:
            again.entries(0, 5)
        assert caught.value.hint
    store.release(5, now=100, forget_after=50)
    store.release(2, now=100, forget_after=50)
    assert opened(tmp_path).append("c", 5, rows(5)) == 6
    with pytest.raises(LocalError, match="released to 9"):
        store.release(9, now=100, forget_after=50)


def test_silent_clients_are_forgotten_everywhere(tmp_path: Path) -> None:
    store, other = opened(tmp_path), opened(tmp_path)
    store.append("silent", 0, rows(1))
    store.append("waits", 0, rows(2))
    assert other.last("silent") == 0
    store.release(2, now=100, forget_after=50)
    store.append("busy", 0, rows(3))
    store.append("waits", 1, rows(4))
    store.release(3, now=150, forget_after=50)
    for again in (store, other, opened(tmp_path)):
        assert again.last("silent") is None
        assert (again.last("busy"), again.last("waits")) == (0, 1)
    assert other.append("silent", 0, rows(5)) == 5
    assert other.append("waits", 2, rows(6)) == 6


def test_few_files_after_many_batches(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for number in range(40):
        store.release(store.append("c", number, rows(number)), now=number, forget_after=FOREVER)
    assert len(list((tmp_path / "released").iterdir())) == 2
    assert list(tmp_path.glob("*.arrow")) == []


def test_L2_a_writer_that_wakes_up_late_stores_its_batch_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its position was taken, released and removed meanwhile: its file is a stray."""
    late, other = opened(tmp_path), opened(tmp_path)
    late.append("late", 0, rows(0))

    def asleep(path: Path, data: bytes) -> bool:
        monkeypatch.setattr(spool, "create_if_absent", create_if_absent)
        for number in range(4):
            other.append("other", number, rows(number))
        other.release(5, now=1, forget_after=FOREVER)
        assert not path.exists()
        return create_if_absent(path, data)

    monkeypatch.setattr(spool, "create_if_absent", asleep)
    assert late.append("late", 1, rows(1)) == 6
    assert sequences(opened(tmp_path)) == [("late", 1)]
    assert len(list(tmp_path.glob("*.arrow"))) == 1


def test_L2_two_processes_push_the_same_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = opened(tmp_path), opened(tmp_path)
    acknowledged: list[int] = []

    def overtaken(path: Path, data: bytes) -> bool:
        monkeypatch.setattr(spool, "create_if_absent", create_if_absent)
        acknowledged.append(two.append("c", 0, rows(2)))
        return create_if_absent(path, data)

    monkeypatch.setattr(spool, "create_if_absent", overtaken)
    acknowledged.append(one.append("c", 0, rows(1)))
    assert acknowledged == [1, 1]
    (entry,) = opened(tmp_path).entries(0, 9)
    assert opened(tmp_path).read(entry).to_pydict() == {"n": [2]}


@pytest.mark.slow
def test_L2_three_processes_push_at_once(tmp_path: Path) -> None:
    count = 25
    pushers = [
        subprocess.Popen(
            [sys.executable, "-c", PUSHER, str(tmp_path), client, str(count)],
            env={**os.environ, "PYTHONPATH": "src"},
            cwd=Path(__file__).parents[3],
        )
        for client in "abc"
    ]
    assert [pusher.wait(timeout=120) for pusher in pushers] == [0, 0, 0]
    found = sequences(opened(tmp_path))
    assert len(found) == 3 * count
    for client in "abc":
        assert [number for name, number in found if name == client] == list(range(count))


def test_threads_share_one_spool(tmp_path: Path) -> None:
    store = opened(tmp_path)

    def push(client: str) -> None:
        for number in range(10):
            store.append(client, number, rows(number))

    threads = [threading.Thread(target=push, args=(client,)) for client in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sequences(opened(tmp_path))) == 40


def test_a_full_spool_refuses_and_loses_nothing(tmp_path: Path) -> None:
    probe = opened(tmp_path / "probe")
    probe.append("c", 0, rows(0))
    size = probe.entries(0, 1)[0].bytes
    store = opened(tmp_path / "spool", bytes_max=2 * size)
    store.append("c", 0, rows(0))
    store.append("c", 1, rows(1))
    with pytest.raises(StorageError, match="is full") as caught:
        store.append("c", 2, rows(2))
    assert caught.value.detail
    assert caught.value.hint
    assert store.append("c", 1, rows(1)) == 2
    ingest = opened(tmp_path / "spool", bytes_max=2 * size)
    ingest.release(1, now=0, forget_after=FOREVER)
    assert store.append("c", 2, rows(2)) == 3
    with pytest.raises(UserError, match="too large") as too_large:
        store.append("c", 3, rows(*random.Random(1).choices(range(1 << 62), k=1_000)))
    assert too_large.value.hint


def test_a_full_disk_says_so_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(tmp_path)
    store.append("c", 0, rows(0))

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="cannot write") as caught:
        store.append("c", 1, rows(1))
    assert "No space left" in caught.value.detail
    assert "free space" in caught.value.hint
    monkeypatch.undo()
    assert list(tmp_path.glob(f"*{TEMPORARY_MARK}*")) == []
    assert store.append("c", 1, rows(1)) == 2
    assert sequences(opened(tmp_path)) == [("c", 0), ("c", 1)]


def test_an_append_of_unknown_outcome_may_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(tmp_path)

    def unsure(path: Path, data: bytes) -> bool:
        create_if_absent(path, data)
        raise StorageError("the folder could not be synced")

    monkeypatch.setattr(spool, "create_if_absent", unsure)
    with pytest.raises(StorageError):
        store.append("c", 0, rows(0))
    monkeypatch.undo()
    synced: list[Path] = []
    monkeypatch.setattr(spool, "sync_folder", synced.append)
    assert store.append("c", 0, rows(0)) == 1
    assert synced == [tmp_path]
    assert sequences(store) == [("c", 0)]


@pytest.mark.parametrize("client", ["", "x" * 201, "a\nb", "\x00", "\ud800", "\u202e"])
def test_hostile_client_names(tmp_path: Path, client: str) -> None:
    with pytest.raises(UserError, match="client name"):
        opened(tmp_path).append(client, 0, rows(1))


@pytest.mark.parametrize("client", ["../../etc/passwd", "ü b", '"{}'])
def test_a_client_name_is_no_path(tmp_path: Path, client: str) -> None:
    store = opened(tmp_path / "spool")
    store.append(client, 0, rows(1))
    store.release(1, now=0, forget_after=FOREVER)
    assert opened(tmp_path / "spool").last(client) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["spool"]


@pytest.mark.parametrize("sequence", [-1, 1 << 63])
def test_hostile_numbers(tmp_path: Path, sequence: int) -> None:
    with pytest.raises(UserError):
        opened(tmp_path).append("c", sequence, rows(1))


def test_a_batch_that_is_missing(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for number in range(3):
        store.append("c", number, rows(number))
    (tmp_path / f"{2:020d}.arrow").unlink()
    with pytest.raises(StorageError, match="batch 2") as caught:
        opened(tmp_path)
    assert caught.value.detail
    assert caught.value.hint


def test_opened_while_others_append(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The listing is newer than what was read: not a hole."""
    store = opened(tmp_path)
    store.append("c", 0, rows(0))
    listed: list[Path] = []

    def late(folder: Path) -> list[str]:
        if folder == tmp_path and not listed:
            listed.append(folder)
            store.append("c", 1, rows(1))
            store.append("c", 2, rows(2))
        return file_names(folder)

    monkeypatch.setattr(spool, "file_names", late)
    assert opened(tmp_path).head == 3


@pytest.mark.parametrize("keep", [0, 7, 100, -10])
def test_damaged_batches(tmp_path: Path, keep: int) -> None:
    store = opened(tmp_path)
    store.append("c", 0, rows(*range(100)))
    path = tmp_path / f"{1:020d}.arrow"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(StorageError, match="damaged") as caught:
        opened(tmp_path)
    assert caught.value.detail
    assert caught.value.hint
    entry: SpoolEntry = store.entries(0, 1)[0]
    with pytest.raises(StorageError, match="damaged"):
        store.read(entry)


def test_a_file_of_somebody_else(tmp_path: Path) -> None:
    with pa.ipc.new_file(str(tmp_path / f"{1:020d}.arrow"), rows(1).schema) as writer:
        writer.write_table(rows(1))
    with pytest.raises(StorageError, match="damaged"):
        opened(tmp_path)


@pytest.mark.parametrize("data", [b"", b"{}", b'{"clients": []}', b'{"clients": {"c": 1}}'])
def test_damaged_releases(tmp_path: Path, data: bytes) -> None:
    opened(tmp_path)
    (tmp_path / "released" / f"{3:020d}.json").write_bytes(data)
    with pytest.raises(StorageError, match="damaged"):
        opened(tmp_path)


@pytest.mark.slow
def test_L1_killed_at_any_call(tmp_path: Path) -> None:
    crash.run("spool", tmp_path, kills=10, rng=random.Random(7))
