"""Tell every peer a fact, once each, and see to it that nobody misses it for long.

A *fact* has a topic, a key, a version and a body; without a body it says "removed". Whoever is
asked to broadcast gives the fact a version above all that it has seen, and the ring's own tables
make the tree: each peer divides its interval among the peers it knows there (`policy.py`).

Source     DHTJoin (section 3.2) wants every query at every peer. Its finger flooding takes nine
           times the messages and misses peers under failures (docs/protocols/gossip.md has the
           figures); interval partition is El-Ansary's, repair and comparison are ours.
Promises   G1  while the ring is whole, a broadcast reaches every peer once: N-1 spreading messages.
           G2  when faults have stopped, every live peer of one ring has every fact within a bound.
           G3  of two versions of a fact the higher holds, at every peer; a version never goes back.
           G4  what was removed does not come back, as long as no two halves of the ring are apart
               for longer than `removed_life_us`.
Not here   who is on the ring (control/ring); what a body means (whoever asks for Heard). Facts are
           memory, never truth: after the loss of all peers their owners broadcast them again.
Diagram    docs/protocols/gossip.svg, drawn from TABLE (table.py).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from shoal.control.gossip.compare import Comparing, cut, size_of
from shoal.control.gossip.config import MESSAGE_BYTES_MAX, GossipConfig
from shoal.control.gossip.messages import (
    MESSAGES,
    NAME_CHARS_MAX,
    QUESTIONS,
    TOPIC_CHARS_MAX,
    Accepted,
    Broadcast,
    Buckets,
    Fact,
    FactList,
    Give,
    Heard,
    RouteLost,
    Routes,
    Spread,
    Version,
)
from shoal.control.gossip.policy import order_of
from shoal.control.gossip.spread import Spreading
from shoal.control.gossip.state import BUCKETS, Store
from shoal.control.gossip.table import BATCH, HOLD, IGNORED, ILLEGAL, TABLE, Input, State
from shoal.control.gossip.view import GossipView
from shoal.kernel.effects import Answer, CancelTimer, Effect, SetTimer, Tell
from shoal.kernel.errors import LocalError, RemoteError, UserError
from shoal.kernel.events import Asked, Received, Started, Stopping, TimerFired, Unreachable
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.kernel.time import Instant

__all__ = ["GossipMachine"]

#: How far a counter may be ahead of all that was seen: no mesh broadcasts so much.
_LEAP_MAX = 1 << 40

_Name = tuple[str, str]


class GossipMachine:
    """Broadcast of versioned facts over the ring's tables."""

    name = "gossip"
    messages: Mapping[int, type[Struct]] = MESSAGES
    questions: Sequence[type[Struct]] = QUESTIONS

    def __init__(self, me: Contact, config: GossipConfig, rng: Rng) -> None:
        config.check()
        self.me = me
        self.state = State.IDLE
        self._config = config
        self._store = Store(
            facts_max=config.facts_max,
            removed_life_us=config.removed_life_us,
            row_us=config.compare_every_us,
        )
        self._spreading = Spreading(me, config)
        self._comparing = Comparing(me, config, self._store, rng)
        self._predecessor: Contact | None = None
        #: Broadcasts that were asked for while versions are not to be trusted.
        self._waiting: list[tuple[int, Broadcast]] = []
        #: Facts that go out together in a moment, and whether the timer for it runs.
        self._batch: dict[_Name, None] = {}
        self._batch_bytes = 0
        self._batching = False
        self._acts = _ACTS[self.state]

    def handle(self, event: Struct, now: Instant) -> list[Effect]:
        """Take an event in; return what is to be done about it, in order."""
        kind = type(event)
        what: Input = kind
        if kind is Received:
            assert isinstance(event, Received)
            what = type(event.message)
        elif kind is TimerFired:
            assert isinstance(event, TimerFired)
            what = event.timer
        elif kind is Asked:
            assert isinstance(event, Asked)
            what = type(event.question)
        found = self._acts.get(what)
        if found is None:
            return self._no_act(what)
        out: list[Effect] = []
        following, act = found
        if kind is Received:
            assert isinstance(event, Received)
            self._hear(event, now, out)
        if following is not None:
            self._enter(following)
        act(self, event, now, out)
        return out

    def _no_act(self, what: Input) -> list[Effect]:
        """What the table does not name is ignored or a defect of ours."""
        if (self.state, what) in IGNORED:
            return []
        named = what if isinstance(what, str) else what.__name__
        raise LocalError(
            f"gossip gets {named} while it is {self.state}",
            detail=ILLEGAL.get((self.state, what), "it does not know it"),
        )

    def _enter(self, state: State) -> None:
        self.state = state
        self._acts = _ACTS[state]

    # --- the host -------------------------------------------------------------------------------

    def _started(self, _event: Started, now: Instant, out: list[Effect]) -> None:
        self._comparing.start(now, out)
        out.append(SetTimer(HOLD, now + self._config.hold_us))

    def _stopping(self, event: Stopping, now: Instant, out: list[Effect]) -> None:
        """Nothing that was accepted stays here alone."""
        self._release(event, now, out)
        self._flush(now, out)

    def _retry(self, _event: TimerFired, now: Instant, out: list[Effect]) -> None:
        self._spreading.retry(now, out)

    def _compare_timer(self, event: TimerFired, now: Instant, out: list[Effect]) -> None:
        self._comparing.timer(now, out)
        if self.state is State.DOUBT:
            self._compared(event, now, out)

    def _batch_timer(self, _event: TimerFired, now: Instant, out: list[Effect]) -> None:
        self._batching = False
        self._flush(now, out)

    def _unreachable(self, event: Unreachable, now: Instant, out: list[Effect]) -> None:
        if event.peer.name:
            self._spreading.silent(event.peer, now, out)

    # --- siblings -------------------------------------------------------------------------------

    def _routed(self, event: Routes, now: Instant, out: list[Effect]) -> None:
        """The ring's tables are these now."""
        self._predecessor = event.predecessor
        before = self._spreading.order.contacts
        order = order_of(self.me.key, (*event.successors, *event.fingers))
        self._spreading.order = order
        for contact in order.contacts:
            if contact not in before:
                self._spreading.heard_from(contact.name)
        nearest = order.contacts[0] if order.contacts else event.predecessor
        self._comparing.neighbour(nearest, now, out)
        if order.contacts and self._batch and not self._batching:
            self._flush(now, out)

    def _route_lost(self, event: RouteLost, now: Instant, out: list[Effect]) -> None:
        self._comparing.gone(event.peer.name)
        self._spreading.silent(event.peer, now, out)

    # --- questions ------------------------------------------------------------------------------

    def _facts(self, event: Asked, now: Instant, out: list[Effect]) -> None:
        question: Any = event.question
        facts = tuple(self._store.of(question.topic))
        out.append(Answer(event.request, FactList(facts)))

    def _broadcast(self, event: Asked, now: Instant, out: list[Effect]) -> None:
        assert isinstance(event.question, Broadcast)
        self._accept(event.request, event.question, now, out)

    def _wait(self, event: Asked, now: Instant, out: list[Effect]) -> None:
        """The version has to be above all that a comparison will show; but not for ever."""
        assert isinstance(event.question, Broadcast)
        if self.state is State.DOUBT and not self._waiting:
            out.append(SetTimer(HOLD, now + self._config.hold_us))
        self._waiting.append((event.request, event.question))

    def _release(self, _event: Struct, now: Instant, out: list[Effect]) -> None:
        """What this peer could learn first, it has learned: accept what waits."""
        waiting, self._waiting = self._waiting, []
        for request, question in waiting:
            self._accept(request, question, now, out)

    def _accept(self, request: int, question: Broadcast, now: Instant, out: list[Effect]) -> None:
        """Give it the next version, and pass it on in a moment."""
        refusal = self._refusal(question)
        if refusal is not None:
            out.append(Answer(request, refusal))
            return
        version = Version(self._store.counter + 1, self.me.name, self.me.incarnation)
        fact = Fact(question.topic, question.key, version, question.body)
        self._take(fact, now, out)
        out.append(Answer(request, Accepted(version)))
        self._pass_on(fact, now, out)

    def _refusal(self, question: Broadcast) -> UserError | None:
        """Why this cannot be broadcast."""
        size = len(question.body or b"")
        if not 0 < len(question.topic) <= TOPIC_CHARS_MAX:
            return UserError(
                f"topic {question.topic[:40]!r} cannot be used",
                detail=f"a topic has 1 to {TOPIC_CHARS_MAX} characters",
            )
        if not 0 < len(question.key) <= NAME_CHARS_MAX:
            return UserError(
                f"fact {question.key[:40]!r} of topic {question.topic} cannot be broadcast",
                detail=f"its key has 1 to {NAME_CHARS_MAX} characters",
            )
        if size > self._config.body_bytes_max:
            return UserError(
                f"fact {question.key!r} of topic {question.topic} is too large to broadcast",
                detail=f"{size} bytes of at most {self._config.body_bytes_max}",
                hint="store the body under the root and broadcast its name",
            )
        if self._store.full and self._store.version((question.topic, question.key)) is None:
            return UserError(
                f"fact {question.key!r} of topic {question.topic} finds no room",
                detail=f"there are {self._config.facts_max} facts already",
                hint="remove facts that are not needed; removals are forgotten after a while",
            )
        return None

    # --- peers ----------------------------------------------------------------------------------

    def _hear(self, event: Received, now: Instant, out: list[Effect]) -> None:
        """Whoever says it, is there. Wrong messages are refused before anything has changed."""
        message = event.message
        if type(message) is Spread or type(message) is Give:
            self._check(message.facts)
        elif type(message) is Buckets and len(message.prints) != BUCKETS:
            raise RemoteError(f"a store has {BUCKETS} buckets, this one {len(message.prints)}")
        if self._comparing.touch(now, out):
            self._enter(State.DOUBT)
        self._spreading.heard_from(event.sender.name)

    def _spread(self, event: Received, now: Instant, out: list[Effect]) -> None:
        spread: Any = event.message
        for fact in spread.facts:
            self._take(fact, now, out)
        self._spreading.received(event.sender, spread, now, out)

    def _taken(self, event: Received, now: Instant, out: list[Effect]) -> None:
        taken: Any = event.message
        self._spreading.taken(event.sender, taken.token, now, out)

    def _compare(self, event: Received, now: Instant, out: list[Effect]) -> None:
        compare: Any = event.message
        self._comparing.compare(event.sender, compare, now, out)

    def _same(self, event: Received, now: Instant, out: list[Effect]) -> None:
        same: Any = event.message
        self._comparing.same(event.sender, same, now)
        self._compared(event, now, out)

    def _buckets(self, event: Received, now: Instant, out: list[Effect]) -> None:
        buckets: Any = event.message
        self._comparing.buckets(event.sender, buckets, now, out)
        self._compared(event, now, out)

    def _summary(self, event: Received, now: Instant, out: list[Effect]) -> None:
        summary: Any = event.message
        self._comparing.summary(event.sender, summary, now, out)

    def _given(self, event: Received, now: Instant, out: list[Effect]) -> None:
        """Facts from a neighbour: who lacked them tells the other neighbours."""
        give: Any = event.message
        learned = False
        for fact in give.facts:
            told = Fact(fact.topic, fact.key, fact.version, fact.body, fact.age, fact.row + 1)
            if not self._take(told, now, out):
                continue
            learned = True
            if told.row >= self._config.rows_max:
                self._pass_on(told, now, out)
        over = self._comparing.given(event.sender, give, now, out, learned=learned)
        for name in over:
            self._forget(name, out)
        if learned:
            for neighbour in (self._predecessor, *self._spreading.order.contacts[:1]):
                if neighbour is not None and neighbour.name != event.sender.name:
                    self._comparing.soon(neighbour, now, out)
        self._compared(event, now, out)

    def _compared(self, event: Struct, now: Instant, out: list[Effect]) -> None:
        """After a comparison, or the end of doubt, versions are to be trusted."""
        if self.state is State.FREE or self._comparing.doubt_from is not None:
            return
        if self.state is State.DOUBT or self._comparing.done:
            self._enter(State.FREE)
            out.append(CancelTimer(HOLD))
            self._release(event, now, out)

    # --- facts ----------------------------------------------------------------------------------

    def _check(self, facts: Sequence[Fact]) -> None:
        """Refuse what no honest peer says.

        Counters grow by one; one that leaps would use up the room for all that follow. Messages
        stay far below a frame, so that they can be passed on.
        """
        limit = self._store.counter + _LEAP_MAX
        size = 0
        for fact in facts:
            size += size_of(fact)
            if fact.version.counter > limit:
                raise RemoteError(
                    f"fact {fact.key!r} of topic {fact.topic} has a counter that cannot be",
                    detail=f"{fact.version.counter} where {limit} is far away already",
                )
        if size > MESSAGE_BYTES_MAX:
            raise RemoteError(
                "facts of one message are too large together",
                detail=f"{size} bytes of at most {MESSAGE_BYTES_MAX}",
            )

    def _take(self, fact: Fact, now: Instant, out: list[Effect]) -> bool:
        if not self._store.take(fact, now):
            return False
        out.append(Tell(Heard(fact.topic, fact.key, fact.version, fact.body)))
        return True

    def _forget(self, name: _Name, out: list[Effect]) -> None:
        """It was removed while this peer was away."""
        version = self._store.version(name)
        if version is not None:
            self._store.drop(name)
            out.append(Tell(Heard(*name, version, None)))

    def _pass_on(self, fact: Fact, now: Instant, out: list[Effect]) -> None:
        size = size_of(fact)
        if self._batch_bytes + size > self._config.message_bytes_max:
            self._flush(now, out)
        self._batch[fact.name] = None
        self._batch_bytes += size
        if not self._config.batch_us:
            self._flush(now, out)
        elif not self._batching:
            self._batching = True
            out.append(SetTimer(BATCH, now + self._config.batch_us))

    def _flush(self, now: Instant, out: list[Effect]) -> None:
        """Broadcast what has gathered; without anybody on the ring it goes on waiting."""
        if not self._batch or not self._spreading.order.contacts:
            return
        if self._spreading.full:
            self._batching = True
            out.append(SetTimer(BATCH, now + self._config.ack_us))
            return
        if self._batching:
            self._batching = False
            out.append(CancelTimer(BATCH))
        facts = self._store.broadcast(self._batch, now)
        self._batch.clear()
        self._batch_bytes = 0
        for piece in cut(facts, self._config.message_bytes_max):
            self._spreading.begin(piece, now, out)

    # --- outside --------------------------------------------------------------------------------

    @property
    def digest(self) -> int:
        """Equal digests mean equal stores."""
        return self._store.digest

    @property
    def dropped(self) -> int:
        """Facts that were forgotten after an absence."""
        return self._comparing.dropped

    def version_of(self, topic: str, key: str) -> Version | None:
        """The version held here, of a removed fact too."""
        return self._store.version((topic, key))

    def validate(self) -> None:
        """Invariants that hold after every event; cheap, and without a look at every fact."""
        self._store.validate()
        if not self._spreading.validate():
            raise LocalError("gossip has a duty that nobody is going to look at")
        if self.state is State.FREE and self._waiting:
            raise LocalError("gossip lets broadcasts wait although it is free to accept them")
        in_doubt = self._comparing.doubt_from is not None
        if in_doubt is not (self.state is State.DOUBT) and self.state is not State.STOPPED:
            raise LocalError(f"gossip is {self.state} and its comparing thinks otherwise")

    def validate_all(self) -> None:
        """As `validate`, with a look at every fact."""
        self.validate()
        self._store.validate_all()

    def view(self) -> GossipView:
        """A picture; holds no reference into the machine."""
        return GossipView(
            facts=len(self._store),
            digest=self._store.digest,
            counter=self._store.counter,
            open=self._spreading.open,
            repairs=self._spreading.repairs,
            compared=self._comparing.done,
            dropped=self._comparing.dropped,
            refused=self._store.refused,
            state=self.state.value,
            known=tuple(self._store),
        )


_Act = Callable[[GossipMachine, Any, Instant, list[Effect]], None]
#: TABLE by state, with the methods themselves: looked up at every event.
_ACTS: Mapping[State, Mapping[Input, tuple[State | None, _Act]]] = {
    state: {
        what: (None if following is state else following, getattr(GossipMachine, name))
        for (when, what), (following, name) in TABLE.items()
        if when is state
    }
    for state in State
}
