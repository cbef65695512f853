"""A disk: what is durable, what a crash leaves, what an old disk holds."""

import pytest

from shoal.kernel.rng import Rng
from shoal.sim import disk as module
from shoal.sim.disk import Disk
from shoal.wire.batches import Replay, batch, replay


def disk(seed: int = 1) -> Disk:
    return Disk(Rng(seed, "disk"))


def begin(disk: Disk, count: int) -> None:
    for number in range(count):
        assert disk.begin(f"key {number}", b"value") > 0


def test_a_write_is_there_when_it_is_done_and_not_before() -> None:
    one = disk()
    begin(one, 1)
    assert one.values == {}
    one.finish()
    assert one.values == {"key 0": b"value"}
    assert one.pending == 0


def test_none_removes() -> None:
    one = disk()
    begin(one, 1)
    one.begin("key 0", None)
    one.finish()
    one.finish()
    assert one.values == {}


@pytest.mark.parametrize(("fate", "left"), [("lost", 0), ("kept", 3)])
def test_a_crash_decides_about_writes_under_way(fate: str, left: int) -> None:
    one = disk()
    begin(one, 3)
    assert one.crash(fate) == 3 - left
    assert len(one.values) == left
    assert one.pending == 0


def test_a_torn_log_keeps_whole_writes_of_its_beginning_and_no_part_of_one() -> None:
    lengths, mended = [], []
    for seed in range(60):
        one = disk(seed)
        begin(one, 3)
        assert one.crash("torn") == 3 - len(one.values)
        assert one.values == dict.fromkeys(one.values, b"value")
        assert list(one.values) == [f"key {i}" for i in range(len(one.values))]
        lengths.append(len(one.values))
        mended.append(one.mended)
    assert sorted(dict.fromkeys(lengths)) == [0, 1, 2]
    assert sum(bytes_ > 0 for bytes_ in mended) > 40


def test_bytes_are_torn_also_where_one_write_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that believes what it finds would take a part of it for the whole."""
    read: list[bytes] = []

    def noted(data: bytes, number: int) -> Replay:
        read.append(data)
        return replay(data, number)

    monkeypatch.setattr(module, "replay", noted)
    for seed in range(60):
        one = disk(seed)
        one.begin("key", b"value")
        assert one.crash("torn") == 1
        assert one.values == {}
    whole = batch(1, [("key", b"value")])
    assert all(len(data) < len(whole) or data.endswith(b"\0") for data in read)
    assert len(dict.fromkeys(read)) > 20
    assert sum(whole.startswith(data) for data in read) in range(10, 50)


def test_a_crash_without_a_write_under_way_tears_nothing() -> None:
    one = disk()
    begin(one, 1)
    one.finish()
    assert one.crash("torn") == 0
    assert (one.values, one.mended) == ({"key 0": b"value"}, 0)


def test_an_old_disk_is_what_was_remembered() -> None:
    one = disk()
    begin(one, 2)
    one.finish()
    one.remember()
    assert not one.restore()
    one.finish()
    assert one.restore()
    assert one.values == {"key 0": b"value"}


def test_a_wiped_disk_has_nothing_and_nothing_to_go_back_to() -> None:
    one = disk()
    begin(one, 1)
    one.finish()
    one.remember()
    one.incarnation = 3
    one.wipe()
    assert (one.values, one.incarnation) == ({}, 3)
    assert not one.restore()
