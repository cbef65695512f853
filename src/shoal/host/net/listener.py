"""Where others connect to: accepts, as fast as it may, and lets in whom the gate admits.

    socket ──accept──▶ gate ──▶ TLS ──▶ hello ──▶ transport
                        │        │        │
                        └────────┴────────┴──▶ closed; each has cost a bounded amount

Sockets are accepted by hand and not by asyncio's server, because that begins TLS before anybody
can say no.
"""

import asyncio
import contextlib
import errno
import socket
import ssl
from typing import Any

from shoal.host.net import address
from shoal.host.net.gate import Gate
from shoal.host.net.link import Link, Owner
from shoal.host.tasks import Failed, vital
from shoal.kernel.errors import UserError

__all__ = ["Listener", "accept", "tune"]

#: How long to wait when the process has no descriptor left for one more connection.
_NO_DESCRIPTOR_S = 0.5
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Listener:
    """A listening socket and the strangers that came through it."""

    def __init__(self, owner: Owner, gate: Gate, context: ssl.SSLContext | None) -> None:
        self._owner = owner
        self._gate = gate
        self.context = context
        self._socket: socket.socket | None = None
        self._task: asyncio.Task[None] | None = None
        self._strangers: dict[asyncio.Task[None], None] = {}

    async def start(self, host: str, port: int) -> str:
        """Listen, without accepting yet; return the address with the port that it became."""
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            family, kind, protocol, _, place = found[0]
            self._socket = socket.socket(family, kind, protocol)
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind(place)
            self._socket.listen(self._owner.config.backlog)
        except OSError as error:
            await self.stop()
            raise UserError(
                f"cannot listen at {address.join(host, port)}",
                detail=(error.strerror or str(error)).lower(),
                hint="choose another port with --listen, or port 0 for any that is free",
            ) from error
        place = self._socket.getsockname()
        return address.join(str(place[0]), int(place[1]))

    def begin(self, failed: Failed) -> None:
        """Accept who has connected, and who will."""
        if self._socket is not None:
            self._task = vital(self._accept_all(self._socket), "listener", failed)

    async def stop(self) -> None:
        """Listen no more, and let go of every stranger."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._socket is not None:
            self._socket.close()
        await asyncio.sleep(0)  # so that every stranger's task has begun, and owns its socket
        for task in self._strangers:
            task.cancel()
        await asyncio.gather(*self._strangers, return_exceptions=True)

    async def _accept_all(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            wait = self._gate.wait_before_accept(loop.time())
            if wait > 0:
                await asyncio.sleep(wait)
            try:
                connection, place = await accept(listening)
            except OSError as error:
                if error.errno in _NO_DESCRIPTOR:
                    self._gate.refused["no descriptor left"] += 1
                    await asyncio.sleep(_NO_DESCRIPTOR_S)
                continue
            host = str(place[0])
            if not self._gate.admit(host):
                _reset(connection)
                self._owner.turned_away(host, "too many connections wait for their hello")
                continue
            task = asyncio.create_task(self._greet(connection, host), name=f"stranger {host}")
            self._strangers[task] = None
            task.add_done_callback(self._strangers.pop)

    async def _greet(self, connection: socket.socket, host: str) -> None:
        """One stranger, until it has said hello, or has not."""
        loop = asyncio.get_running_loop()
        limit = self._owner.config.hello_s
        link = Link(self._owner, dialled=None, host=host, now=loop.time())
        try:
            tune(connection, self._owner.config.stall_s)
            async with asyncio.timeout(limit):
                await loop.connect_accepted_socket(
                    lambda: link,
                    connection,
                    ssl=self.context,
                    ssl_handshake_timeout=limit if self.context else None,
                    ssl_shutdown_timeout=1.0 if self.context else None,
                )
                why = await asyncio.shield(link.settled)
            if why:
                self._turn_away(host, "hello refused", why)
        except TimeoutError as error:
            self._turn_away(host, "hello too slow", "no hello in time")
            link.abort("no hello in time")
            _forget(error)
        except OSError as error:
            self._turn_away(host, "TLS refused", str(error))
            link.abort("TLS failed")
            _forget(error)
        except asyncio.CancelledError:
            link.abort("the host ends")
            raise
        finally:
            self._gate.leave(host)

    def _turn_away(self, host: str, reason: str, why: str) -> None:
        self._gate.refused[reason] += 1
        self._owner.turned_away(host, why)


def _forget(error: BaseException) -> None:
    """Let go of the frames that an error came through; asyncio's hold the error, and 300 KB of TLS.

    Left to the garbage collector, which counts objects and not bytes, a hundred of them pile up.
    """
    found: BaseException | None = error
    while found is not None:
        found.__traceback__ = None
        found = found.__cause__ or found.__context__


async def accept(listening: socket.socket) -> tuple[socket.socket, Any]:
    """Who connects next, and from where.

    Accepted in the very step in which it is returned: whoever cancels this loses no connection. In
    asyncio's own `sock_accept` that can happen between the two.
    """
    loop = asyncio.get_running_loop()
    while True:
        with contextlib.suppress(BlockingIOError, InterruptedError):
            connection, place = listening.accept()
            connection.setblocking(False)
            return connection, place
        ready = asyncio.Event()
        loop.add_reader(listening, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(listening)


def tune(connection: socket.socket, stall_s: float) -> None:
    """Send small messages at once, and notice a machine that is gone."""
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            limit = int(stall_s * 1_000)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limit)


def _reset(connection: socket.socket) -> None:
    """Close without waiting for anything, also in the kernel."""
    with contextlib.suppress(OSError):
        linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    connection.close()
