"""The numbered log against a list: many owners, snapshots, readers anywhere, late writers."""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.kernel.errors import Fenced
from shoal.log import numbered
from shoal.log.durable import create_if_absent
from shoal.log.numbered import NumberedLog

OWNERS = 3
READERS = 2

actions = st.one_of(
    st.tuples(st.just("claim"), st.integers(0, OWNERS - 1), st.integers(0, 1)),
    st.tuples(st.just("append"), st.integers(0, OWNERS - 1), st.integers(0, 3)),
    st.tuples(st.just("snapshot"), st.integers(0, OWNERS - 1), st.just(0)),
    st.tuples(st.just("read"), st.integers(0, READERS - 1), st.just(0)),
    # An owner falls asleep just before it creates its object, and another one goes on.
    st.tuples(st.just("sleep"), st.integers(0, OWNERS - 1), st.integers(0, OWNERS - 1)),
)


@dataclass(slots=True)
class World:
    """The log, its owners with what each believes, and what is true."""

    folder: Path
    truth: list[int] = field(default_factory=list)
    epoch: int = 1
    value: int = 0
    owners: list[NumberedLog] = field(default_factory=list)
    believed: list[list[int]] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=lambda: [0] * READERS)
    seen: list[list[int]] = field(default_factory=lambda: [[] for _ in range(READERS)])

    def __post_init__(self) -> None:
        self.owners = [NumberedLog(self.folder) for _ in range(OWNERS)]
        self.believed = [[] for _ in range(OWNERS)]
        self.epochs = [0] * OWNERS

    def claim(self, owner: int, ahead: int) -> None:
        epoch = self.epoch + ahead
        if epoch <= self.epochs[owner]:
            self.owners[owner] = NumberedLog(self.folder)
        self.believed[owner] = folded([], self.owners[owner].claim(epoch).entries)
        self.epoch = self.epochs[owner] = epoch
        assert self.believed[owner] == self.truth

    def append(self, owner: int, count: int) -> None:
        if not self.owners[owner].claimed:
            return
        values = list(range(self.value, self.value + count))
        self.value += count
        newest = self.believed[owner] == self.truth
        try:
            self.owners[owner].append(values)
        except Fenced:
            return
        # Whoever appends knew everything before, so nobody else appended in between (L3).
        assert newest
        self.believed[owner] += values
        self.truth += values

    def snapshot(self, owner: int, _: int) -> None:
        if self.owners[owner].claimed:
            self.owners[owner].snapshot([list(self.believed[owner])])

    def read(self, reader: int, _: int) -> None:
        reading = NumberedLog(self.folder).read(self.positions[reader])
        start = [] if reading.whole else self.seen[reader]
        self.seen[reader] = folded(start, reading.entries)
        self.positions[reader] = reading.number
        assert self.seen[reader] == self.truth

    def sleep(self, owner: int, other: int) -> None:
        if owner == other or not self.owners[owner].claimed:
            return

        def asleep(path: Path, data: bytes) -> bool:
            with patch.object(numbered, "create_if_absent", create_if_absent):
                self.claim(other, 1)
                for _ in range(4):
                    self.append(other, 1)
                    self.snapshot(other, 0)
            return create_if_absent(path, data)

        with patch.object(numbered, "create_if_absent", asleep):
            try:
                self.owners[owner].append([-1])
            except Fenced:
                return
        raise AssertionError("a writer that was taken over appended")


def folded(start: list[int], entries: tuple[Any, ...]) -> list[int]:
    """The values behind these entries; a list stands for all before it."""
    values = list(start)
    for entry in entries:
        values = list(entry) if isinstance(entry, list) else [*values, entry]
    return values


@settings(max_examples=60)
@given(st.lists(actions, max_size=40))
def test_L3_L4_equal_to_a_list(script: list[tuple[str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder, patch("os.fsync", lambda descriptor: None):
        world = World(Path(folder))
        for name, who, argument in script:
            getattr(world, name)(who, argument)
        for reader in range(READERS):
            world.read(reader, 0)
        assert folded([], NumberedLog(Path(folder)).read(0).entries) == world.truth
