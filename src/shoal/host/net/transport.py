"""All connections of a host: one route to each peer, dialled when something is to be sent.

    send ──▶ Route(name): outbox ──▶ Link ──▶ socket          a link serves both directions,
                             │ none, or lost                  whoever dialled it
                             └─▶ dial ──fails──▶ Unreachable, back-off

A peer is told `Unreachable` when a dial has failed or a connection was given up; what waited is
dropped, because machines repeat what still matters. The next message is dialled for when the
back-off is over.

Promises   H4  what waits to be sent is bounded, for one peer and altogether (`net/outbox.py`).
           H3  a peer whose certificate is revoked is closed and not heard. Of two lives of one name
           the later one is heard, the earlier refused.
Not here   the order of effects (`loop.py`); TLS (`keys/trust.py`); strangers (`net/listener.py`).
"""

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable

from msgspec import Struct

from shoal.host.config import NetConfig
from shoal.host.inbox import Inbox
from shoal.host.keys.trust import Trust
from shoal.host.logs import Log
from shoal.host.net import hello
from shoal.host.net.gate import Gate
from shoal.host.net.hello import (
    GoodBye,
    Hello,
    Refused,
    Revocations,
    StoryAsked,
    StoryTold,
)
from shoal.host.net.link import Link, Phase
from shoal.host.net.listener import Listener
from shoal.host.net.outbox import Outbox, Total
from shoal.host.net.routes import Dialler, Route
from shoal.host.tasks import Failed, vital
from shoal.kernel.errors import RemoteError
from shoal.kernel.events import Received, Unreachable, Unreadable
from shoal.kernel.keys import Contact
from shoal.wire.codec import Codec
from shoal.wire.frames import MINOR, Frame

__all__ = ["KEYLESS", "LinkView", "NetView", "Transport"]

#: The mesh of hosts without keys; they can reach each other only on one machine.
KEYLESS = "without-keys"
#: What an event costs in memory beside its payload; a guess.
_EVENT_BYTES = 300
#: A connection that is being closed is given up after this.
_CLOSING_S = 2.0


class LinkView(Struct, frozen=True):
    """One connection, for people."""

    name: str
    address: str
    incarnation: int
    dialled: bool
    waiting_bytes: int
    age_s: float


class NetView(Struct, frozen=True):
    """All connections, for people and tests."""

    links: tuple[LinkView, ...]
    routes: int
    strangers: int
    waiting_bytes: int
    dropped: int
    counts: dict[str, int]


class Transport:
    """Sends frames to contacts, and puts what others send into the inbox."""

    def __init__(
        self,
        *,
        config: NetConfig,
        codec: Codec,
        inbox: Inbox,
        trust: Trust | None,
        log: Log,
        release: str,
    ) -> None:
        self.config = config
        self.me = Contact("", "", 0)
        self._codec = codec
        self._inbox = inbox
        self._trust = trust
        self._log = log
        self._release = release
        self._loop = asyncio.get_running_loop()
        self._gate = Gate(config, self._loop.time())
        self._listener = Listener(self, self._gate, trust.listening if trust else None)
        self._dialler = Dialler(self, self._dial_failed)
        self._total = Total(bytes_max=config.waiting_bytes_all_max)
        self._routes: dict[str, Route] = {}
        self._links: dict[Link, None] = {}
        #: The highest incarnation heard of each name, the one heard longest ago first.
        self._lives: dict[str, int] = {}
        self._sweeper: asyncio.Task[None] | None = None
        self.counts: Counter[str] = Counter()
        #: A list of revocations came that is newer than ours; whoever stores it calls `learned`.
        self.on_revocations: Callable[[bytes], None] = lambda data: None
        #: Another host asks for this peer's story, or tells its own.
        self.on_story: Callable[[Contact, StoryAsked | StoryTold], None] = lambda who, what: None
        inbox.on_room = self._room

    async def listen(self, host: str, port: int) -> str:
        """Open the listening socket; return its address. Who connects waits until `begin`."""
        return await self._listener.start(host, port)

    def begin(self, me: Contact, failed: Failed) -> None:
        """Greet whoever connects, as this contact."""
        self.me = me
        self._lives[me.name] = me.incarnation
        self._listener.begin(failed)
        self._sweeper = vital(self._sweep_for_ever(), "sweeper", failed)

    def send(self, to: Contact, frame: bytes) -> None:
        """Give a frame to a peer, at most once, without a promise."""
        route = self._route(to)
        if route is None:
            self.counts["no route"] += 1
            return
        route.used_at = self._loop.time()
        if to.incarnation > route.contact.incarnation:
            self._later_life(route, to)
        route.outbox.put(frame)
        if route.link is not None:
            route.link.pump_soon()
        else:
            self._dialler.want(route)

    async def stop(self, drain_s: float) -> None:
        """Send what waits, for so long at most; say good-bye; close everything."""
        await self._listener.stop()
        deadline = self._loop.time() + drain_s
        while self._loop.time() < deadline and self._unsent():
            await asyncio.sleep(0.01)
        await self._dialler.stop()
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)
        farewell = hello.CODEC.encode(GoodBye(ending=True), 0)
        for link in tuple(self._links):
            link.close("this host ends", last=farewell)
        deadline = max(deadline, self._loop.time() + 0.5)
        while self._links and self._loop.time() < deadline:
            await asyncio.sleep(0.01)
        for link in tuple(self._links):
            link.abort("this host ends")
        while self._links:  # asyncio says that they are lost in its next turn
            await asyncio.sleep(0.001)

    def cut(self, why: str) -> None:
        """End every connection and drop what waits, in both directions; the next are new."""
        for link in tuple(self._links):
            link.abort(why)
        for route in self._routes.values():
            route.outbox.drop()

    def learned(self) -> None:
        """The list of revocations is a newer one: close who is on it, tell all others."""
        if self._trust is None:
            return
        frame = hello.CODEC.encode(Revocations(self._trust.revocations), 0)
        for link in tuple(self._links):
            if link.serial is not None and self._trust.is_revoked(link.serial):
                name = link.contact.name if link.contact else ""
                link.refuse(RemoteError(f"certificate of peer {name!r} was revoked"))
            else:
                link.say(frame)

    def renewed(self) -> None:
        """The key of this host was renewed: new connections use it."""
        self._listener.context = self._trust.listening if self._trust else None

    def ban(self, name: str) -> None:
        """Keep a peer out for a while that lost its standing."""
        self._gate.ban(name, self._loop.time())
        route = self._routes.get(name)
        for link in tuple(route.links) if route is not None else ():
            link.refuse(RemoteError("too many messages of this peer were wrong"))

    def view(self) -> NetView:
        """What is connected, and what was refused."""
        now = self._loop.time()
        links = [
            LinkView(
                name=link.contact.name,
                address=link.contact.address,
                incarnation=link.contact.incarnation,
                dialled=link.dialled is not None,
                waiting_bytes=link.waiting,
                age_s=round(now - link.made_at, 3),
            )
            for link in self._links
            if link.contact is not None
        ]
        return NetView(
            links=tuple(sorted(links, key=lambda one: one.name)),
            routes=len(self._routes),
            strangers=self._gate.strangers,
            waiting_bytes=self._total.bytes,
            dropped=self._total.dropped,
            counts={**self.counts, **self._gate.refused},
        )

    # --- what links ask and tell ----------------------------------------------------------------

    def dialling_context(self) -> ssl.SSLContext | None:
        """TLS for connections that we make."""
        return self._trust.dialling if self._trust is not None else None

    def made(self, link: Link) -> bytes:
        """A connection is there: our hello."""
        self._links[link] = None
        mesh, number = KEYLESS, 0
        if self._trust is not None:
            mesh, number = self._trust.mesh, self._trust.number
            if link.certificate is None:
                raise RemoteError("connection has no certificate")
            link.serial = self._trust.identify(link.certificate).serial
        return hello.CODEC.encode(Hello(mesh, self.me, self._release, number), 0)

    def greeted(self, link: Link, frame: Frame) -> None:
        """The other side's hello: open the link, or say why not."""
        said = hello.CODEC.decode(frame)
        if isinstance(said, Refused):
            self._refused(link, said)
            return
        if not isinstance(said, Hello):
            raise RemoteError(f"first frame is {type(said).__name__}, not a hello")
        certified, mesh = None, KEYLESS
        if self._trust is not None and link.certificate is not None:
            certified, mesh = self._trust.identify(link.certificate).name, self._trust.mesh
        contact = hello.check(said, mesh=mesh, certified=certified)
        self._check_life(link, contact)
        route = self._route_for(link, contact)
        for other in tuple(route.links):
            same_way = (other.dialled is None) == (link.dialled is None)
            if same_way or (other.contact and other.contact.incarnation < contact.incarnation):
                other.close("there is a newer connection")
        link.open(contact, route.outbox)
        route.join(link, self.me.name)
        self._make_room()
        self.counts["opened"] += 1
        self._log.debug("opened", peer=contact.name, address=contact.address)
        if self._trust is not None and said.revocations < self._trust.number:
            link.say(hello.CODEC.encode(Revocations(self._trust.revocations), 0))

    def received(self, link: Link, frame: Frame) -> None:
        """A frame of a peer that said hello."""
        contact = link.contact
        assert contact is not None
        ours = frame.tag >> 8 == hello.TAGS
        codec = hello.CODEC if ours else self._codec
        if frame.minor > MINOR and not codec.knows(frame.tag):
            self.counts["of a newer release"] += 1
            return
        try:
            if ours:
                self._host_frame(link, frame)
                return
            message = codec.decode(frame)
        except RemoteError as error:
            self._misread(link, contact, error)
            return
        event = Received(contact, message, frame.cause)
        self._inbox.put(event, len(frame.payload) + _EVENT_BYTES)

    def turned_away(self, host: str, why: str) -> None:
        """A stranger was not let in."""
        self._log.warn("stranger turned away", host=host, why=why)

    def flooded(self, link: Link) -> None:
        """Too much for too long: closed, and kept out for a while."""
        if link.contact is not None:
            self._gate.ban(link.contact.name, self._loop.time())
            self._log.warn("flood", peer=link.contact.name, host=link.host)
        self.counts["floods"] += 1
        link.refuse(RemoteError("peer sends more than it may"))

    def gone(self, link: Link) -> None:
        """A connection is no more; what still waits needs another."""
        self._links.pop(link, None)
        if link.contact is None:
            return
        self._log.debug("closed", peer=link.contact.name, why=link.why)
        route = self._routes.get(link.contact.name)
        if route is None:
            return
        route.part(link, self.me.name)
        if route.link is None and len(route.outbox):
            self._dialler.want(route)

    def crowded(self) -> bool:
        """Whether the inbox is full."""
        return self._inbox.full

    # --- greeting -------------------------------------------------------------------------------

    def _check_life(self, link: Link, contact: Contact) -> None:
        """Only the latest life of a name is heard, and never this peer itself."""
        if contact == self.me or (contact.name == self.me.name and self._is_me(contact)):
            raise RemoteError("peer is this peer itself", detail=contact.address)
        latest = self._lives.get(contact.name, 0)
        if contact.name == self.me.name:
            self._log.error("another host has this name", host=link.host)
        if contact.incarnation < latest:
            raise RemoteError(
                f"peer {contact.name!r} is not the latest of its name",
                detail=f"incarnation {contact.incarnation}, heard of {latest}",
                hint="two hosts have one name, or a home was restored from a copy",
            )
        if link.dialled is not None and link.dialled.name not in ("", contact.name):
            raise RemoteError(f"peer at {link.dialled.address} is not {link.dialled.name!r}")
        if self._gate.is_banned(contact.name, self._loop.time()):
            raise RemoteError(f"peer {contact.name!r} is kept out for a while")
        if contact.name != self.me.name:
            self._lives.pop(contact.name, None)
            self._lives[contact.name] = contact.incarnation
            if len(self._lives) > self.config.names_max:
                del self._lives[next(name for name in self._lives if name != self.me.name)]

    def _is_me(self, contact: Contact) -> bool:
        return contact.incarnation == self.me.incarnation

    def _route_for(self, link: Link, contact: Contact) -> Route:
        """The route that a link belongs to; takes over what waited for its mere address."""
        route = self._routes.get(contact.name)
        if route is None:
            route = self._routes[contact.name] = self._new_route(contact)
        route.contact = contact
        if link.dialled is not None and not link.dialled.name:
            nameless = self._routes.pop(link.dialled.address, None)
            while nameless is not None and len(nameless.outbox):
                route.outbox.put(nameless.outbox.take(1))
        return route

    def _refused(self, link: Link, said: Refused) -> None:
        """The other side says why it closes."""
        whom = link.contact or link.dialled
        name = whom.name or whom.address if whom is not None else link.host
        self._log.warn("refused by peer", peer=name, why=said.reason)
        self.counts["refused by others"] += 1
        link.close(f"refused: {said.reason}")

    # --- frames ---------------------------------------------------------------------------------

    def _host_frame(self, link: Link, frame: Frame) -> None:
        match hello.CODEC.decode(frame):
            case GoodBye():
                link.close("the peer said good-bye")
            case Refused() as said:
                self._refused(link, said)
            case Revocations(list=data) if self._trust is not None:
                if self._trust.newer(data):
                    self.on_revocations(data)
            case StoryAsked() | StoryTold() as said if link.contact is not None:
                self.on_story(link.contact, said)
            case Hello():
                raise RemoteError("peer says hello twice")

    def _misread(self, link: Link, contact: Contact, error: RemoteError) -> None:
        """A frame that is wrong, whoever sent it."""
        self.counts["unreadable"] += 1
        self._inbox.put(Unreadable(contact, error.what), _EVENT_BYTES)
        link.faults += 1
        if link.faults >= self.config.faults_max:
            self._gate.ban(contact.name, self._loop.time())
            link.refuse(error)

    # --- routes ---------------------------------------------------------------------------------

    def _route(self, to: Contact) -> Route | None:
        """The route to a contact, made if there is none; None if there are too many."""
        route = self._routes.get(to.name or to.address)
        if not to.name:
            route = self._linked_at(to.address) or route
        if route is None and len(self._routes) < self.config.routes_max:
            route = self._routes[to.name or to.address] = self._new_route(to)
        return route

    def _linked_at(self, place: str) -> Route | None:
        """Who is connected and says that it is there; whoever was there before may have gone."""
        for route in self._routes.values():
            if route.link is not None and route.contact.address == place:
                return route
        return None

    def _new_route(self, contact: Contact) -> Route:
        outbox = Outbox(
            frames_max=self.config.waiting_messages_max,
            bytes_max=self.config.waiting_bytes_max,
            total=self._total,
        )
        return Route(contact, outbox, self._loop.time())

    def _later_life(self, route: Route, to: Contact) -> None:
        """The peer has started again: what goes to its earlier life goes nowhere."""
        if not to.name:
            return
        route.contact = to
        route.not_before = 0.0
        for link in tuple(route.links):
            link.close("the peer has started again")
            route.part(link, self.me.name)

    def _dial_failed(self, route: Route, why: str) -> None:
        self.counts["dials failed"] += 1
        self._log.debug("cannot reach", peer=route.contact.name, why=why)
        if route.link is None:
            self._give_up(route)

    def _give_up(self, route: Route) -> None:
        """What waited is dropped; the machines are told once."""
        route.outbox.drop()
        self._inbox.put(Unreachable(route.contact))

    def _make_room(self) -> None:
        """Above the limit, the connection that was used longest ago is closed."""
        while sum(link.phase is Phase.OPEN for link in self._links) > self.config.links_max:
            oldest = min(
                (link for link in self._links if link.phase is Phase.OPEN),
                key=lambda link: link.used_at,
            )
            self._part_from(oldest, "there are too many connections")

    def _part_from(self, link: Link, why: str) -> None:
        link.close(why, last=hello.CODEC.encode(GoodBye(), 0))
        route = self._routes.get(link.contact.name) if link.contact else None
        if route is not None:
            route.part(link, self.me.name)

    def _unsent(self) -> bool:
        """Whether something waits that may still be sent."""
        return any(link.waiting for link in self._links) or any(
            route.dialling is not None for route in self._routes.values()
        )

    # --- once in a while ------------------------------------------------------------------------

    async def _sweep_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self.config.sweep_s)
            now = self._loop.time()
            for link in tuple(self._links):
                self._sweep_link(link, now)
            for name, route in tuple(self._routes.items()):
                self._sweep_route(name, route, now)

    def _sweep_link(self, link: Link, now: float) -> None:
        if link.phase is Phase.CLOSING and now - link.closing_at > _CLOSING_S:
            link.abort("it takes too long to close")
        if link.phase is not Phase.OPEN:
            return
        stalled = link.stalled(now)
        route = self._routes.get(link.contact.name) if link.contact else None
        if stalled:
            self.counts["stalled"] += 1
            self._log.warn("stalled", peer=link.contact.name if link.contact else "", why=stalled)
            link.abort(stalled)
            if route is not None:
                route.part(link, self.me.name)
                self._give_up(route)
        elif now - link.used_at > self.config.idle_s:
            self._part_from(link, "nothing was said for long")

    def _sweep_route(self, name: str, route: Route, now: float) -> None:
        if route.link is not None or route.dialling is not None:
            return
        if len(route.outbox):
            self._dialler.want(route)
        elif now - route.used_at > self.config.idle_s and not route.links:
            del self._routes[name]

    def _room(self) -> None:
        for link in tuple(self._links):
            link.room()
