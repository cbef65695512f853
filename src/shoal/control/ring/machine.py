"""The ring: every peer has a place, knows who is next, and finds the owner of any key.

The owner of a key is the first living member at or behind it, clockwise. First successor and
predecessor decide who owns what; the rest of the list and the fingers keep it alive and fast.

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
successor and its list (`join.py`); a list is only ever replaced by [c] + the list of c just heard
from c itself, never patched in the middle (but while rings merge), and a predecessor by a nearer
one, or when it is gone (rectify; both in `neighbours.py`); nobody is given up while it answers.
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

from msgspec import Struct

from shoal.control.ring import messages as say
from shoal.control.ring.asks import Asks
from shoal.control.ring.config import RingConfig
from shoal.control.ring.desk import Desk, Request
from shoal.control.ring.fingers import Fingers
from shoal.control.ring.join import Joiner, Place
from shoal.control.ring.merge import Merger
from shoal.control.ring.neighbours import Neighbourhood
from shoal.control.ring.probe import Prober
from shoal.control.ring.seek import Search, Seeker
from shoal.control.ring.state import IGNORED, ILLEGAL, TABLE, State
from shoal.control.ring.view import RingView, picture
from shoal.control.ring.watch import Belief
from shoal.kernel.effects import Answer, CancelTimer, Effect, SetTimer, Tell
from shoal.kernel.errors import LocalError
from shoal.kernel.events import Asked, Received, Started, Stopping, TimerFired, Unreachable
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.kernel.time import Instant

__all__ = ["RingMachine"]

#: Rounds of settling in one event; each ends something that is under way, so a handful suffice.
_SETTLE_MAX = 10_000


class RingMachine:
    """One peer's part in the ring."""

    name = "ring"
    messages: Mapping[int, type[Struct]] = say.MESSAGES
    questions: Sequence[type[Struct]] = say.QUESTIONS

    def __init__(
        self, me: Contact, config: RingConfig, rng: Rng, *, place: Place | None = None
    ) -> None:
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
        self._fingers = Fingers(self._desk, self._seeker)
        self._joiner = Joiner(self._desk, self._seeker, self._neighbourhood, place)
        self._asks = Asks(self._desk, self._seeker, self._joiner)
        self._merger = Merger(self._desk, self._seeker, self._neighbourhood)
        self.state = State.NEW
        self._routes = self._routes_in(State.NEW)
        #: When the wake timer fires; 0 if it is not set.
        self._armed: Instant = 0
        self._pushing = False
        #: What was told to siblings and checked last, by the table's count of changes.
        self._told = 0
        self._checked = -1
        self._lost_at: Instant = 0

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
            desk.out.append(Tell(say.PeerLost(former)))
        before = self._watch.revived(sender.name, now)
        if before is Belief.SUSPECTED:
            desk.note(f"{sender.name} has refuted the suspicion")
        elif before is Belief.LOST:
            self._back(sender, now)
        return True

    def _back(self, contact: Contact, now: Instant) -> None:
        desk = self._desk
        desk.note(f"{contact.name} is back")
        desk.out.append(Tell(say.PeerBack(contact)))
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
        desk.out.append(Tell(say.PeerLost(found.contact)))
        self._neighbourhood.ask_anew()
        self._neighbourhood.stabilise(now)

    def _found(self, search: Search, now: Instant) -> None:
        """A look-up has ended: give its outcome to whoever wanted it."""
        match search.purpose:
            case "asked" | "find":
                self._asks.found(search)
            case "finger":
                if self.state is State.MEMBER:
                    self._fingers.found(search, now)
            case "place":
                if self.state is State.MEMBER:
                    self._merger.found(search, now)
                elif self.state is State.JOINING:
                    self._joiner.place_found(search, now)
            case purpose:
                raise LocalError(f"look-up for {purpose!r} is nobody's")

    def _tell(self, now: Instant) -> None:
        """Tell siblings of another table, and soon the predecessor of another version."""
        table = self.table
        self._told = table.changes
        if self.state is not State.LEFT:
            changed = say.TableChanged(table.predecessor, table.successors, table.fingers_apart())
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
        self._lost_at = now
        self._joiner.start(event.stored.get("ring/contacts"), now)
        self._enter(State.JOINING)
        if self._joiner.take_place(now):
            self._become_member(now)
        elif self._joiner.ways_in():
            self._join_round(TimerFired("ring/round"), now)
        else:
            self._begin_ring(now)

    def _join_round(self, _event: TimerFired, now: Instant) -> None:
        if self._joiner.try_again(now):
            self._next_round(now, self._config.timeout_max)
        else:
            self._begin_ring(now)

    def _begin_ring(self, now: Instant) -> None:
        """Others join this ring, or it finds theirs."""
        self._desk.note("begins a ring")
        self._merger.began_ring()
        self._become_member(now)

    def _become_member(self, now: Instant) -> None:
        self._enter(State.MEMBER)
        self._desk.out.append(Tell(say.Joined()))
        self._next_round(now, self._config.round_period)

    def _neighbours_joining(self, sender: Contact, message: say.Neighbours, now: Instant) -> None:
        say.check_neighbours(sender, message.predecessor, message.successors)
        told_by = self._joiner.welcomed(sender, message, now)
        if told_by is not None:
            self._become_member(now)
            self._joiner.introduce(told_by, message, now)

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
        self._fingers.check(now)
        if now >= self._lost_at:
            self._lost_at = now + config.lost_period
            self._merger.look_around(now)
        self._joiner.keep(now)
        if not self.table.successors:
            self._merger.alone(now)
        self._merger.go_on(now)
        self._next_round(now, config.round_period)

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
        """A hint: go on as if the answer were overdue."""
        found = self._watch.get(event.peer.name)
        if found is None or found.belief is Belief.ALIVE:
            self._requests.hurry(event.peer, now)

    # --- messages -----------------------------------------------------------------------------

    def _no_member(self, sender: Contact, message: Any, _now: Instant) -> None:
        ways = self._joiner.ways() if self.state is State.JOINING else ()
        self._desk.send(sender, say.NotMember(message.request, ways))

    def _not_member(self, sender: Contact, message: say.NotMember, now: Instant) -> None:
        """It has left, or not joined yet: no place for it here; its own words bring it back."""
        say.check_ways(message.ways)
        request = self._requests.close(message.request, sender)
        if request is None:
            return
        if message.ways:
            self._joiner.heard_joiner(sender)
        self.table.drop(sender.name)
        self._neighbourhood.ask_anew()
        if isinstance(request.about, Search):
            self._seeker.failed(request.about, message.ways, now)

    def _neighbours(self, sender: Contact, message: say.Neighbours, now: Instant) -> None:
        say.check_neighbours(sender, message.predecessor, message.successors)
        if message.request == 0:
            self._neighbourhood.pushed(sender, message, now)
        elif self._answered(sender, message.request, now) is not None:
            self._watch.meet(sender, now)
            self._neighbourhood.adopt(sender, message, now)

    def _unchanged(self, sender: Contact, message: say.Unchanged, now: Instant) -> None:
        self._answered(sender, message.request, now)

    def _answered(self, sender: Contact, number: int, now: Instant) -> Request | None:
        request = self._requests.close(number, sender)
        if request is not None:
            self._watch.measured(sender.name, now - request.sent)
        return request

    def _stabilise(self, sender: Contact, message: say.Stabilise, now: Instant) -> None:
        self._neighbourhood.answer(sender, message, now)

    def _step(self, sender: Contact, message: say.Step, _now: Instant) -> None:
        say.check_key(message.key)
        self._seeker.answer(sender, message)

    def _stepped(self, sender: Contact, message: say.Stepped, now: Instant) -> None:
        # A wrong answer is refused before it counts as one: the right one may still come.
        search = self._requests.about(message.request, sender)
        if isinstance(search, Search):
            say.check_stepped(sender, search.key, message)
            self._answered(sender, message.request, now)
            self._seeker.stepped(sender, message, search, now)

    def _ping(self, sender: Contact, message: say.Ping, _now: Instant) -> None:
        self._desk.send(sender, say.Pong(message.request))

    def _pong(self, sender: Contact, message: say.Pong, now: Instant) -> None:
        request = self._answered(sender, message.request, now)
        if request is not None and request.kind == "relay":
            self._prober.answered(request, sender)

    def _ping_for(self, sender: Contact, message: say.PingFor, now: Instant) -> None:
        say.check_contact(message.target)
        self._prober.ping_for(sender, message, now)

    def _vouched(self, sender: Contact, message: say.Vouched, now: Instant) -> None:
        """Somebody has heard the peer that I cannot hear."""
        say.check_contact(message.target)
        request = self._requests.close(message.request, sender)
        if request is None or request.about != message.target.name:
            return
        self._heard_anew(message.target, now)

    def _goodbye(self, sender: Contact, message: say.Goodbye, now: Instant) -> None:
        say.check_neighbours(sender, message.predecessor, message.successors)
        self._desk.note(f"{sender.name} leaves")
        self._neighbourhood.goodbye(sender, message, now)
        self._desk.out.append(Tell(say.PeerLost(sender)))

    def _consider(self, _sender: Contact, message: say.Consider, now: Instant) -> None:
        say.check_contact(message.contact)
        if not self._watch.is_gone(message.contact):
            self._neighbourhood.try_candidate(message.contact, now)

    def _unify(self, _sender: Contact, message: say.Unify, now: Instant) -> None:
        say.check_contact(message.contact)
        self._merger.unify(message.contact, message.spread, now)

    # --- questions ----------------------------------------------------------------------------

    def _lookup(self, event: Asked, now: Instant) -> None:
        self._asks.lookup(event, self.state, now)

    def _find(self, event: say.Find, now: Instant) -> None:
        self._asks.find(event, self.state, now)

    def _leave(self, event: Asked, now: Instant) -> None:
        self._stopping(Stopping(), now)
        self._desk.out.append(Answer(event.request, say.Left()))

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
        return picture(self._desk, state=str(self.state), lookups=self._seeker.active)
