"""What may be asked of a running host, and what it answers: plain data for people and programs.

status   who this is, what it holds       peers     who is known, who is connected
ring     its neighbours and fingers       walk      everybody, clockwise from here
lookup   who keeps a key                  records   what the directory has under a key
trace    the newest lines of its story    offer, withdraw   an operator that it can run
tell     a note for every peer            stop     end the host
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from shoal.control.directory.messages import (
    Find,
    Found,
    OfferRecord,
    Publish,
    Withdraw,
    ident_of,
)
from shoal.control.gossip.messages import Broadcast
from shoal.control.ring.messages import Located, Lookup
from shoal.host.console.lines import Request
from shoal.host.keys.trust import Trust
from shoal.host.loop import Host
from shoal.host.net.hello import StoryAsked
from shoal.host.stories import Stories, newest
from shoal.kernel.errors import UserError
from shoal.kernel.keys import KEY_BITS, Contact, ahead, key_of_name

__all__ = ["Questions", "key_from", "offer_of", "plain"]

#: Peers that a walk around the ring may meet; each costs a look-up.
WALK_MAX = 2_000
LINES_DEFAULT = 50
#: The topic of what people tell all peers; facts of the mesh's own have others.
NOTES = "note"
_FIELDS = ("at", "event", "because", "thing", "what")


class Questions:
    """Answers for one host."""

    def __init__(self, host: Host, trust: Trust | None) -> None:
        self._host = host
        self._trust = trust
        self._stories = Stories(host.transport, host.peer.story)
        self._table: dict[str, Callable[[Request], Awaitable[Any]]] = {
            "status": self._status,
            "peers": self._peers,
            "ring": self._ring,
            "walk": self._walk,
            "lookup": self._lookup,
            "records": self._records,
            "offer": self._offer,
            "withdraw": self._withdraw,
            "trace": self._trace,
            "tell": self._tell,
            "stop": self._stop,
        }

    async def answer(self, request: Request) -> Any:
        """The answer to one request."""
        found = self._table.get(request.ask)
        if found is None:
            raise UserError(
                f"question {request.ask!r} is not known",
                hint=f"the questions are: {', '.join(self._table)}",
            )
        return await found(request)

    async def _status(self, request: Request) -> Any:
        host = self._host
        return {
            "me": plain(host.peer.me),
            "mesh": self._trust.mesh if self._trust is not None else None,
            "revocations": self._trust.number if self._trust is not None else 0,
            "waiting": host.waiting,
            "tasks": len(asyncio.all_tasks()),
            "peer": plain(host.peer.own_view(host.clock.now())),
            "gossip": _gossip(host.peer.view().get("gossip")),
            "net": plain(host.transport.view()),
        }

    async def _peers(self, request: Request) -> Any:
        """Everybody whom the ring knows or who is connected, by name."""
        links = {link.name: link for link in self._host.transport.view().links}
        known = {contact.name: contact for contact in _contacts(self._host.peer.view())}
        known |= {
            link.name: Contact(link.name, link.address, link.incarnation)
            for link in links.values()
            if link.name not in known
        }
        known.pop(self._host.peer.me.name, None)
        return [
            {**plain(contact), "connected": name in links}
            for name, contact in sorted(known.items())
        ]

    async def _ring(self, request: Request) -> Any:
        view = self._host.peer.view().get("ring")
        return {"me": plain(self._host.peer.me), "view": plain(view)}

    async def _walk(self, request: Request) -> Any:
        """Every peer, clockwise from this one, each found by asking who comes behind the last."""
        me = self._host.peer.me
        found = [me]
        while len(found) < WALK_MAX:
            located = await self._locate(ahead(found[-1].key, 0))
            if located.owner is None or located.owner.name == me.name:
                break
            if any(located.owner.name == contact.name for contact in found):
                break
            found.append(located.owner)
        return [plain(contact) for contact in found]

    async def _lookup(self, request: Request) -> Any:
        located = await self._locate(key_from(request.key))
        return {
            "key": located.key.hex(),
            "owner": None if located.owner is None else plain(located.owner),
            "hops": located.hops,
        }

    async def _records(self, request: Request) -> Any:
        """What is recorded under a key; each kind of record says which it is."""
        found = await self._host.ask(Find(key_from(request.key)))
        assert isinstance(found, Found)
        return [{"kind": type(one).__name__, **plain(one)} for one in found.records]

    async def _offer(self, request: Request) -> Any:
        """Tell the directory that this peer can run an operator."""
        return plain(await self._host.ask(Publish((offer_of(self._host.peer.me, request.key),))))

    async def _withdraw(self, request: Request) -> Any:
        ident = ident_of(offer_of(self._host.peer.me, request.key))
        return plain(await self._host.ask(Withdraw((ident,))))

    async def _trace(self, request: Request) -> Any:
        """The newest lines of a story, this peer's or another's, of one thing or of all."""
        me = self._host.peer.me
        name = request.peer or me.name
        lines = request.lines or LINES_DEFAULT
        if name == me.name:
            told = newest(self._host.peer.story, StoryAsked(0, request.thing, lines))
        else:
            located = await self._locate(key_of_name(name))
            if located.owner is None or located.owner.name != name:
                raise UserError(
                    f"peer {name!r} is not in the ring",
                    hint="`shoal ring --all` lists who is; the story of one that has ended is "
                    "in its log",
                )
            told = await self._stories.of(located.owner, thing=request.thing, lines=lines)
        return {
            "peer": name,
            "forgotten": told.forgotten,
            "lines": [dict(zip(_FIELDS, line, strict=True)) for line in told.lines],
        }

    async def _tell(self, request: Request) -> Any:
        """A note under a name for every peer of the mesh; without a text the note is removed."""
        body = request.thing.encode() or None
        return plain(await self._host.ask(Broadcast(NOTES, request.key, body)))

    async def _stop(self, request: Request) -> Any:
        self._host.stop()
        return {}

    async def _locate(self, key: bytes) -> Located:
        answer = await self._host.ask(Lookup(key))
        assert isinstance(answer, Located)
        return answer


def offer_of(me: Contact, operator: str) -> OfferRecord:
    """The record that says that this peer can run an operator."""
    if not operator:
        raise UserError("operator has no name", hint="such as Encryption.AES.256bit")
    return OfferRecord(key_of_name(operator), me, operator)


def key_from(text: str) -> bytes:
    """A key as people write it: 40 hexadecimal digits, or the name of something."""
    if len(text) == KEY_BITS // 4:
        try:
            return bytes.fromhex(text)
        except ValueError:
            pass
    if not text:
        raise UserError("key is empty", hint="give a name, or 40 hexadecimal digits")
    return key_of_name(text)


def plain(value: Any) -> Any:
    """Data without types of ours: structs become tables, bytes become hexadecimal digits."""
    if isinstance(value, Struct):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(one) for one in value]
    return value


def _gossip(view: Any) -> dict[str, Any] | None:
    """What all peers should know alike: equal digests mean equal facts."""
    return None if view is None else {"facts": view.facts, "digest": f"{view.digest:016x}"}


def _contacts(value: Any) -> list[Contact]:
    """All contacts in a view, wherever they stand."""
    if isinstance(value, Contact):
        return [value]
    if isinstance(value, Struct):
        return [one for name in value.__struct_fields__ for one in _contacts(getattr(value, name))]
    if isinstance(value, Mapping):
        return [one for inner in value.values() for one in _contacts(inner)]
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [one for inner in value for one in _contacts(inner)]
    return []
