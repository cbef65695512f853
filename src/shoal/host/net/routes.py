"""The way to each peer: what waits for it, the connections to it, and when to dial again.

    idle ──want──▶ dialling ──hello──▶ linked ──lost──▶ idle
                      └─ fails: what waits is dropped, Unreachable, back-off ─▲

Two peers that dial each other at once have two connections for a while. Both prefer the one that
the peer with the lesser name dialled; the other falls idle and is closed.
"""

import asyncio
import random
import ssl
from collections.abc import Callable
from typing import Protocol

from shoal.host.config import NetConfig
from shoal.host.net import address
from shoal.host.net.link import Link, Owner, Phase
from shoal.host.net.listener import tune
from shoal.host.net.outbox import Outbox
from shoal.kernel.errors import UserError
from shoal.kernel.keys import Contact

__all__ = ["DialOwner", "Dialler", "Route"]


class Route:
    """One peer, as far as sending to it goes."""

    def __init__(self, contact: Contact, outbox: Outbox, now: float) -> None:
        self.contact = contact
        self.outbox = outbox
        self.links: list[Link] = []
        #: The one that is used for sending.
        self.link: Link | None = None
        self.dialling: asyncio.Task[None] | None = None
        self.failures = 0
        self.not_before = 0.0
        self.used_at = now

    def join(self, link: Link, me: str) -> None:
        """A connection to this peer was opened."""
        self.links.append(link)
        self.failures = 0
        self.not_before = 0.0
        self._choose(me)

    def part(self, link: Link, me: str) -> None:
        """A connection to this peer is closed or about to be."""
        if link in self.links:
            self.links.remove(link)
        self._choose(me)

    def _choose(self, me: str) -> None:
        by_us = me < self.contact.name
        open_ones = [link for link in self.links if link.phase is Phase.OPEN]
        preferred = [link for link in open_ones if (link.dialled is not None) is by_us]
        found = preferred or open_ones
        self.link = found[-1] if found else None


class DialOwner(Owner, Protocol):
    """What dialling needs of the transport."""

    def dialling_context(self) -> ssl.SSLContext | None:
        """TLS for connections that we make; None without keys."""
        ...


class Dialler:
    """Connects, so many at once, and not again too soon."""

    def __init__(self, owner: DialOwner, failed: Callable[[Route, str], None]) -> None:
        self._owner = owner
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._slots = asyncio.Semaphore(owner.config.dials_max)
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._jitter = random.Random()
        self._stopped = False

    def want(self, route: Route) -> None:
        """Dial, unless that is going on, or failed a moment ago."""
        if route.dialling is not None or self._stopped or self._loop.time() < route.not_before:
            return
        task = asyncio.create_task(self._dial(route), name=f"dial {route.contact.name}")
        route.dialling = task
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def stop(self) -> None:
        """Dial no more."""
        self._stopped = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _dial(self, route: Route) -> None:
        config = self._owner.config
        try:
            async with self._slots:
                why = await self._connect(route.contact)
        except (OSError, UserError) as error:
            why = str(error) or type(error).__name__
        finally:
            route.dialling = None
        if why:
            route.not_before = self._loop.time() + self._pause(route.failures, config)
            route.failures += 1
            self._failed(route, why)

    async def _connect(self, contact: Contact) -> str:
        """Connect and greet; why it did not work, or an empty text."""
        config = self._owner.config
        context = self._owner.dialling_context()
        host, port = address.split(contact.address)
        link = Link(self._owner, dialled=contact, host=host, now=self._loop.time())
        try:
            async with asyncio.timeout(config.dial_s):
                transport, _ = await self._loop.create_connection(
                    lambda: link,
                    host,
                    port,
                    ssl=context,
                    server_hostname="" if context else None,
                    ssl_handshake_timeout=config.hello_s if context else None,
                    ssl_shutdown_timeout=1.0 if context else None,
                )
                socket = transport.get_extra_info("socket")
                if socket is not None:
                    tune(socket, config.stall_s)
                return await asyncio.shield(link.settled)
        except TimeoutError:
            link.abort("no hello in time")
            return "no hello in time"
        except asyncio.CancelledError:
            link.abort("the host ends")
            raise

    def _pause(self, failures: int, config: NetConfig) -> float:
        """The back-off: grows with every failure, drawn between half and whole."""
        whole = config.dial_again_min_s * config.dial_again_factor ** min(failures, 30)
        return min(whole, config.dial_again_max_s) * (0.5 + self._jitter.random() / 2)
