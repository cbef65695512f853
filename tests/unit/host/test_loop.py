"""The order of effects, durability before anything behind it, answers, and the end."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shoal.host.disk.store import Change, Store
from shoal.host.loop import Host, no_engine
from shoal.kernel.effects import Answer, CancelTimer, Command, Effect, Persist, Send, SetTimer
from shoal.kernel.errors import LocalError, StorageError, UserError
from shoal.kernel.events import AWAY, Asked, Received, Started, TimerFired
from shoal.kernel.time import HOUR, MILLISECOND, SECOND, Instant
from tests.unit.host.net.raw import Raw, dialled, hello
from tests.unit.host.setting import (
    CODEC,
    FAST,
    Call,
    Heard,
    Keep,
    Never,
    Say,
    Toy,
    Wake,
    eventually,
    running,
    suspend,
)

pytestmark = pytest.mark.slow


def test_what_is_stored_is_there_in_the_next_life(tmp_path: Path) -> None:
    toys = [Toy(), Toy()]

    async def life(toy: Toy, *values: tuple[str, bytes | None]) -> int:
        async with running(tmp_path / "a", toy=toy) as host:
            await host.ask(Keep(values))
            return host.peer.me.incarnation

    first = asyncio.run(life(toys[0], ("a", b"1"), ("b", b"2")))
    second = asyncio.run(life(toys[1], ("b", None)))
    assert toys[1].stored == {"toy/a": b"1", "toy/b": b"2"}
    assert second > first


def test_H5_nothing_behind_a_persist_begins_before_it_is_durable(tmp_path: Path) -> None:
    """Neither the effects behind it, nor another event; neighbours are stored in one go."""
    validate_order(tmp_path)


def validate_order(folder: Path) -> None:
    """H5: what a host did, in its order, when two events asked for writes in between."""
    order: list[Any] = []
    write = Store.write

    def slow_write(store: Store, changes: Sequence[Change]) -> None:
        order.append(("write", [key for key, _ in changes]))
        write(store, changes)
        order.append("written")

    class Ordered(Toy):
        def _asked(self, request: int, question: Any, now: Instant) -> Sequence[Effect]:
            order.append(("event", request))
            return [
                SetTimer("toy/a", now + 10**12),
                Persist("toy/a", b"1"),
                Persist("toy/b", b"2"),
                CancelTimer("toy/a"),
                Persist("toy/c", b"3"),
                Answer(request, Heard("done")),
            ]

    async def scene() -> None:
        async with running(folder / "a", toy=Ordered()) as host:
            carry_out = host._carry_out

            def noted(effect: Effect) -> None:
                order.append(type(effect).__name__)
                carry_out(effect)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Store, "write", slow_write)
                patch.setattr(host, "_carry_out", noted)
                await asyncio.gather(host.ask(Never()), host.ask(Never()))

    asyncio.run(scene())
    one = [
        "SetTimer",
        ("write", ["toy/a", "toy/b"]),
        "written",
        "CancelTimer",
        ("write", ["toy/c"]),
        "written",
        "Answer",
    ]
    assert order == [("event", 1), *one, ("event", 2), *one], f"H5: {order}"


def test_a_store_that_fails_ends_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message behind the failed write is not sent."""
    toy, other = Toy(), Toy()

    class Leaky(Toy):
        def _asked(self, request: int, question: Any, now: Instant) -> Sequence[Effect]:
            return [Persist("toy/a", b"1"), Send(question.to, Say("leaked", False))]

    def fail(store: Store, changes: Sequence[Change]) -> None:
        raise StorageError("cannot write to the store", hint="free space")

    async def scene() -> None:
        async with (
            running(tmp_path / "b", "p2", toy=other) as b,
            running(tmp_path / "a", toy=Leaky()) as a,
        ):
            monkeypatch.setattr(Store, "write", fail)
            with pytest.raises(UserError, match="has ended"):
                await a.ask(Call(b.peer.me, "x"))
            monkeypatch.undo()

    with pytest.raises(StorageError, match="cannot write"):
        asyncio.run(scene())
    assert other.heard == []
    assert not toy.stopped


@pytest.mark.parametrize(
    "wrong",
    [Persist("host/incarnation", b"1"), Command("select"), TimerFired("toy/a")],
    ids=["the host's key", "a command", "no effect"],
)
def test_a_defect_of_ours_ends_the_host(tmp_path: Path, wrong: Any) -> None:
    class Wrong(Toy):
        def _asked(self, request: int, question: Any, now: Instant) -> Sequence[Effect]:
            return [wrong]

    async def scene() -> None:
        async with running(tmp_path / "a", toy=Wrong()) as host:
            with pytest.raises(UserError, match="has ended"):
                await host.ask(Never())

    with pytest.raises(LocalError):
        asyncio.run(scene())


def test_no_engine_says_so() -> None:
    with pytest.raises(LocalError, match="has no engine"):
        no_engine("select")


def test_timers_fire_in_time(tmp_path: Path) -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        async with running(tmp_path / "a") as host:
            start = loop.time()
            waits = (30, 10, 20)
            done: list[int] = []

            async def wake(wait: int) -> None:
                await host.ask(Wake(wait * MILLISECOND))
                done.append(wait)

            await asyncio.gather(*(wake(wait) for wait in waits))
            assert loop.time() - start >= 0.03
            assert done == [10, 20, 30]

    asyncio.run(scene())


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this kernel has one clock only")
def test_timers_are_due_after_a_night_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """asyncio's own timers have not moved; the host looks at its clock again."""

    async def scene() -> None:
        async with running(tmp_path / "a") as host:
            asked = asyncio.create_task(host.ask(Wake(HOUR)))
            await eventually(lambda: len(host._timers) == 1)
            suspend(monkeypatch, 2 * HOUR)
            assert isinstance(await asked, Heard)  # far from an hour: answers have 5 s

    asyncio.run(scene())


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this kernel has one clock only")
def test_what_waited_while_the_host_stood_still_is_not_handled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections are closed, for more waits in them; questions and timers stay."""
    toy = Toy()
    lines: list[str] = []

    async def scene() -> None:
        async with running(tmp_path / "a", toy=toy, lines=lines) as host, met(host) as raw:
            raw.send(hello())
            raw.send(CODEC.encode(Say("before", False), 0))
            await eventually(lambda: toy.heard)
            sender = toy.heard[0][0]
            host._inbox.put(Received(sender, Say("a short stop", False)))
            suspend(monkeypatch, AWAY - 5 * SECOND)
            await eventually(lambda: len(toy.heard) == 2)
            asked = asyncio.create_task(host.ask(Wake(HOUR)))
            await eventually(lambda: len(host._timers) == 1)
            host._inbox.put(Received(sender, Say("a long one", False)))
            host.transport.send(sender, CODEC.encode(Say("stale", False), 0))
            suspend(monkeypatch, 2 * HOUR)
            assert isinstance(await asked, Heard)
            await eventually(lambda: host.transport.view().links == ())
            assert host.transport.view().waiting_bytes == 0
        assert [text for _, text in toy.heard] == ["before", "a short stop"]

    asyncio.run(scene())
    assert any("stood still seconds=72" in line and "messages_dropped=1" in line for line in lines)


def test_time_never_goes_back(tmp_path: Path) -> None:
    seen: list[Instant] = []

    class Watching(Toy):
        def handle(self, event: Any, now: Instant) -> Sequence[Effect]:
            seen.append(now)
            return super().handle(event, now)

    async def scene() -> None:
        async with running(tmp_path / "a", toy=Watching()) as host:
            for _ in range(20):
                await host.ask(Wake(MILLISECOND))

    asyncio.run(scene())
    assert len(seen) > 40
    assert seen == sorted(seen)


def test_every_question_is_answered(tmp_path: Path) -> None:
    impatient = replace(FAST, answer_s=0.05)

    async def scene() -> None:
        async with running(tmp_path / "a", host=impatient) as host:
            with pytest.raises(UserError, match="not answered in time"):
                await host.ask(Never())
            with pytest.raises(UserError, match="for no machine"):
                await host.ask(Heard("not a question"))
        with pytest.raises(UserError, match="stopping"):
            await host.ask(Never())
        async with running(tmp_path / "b", "p2") as host:
            asked = asyncio.create_task(host.ask(Never()))
            await asyncio.sleep(0)
            host.stop()
            with pytest.raises(UserError, match="ended"):
                await asked

    asyncio.run(scene())


def test_the_story_is_logged(tmp_path: Path) -> None:
    lines: list[str] = []

    async def scene() -> None:
        async with running(tmp_path / "a", lines=lines) as host, met(host) as raw:
            raw.send(hello())
            raw.send(b"\x00\x00\x00\x0c\x01\x00\x70\x01" + bytes(8))  # a message of nothing
            await eventually(lambda: host.peer.refused)

    asyncio.run(scene())
    assert any("refused: message with tag 0x7001" in line for line in lines)


def met(host: Host) -> AbstractAsyncContextManager[Raw]:
    return dialled(host.peer.me.address)


def test_goodbyes_are_sent_before_the_end(tmp_path: Path) -> None:
    toy, other = Toy(), Toy()

    async def scene() -> None:
        async with running(tmp_path / "b", "p2", toy=other) as b:
            toy.last = [Send(b.peer.me, Say("good-bye", False))]
            async with running(tmp_path / "a", toy=toy):
                pass
            await eventually(lambda: [text for _, text in other.heard] == ["good-bye"])

    asyncio.run(scene())
    assert toy.stopped


def test_what_the_host_cannot_live_without_ends_it(tmp_path: Path) -> None:
    async def scene() -> None:
        async with running(tmp_path / "a") as host:
            host.broke(ValueError("the sweeper fell over"))

    with pytest.raises(ValueError, match="fell over"):
        asyncio.run(scene())


def test_a_busy_peer_leaves_sockets_their_turn(tmp_path: Path) -> None:
    """A machine whose timer is always due does not starve who connects."""

    class Busy(Toy):
        def handle(self, event: Any, now: Instant) -> Sequence[Effect]:
            if isinstance(event, Started | TimerFired):
                return [SetTimer("toy/again", now)]
            return super().handle(event, now)

    async def scene() -> None:
        async with (
            running(tmp_path / "a", toy=Busy()) as a,
            running(tmp_path / "b", "p2") as b,
        ):
            assert await b.ask(Call(a.peer.me, "are you there"))

    asyncio.run(scene())


def test_requests_are_numbered_upwards(tmp_path: Path) -> None:
    requests: list[int] = []

    class Counting(Toy):
        def handle(self, event: Any, now: Instant) -> Sequence[Effect]:
            if isinstance(event, Asked):
                requests.append(event.request)
            return super().handle(event, now)

    async def scene() -> None:
        async with running(tmp_path / "a", toy=Counting()) as host:
            for _ in range(3):
                await host.ask(Wake(0))
            assert isinstance(host, Host)

    asyncio.run(scene())
    assert requests == [1, 2, 3]
