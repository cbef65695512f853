"""A peer made of bare sockets, which says what no honest host would say."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

from msgspec import Struct

from shoal.host.keys.trust import Trust
from shoal.host.net.address import split
from shoal.host.net.hello import CODEC, Hello
from shoal.host.net.transport import KEYLESS
from shoal.kernel.keys import Contact
from shoal.wire.frames import FrameReader

__all__ = ["Raw", "dialled", "hello", "outsider", "trusted"]


class Raw:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._frames = FrameReader()
        self._waiting: list[Struct] = []

    def send(self, data: bytes) -> None:
        """Send bytes, as they are."""
        with contextlib.suppress(OSError):
            self.writer.write(data)

    async def said(self) -> list[Struct]:
        """What the host itself said until it closed."""
        found, self._waiting = self._waiting, []
        with contextlib.suppress(OSError):
            while data := await self.reader.read(65_536):
                found += [CODEC.decode(frame) for frame in self._frames.feed(data)]
        return found

    async def one(self) -> Struct:
        """The next thing that the host itself says."""
        while not self._waiting:
            data = await self.reader.read(65_536)
            assert data, "closed"
            self._waiting += [CODEC.decode(frame) for frame in self._frames.feed(data)]
        return self._waiting.pop(0)

    async def close(self) -> None:
        """Close it."""
        self.writer.transport.abort()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


@contextlib.asynccontextmanager
async def dialled(address: str, context: ssl.SSLContext | None = None) -> AsyncIterator[Raw]:
    """A connection to a host."""
    host, port = split(address)
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    raw = Raw(reader, writer)
    try:
        yield raw
    finally:
        await raw.close()


def hello(name: str = "p9", *, incarnation: int = 1, mesh: str = KEYLESS) -> bytes:
    """A hello as it should be."""
    contact = Contact(name, "127.0.0.1:9", incarnation)
    return CODEC.encode(Hello(mesh, contact, "0.1.0"), 0)


def trusted(folder: Path, name: str) -> ssl.SSLContext:
    """TLS as this peer does it."""
    return Trust(folder, name).dialling


def outsider() -> ssl.SSLContext:
    """TLS without a certificate, which believes everybody."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
