"""The ring: every peer has a place, knows who is next, and finds the owner of any key.

The owner of a key is the first living member at or behind it, clockwise. Each member keeps a
successor list of length r, its predecessor, and fingers; only the first successor and the
predecessor decide who owns what, the rest makes it fast and keeps it alive.

Promise    R2  when faults stop, the ring is one ring, and every look-up is right.

What has to hold all the time for R2 to be within reach (Zave's invariant, in our words; a *member*
is a living peer that has joined, its *extended list* is itself and its successor list):
    1. every member has a living member in its list, and the first such is another member if there
       is one at all (OneLiveSuccessor);
    2. more members than r are *principal*: skipped by no member's extended list, that is, standing
       between no two neighbours of such a list (SufficientPrincipals, the stable base). A ring of
       at most r + 1 members has lists that go once around, and then it wants all members principal.
From 1 and 2 follow that lists are ordered and free of doubles, that there is exactly one cycle, and
that everybody outside it hangs on it. What keeps them: a joiner becomes a member only when it has a
successor and its list (`_became_member`); a list is only ever replaced by [c] + the list of c just
heard from c itself (`_adopt`), never patched in the middle; a predecessor is replaced by a nearer
one, or when it is gone (rectify, `_notified`); nobody is given up while it answers (`probe.py`).
Peers that lose more than r - 1 neighbours at once, or whose network parts, leave the invariant; how
they come back is merging, below. One peer sees the order of its own lists (`validate`); the
whole is for the simulator's checker (`sim/checkers/ring.py`).

    round, every `round_period`   Stabilise to the first successor that is not suspected (this is
                                  its probe, too); look after predecessor, one finger, one lost peer
    join                          look up the own place through a seed; take the list of the owner
                                  found; only then be a member, and tell both neighbours
    change                        is pushed to the predecessor at once, so it runs back along the
                                  lists in r short steps instead of r rounds
    merge                         a lost peer answers: look up the own place *through it*. Who does
                                  not know us there stands in another ring: take the nearer
                                  successor, tell it of the old one, and pass the word on to all
                                  fingers. The zip closes at many places at once

Source     Chord (Stoica et al. 2003); Zave, "Reasoning about identifier spaces: how to make Chord
           correct" (2017); SWIM for silence; Shafaat, Ghodsi, Haridi, "Dealing with network
           partitions in structured overlay networks" (2009), for merging by looking up one's own
           place in the other ring. Ours: one exchange for probe and stabilise, pushes, versions.
Not here   what is kept under keys (control/directory); broadcast (control/gossip).
Diagram    docs/protocols/ring.svg, drawn from TABLE.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from shoal.control.ring.config import RingConfig
from shoal.control.ring.desk import Desk, Request
from shoal.control.ring.merge import Merger
from shoal.control.ring.messages import (
    MESSAGES,
    QUESTIONS,
    Consider,
    Find,
    Found,
    Goodbye,
    Joined,
    Left,
    Located,
    Lookup,
    Neighbours,
    NotMember,
    PeerBack,
    PeerLost,
    Ping,
    PingFor,
    Pong,
    Stabilise,
    Step,
    Stepped,
    TableChanged,
    Unchanged,
    Unify,
    Vouched,
    check_contact,
    check_key,
    check_neighbours,
    check_stepped,
)
from shoal.control.ring.neighbours import Neighbourhood
from shoal.control.ring.probe import Prober
from shoal.control.ring.seek import Search, Seeker
from shoal.control.ring.state import IGNORED, ILLEGAL, TABLE, RingView, State
from shoal.control.ring.watch import Belief
from shoal.kernel.effects import Answer, CancelTimer, Effect, Persist, SetTimer, Tell
from shoal.kernel.errors import LocalError, UserError
from shoal.kernel.events import Asked, Received, Started, Stopping, TimerFired, Unreachable
from shoal.kernel.keys import Contact, ahead
from shoal.kernel.rng import Rng
from shoal.kernel.time import Instant

__all__ = ["RingMachine"]

#: Rounds of settling in one event; each ends something that is under way, so a handful suffice.
_SETTLE_MAX = 10_000
#: A finger is looked up anew at every so many checks, and only pinged at the others.
_FINGER_ANEW = 4


class RingMachine:
    """One peer's part in the ring."""

    name = "ring"
    messages: Mapping[int, type[Struct]] = MESSAGES
    questions: Sequence[type[Struct]] = QUESTIONS

    def __init__(self, me: Contact, config: RingConfig, rng: Rng) -> None:
        config.check()
        self._me = me
        self._config = config
        self._rng = rng
        self._desk = Desk(me, config, rng)
        self.table = self._desk.table
        self._watch = self._desk.watch
        self._requests = self._desk.requests
        self._prober = Prober(self._desk)
        self._seeker = Seeker(self._desk)
        self._neighbourhood = Neighbourhood(self._desk, self._prober)
        self._merger = Merger(self._desk, self._seeker, self._neighbourhood)
        self.state = State.NEW
        self._routes = self._routes_in(State.NEW)
        self._started_at: Instant = 0
        #: Contacts that an earlier incarnation stored, to join through beside the seeds.
        self._stored: tuple[Contact, ...] = ()
        #: When the wake timer fires; 0 if it is not set.
        self._armed: Instant = 0
        self._pushing = False
        #: What was told to siblings, checked and stored last, by the table's counts.
        self._told = 0
        self._checked = -1
        self._kept_version = 0
        self._kept_at: Instant = 0
        self._finger_turn = 0
        self._finger_at: Instant = 0
        self._lost_at: Instant = 0
        self._tidied_at: Instant = 0

    # --- events -------------------------------------------------------------------------------

    def handle(self, event: Struct, now: Instant) -> Sequence[Effect]:
        """Take an event in; return the effects in order."""
        desk = self._desk
        desk.out = []
        if type(event) is Received:
            self._received(event, now)
        elif type(event) is TimerFired:
            self._route(event.timer, event, now)
        elif type(event) is Asked:
            self._route(type(event.question), event, now)
        else:
            self._route(type(event), event, now)
        if desk.lost or desk.suspected or self._seeker.done:
            self._settle(now)
        if self.table.changes != self._told:
            self._tell(now)
        if self._requests.touched:
            self._arm(now)
        return desk.out

    def _routes_in(self, state: State) -> dict[type | str, Callable[..., None]]:
        return {
            taken: getattr(self, action)
            for (when, taken), (_, action) in TABLE.items()
            if when is state
        }

    def _enter(self, state: State) -> None:
        self.state = state
        self._routes = self._routes_in(state)

    def _route(self, taken: type | str, event: Struct, now: Instant) -> None:
        route = self._routes.get(taken)
        if route is not None:
            route(event, now)
        elif (self.state, taken) not in IGNORED:
            name = taken if isinstance(taken, str) else taken.__name__
            raise LocalError(
                f"ring cannot take {name} when {self.state}",
                detail=ILLEGAL.get((self.state, taken), "it is nowhere in the table"),
            )

    def _received(self, event: Received, now: Instant) -> None:
        sender = event.sender
        found = self._watch.get(sender.name)
        if found is not None:
            if found.contact.incarnation == sender.incarnation and found.belief is Belief.ALIVE:
                found.heard = now
            elif not self._heard_anew(sender, now):
                return
        route = self._routes.get(type(event.message))
        if route is not None:
            route(sender, event.message, now)

    def _heard_anew(self, sender: Contact, now: Instant) -> bool:
        """Somebody in doubt, or of another incarnation; False if it is not to be listened to."""
        desk = self._desk
        if self._watch.is_leftover(sender):
            return False
        former = self._watch.heard(sender, now)
        if former is not None:
            desk.note(f"{sender.name} has started anew")
            self.table.drop(former.name)
            desk.out.append(Tell(PeerLost(former)))
        before = self._watch.revived(sender.name, now)
        if before is Belief.SUSPECTED:
            desk.note(f"{sender.name} has refuted the suspicion")
        elif before is Belief.LOST:
            self._back(sender, now)
        return True

    def _back(self, contact: Contact, now: Instant) -> None:
        desk = self._desk
        desk.note(f"{contact.name} is back")
        desk.out.append(Tell(PeerBack(contact)))
        if self.state is State.MEMBER:
            self._merger.back(contact, now)

    # --- settling -----------------------------------------------------------------------------

    def _settle(self, now: Instant) -> None:
        """Draw the consequences of what the parts have found out."""
        desk = self._desk
        for _ in range(_SETTLE_MAX):
            if desk.lost:
                self._lose(desk.lost.pop(0), now)
            elif desk.suspected:
                desk.suspected = False
                self._neighbourhood.stabilise(now)
            elif self._seeker.done:
                self._found(self._seeker.done.pop(0), now)
            else:
                return
        raise LocalError("ring does not come to rest", detail=f"{_SETTLE_MAX} rounds of settling")

    def _lose(self, name: str, now: Instant) -> None:
        """Give a peer up; it is remembered, and tried now and then."""
        desk = self._desk
        found = self._watch.get(name)
        if found is None:
            return
        self._watch.lose(name, now)
        self.table.drop(name)
        desk.note(f"{name} is lost")
        desk.out.append(Tell(PeerLost(found.contact)))
        self._neighbourhood.ask_anew()
        self._neighbourhood.stabilise(now)

    def _found(self, search: Search, now: Instant) -> None:
        """A look-up has ended: give its outcome to whoever wanted it."""
        match search.purpose:
            case "asked":
                assert isinstance(search.about, int)
                located = Located(search.key, search.owner, search.hops)
                self._desk.out.append(Answer(search.about, located))
            case "find":
                assert isinstance(search.about, str)
                found = Found(search.about, search.key, search.owner, search.hops)
                self._desk.out.append(Tell(found))
            case "finger":
                self._finger_found(search, now)
            case "place":
                if self.state is State.MEMBER:
                    self._merger.found(search, now)
                elif self.state is State.JOINING:
                    self._place_found(search, now)
            case purpose:
                raise LocalError(f"look-up for {purpose!r} is nobody's")

    def _tell(self, now: Instant) -> None:
        """Tell siblings of another table, and soon the predecessor of another version."""
        table = self.table
        self._told = table.changes
        if self.state is not State.LEFT:
            changed = TableChanged(table.predecessor, table.successors, table.fingers_apart())
            self._desk.out.append(Tell(changed))
        if table.version != self._neighbourhood.told and not self._pushing:
            self._pushing = True
            self._desk.out.append(SetTimer("ring/push", now + self._config.push_delay))

    def _arm(self, now: Instant) -> None:
        """Wake when the next request is due."""
        self._requests.touched = False
        due = self._requests.next_due()
        if due is None or self.state is State.LEFT:
            if self._armed:
                self._armed = 0
                self._desk.out.append(CancelTimer("ring/wake"))
        elif due != self._armed:
            self._armed = due
            self._desk.out.append(SetTimer("ring/wake", max(due, now)))

    # --- start and join -----------------------------------------------------------------------

    def _started(self, event: Started, now: Instant) -> None:
        self._started_at = self._kept_at = self._tidied_at = now
        self._finger_at = self._lost_at = now
        self._stored = self._read(event.stored.get("ring/contacts"))
        self._enter(State.JOINING)
        if self._ways_in():
            self._join_round(TimerFired("ring/round"), now)
        else:
            self._alone(now)

    def _read(self, stored: bytes | None) -> tuple[Contact, ...]:
        if stored is None:
            return ()
        try:
            contacts = msgspec.msgpack.decode(stored, type=tuple[Contact, ...])
        except (msgspec.DecodeError, ValueError) as error:
            self._desk.note(f"stored contacts cannot be read and are left out: {error}")
            return ()
        return tuple(contact for contact in contacts if contact.name != self._me.name)

    def _ways_in(self) -> list[Contact]:
        """Whom to join through, in another order each time."""
        seeds = [Contact("", a, 0) for a in self._config.seeds if a != self._me.address]
        ways = [*seeds, *self._stored]
        self._rng.shuffle(ways)
        return ways

    def _join_round(self, _event: TimerFired, now: Instant) -> None:
        if now - self._started_at >= self._config.alone_after:
            self._alone(now)
            return
        if self._seeker.active == 0 and not self._requests.pending_kind("join"):
            self._seeker.begin_through("place", self._place(), None, self._ways_in(), now)
        self._next_round(now, self._config.timeout_max)

    def _place(self) -> bytes:
        """The key just behind mine: its owner is who comes next."""
        return ahead(self._me.key, 0)

    def _alone(self, now: Instant) -> None:
        """Begin a ring; others join it or merge with it."""
        self._desk.note("begins a ring")
        self._became_member(now)

    def _became_member(self, now: Instant) -> None:
        self._enter(State.MEMBER)
        self._desk.out.append(Tell(Joined()))
        self._next_round(now, self._config.round_period)

    def _place_found(self, search: Search, now: Instant) -> None:
        """The owner of my place will be my successor: take its list before being a member."""
        owner = search.owner
        if owner is not None and owner.name != self._me.name:
            about = search.teller
            self._desk.ask("join", owner, Stabilise, 0, False, now=now, about=about)

    def _neighbours_joining(self, sender: Contact, message: Neighbours, now: Instant) -> None:
        check_neighbours(sender, message.predecessor, message.successors)
        request = self._requests.close(message.request, sender)
        if request is None or request.kind != "join":
            return
        self._watch.meet(sender, now)
        self._watch.measured(sender.name, now - request.sent)
        self._neighbourhood.adopt(sender, message, now)
        self._desk.note(f"joins between {_name(request.about)} and {sender.name}")
        self._became_member(now)
        self._neighbourhood.stabilise(now)
        told = (request.about, message.predecessor)
        before = {c.name: c for c in told if isinstance(c, Contact)}
        for contact in before.values():
            if contact.name != sender.name:
                self._desk.send(contact, Consider(self._me))

    # --- rounds -------------------------------------------------------------------------------

    def _next_round(self, now: Instant, period: int) -> None:
        early = int(period * self._config.round_jitter * self._rng.uniform())
        self._desk.out.append(SetTimer("ring/round", now + period - early))

    def _round(self, _event: TimerFired, now: Instant) -> None:
        config = self._config
        self._neighbourhood.stabilise(now)
        before = self.table.predecessor
        if before is not None:
            found = self._watch.get(before.name)
            if found is not None and now - found.heard > config.silence:
                self._prober.silent(before, now, now)
        if now >= self._finger_at:
            self._check_finger(now)
        if now >= self._lost_at:
            self._lost_at = now + config.lost_period
            self._merger.look_around(now)
        if now - self._kept_at >= config.store_period:
            self._keep(now)
        self._merger.go_on(now)
        self._next_round(now, config.round_period)

    def _check_finger(self, now: Instant) -> None:
        """The next finger in turn: is it there? Now and then, and if there is none: look it up."""
        table = self.table
        powers = list(dict.fromkeys([*table.powers(), *table.fingers]))
        if not powers:
            self._finger_at = now + self._config.finger_period
            return
        turns, at = divmod(self._finger_turn, len(powers))
        self._finger_turn += 1
        power = powers[at]
        finger = table.fingers.get(power)
        missing = len(powers) > len(table.fingers)
        self._finger_at = now if missing else now + self._config.finger_period
        if finger is not None and (turns + at) % _FINGER_ANEW:
            if self._watch.is_alive(finger.name):
                self._desk.ask("finger", finger, Ping, now=now)
        else:
            self._seeker.begin("finger", ahead(self._me.key, power), power, now)

    def _finger_found(self, search: Search, now: Instant) -> None:
        """Of those that reach as far the nearest by round trip; one that serves well stays."""
        table = self.table
        power = search.about
        assert isinstance(power, int)
        if self.state is not State.MEMBER or search.owner is None:
            return
        if table.gap(search.owner) < 1 << power or power not in table.powers():
            table.set_finger(power, None)
            return
        equal = [search.owner, *search.behind]
        if power in table.fingers:
            equal.insert(1, table.fingers[power])
        reach = [
            c
            for c in equal
            if 1 << power <= table.gap(c) < 2 << power and not self._watch.is_doubtful(c.name)
        ]
        best = min(
            reach, key=lambda c: self._watch.round_trip(c.name).bit_length(), default=search.owner
        )
        table.set_finger(power, best)
        self._watch.meet(best, now)

    def _keep(self, now: Instant) -> None:
        """Store whom I know, so that a restart finds the ring without its seeds."""
        self._kept_at = now
        table = self.table
        in_use = {c.name: c for c in (*table.successors, *table.fingers_apart())}
        if table.predecessor is not None:
            in_use[table.predecessor.name] = table.predecessor
        self._watch.tidy(in_use, now)
        if table.changes != self._kept_version and in_use:
            self._kept_version = table.changes
            stored = msgspec.msgpack.encode(tuple(in_use.values()))
            self._desk.out.append(Persist("ring/contacts", stored))

    def _wake(self, _event: TimerFired, now: Instant) -> None:
        """Requests are due; unless I was away myself, then the answers may be waiting."""
        late = now - self._armed
        self._armed = 0
        self._requests.touched = True
        if late > self._config.timeout_max:
            self._requests.delay(late + self._config.timeout_min)
            return
        for request in self._requests.take_due(now):
            self._expired(request, now)

    def _expired(self, request: Request, now: Instant) -> None:
        match request.kind:
            case "doubt" | "suspect" | "relay":
                self._prober.expired(request, now)
            case "step":
                self._prober.silent(request.to, request.sent, now)
                assert isinstance(request.about, Search)
                self._seeker.silent(request.about, request.to, now)
            case "stabilise" | "finger":
                self._prober.silent(request.to, request.sent, now)
            case _:
                pass  # whoever asked for it asks again in a later round

    def _push(self, _event: TimerFired, _now: Instant) -> None:
        self._pushing = False
        self._neighbourhood.push()

    def _unreachable(self, event: Unreachable, now: Instant) -> None:
        """A hint: do not wait for an answer, but go on as if it were overdue."""
        found = self._watch.get(event.peer.name)
        if found is None or found.belief is Belief.ALIVE:
            self._requests.hurry(event.peer, now)

    # --- messages -----------------------------------------------------------------------------

    def _no_member(self, sender: Contact, message: Any, _now: Instant) -> None:
        self._desk.send(sender, NotMember(message.request))

    def _not_member(self, sender: Contact, message: NotMember, now: Instant) -> None:
        """It has left, or not joined yet: no place for it here; its own words bring it back."""
        request = self._requests.close(message.request, sender)
        if request is None:
            return
        self.table.drop(sender.name)
        self._neighbourhood.ask_anew()
        if isinstance(request.about, Search):
            self._seeker.failed(request.about, now)

    def _stabilise(self, sender: Contact, message: Stabilise, now: Instant) -> None:
        self._neighbourhood.answer(sender, message, now)

    def _neighbours(self, sender: Contact, message: Neighbours, now: Instant) -> None:
        check_neighbours(sender, message.predecessor, message.successors)
        if message.request == 0:
            self._neighbourhood.pushed(sender, message, now)
        elif self._answered(sender, message.request, now) is not None:
            self._watch.meet(sender, now)
            self._neighbourhood.adopt(sender, message, now)

    def _unchanged(self, sender: Contact, message: Unchanged, now: Instant) -> None:
        self._answered(sender, message.request, now)

    def _answered(self, sender: Contact, number: int, now: Instant) -> Request | None:
        request = self._requests.close(number, sender)
        if request is not None:
            self._watch.measured(sender.name, now - request.sent)
        return request

    def _step(self, sender: Contact, message: Step, _now: Instant) -> None:
        check_key(message.key)
        self._seeker.answer(sender, message)

    def _stepped(self, sender: Contact, message: Stepped, now: Instant) -> None:
        request = self._answered(sender, message.request, now)
        if request is None or not isinstance(request.about, Search):
            return
        check_stepped(sender, request.about.key, message)
        self._seeker.stepped(sender, message, request.about, now)

    def _ping(self, sender: Contact, message: Ping, _now: Instant) -> None:
        self._desk.send(sender, Pong(message.request))

    def _pong(self, sender: Contact, message: Pong, now: Instant) -> None:
        request = self._answered(sender, message.request, now)
        if request is not None and request.kind == "relay":
            self._prober.answered(request, sender)

    def _ping_for(self, sender: Contact, message: PingFor, now: Instant) -> None:
        check_contact(message.target)
        self._prober.ping_for(sender, message, now)

    def _vouched(self, sender: Contact, message: Vouched, now: Instant) -> None:
        """Somebody has heard the peer that I cannot hear."""
        check_contact(message.target)
        request = self._requests.close(message.request, sender)
        if request is None or request.about != message.target.name:
            return
        self._heard_anew(message.target, now)

    def _goodbye(self, sender: Contact, message: Goodbye, now: Instant) -> None:
        check_neighbours(sender, message.predecessor, message.successors)
        self._desk.note(f"{sender.name} leaves")
        self._neighbourhood.goodbye(sender, message, now)
        self._desk.out.append(Tell(PeerLost(sender)))

    def _consider(self, _sender: Contact, message: Consider, now: Instant) -> None:
        check_contact(message.contact)
        if not self._watch.is_gone(message.contact):
            self._neighbourhood.try_candidate(message.contact, now)

    def _unify(self, _sender: Contact, message: Unify, now: Instant) -> None:
        check_contact(message.contact)
        self._merger.unify(message.contact, message.spread, now)

    # --- questions ----------------------------------------------------------------------------

    def _lookup(self, event: Asked, now: Instant) -> None:
        question = event.question
        assert isinstance(question, Lookup)
        if len(question.key) != len(self._me.key):
            error = UserError(f"key of {len(question.key)} bytes", hint="a key has 20 bytes")
            self._desk.out.append(Answer(event.request, error))
        elif self._refuses():
            self._desk.out.append(Answer(event.request, Located(question.key, None, 0)))
        else:
            self._seek("asked", question.key, event.request, now)

    def _find(self, event: Find, now: Instant) -> None:
        check_key(event.key)
        if self._refuses():
            self._desk.out.append(Tell(Found(event.token, event.key, None, 0)))
        else:
            self._seek("find", event.key, event.token, now)

    def _refuses(self) -> bool:
        return self.state is State.LEFT or self._seeker.active >= self._config.lookups_max

    def _seek(self, purpose: str, key: bytes, about: object, now: Instant) -> None:
        if self.state is State.MEMBER:
            self._seeker.begin(purpose, key, about, now)
        else:
            self._seeker.begin_through(purpose, key, about, self._ways_in(), now)

    def _leave(self, event: Asked, now: Instant) -> None:
        self._stopping(Stopping(), now)
        self._desk.out.append(Answer(event.request, Left()))

    def _stopping(self, _event: Stopping, _now: Instant) -> None:
        """Say good-bye; look-ups that are under way end without an owner."""
        if self.state is State.MEMBER:
            self._neighbourhood.say_goodbye()
        self._left_unseen(Stopping(), _now)

    def _left_unseen(self, _event: Stopping, _now: Instant) -> None:
        self._enter(State.LEFT)
        self._desk.out.append(CancelTimer("ring/round"))
        for search in self._seeker.give_up():
            if search.purpose in ("asked", "find"):
                self._seeker.done.append(search)
        self._requests.clear()

    # --- looking at it ------------------------------------------------------------------------

    def validate(self) -> None:
        """R2, as far as one peer can tell; whole rings are checked from outside."""
        table = self.table
        if table.changes == self._checked:
            return
        table.validate()
        if self.state in (State.NEW, State.JOINING) and table.successors:
            raise LocalError(f"R2: {self._me.name} has successors and is no member")
        for contact in table.successors:
            if self._watch.is_gone(contact):
                raise LocalError(f"R2: {self._me.name} lists {contact.name}, which it gave up")
        self._checked = table.changes

    def view(self) -> RingView:
        """A picture of the ring as this peer sees it."""
        table = self.table
        doubted = [
            name for name, found in self._watch.known.items() if found.belief is Belief.SUSPECTED
        ]
        return RingView(
            me=self._me,
            state=str(self.state),
            predecessor=table.predecessor,
            successors=table.successors,
            fingers=tuple(sorted(table.fingers.items())),
            suspected=tuple(doubted),
            lost=tuple(contact.name for contact in self._watch.lost()),
            lookups=self._seeker.active,
            version=table.version,
        )


def _name(contact: object) -> str:
    return contact.name if isinstance(contact, Contact) else "nobody"
