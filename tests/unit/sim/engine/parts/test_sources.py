"""Sources: a batch is a function of its range; what was released is somebody else's by now."""

import pytest

from shoal.kernel.errors import Fenced, LocalError
from shoal.kernel.time import SECOND
from shoal.query.catalog import SourceDef
from shoal.sim.engine.config import EngineConfig
from shoal.sim.engine.memory import Memory, Spool, Volume
from shoal.sim.engine.parts.sources import (
    PushSource,
    RateSource,
    check_source,
    mixed,
    open_source,
)
from tests.unit.sim.engine.world import stream_of


def test_pushed_batches_come_in_order_and_bounded() -> None:
    spool = Spool()
    for n in range(5):
        spool.push("ab"[n % 2], n, [{"value": n}])
    source = PushSource(spool, most=3)
    first = source.next_batch(0, 0)
    assert first is not None
    assert (first.after, first.upto, first.rows) == (0, 3, 3)
    assert source.batch(0, 3) == first
    assert source.waiting(3) == ("b", "a")
    assert source.next_batch(5, 0) is None


def test_what_others_have_released_fences() -> None:
    spool = Spool()
    spool.push("a", 0, [])
    source = PushSource(spool, most=3)
    source.release(1)
    with pytest.raises(Fenced):
        source.next_batch(0, 0)


def test_a_rate_counts_what_is_due() -> None:
    stream = stream_of("rate", rows_per_second="10", splits="3")
    source = RateSource(stream, started=0, most=100, volumes=False)
    assert source.next_batch(0, 0) is None
    batch = source.next_batch(0, SECOND)
    assert batch is not None
    assert (batch.upto, batch.rows) == (10, 10)
    assert source.next_batch(10, 0) is None
    rows = [row for _, part in batch.parts if not isinstance(part, Volume) for row in part]
    values = [row["value"] for row in rows if not isinstance(row, str)]
    assert sorted(values) == list(range(10))
    by_split = [
        [row["value"] % 3 for row in part if not isinstance(row, str)]
        for _, part in source.batch(4, 9).parts
        if not isinstance(part, Volume)
    ]
    assert by_split == [[0], [1, 1], [2, 2]]
    assert source.batch(0, 10) == batch


def test_a_volume_says_how_many_and_when() -> None:
    source = RateSource(stream_of("rate", rows_per_second="10"), started=0, most=8, volumes=True)
    batch = source.next_batch(0, 10 * SECOND)
    assert batch is not None
    assert batch.parts == (("rate-0", Volume(8, 0, 7 * SECOND // 10)),)
    assert source.waiting(8) == ("rate-0",)


def test_which_sources_there_are() -> None:
    memory = Memory()
    memory.table("w-1").transactions["started"] = 0
    opened = open_source(memory, "w-1", stream_of("rate", rows_per_second="1"), EngineConfig())
    assert isinstance(opened, RateSource)
    with pytest.raises(LocalError):
        check_source(SourceDef(kind="files", options={}))


def test_mixed_numbers_look_random() -> None:
    drawn = [mixed(n) % 2 for n in range(1000)]
    assert 400 < sum(drawn) < 600
    assert len(dict.fromkeys(mixed(n) for n in range(1000))) == 1000
