"""A host from its first breath to its last: what `shoal up` runs.

    home and keys ─▶ incarnation, durable ─▶ socket ─▶ peer ─▶ loop until a signal ─▶ good-byes

Promises   H5  nobody hears of an incarnation before it is durable.
           H3  without keys nothing listens where another machine could connect. Whatever was opened
           is closed, also when the start fails.
"""

import asyncio
import contextlib
import secrets
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from shoal.control.directory.messages import Publish
from shoal.host.clock import Clock
from shoal.host.config import HostConfig
from shoal.host.console.lines import Console
from shoal.host.console.questions import Questions, offer_of
from shoal.host.disk.identity import begin
from shoal.host.disk.store import Store
from shoal.host.inbox import Inbox
from shoal.host.keys.trust import Trust
from shoal.host.logs import Log
from shoal.host.loop import Host
from shoal.host.net import address
from shoal.host.net.transport import KEYLESS, Transport
from shoal.host.tasks import vital
from shoal.kernel.errors import UserError
from shoal.kernel.ids import check_name
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.peer.build import PeerConfig, build_peer
from shoal.peer.messages import MESSAGES
from shoal.peer.peer import Peer
from shoal.wire.codec import Codec

__all__ = ["RELEASE", "Settings", "serve"]

RELEASE = "0.1.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a person says about a host."""

    name: str
    home: Path
    listen: str = "127.0.0.1:0"
    #: The address that others are told; needed where the host listens at every address.
    advertise: str = ""
    join: tuple[str, ...] = ()
    keys: Path | None = None
    #: Operators that this peer can run, by the names of the ontology.
    offers: tuple[str, ...] = ()
    host: HostConfig = field(default_factory=HostConfig)
    peer: PeerConfig = field(default_factory=PeerConfig)

    def check(self) -> None:
        """Raise UserError if a person has to change something."""
        if check_name("peer", self.name) != self.name:
            raise UserError(f"peer name {self.name!r} has capital letters", hint="use small ones")
        host, _ = address.split(self.listen)
        for text in (*self.join, *([self.advertise] if self.advertise else [])):
            if address.split(text)[1] == 0:
                raise UserError(f"address {text} has no port", hint="port 0 is only for --listen")
        if self.keys is None and not address.loopback(host):
            raise UserError(
                f"host cannot listen at {self.listen} without keys",
                detail="anybody who reaches it could claim to be any peer",
                hint="give --keys DIR (`shoal keys init`, `shoal keys issue`), or listen at "
                "127.0.0.1",
            )
        if address.unspecified(host) and not self.advertise:
            raise UserError(
                f"host listens at every address ({self.listen}); others must be told one",
                hint="add --advertise HOST:PORT with an address at which they can reach it",
            )
        self.host.check()


async def serve(
    settings: Settings,
    log: Log,
    *,
    build: Callable[[Contact, PeerConfig, Rng], Peer] = build_peer,
    codec: Codec | None = None,
    ready: Callable[[Host], None] = lambda host: None,
) -> None:
    """Run a host until it is told to stop; raise what broke it."""
    settings.check()
    codec = codec or Codec(MESSAGES)
    async with contextlib.AsyncExitStack() as stack:
        store = Store(settings.home)
        stack.callback(store.close)
        if store.mended:
            log.warn("torn write cut off", bytes=store.mended)
        trust = _trust(settings, store, log)
        incarnation = begin(store, name=settings.name, mesh=trust.mesh if trust else KEYLESS)
        config = settings.host
        inbox = Inbox(events_max=config.inbox_events_max, bytes_max=config.inbox_bytes_max)
        transport = Transport(
            config=config.net, codec=codec, inbox=inbox, trust=trust, log=log, release=RELEASE
        )
        stack.push_async_callback(transport.stop, config.drain_s)
        found = await transport.listen(*address.split(settings.listen))
        me = Contact(settings.name, _advertised(settings, found), incarnation)
        seeds = tuple(seed for seed in settings.join if seed != me.address)
        peer = build(me, settings.peer.joining(*seeds), Rng(secrets.randbits(64)))
        host = Host(
            peer=peer,
            codec=codec,
            store=store,
            transport=transport,
            inbox=inbox,
            trust=trust,
            clock=Clock(),
            config=config,
            log=log,
        )
        console = Console(settings.home, Questions(host, trust).answer, config)
        await console.start()
        stack.push_async_callback(console.stop)
        stack.enter_context(_signals(host))
        asyncio.get_running_loop().set_exception_handler(
            lambda _, found: log.error("defect", what=found.get("exception", found["message"]))
        )
        log.info("up", address=me.address, incarnation=incarnation, home=str(settings.home))
        if trust is None:
            log.info("without keys: only this machine can connect")
        if settings.offers:
            offering = vital(_offer(host, settings.offers), "offers", host.broke)
            stack.callback(offering.cancel)
        ready(host)
        await host.run()
    log.info("ended")


async def _offer(host: Host, operators: tuple[str, ...]) -> None:
    """Say once what this peer can run; the directory keeps it up from then on."""
    records = tuple(offer_of(host.peer.me, operator) for operator in operators)
    try:
        await host.ask(Publish(records))
    except UserError as error:
        host.log.warn("offers are not recorded yet", why=error.what)


def _advertised(settings: Settings, found: str) -> str:
    """What others are told: as it was said, but with the port that it became."""
    return settings.advertise or found


def _trust(settings: Settings, store: Store, log: Log) -> Trust | None:
    """The keys, with the newest list of revocations that this host ever saw."""
    if settings.keys is None:
        return None
    stored = store.values.get("host/revocations")
    trust = Trust(settings.keys, settings.name, stored=stored)
    found = trust.refresh()
    if trust.complaint:
        log.warn("keys cannot be used", why=trust.complaint)
    if found is not None:
        store.write([("host/revocations", found)])
        trust.learn(found)
    days = trust.days_left()
    if days < 30:
        log.error("certificate ends soon", days=days, hint="`shoal keys issue` makes a new one")
    return trust


@contextlib.contextmanager
def _signals(host: Host) -> Iterator[None]:
    """Ctrl-C and SIGTERM stop the host; a second time they end it at once."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()

    def stop() -> None:
        if host.stopping and task is not None:
            task.cancel()
        host.stop()

    numbers = (signal.SIGINT, signal.SIGTERM)
    added = []
    for number in numbers:
        with contextlib.suppress(ValueError, RuntimeError):  # not the main thread: a test
            loop.add_signal_handler(number, stop)
            added.append(number)
    try:
        yield
    finally:
        for number in added:
            loop.remove_signal_handler(number)
