"""One connection between two hosts, whoever dialled it.

    accepted or dialled ──▶ GREETING ──hello──▶ OPEN ──▶ CLOSING ──▶ gone
                                └─ refused, too slow ──────▲

Frames are read only as fast as the peer may send and the inbox has room, and written only as fast
as the socket takes them; what waits meanwhile waits in bounded places (`outbox.py`, `inbox.py`).

Not here   whom a connection belongs to and when it is no longer needed (`net/transport.py`).
"""

import asyncio
import ssl
from enum import StrEnum
from typing import Protocol

from shoal.host.config import NetConfig
from shoal.host.net.bucket import Bucket
from shoal.host.net.hello import refused
from shoal.host.net.outbox import Outbox
from shoal.kernel.errors import RemoteError
from shoal.kernel.keys import Contact
from shoal.wire.frames import Frame, FrameReader

__all__ = ["Link", "Owner", "Phase"]

#: Bytes written at once: a few records of TLS.
_WRITE_BYTES = 64 << 10
#: A peer that was held back longer ago than this is no longer one that floods.
_HELD_APART_S = 1.0


class Phase(StrEnum):
    """Where a connection is in its life."""

    GREETING = "greeting"
    OPEN = "open"
    CLOSING = "closing"
    GONE = "gone"


class Owner(Protocol):
    """What a connection tells, and asks, the transport that owns it."""

    config: NetConfig

    def made(self, link: "Link") -> bytes:
        """The connection is there; the hello to send."""
        ...

    def greeted(self, link: "Link", frame: Frame) -> None:
        """The first frame came: open the link or raise RemoteError."""
        ...

    def received(self, link: "Link", frame: Frame) -> None:
        """A later frame came."""
        ...

    def turned_away(self, host: str, why: str) -> None:
        """Whoever connected from there was not let in."""
        ...

    def flooded(self, link: "Link") -> None:
        """The peer has been sending more than it may for too long."""
        ...

    def gone(self, link: "Link") -> None:
        """The connection is no more."""
        ...

    def crowded(self) -> bool:
        """Whether there is no room for more events."""
        ...


class Link(asyncio.Protocol):
    """A connection, from the first byte to the last."""

    def __init__(self, owner: Owner, *, dialled: Contact | None, host: str, now: float) -> None:
        config = owner.config
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reader = FrameReader()
        self._frames = Bucket(rate=config.frames_per_s, burst=config.frames_burst, now=now)
        self._bytes = Bucket(rate=config.bytes_per_s, burst=config.bytes_burst, now=now)
        self._pumping = False
        self._crowded = False
        self._held: asyncio.TimerHandle | None = None
        self._held_since = self._held_until = 0.0
        self._blocked_since: float | None = None
        self._partial_since: float | None = None
        #: Whom we meant to reach; None where the other side dialled.
        self.dialled = dialled
        self.host = host
        self.phase = Phase.GREETING
        #: Who it is, and the serial number of its certificate, once it has said hello.
        self.contact: Contact | None = None
        self.serial: int | None = None
        self.outbox: Outbox | None = None
        self.made_at = self.used_at = self.closing_at = now
        self.faults = 0
        #: Done when the hello was accepted, or will never be; holds the reason or an empty text.
        self.settled: asyncio.Future[str] = self._loop.create_future()
        self.why = ""

    # --- what asyncio calls ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say hello at once."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=self._owner.config.socket_bytes_max)
        if self.phase is not Phase.GREETING:  # it was given up during the handshake
            transport.abort()
            return
        try:
            transport.write(self._owner.made(self))
        except RemoteError as error:
            self.refuse(error)

    def data_received(self, data: bytes) -> None:
        """Cut into frames and hand on."""
        if self.phase not in (Phase.GREETING, Phase.OPEN):
            return
        now = self.used_at = self._loop.time()
        try:
            frames = self._reader.feed(data)
            self._hand_on(frames)
        except RemoteError as error:
            self.refuse(error)
            return
        if not self._reader.waiting:
            self._partial_since = None
        elif frames or self._partial_since is None:
            self._partial_since = now
        wait = max(self._frames.take(len(frames), now), self._bytes.take(len(data), now))
        if wait > 0:
            self._hold(wait, now)
        if self._owner.crowded():
            self._crowded = True
            self._set_reading()

    def eof_received(self) -> None:
        """The other side closed; so do we."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the owner, once."""
        if self._held is not None:
            self._held.cancel()
        if exc is not None and not self.why:
            self.why = _reason(exc)
        self.phase = Phase.GONE
        self._settle(self.why or "the connection was closed")
        self._owner.gone(self)

    def pause_writing(self) -> None:
        """The socket is full."""
        self._blocked_since = self._loop.time()

    def resume_writing(self) -> None:
        """The socket has room again."""
        self._blocked_since = None
        self.pump()

    # --- what the owner calls -------------------------------------------------------------------

    @property
    def certificate(self) -> ssl.SSLObject | None:
        """The TLS side of it; None without TLS."""
        found = None if self._transport is None else self._transport.get_extra_info("ssl_object")
        return found if isinstance(found, ssl.SSLObject) else None

    @property
    def waiting(self) -> int:
        """Bytes that wait to be sent, here or in the socket's buffer."""
        buffered = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return buffered + (self.outbox.bytes if self.outbox is not None else 0)

    def open(self, contact: Contact, outbox: Outbox) -> None:
        """The hello was accepted; what waits for this peer is sent from now on."""
        self.contact = contact
        self.outbox = outbox
        self.phase = Phase.OPEN
        self._settle("")
        self.pump()

    def pump_soon(self) -> None:
        """Send what waits, together with whatever else is added in this turn of the loop."""
        if not self._pumping:
            self._pumping = True
            self._loop.call_soon(self.pump)

    def pump(self) -> None:
        """Send what waits, as far as the socket takes it."""
        self._pumping = False
        if self.phase is not Phase.OPEN or self._transport is None or self.outbox is None:
            return
        while self._blocked_since is None and len(self.outbox):
            self.used_at = self._loop.time()
            self._transport.write(self.outbox.take(_WRITE_BYTES))

    def say(self, frame: bytes) -> None:
        """Send one frame of the host's own, ahead of what waits."""
        if self._transport is not None and self.phase is Phase.OPEN:
            self._transport.write(frame)

    def room(self) -> None:
        """The inbox has room again."""
        if self._crowded:
            self._crowded = False
            self._set_reading()

    def refuse(self, error: RemoteError) -> None:
        """Say why, and close."""
        self.close(error.what, last=refused(error))

    def close(self, why: str, *, last: bytes = b"") -> None:
        """Send what is in the socket's buffer and a last frame, then close."""
        if self.phase in (Phase.CLOSING, Phase.GONE):
            return
        self.phase = Phase.CLOSING
        self.why = self.why or why
        self.closing_at = self._loop.time()
        self._settle(why)
        if self._transport is not None:
            if last:
                self._transport.write(last)
            self._transport.close()

    def abort(self, why: str) -> None:
        """Close at once; what was not sent is lost."""
        self.why = self.why or why
        if self.phase is not Phase.GONE:
            self.phase = Phase.CLOSING
        self._settle(why)
        if self._transport is not None:
            self._transport.abort()

    def stalled(self, now: float) -> str:
        """Why it should be given up, or an empty text."""
        limit = self._owner.config.stall_s
        if self._blocked_since is not None and now - self._blocked_since > limit:
            return "it takes no byte of what waits for it"
        if self._partial_since is not None and now - self._partial_since > limit:
            return "it leaves a frame unfinished"
        return ""

    # --- inside ---------------------------------------------------------------------------------

    def _hand_on(self, frames: list[Frame]) -> None:
        rest = iter(frames)
        if self.phase is Phase.GREETING:
            first = next(rest, None)
            size = self._reader.waiting if first is None else len(first.payload)
            if size > self._owner.config.hello_bytes_max:
                raise RemoteError("hello of a peer is too long", detail=f"{size} bytes")
            if first is None:
                return
            self._owner.greeted(self, first)
        for frame in rest:
            if self.phase is not Phase.OPEN:
                return
            self._owner.received(self, frame)

    def _settle(self, why: str) -> None:
        if not self.settled.done():
            self.settled.set_result(why)

    def _hold(self, wait: float, now: float) -> None:
        """Read nothing for a while: the peer sends more than it may."""
        if now - self._held_until > _HELD_APART_S:
            self._held_since = now
        self._held_until = now + wait
        if now - self._held_since > self._owner.config.flood_s:
            self._owner.flooded(self)
            return
        if self._held is None:
            self._held = self._loop.call_later(wait, self._release)
            self._set_reading()

    def _release(self) -> None:
        self._held = None
        self._set_reading()

    def _set_reading(self) -> None:
        """Read, unless something speaks against it."""
        if self._transport is None or self.phase is not Phase.OPEN:
            return
        if self._held is not None or self._crowded:
            self._partial_since = None  # the frame is unfinished because of us
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()


def _reason(error: Exception) -> str:
    """What the operating system or TLS says, in a few words."""
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or error}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__
