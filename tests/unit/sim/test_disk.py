"""A disk: what is durable, what a crash leaves, what an old disk holds."""

import pytest

from shoal.kernel.rng import Rng
from shoal.sim.disk import Disk


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


def test_a_torn_log_keeps_a_beginning_and_never_a_later_write_alone() -> None:
    lengths = []
    for seed in range(40):
        one = disk(seed)
        begin(one, 3)
        one.crash("torn")
        assert list(one.values) == [f"key {i}" for i in range(len(one.values))]
        lengths.append(len(one.values))
    assert sorted(dict.fromkeys(lengths)) == [0, 1, 2, 3]


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
