"""The judgement of an invented ingest, its watermark, and what its commits hold."""

import pytest

from shoal.dataplane import commands as c
from shoal.kernel.errors import Fenced
from shoal.kernel.time import HOUR, SECOND
from shoal.sim.engine.config import EngineConfig
from shoal.sim.engine.memory import Memory, Volume
from shoal.sim.engine.parts.ingest import open_ingest, reread
from tests.unit.sim.engine.world import BEGIN, ingest_of, stream_of, tuples

CONFIG = EngineConfig()


def step(ingest: object, now: int = BEGIN) -> object:
    work = ingest.look(now)  # type: ignore[attr-defined]
    assert work is not None
    return ingest.commit(work, now, now + SECOND)  # type: ignore[attr-defined]


def test_ok_late_and_dead() -> None:
    memory = Memory()
    ingest = open_ingest(memory, ingest_of(stream_of()), weight=1.0, now=BEGIN, config=CONFIG)
    memory.push("w-1", "a", 0, tuples(100))
    step(ingest)
    ahead = {"value": 1, "ts": BEGIN + HOUR + 1}
    memory.push("w-1", "a", 1, ["{no", {"value": 1, "ts": None}, ahead, *tuples(89, 90, 120)])
    commit = memory.table("w-1").head()
    step(ingest)
    commit = memory.table("w-1").head()
    assert commit is not None
    assert commit.rows == 2
    assert [item[0] // SECOND for item in commit.late] == [89]
    assert commit.transactions["wm"] == 110 * SECOND
    assert commit.transactions["evmax"] == 120 * SECOND
    assert [commit.transactions[f"n/{name}"] for name in ("in", "late", "dead")] == [7, 1, 3]
    letters = memory.table("w-1.dead").head()
    assert letters is not None
    assert letters.transactions["of"] == commit.step
    reasons = [item[2]["reason"] for item in letters.items]  # type: ignore[union-attr,index]
    assert reasons == ["malformed", "without event time", "ahead of the clock"]
    found = (*commit.items, *commit.late)  # type: ignore[misc,union-attr]
    identities = [item[1] for item in found]
    assert len(dict.fromkeys(identities)) == 3


def test_the_slowest_split_holds_the_watermark_until_it_is_idle() -> None:
    memory = Memory()
    ingest = open_ingest(memory, ingest_of(stream_of()), weight=1.0, now=BEGIN, config=CONFIG)
    memory.push("w-1", "slow", 0, tuples(20))
    memory.push("w-1", "fast", 0, tuples(100))
    step(ingest)
    assert ingest.transactions["wm"] == 10 * SECOND
    memory.push("w-1", "fast", 1, tuples(200))
    step(ingest, BEGIN + HOUR)
    assert ingest.transactions["wm"] == 190 * SECOND


def test_a_source_without_event_time_is_given_one() -> None:
    memory = Memory()
    stream = c.Ingest(instance="w-1", stream=_untimed())
    ingest = open_ingest(memory, stream, weight=1.0, now=BEGIN, config=CONFIG)
    times = []
    for n in range(2):
        memory.push("w-1", "a", n, [{"value": n, "zone": 1}])
        step(ingest)
        times.append(memory.table("w-1").commits[-1].items[0][0])  # type: ignore[index,union-attr]
    assert times == [BEGIN, BEGIN + 1]


def _untimed() -> object:
    stream = stream_of()
    object.__setattr__(stream, "timestamp", "")
    return stream


def test_L3_another_owner_fences() -> None:
    memory = Memory()
    first = open_ingest(memory, ingest_of(stream_of()), weight=1.0, now=BEGIN, config=CONFIG)
    memory.push("w-1", "a", 0, tuples(1))
    work = first.look(BEGIN)
    assert work is not None
    second = open_ingest(memory, ingest_of(stream_of()), weight=1.0, now=BEGIN, config=CONFIG)
    with pytest.raises(Fenced):
        first.commit(work, BEGIN, BEGIN)
    step(second)
    with pytest.raises(Fenced):
        first.look(BEGIN)


def test_nothing_is_looked_for_ever_more_rarely() -> None:
    memory = Memory()
    ingest = open_ingest(memory, ingest_of(stream_of()), weight=1.0, now=BEGIN, config=CONFIG)
    waits = []
    for _ in range(6):
        assert ingest.look(BEGIN) is None
        ingest.found_nothing(BEGIN)
        waits.append(ingest.look_at - BEGIN)
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (CONFIG.poll_first, CONFIG.poll_most)


def test_a_split_that_falls_idle_holds_nobody() -> None:
    """Also one that was less than a second behind."""
    memory = Memory()
    ingest = open_ingest(memory, ingest_of(stream_of()), weight=1.0, now=BEGIN, config=CONFIG)
    memory.push("w-1", "slow", 0, [{"value": 1, "ts": BEGIN}])
    step(ingest)
    memory.push("w-1", "fast", 0, [{"value": 1, "ts": BEGIN + SECOND // 2}])
    step(ingest, BEGIN + 10 * SECOND)
    assert ingest.transactions["wm"] == BEGIN - 10 * SECOND
    assert ingest.found_nothing(BEGIN + 19 * SECOND) is None
    moved = ingest.found_nothing(BEGIN + 20 * SECOND)
    assert moved is not None
    assert moved.transactions["wm"] == BEGIN + SECOND // 2 - 10 * SECOND


def test_a_silent_stream_may_follow_the_clock() -> None:
    memory = Memory()
    stream = stream_of()
    object.__setattr__(stream, "idle_advances", True)
    ingest = open_ingest(memory, ingest_of(stream), weight=1.0, now=BEGIN, config=CONFIG)
    memory.push("w-1", "a", 0, [{"value": 1, "ts": BEGIN}])
    step(ingest)
    assert ingest.found_nothing(BEGIN + SECOND) is None
    moved = ingest.found_nothing(BEGIN + HOUR)
    assert moved is not None
    assert moved.transactions["wm"] == BEGIN + HOUR - 30 * SECOND


def test_Q2_what_is_not_stored_is_read_again_as_it_was_judged() -> None:
    memory = Memory()
    stream = stream_of("rate", store=False, rows_per_second="10")
    ingest = open_ingest(memory, ingest_of(stream), weight=1.0, now=BEGIN, config=CONFIG)
    step(ingest, BEGIN + SECOND)
    commit = memory.table("w-1").head()
    assert commit is not None
    assert commit.items is None
    again = reread(memory, "w-1", stream, commit, CONFIG)
    assert [item[2]["value"] for item in again] == list(range(10))
    stored = Memory()
    twin = open_ingest(
        stored,
        ingest_of(stream_of("rate", rows_per_second="10")),
        weight=1.0,
        now=BEGIN,
        config=CONFIG,
    )
    step(twin, BEGIN + SECOND)
    assert stored.table("w-1").commits[-1].items == again
    first = memory.table("w-1").commits[0]
    assert reread(memory, "w-1", stream, first, CONFIG) == ()


def test_volumes_are_judged_whole() -> None:
    memory = Memory()
    ingest = open_ingest(memory, ingest_of(stream_of()), weight=1.0, now=BEGIN, config=CONFIG)
    memory.push("w-1", "a", 0, Volume(100, 0, 99 * SECOND))
    memory.push("w-1", "b", 0, Volume(50, 50 * SECOND, 120 * SECOND))
    step(ingest)
    assert memory.table("w-1").commits[-1].items == Volume(150, 0, 120 * SECOND)
    memory.push("w-1", "b", 1, Volume(7, 0, 5 * SECOND))
    memory.push("w-1", "b", 2, Volume(3, 0, BEGIN + 2 * HOUR))
    step(ingest)
    counted = [ingest.transactions[f"n/{name}"] for name in ("in", "late", "dead")]
    assert counted == [160, 7, 3]
