"""Connections between hosts: one way to each peer, one life of each name, bounded in everything."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shoal.host.config import HostConfig
from shoal.host.keys import authority
from shoal.host.loop import Host
from shoal.host.net.address import join
from shoal.host.net.hello import Hello, Refused
from shoal.kernel.errors import UserError
from shoal.kernel.keys import Contact
from shoal.wire.frames import frame
from tests.unit.host.net.raw import dialled, hello
from tests.unit.host.setting import CODEC, FAST, Call, Say, Toy, eventually, running

pytestmark = pytest.mark.slow


def config(**changes: Any) -> HostConfig:
    return replace(FAST, net=replace(FAST.net, **changes))


def counts(host: Host) -> dict[str, int]:
    return host.transport.view().counts


def names(host: Host) -> list[str]:
    return [link.name for link in host.transport.view().links]


def nowhere() -> str:
    """An address at which nobody listens: port 1 of a host that has none there."""
    return "127.0.0.1:1"


@asynccontextmanager
async def many(tmp_path: Path, *peers: str, **settings: Any) -> AsyncIterator[list[Host]]:
    """Hosts by name, each with a home."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(running(tmp_path / peer, peer, **settings))
            for peer in peers
        ]


@pytest.mark.parametrize("secure", [False, True])
def test_one_connection_serves_both_ways(tmp_path: Path, secure: bool) -> None:
    keys = None
    if secure:
        keys = tmp_path / "k"
        authority.init(keys)
        for name in ("p1", "p2"):
            authority.issue(keys, name)

    async def scene() -> None:
        async with many(tmp_path, "p1", "p2", keys=keys) as (a, b):
            for number in range(20):
                await a.ask(Call(b.peer.me, f"a{number}"))
                await b.ask(Call(a.peer.me, f"b{number}"))
            assert (names(a), names(b)) == (["p2"], ["p1"])
            assert counts(a)["opened"] == counts(b)["opened"] == 1

    asyncio.run(scene())


def test_whoever_is_at_an_address(tmp_path: Path) -> None:
    """A contact without a name: what waited for the address goes to whoever answers there."""

    async def scene() -> None:
        async with many(tmp_path, "p1", "p2") as (a, b):
            seed = Contact("", b.peer.me.address, 0)
            await asyncio.gather(*(a.ask(Call(seed, f"hi {number}")) for number in range(5)))
            await a.ask(Call(b.peer.me, "by name"))
            await a.ask(Call(seed, "again"))
            assert counts(a)["opened"] == 1
            assert a.transport.view().routes == 1

    asyncio.run(scene())


def test_two_that_dial_each_other_at_once(tmp_path: Path) -> None:
    async def scene() -> None:
        async with many(tmp_path, "p1", "p2", host=config(idle_s=1.0)) as (a, b):
            calls = [a.ask(Call(b.peer.me, "a")), b.ask(Call(a.peer.me, "b"))]
            await asyncio.gather(*calls)

            async def busy() -> None:
                for number in range(10_000):
                    await a.ask(Call(b.peer.me, f"more {number}"))
                    await asyncio.sleep(0.05)

            task = asyncio.create_task(busy())
            await eventually(lambda: len(names(a)) == len(names(b)) == 1, "one falls idle")
            task.cancel()

    asyncio.run(scene())


def test_nobody_there(tmp_path: Path) -> None:
    """Told once for each dial; what waited is dropped; the next is dialled after the back-off."""
    toy = Toy()

    async def scene() -> None:
        async with running(tmp_path / "a", toy=toy) as host:
            gone = Contact("p2", nowhere(), 7)
            with pytest.raises(UserError, match="cannot reach p2"):
                await host.ask(Call(gone, "a"))
            assert toy.unreachable == [gone]
            for number in range(3):  # in the back-off, and dialled together after it
                host.transport.send(gone, CODEC.encode(Say(f"{number}", False), 0))
            await eventually(lambda: len(toy.unreachable) == 2)
            assert host.transport.view().waiting_bytes == 0
            assert counts(host)["dials failed"] == 2

    asyncio.run(scene())


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:0", "no.such.host.invalid:1"])
def test_an_address_that_is_none(tmp_path: Path, address: str) -> None:
    async def scene() -> None:
        async with running(tmp_path / "a") as host:
            with pytest.raises(UserError, match="cannot reach"):
                await host.ask(Call(Contact("p2", address, 1), "a"))

    asyncio.run(scene())


def test_another_peer_at_its_address(tmp_path: Path) -> None:
    toy = Toy()

    async def scene() -> None:
        async with running(tmp_path / "a", toy=toy) as a, running(tmp_path / "b", "p2") as b:
            mistaken = Contact("p3", b.peer.me.address, 1)
            with pytest.raises(UserError, match="cannot reach p3"):
                await a.ask(Call(mistaken, "a"))
            await a.ask(Call(b.peer.me, "b"))

    asyncio.run(scene())


def test_oneself_is_no_peer(tmp_path: Path) -> None:
    async def scene() -> None:
        async with running(tmp_path / "a") as host:
            for contact in (host.peer.me, Contact("", host.peer.me.address, 0)):
                with pytest.raises(UserError, match="cannot reach"):
                    await host.ask(Call(contact, "a"))
            await eventually(lambda: names(host) == [])

    asyncio.run(scene())


def test_a_later_life_replaces_the_earlier(tmp_path: Path) -> None:
    async def scene() -> None:
        async with running(tmp_path / "a") as host, AsyncExitStack() as stack:
            raws = []
            for incarnation in (5, 6):
                raw = await stack.enter_async_context(dialled(host.peer.me.address))
                raw.send(hello(incarnation=incarnation))
                await eventually(lambda n=incarnation: lives(host) == [n])
                raws.append(raw)
            await raws[0].said()
            async with dialled(host.peer.me.address) as raw:
                raw.send(hello(incarnation=5))
                said = await raw.said()
                assert isinstance(said[-1], Refused)
                assert "not the latest of its name" in said[-1].reason
            assert lives(host) == [6]
            host.transport.send(
                Contact("p9", nowhere(), 7), CODEC.encode(Say("to a later life", False), 0)
            )
            await raws[1].said()  # it is not told what was meant for a later life

    asyncio.run(scene())


def lives(host: Host) -> list[int]:
    return [link.incarnation for link in host.transport.view().links]


def test_the_same_peer_connects_again(tmp_path: Path) -> None:
    """Its machine was gone for a moment and it does not know of the old connection."""

    async def scene() -> None:
        async with running(tmp_path / "a") as host, AsyncExitStack() as stack:
            for _ in range(3):
                raw = await stack.enter_async_context(dialled(host.peer.me.address))
                raw.send(hello())
                assert isinstance(await raw.one(), Hello)
            await eventually(lambda: counts(host)["opened"] == 3 and lives(host) == [1])

    asyncio.run(scene())


@asynccontextmanager
async def deaf(name: str = "p9") -> AsyncIterator[str]:
    """A peer that says hello, and then reads nothing any more; its address."""
    writers: list[asyncio.StreamWriter] = []

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(hello(name))
        writer.transport.pause_reading()
        writers.append(writer)

    server = await asyncio.start_server(client, "127.0.0.1", 0)
    place = server.sockets[0].getsockname()
    try:
        yield join(place[0], place[1])
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        await server.wait_closed()


def test_who_takes_nothing_costs_a_bounded_amount(tmp_path: Path) -> None:
    """What waits is bounded, the oldest dropped; in the end the connection is given up."""
    toy = Toy()
    limits = config(
        waiting_messages_max=50, waiting_bytes_max=1 << 20, socket_bytes_max=10_000, stall_s=1.0
    )

    async def scene() -> None:
        async with deaf() as place, running(tmp_path / "a", toy=toy, host=limits) as host:
            contact = Contact("p9", place, 1)
            data = CODEC.encode(Say("x" * 100_000, False), 0)
            host.transport.send(contact, data)
            await eventually(lambda: names(host))
            for _ in range(300):
                host.transport.send(contact, data)
                assert host.transport.view().waiting_bytes <= 1 << 20
                await asyncio.sleep(0)
            assert host.transport.view().dropped > 100
            await eventually(lambda: [one.name for one in toy.unreachable] == ["p9"])
            assert counts(host)["stalled"] == 1
            assert names(host) == []

    asyncio.run(scene())


def test_a_frame_that_never_ends(tmp_path: Path) -> None:
    async def scene() -> None:
        limits = config(stall_s=0.3)
        async with running(tmp_path / "a", host=limits) as host:
            async with dialled(host.peer.me.address) as raw:
                raw.send(hello())
                raw.send(CODEC.encode(Say("a", False), 0)[:-1])
                await raw.said()
            await eventually(lambda: counts(host).get("stalled") == 1)

    asyncio.run(scene())


def test_a_flood_is_held_back_and_then_closed(tmp_path: Path) -> None:
    """Frames are read as fast as they may come; who goes on for long is kept out for a while."""
    toy = Toy()
    limits = config(frames_per_s=100.0, frames_burst=50.0, flood_s=0.5, flood_ban_s=0.6)

    async def scene() -> None:
        async with running(tmp_path / "a", toy=toy, host=limits) as host:
            address = host.peer.me.address
            loop = asyncio.get_running_loop()
            start = loop.time()
            async with dialled(address) as raw:
                raw.send(hello())
                data = CODEC.encode(Say("x", False), 0)
                while "floods" not in counts(host):
                    raw.send(data * 20)
                    await asyncio.sleep(0.01)
                said = await raw.said()
            assert isinstance(said[-1], Refused)
            assert "more than it may" in said[-1].reason
            # One feed of 64 KiB may be read beyond what the bucket held.
            assert len(toy.heard) <= 50 + 100 * (loop.time() - start) + 65_536 / len(data)
            async with dialled(address) as raw:
                raw.send(hello())
                assert "kept out" in (await raw.said())[-1].reason
            await asyncio.sleep(0.6)
            async with dialled(address) as raw:
                raw.send(hello())
                await eventually(lambda: names(host) == ["p9"])

    asyncio.run(scene())


def test_a_full_inbox_holds_everybody_back(tmp_path: Path) -> None:
    """Nothing is lost: what is not read yet waits at its sender."""
    toy = Toy()
    limits = replace(FAST, inbox_events_max=10)

    async def scene() -> None:
        async with running(tmp_path / "a", toy=toy, host=limits) as host:
            async with dialled(host.peer.me.address) as raw:
                raw.send(hello())
                for number in range(1_000):
                    raw.send(CODEC.encode(Say(f"{number}", False), 0))
                await eventually(lambda: len(toy.heard) == 1_000)
            assert [text for _, text in toy.heard] == [f"{number}" for number in range(1_000)]

    asyncio.run(scene())


@pytest.mark.parametrize("minor", [0, 255])
@pytest.mark.parametrize("tag", [0x7001, 0x0F04], ids=["a machine's", "the host's"])
def test_what_cannot_be_read_costs_standing(tmp_path: Path, tag: int, minor: int) -> None:
    """Also under a version that this release does not know: known messages stay readable."""

    async def scene() -> None:
        async with running(tmp_path / "a") as host, dialled(host.peer.me.address) as raw:
            raw.send(hello())
            wrong = bytearray(frame(tag, 0, b"\x92\x01\x02"))
            wrong[5] = minor
            for _ in range(host.config.net.faults_max):
                raw.send(bytes(wrong))
            said = await raw.said()
            assert isinstance(said[-1], Refused)
            await eventually(lambda: host.peer.refused >= 9)
            assert host.peer.own_view(host.clock.now()).out_of_favour == ("p9",)
            async with dialled(host.peer.me.address) as again:
                again.send(hello())
                assert "kept out" in (await again.said())[-1].reason

    asyncio.run(scene())


def test_what_only_a_newer_release_knows_costs_nothing(tmp_path: Path) -> None:
    """Messages with new tags are passed over, new fields of known ones are left out."""
    toy = Toy()

    async def scene() -> None:
        async with running(tmp_path / "a", toy=toy) as host:
            async with dialled(host.peer.me.address) as raw:
                raw.send(hello())
                news = [
                    bytearray(frame(tag, 0, payload))
                    for tag, payload in (
                        (0x7009, b"\x90"),
                        (0x0FFE, b"\x90"),
                        (0x7001, b"\x93\xa5known\xc2\xa3new"),
                    )
                ]
                for one in news:
                    one[5] = 1  # the minor version
                for _ in range(50):
                    for one in news:
                        raw.send(bytes(one))
                await eventually(lambda: len(toy.heard) == 50)
            assert counts(host)["of a newer release"] == 100
            assert host.peer.refused == 0

    asyncio.run(scene())


def test_idle_connections_are_closed_and_made_again(tmp_path: Path) -> None:
    async def scene() -> None:
        async with many(tmp_path, "p1", "p2", host=config(idle_s=0.3)) as (a, b):
            await a.ask(Call(b.peer.me, "a"))
            await eventually(lambda: names(a) == names(b) == [])
            await eventually(lambda: a.transport.view().routes == 0, "forgotten, too")
            await a.ask(Call(b.peer.me, "b"))
            assert counts(a)["opened"] == 2

    asyncio.run(scene())


def test_above_the_limit_the_one_used_longest_ago_goes(tmp_path: Path) -> None:
    peers = ["p1", "p2", "p3", "p4"]

    async def scene() -> None:
        async with many(tmp_path, *peers, host=config(links_max=2)) as (a, *others):
            for number, other in enumerate(others):
                await a.ask(Call(other.peer.me, f"{number}"))
            await eventually(lambda: names(a) == ["p3", "p4"])

    asyncio.run(scene())


def test_more_routes_than_allowed_are_not_made(tmp_path: Path) -> None:
    async def scene() -> None:
        async with running(tmp_path / "a", host=config(routes_max=3)) as host:
            for number in range(10):
                contact = Contact(f"x{number}", nowhere(), 1)
                host.transport.send(contact, CODEC.encode(Say("a", False), 0))
            assert host.transport.view().routes == 3
            assert counts(host)["no route"] == 7

    asyncio.run(scene())


def test_with_keys_and_without_do_not_meet(tmp_path: Path) -> None:
    keys = tmp_path / "k"
    authority.init(keys)
    authority.issue(keys, "p1")

    async def scene() -> None:
        async with (
            running(tmp_path / "a", "p1", keys=keys) as a,
            running(tmp_path / "b", "p2") as b,
        ):
            for one, other in ((a, b), (b, a)):
                with pytest.raises(UserError, match="cannot reach"):
                    await one.ask(Call(other.peer.me, "a"))

    asyncio.run(scene())


def test_at_the_end_what_waits_is_sent(tmp_path: Path) -> None:
    toy = Toy()

    async def scene() -> list[str]:
        lines: list[str] = []
        async with running(tmp_path / "b", "p2", toy=toy) as b:
            async with running(tmp_path / "a", lines=lines) as a:
                for number in range(500):
                    a.transport.send(b.peer.me, CODEC.encode(Say(f"{number}", False), 0))
            await eventually(lambda: len(toy.heard) == 500)
            await eventually(lambda: names(b) == [])
        return lines

    lines = asyncio.run(scene())
    assert any(re.search(r"p1 ended", line) for line in lines)


def test_the_end_does_not_wait_for_who_takes_nothing(tmp_path: Path) -> None:
    async def scene() -> float:
        loop = asyncio.get_running_loop()
        async with deaf() as place:
            async with running(tmp_path / "a") as host:
                data = CODEC.encode(Say("x" * 500_000, False), 0)
                for _ in range(20):
                    host.transport.send(Contact("p9", place, 1), data)
                await eventually(lambda: names(host))
                start = loop.time()
            return loop.time() - start

    assert asyncio.run(scene()) < 10


def test_no_task_and_no_descriptor_is_left(tmp_path: Path, descriptors_flat: None) -> None:
    async def scene() -> None:
        async with many(tmp_path, "p1", "p2", "p3") as hosts:
            for one in hosts:
                for other in hosts:
                    if one is not other:
                        await one.ask(Call(other.peer.me, f"{one.peer.me.name}"))
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(scene())
