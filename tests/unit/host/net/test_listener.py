"""Strangers of every kind: refused with a reason, each after a bounded cost."""

import asyncio
import gc
import socket
import struct
import time
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from shoal.host.keys import authority
from shoal.host.loop import Host
from shoal.host.net import listener as module
from shoal.host.net.address import split
from shoal.host.net.hello import CODEC, Hello, Refused
from shoal.host.net.link import Link
from shoal.kernel.errors import UserError
from shoal.wire.frames import FRAME_BYTES_MAX, frame
from tests.unit.host.net.raw import dialled, hello, outsider, trusted
from tests.unit.host.setting import FAST, Call, eventually, running

pytestmark = pytest.mark.slow

BRIEF = replace(FAST, net=replace(FAST.net, hello_s=0.3))


def counts(host: Host) -> dict[str, int]:
    return host.transport.view().counts


HEADER = struct.Struct(">IBBHQ")
GARBAGE: dict[str, bytes] = {
    "text": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "other major": HEADER.pack(12, 9, 0, 0x0F01, 0),
    "oversize": HEADER.pack(FRAME_BYTES_MAX, 1, 0, 0x0F01, 0),
    "long hello": HEADER.pack(100_000, 1, 0, 0x0F01, 0) + b"x" * 5_000,
    "no hello": frame(0x7001, 0, b"\x92\xa1a\xc2"),
    "hello of nothing": frame(0x0F01, 0, b"\x90"),
    "empty hello": frame(0x0F01, 0, b""),
    "deep hello": frame(0x0F01, 0, b"\x91" * 4_000),
    "other mesh": hello(mesh="0123456789abcdef"),
    "zeroes": bytes(4_096),
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_is_refused_with_a_reason(tmp_path: Path, kind: str) -> None:
    async def scene() -> None:
        async with running(tmp_path / "a") as host, dialled(host.peer.me.address) as raw:
            raw.send(GARBAGE[kind])
            said = await raw.said()
            assert isinstance(said[0], Hello)
            assert isinstance(said[1], Refused)
            assert len(said) == 2
            await eventually(lambda: counts(host)["hello refused"] == 1)
            assert host.transport.view().links == ()

    asyncio.run(scene())


@pytest.mark.parametrize("kind", ["nothing", "half a frame", "a byte now and then"])
def test_who_is_slow_is_closed_in_time(tmp_path: Path, kind: str) -> None:
    """Also who sends a byte just often enough never to be idle."""

    async def trickle(send: Callable[[bytes], None]) -> None:
        for byte in hello():
            send(bytes([byte]))
            await asyncio.sleep(0.05)

    async def scene() -> None:
        async with AsyncExitStack() as stack:
            host = await stack.enter_async_context(running(tmp_path / "a", host=BRIEF))
            raw = await stack.enter_async_context(dialled(host.peer.me.address))
            start = time.monotonic()
            task = asyncio.create_task(
                trickle(raw.send) if kind == "a byte now and then" else asyncio.sleep(0)
            )
            if kind == "half a frame":
                raw.send(hello()[:-1])
            await raw.said()
            assert time.monotonic() - start < 10
            await eventually(lambda: counts(host)["hello too slow"] == 1)
            assert host.transport.view().strangers == 0
            task.cancel()

    asyncio.run(scene())


def test_half_open_handshakes_are_closed_in_time(tmp_path: Path) -> None:
    """Connected, and then not a byte of TLS."""
    authority.init(tmp_path / "k")
    authority.issue(tmp_path / "k", "p1")

    async def scene() -> None:
        async with running(tmp_path / "a", host=BRIEF, keys=tmp_path / "k") as host:
            async with dialled(host.peer.me.address) as raw:
                await raw.said()
            async with dialled(host.peer.me.address) as raw:
                raw.send(b"\x16\x03\x01\x02\x00")  # the first bytes of a greeting of TLS
                await raw.said()
            await eventually(lambda: host.transport.view().strangers == 0)
            found = counts(host)
            assert found.get("TLS refused", 0) + found.get("hello too slow", 0) == 2

    asyncio.run(scene())


@pytest.mark.parametrize("kind", ["no TLS", "no certificate", "foreign", "revoked", "other name"])
def test_without_a_good_certificate_nobody_is_heard(tmp_path: Path, kind: str) -> None:
    for folder in ("k", "foreign"):
        authority.init(tmp_path / folder)
        for name in ("p1", "p9"):
            authority.issue(tmp_path / folder, name)
    mesh = ""
    context = {
        "no TLS": lambda: None,
        "no certificate": outsider,
        "foreign": lambda: _careless(tmp_path / "foreign"),
        "revoked": lambda: trusted(tmp_path / "k", "p9"),
        "other name": lambda: trusted(tmp_path / "k", "p9"),
    }[kind]()
    if kind == "revoked":
        authority.revoke(tmp_path / "k", "p9")

    async def scene() -> None:
        lines: list[str] = []
        async with running(tmp_path / "a", keys=tmp_path / "k", lines=lines) as host:
            name = "p2" if kind == "other name" else "p9"
            try:
                async with dialled(host.peer.me.address, context) as raw:
                    raw.send(hello(name, mesh=host.mesh or mesh))
                    said = await raw.said()
            except OSError:
                said = []
            assert not any(isinstance(one, Hello) for one in said[1:])
            if kind == "revoked":
                assert "was revoked" in said[0].reason
            if kind == "other name":
                assert "its certificate says 'p9'" in said[1].reason
            await eventually(lambda: any("turned away" in line for line in lines))
            assert host.transport.view().links == ()
            assert counts(host).get("opened", 0) == 0

    asyncio.run(scene())


def _careless(folder: Path) -> object:
    """A certificate of another authority, shown to a host that is not checked."""
    context = outsider()
    context.load_cert_chain(folder / "peers" / "p9" / "peer.pem")
    return context


def test_a_flood_of_connections_costs_a_bounded_amount(tmp_path: Path) -> None:
    """A thousand that never say hello: few are let wait, and an honest peer gets through."""
    config = replace(
        FAST,
        net=replace(
            FAST.net,
            hello_s=0.5,
            strangers_max=8,
            strangers_per_address_max=8,
            accepts_per_s=2_000.0,
            accepts_burst=2_000.0,
        ),
    )

    async def scene() -> None:
        async with AsyncExitStack() as stack:
            a = await stack.enter_async_context(running(tmp_path / "a", host=config))
            b = await stack.enter_async_context(running(tmp_path / "b", "p2", host=config))
            seen = 0
            sockets = []
            for _ in range(1_000):
                raw = socket.socket()
                raw.setblocking(False)
                raw.connect_ex(split(a.peer.me.address))
                sockets.append(raw)
                if len(sockets) > 100:
                    sockets.pop(0).close()
                await asyncio.sleep(0)
                seen = max(seen, a.transport.view().strangers)
            assert seen == 8
            for raw in sockets:
                raw.close()
            await eventually(lambda: a.transport.view().strangers == 0)
            assert counts(a)["too many strangers"] > 100
            assert await b.ask(Call(a.peer.me, "still here"))

    asyncio.run(scene())


def test_no_descriptor_is_left_behind(tmp_path: Path, descriptors_flat: None) -> None:
    async def scene() -> None:
        async with running(tmp_path / "a", host=BRIEF) as host:
            for data in (b"", *GARBAGE.values(), hello()):
                async with dialled(host.peer.me.address) as raw:
                    raw.send(data)
                    await asyncio.sleep(0)
            async with dialled(host.peer.me.address) as raw:
                await raw.one()

    asyncio.run(scene())


@pytest.mark.parametrize("stays", [True, False])
def test_a_stranger_is_forgotten_without_the_collector(tmp_path: Path, stays: bool) -> None:
    """Each has some 300 KB of TLS, and the collector counts objects: an attack is quicker."""
    authority.init(tmp_path / "k")
    authority.issue(tmp_path / "k", "p1")
    half, flood = b"\x16\x03\x01\x02\x00", b"\x16\x03\x01\x40\x00" + bytes(1 << 20)

    async def scene() -> None:
        async with running(tmp_path / "a", host=BRIEF, keys=tmp_path / "k") as host:
            known = {id(one) for one in _connections()}
            for number, data in enumerate((b"GET / HTTP", half, flood, b"")):
                async with dialled(host.peer.me.address) as raw:
                    raw.send(data)
                    if stays:
                        await raw.said()
                await eventually(lambda number=number: sum(counts(host).values()) > number)
            await eventually(lambda: not [c for c in _connections() if id(c) not in known])

    gc.collect()
    gc.disable()
    try:
        asyncio.run(scene())
    finally:
        gc.enable()


def _connections() -> list[object]:
    """What there is of connections, whoever holds it."""
    return [one for one in gc.get_objects() if isinstance(one, Link | SSLProtocol)]


def test_when_descriptors_run_out_it_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_NO_DESCRIPTOR_S", 0.01)

    async def scene() -> None:
        accept, failures = module.accept, [24, 24, 103]

        async def sometimes(listening: socket.socket) -> object:
            found = await accept(listening)
            if failures:
                found[0].close()
                raise OSError(failures.pop(), "no more")
            return found

        monkeypatch.setattr(module, "accept", sometimes)
        async with running(tmp_path / "a") as a, running(tmp_path / "b", "p2") as b:
            for left in (2, 1, 0):
                async with dialled(a.peer.me.address):
                    await eventually(lambda left=left: len(failures) == left)
            assert await b.ask(Call(a.peer.me, "still here"))
            assert counts(a)["no descriptor left"] == 2

    asyncio.run(scene())


@pytest.mark.parametrize("turns", range(4))
def test_who_cancels_an_accept_loses_no_connection(descriptors_flat: None, turns: int) -> None:
    """It is accepted and handed over, or it still waits in the kernel."""

    async def scene() -> None:
        with socket.socket() as listening, socket.socket() as caller:
            listening.setblocking(False)
            listening.bind(("127.0.0.1", 0))
            listening.listen()
            task = asyncio.create_task(module.accept(listening))
            await asyncio.sleep(0)
            caller.connect(listening.getsockname())
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            (found,) = await asyncio.gather(task, return_exceptions=True)
            if isinstance(found, asyncio.CancelledError):
                found = await asyncio.wait_for(module.accept(listening), 20)
            found[0].close()

    asyncio.run(scene())


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    async def scene() -> None:
        async with running(tmp_path / "a") as host:
            with pytest.raises(UserError, match="cannot listen") as raised:
                async with running(tmp_path / "b", "p2", listen=host.peer.me.address):
                    pass
            assert "--listen" in raised.value.hint

    asyncio.run(scene())


def test_a_hello_is_said_once(tmp_path: Path) -> None:
    async def scene() -> None:
        async with running(tmp_path / "a") as host, dialled(host.peer.me.address) as raw:
            raw.send(hello())
            await eventually(lambda: host.transport.view().links)
            for _ in range(host.config.net.faults_max):
                raw.send(CODEC.encode(Hello("m", host.peer.me, ""), 0))
            said = await raw.said()
            assert isinstance(said[-1], Refused)

    asyncio.run(scene())
