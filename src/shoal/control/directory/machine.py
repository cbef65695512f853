"""Records under keys: who produces a stream, who runs a signature, who offers an operator.

    owner ──Store──▶ keeper ──Push──▶ its next copies-1 successors      seekers and watchers ask
    renews           (pred, me]       replicas

The keeper of a key is the first live peer at or behind it on the ring. Records have owners, who
renew them; leases, so that records of the dead end; and versions, so that the newest wins. They
are memory and never truth (DESIGN.md section 7): nothing is persisted, a peer that starts holds
nothing, and owners make everything anew from what is true.

Source     records and watching keepers: hot-spots (000) section 3, Synergy (002) section 3; leases,
           comparison by digests and vouching are ours, docs/protocols/directory.md.
Promises   R1  with fewer than `copies` simultaneous losses of neighbours no record is lost.
           D1  what is withdrawn, or whose owner is gone for a lease, is not found, and never
               comes back: not by a late message, not by a replica, not from an old disk.
           D2  at one keeper the version of a record never goes back; only an end that is forgotten
               may be followed by an older end.
           D3  every question is answered within question_timeout.
Not here   where keys belong and who is alive (control/ring); what loads mean (control/monitor).
Diagram    docs/protocols/directory.svg, drawn from TABLE.

The roles share a desk (`desk.py`): `owner.py`, `keeper.py`, `sync.py`, `seeker.py`, `watches.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

from shoal.control.directory.config import DirectoryConfig
from shoal.control.directory.desk import Desk
from shoal.control.directory.keeper import Keeper
from shoal.control.directory.messages import (
    EXPIRED,
    LIVE,
    MESSAGES,
    QUESTIONS,
    WITHDRAWN,
    Ask,
    Changed,
    Compare,
    Differs,
    Elsewhere,
    Find,
    Follow,
    Give,
    Neighbours,
    OwnerFound,
    OwnerLost,
    Publish,
    Push,
    Pushed,
    Remind,
    Reply,
    Same,
    Store,
    Stored,
    Unfollow,
    Unwatch,
    Want,
    Watch,
    Withdraw,
)
from shoal.control.directory.owner import Owner
from shoal.control.directory.seeker import Seeker
from shoal.control.directory.sync import Sync
from shoal.control.directory.view import DirectoryView, Held
from shoal.control.directory.watches import Followers, Watcher
from shoal.kernel.effects import Effect, Persist, SetTimer
from shoal.kernel.errors import LocalError, RemoteError, UserError
from shoal.kernel.events import Asked, Received, Started, Stopping, TimerFired, Unreachable
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.kernel.time import SECOND, Instant

__all__ = ["DECIDED", "IGNORED", "ILLEGAL", "MOVES", "TABLE", "DirectoryMachine", "State"]

_BEAT = "directory/beat"
_WAIT = "directory/wait"
#: Messages to itself that one event may cause. A Store with its Stored, per keeper: a guess.
INNER_MAX = 10_000


class State(StrEnum):
    """Where a directory stands."""

    IDLE = "idle"
    APART = "apart"
    LEARNING = "learning"
    KEEPING = "keeping"
    STOPPED = "stopped"


_RUNNING = (State.APART, State.LEARNING, State.KEEPING)

#: What every running state does alike, by event: the method, and the next state (None: it decides).
_ALIKE: Mapping[type[Struct], str] = {
    TimerFired: "_timer",
    Unreachable: "_unreachable",
    Neighbours: "_neighbours",
    OwnerFound: "_owner_found",
    OwnerLost: "_owner_lost",
    Publish: "_publish",
    Withdraw: "_withdraw",
    Find: "_find",
    Watch: "_watch",
    Unwatch: "_unwatch",
    Store: "_store",
    Stored: "_stored",
    Remind: "_remind",
    Push: "_push",
    Pushed: "_pushed",
    Compare: "_compare",
    Same: "_same",
    Differs: "_differs",
    Want: "_want",
    Give: "_give",
    Ask: "_asked",
    Reply: "_reply",
    Elsewhere: "_elsewhere",
    Follow: "_follow",
    Changed: "_changed",
    Unfollow: "_unfollow",
}

TABLE: Mapping[tuple[State, type[Struct]], tuple[State | None, str]] = {
    (State.IDLE, Started): (State.APART, "_started"),
    **{(state, event): (None, name) for state in _RUNNING for event, name in _ALIKE.items()},
    **{(state, Stopping): (State.STOPPED, "_stopping") for state in _RUNNING},
    **{(State.STOPPED, question): (State.STOPPED, "_too_late") for question in QUESTIONS},
}
IGNORED: Mapping[tuple[State, type[Struct]], str] = {
    **{
        (State.STOPPED, event): "this peer has said good-bye"
        for event in _ALIKE
        if event not in QUESTIONS
    },
    (State.STOPPED, Stopping): "once is enough",
    (State.IDLE, Unreachable): "nothing was sent yet",
    (State.IDLE, Stopping): "nothing was begun",
}
ILLEGAL: Mapping[tuple[State, type[Struct]], str] = {
    **{
        (State.IDLE, event): "a peer is started before anything else"
        for event in _ALIKE
        if event is not Unreachable
    },
    **{(state, Started): "a peer is started once" for state in (*_RUNNING, State.STOPPED)},
}
#: Where TABLE leaves the next state to the method: what it may be, if it is another.
DECIDED: Mapping[tuple[State, type[Struct]], tuple[State, ...]] = {
    **{(state, Neighbours): _RUNNING for state in _RUNNING},
    **{
        (State.LEARNING, event): (State.LEARNING, State.KEEPING)
        for event in (TimerFired, Same, Differs, Give)
    },
}
#: Moves that no single event makes, and why.
MOVES: Mapping[tuple[State, State], str] = {
    (State.KEEPING, State.LEARNING): "any event that finds it has stood still",
}


class DirectoryMachine:
    """The directory of one peer."""

    name = "directory"
    messages: Mapping[int, type[Struct]] = MESSAGES
    questions: Sequence[type[Struct]] = QUESTIONS

    def __init__(self, me: Contact, config: DirectoryConfig, rng: Rng) -> None:
        config.check()
        self.me = me
        self.config = config
        self.state = State.IDLE
        self.desk = Desk(me, config, rng)
        self.keeper = Keeper(self.desk)
        self.sync = Sync(self.desk, self.keeper)
        self.owner = Owner(self.desk)
        self.seeker = Seeker(self.desk, self.keeper, self.sync)
        self.watcher = Watcher(self.desk)
        self.followers = Followers(self.desk, self.keeper, self.sync)
        #: When this peer last handled anything, and for when its timer is set.
        self._last: Instant = 0
        self._armed: Instant | None = None
        self._due: Mapping[str, Callable[[int, Instant], None]] = {
            "pump": self._pump,
            "lookup": self._lookup_timed_out,
            "store": self.owner.store_timed_out,
            "publish": lambda number, now: self.owner.question_timed_out(number),
            "push": self.keeper.push_timed_out,
            "compare": self.sync.unanswered,
            "again": lambda number, now: self.sync.again(now),
            "learned": lambda number, now: self.sync.learned_by_time(now),
            "find": lambda number, now: self.seeker.timed_out(number),
            "ask": self.seeker.ask_timed_out,
            "follow": self.watcher.timed_out,
            "watch": lambda number, now: self.watcher.pump(now),
            "changes": lambda number, now: self.followers.flush(now),
        }

    def handle(self, event: Struct, now: Instant) -> list[Effect]:
        """Take an event in; return what is to be done about it, in order."""
        box = self.desk.box
        effects: list[Effect] = []
        box.effects = effects
        try:
            if now - self._last > 3 * self.config.beat_period and self.state in _RUNNING:
                self._paused(now)
            self._last = now
            self._one(event, now)
            self._inner(now)
            self.followers.collect(now)
        finally:
            # Also where a message was refused: what is due stays due, and nothing half done.
            box.inner.clear()
            if self.state in _RUNNING:
                self.state = self._standing()
        self._arm(now)
        return effects

    def _inner(self, now: Instant) -> None:
        """What this peer has to say to itself."""
        inner = self.desk.box.inner
        for _ in range(INNER_MAX):
            if not inner:
                return
            try:
                self._one(Received(self.me, inner.popleft()), now)
            except RemoteError as error:
                raise LocalError("directory: refuses itself", detail=str(error)) from error
        raise LocalError("directory: messages to itself do not come to an end")

    def _one(self, event: Struct, now: Instant) -> None:
        inner: Any = event
        if isinstance(event, Received):
            inner = event.message
        elif isinstance(event, Asked):
            inner = event.question
        act = _ACT.get((self.state, type(inner)))
        if act is None:
            if (self.state, type(inner)) in IGNORED:
                return
            why = ILLEGAL.get((self.state, type(inner)), "the directory does not know it")
            raise LocalError(f"{type(inner).__name__} while {self.state}", detail=why)
        following, method = act
        if following is not None:
            self.state = following
        method(self, event, now)

    def _standing(self) -> State:
        if not self.desk.place.low:
            return State.APART
        return State.KEEPING if self.sync.sure else State.LEARNING

    def _arm(self, now: Instant) -> None:
        """The timer stands at the earliest deadline."""
        at = self.desk.deadlines.next
        if at is None or self.state not in _RUNNING:
            return
        if self._armed is None or at < self._armed:
            self._armed = at
            self.desk.box.effects.append(SetTimer(_WAIT, max(at, now)))

    # The host

    def _started(self, event: Started, now: Instant) -> None:
        """Nothing is taken from the disk: what an earlier version left there is removed."""
        for key in sorted(event.stored):
            if key.startswith("directory/"):
                self.desk.box.effects.append(Persist(key, None))
        first = now + 1 + self.desk.rng.below(self.config.beat_period)
        self.desk.box.effects.append(SetTimer(_BEAT, first))

    def _stopping(self, event: Stopping, now: Instant) -> None:
        """Take back what is ours, as far as one message each does it; copy what is not copied."""
        self.state = State.KEEPING
        self.owner.stop(now)
        self._inner(now)
        self.keeper.stop(now)
        self.seeker.stop()
        self.owner.answer_all()
        self.state = State.STOPPED

    def _too_late(self, event: Asked, now: Instant) -> None:
        self.desk.box.answer(event.request, UserError("this peer is stopping"))

    def _timer(self, event: TimerFired, now: Instant) -> None:
        if event.timer == _BEAT:
            self._beat(now)
            return
        self._armed = None
        for what, number in self.desk.deadlines.due(now):
            self._due[what](number, now)

    def _beat(self, now: Instant) -> None:
        self.desk.forget_rests(now)
        self.keeper.beat(now)
        self.sync.beat(now)
        self.owner.beat(now)
        self.watcher.beat(now)
        self.followers.beat(now)
        self.desk.box.effects.append(SetTimer(_BEAT, now + self.config.beat_period))

    def _paused(self, now: Instant) -> None:
        """No event for three beats: this peer has stood still, and others have not."""
        if self._last:
            self.desk.box.note(f"stood still for {(now - self._last) // SECOND} s")
            self.keeper.paused()
            self.sync.paused(now)

    def _unreachable(self, event: Unreachable, now: Instant) -> None:
        self.owner.lost(event.peer, now)
        self.seeker.peer_lost(event.peer, now)

    # Questions

    def _publish(self, event: Asked, now: Instant) -> None:
        assert isinstance(event.question, Publish)
        self.owner.publish(event.request, event.question, now)

    def _withdraw(self, event: Asked, now: Instant) -> None:
        assert isinstance(event.question, Withdraw)
        self.owner.withdraw(event.request, event.question, now)

    def _find(self, event: Asked, now: Instant) -> None:
        assert isinstance(event.question, Find)
        self.seeker.find(event.request, event.question, now)

    def _watch(self, event: Asked, now: Instant) -> None:
        assert isinstance(event.question, Watch)
        self.watcher.watch(event.request, event.question, now)

    def _unwatch(self, event: Asked, now: Instant) -> None:
        assert isinstance(event.question, Unwatch)
        self.watcher.unwatch(event.request, event.question, now)

    # The ring

    def _neighbours(self, event: Neighbours, now: Instant) -> None:
        place = self.desk.place
        low, backups = place.low, place.backups
        place.move(event.predecessor, event.successors, self.config.copies)
        if (low, backups) == (place.low, place.backups):
            return
        self.keeper.moved(now)
        self.sync.moved(low, backups, now)
        self.followers.moved()

    def _owner_found(self, event: OwnerFound, now: Instant) -> None:
        self.desk.found(event, now)
        self._pump(0, now)

    def _owner_lost(self, event: OwnerLost, now: Instant) -> None:
        self.desk.routes.forget(event.peer)
        self.keeper.lost(event.peer, now)
        self.owner.lost(event.peer, now)
        self.seeker.peer_lost(event.peer, now)
        self.watcher.lost(event.peer, now)

    def _pump(self, _number: int, now: Instant) -> None:
        self.owner.pump(now)
        self.seeker.pump(now)
        self.watcher.pump(now)

    def _lookup_timed_out(self, number: int, now: Instant) -> None:
        self.desk.unanswered(number, now)

    # Messages, by role

    def _store(self, event: Any, now: Instant) -> None:
        self.keeper.store(event.sender, event.message, now)

    def _stored(self, event: Any, now: Instant) -> None:
        self.owner.stored(event.sender, event.message, now)

    def _remind(self, event: Any, now: Instant) -> None:
        self.owner.remind(event.sender, now)

    def _push(self, event: Any, now: Instant) -> None:
        self.keeper.hold(event.sender, event.message, now)

    def _pushed(self, event: Any, now: Instant) -> None:
        self.keeper.pushed(event.sender, event.message, now)

    def _compare(self, event: Any, now: Instant) -> None:
        self.sync.compare(event.sender, event.message, now)

    def _same(self, event: Any, now: Instant) -> None:
        self.sync.same(event.sender, event.message, now)

    def _differs(self, event: Any, now: Instant) -> None:
        self.sync.differs(event.sender, event.message, now)

    def _want(self, event: Any, now: Instant) -> None:
        self.sync.want(event.sender, event.message, now)

    def _give(self, event: Any, now: Instant) -> None:
        self.sync.give(event.sender, event.message, now)

    def _asked(self, event: Any, now: Instant) -> None:
        self.seeker.asked(event.sender, event.message, now)

    def _reply(self, event: Any, now: Instant) -> None:
        self.seeker.reply(event.sender, event.message, now)

    def _elsewhere(self, event: Any, now: Instant) -> None:
        if event.message.number in self.seeker.asks:
            self.seeker.elsewhere(event.sender, event.message, now)
        else:
            self.watcher.elsewhere(event.sender, event.message, now)

    def _follow(self, event: Any, now: Instant) -> None:
        self.followers.follow(event.sender, event.message, now)

    def _changed(self, event: Any, now: Instant) -> None:
        self.watcher.changed(event.sender, event.message, now)

    def _unfollow(self, event: Any, now: Instant) -> None:
        self.followers.unfollow(event.sender, event.message, now)

    # For checkers and people

    def validate(self) -> None:
        """Cheap enough for every event; `audit` looks at every entry."""
        self.keeper.validate()
        self.owner.validate()
        if self.state in _RUNNING and self.state is not self._standing():
            raise LocalError(f"directory is {self.state} and stands at {self._standing()}")

    def audit(self) -> None:
        """Look at everything."""
        self.validate()
        self.keeper.shelf.audit()

    def held(self, now: Instant) -> tuple[Held, ...]:
        """Every item this peer holds, as keeper or replica."""
        return tuple(
            Held(entry.ident, entry.version, entry.item(now).state, max(entry.until - now, 0))
            for entry in self.keeper.shelf.entries.values()
        )

    def view(self) -> DirectoryView:
        """A read-only picture."""
        counts = {LIVE: 0, WITHDRAWN: 0, EXPIRED: 0}
        for entry in self.keeper.shelf.entries.values():
            counts[entry.state] += 1
        owns = self.owner.mine.values()
        return DirectoryView(
            state=self.state,
            low=self.desk.place.low,
            backups=self.desk.place.backups,
            live=counts[LIVE],
            withdrawn=counts[WITHDRAWN],
            expired=counts[EXPIRED],
            own=sum(own.state == LIVE for own in owns),
            unsettled=sum(own.copies == 0 for own in owns),
            searches=len(self.seeker.searches),
            stores=len(self.owner.exchanges),
            copies=len(self.keeper.pushes),
            comparisons=len(self.sync.comparisons),
            routes=len(self.desk.routes),
            lookups=len(self.desk.open),
            watches=len(self.watcher.watches),
            followers=self.followers.total,
        )


_ACT: Mapping[tuple[State, type[Struct]], tuple[State | None, Callable[..., None]]] = {
    pair: (following, getattr(DirectoryMachine, name)) for pair, (following, name) in TABLE.items()
}
