"""What a peer knows of its ring, and the states that it goes through.

Invariants of the table, checked by `validate`: successors stand clockwise, each once, never this
peer itself, at most `successors_max`; fingers stand behind the last successor, each behind its
power of two; whoever stands in the table has not been given up here (`watch.py`).
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from enum import StrEnum

from shoal.control.ring.messages import (
    MESSAGES,
    Consider,
    Find,
    Goodbye,
    Leave,
    Lookup,
    Neighbours,
    NotMember,
    Ping,
    PingFor,
    Pong,
    Stabilise,
    Step,
    Stepped,
    Unchanged,
    Unify,
    Vouched,
)
from shoal.control.ring.policy import finger_powers
from shoal.kernel.errors import LocalError
from shoal.kernel.events import Started, Stopping, Unreachable
from shoal.kernel.keys import KEY_BITS, Contact, Key, key_of_name

__all__ = ["DECIDED", "IGNORED", "ILLEGAL", "TABLE", "State", "Table"]

_ROUND = 1 << KEY_BITS
#: Versions of two incarnations never meet: this many changes fit into one life.
_VERSIONS = 1 << 32


class State(StrEnum):
    """Where a peer is in its one life on the ring."""

    NEW = "new"
    JOINING = "joining"
    MEMBER = "member"
    LEFT = "left"


#: (state, input) to (next state, method of the machine); an input is an event, a timer, a
#: question or a message. None: the method decides.
TABLE: Mapping[tuple[State, type | str], tuple[State | None, str]] = {
    (State.NEW, Started): (None, "_started"),
    (State.NEW, Stopping): (State.LEFT, "_left_unseen"),
    (State.JOINING, "ring/round"): (None, "_join_round"),
    (State.JOINING, "ring/wake"): (State.JOINING, "_wake"),
    (State.JOINING, Unreachable): (State.JOINING, "_unreachable"),
    (State.JOINING, Stopping): (State.LEFT, "_left_unseen"),
    (State.JOINING, Find): (State.JOINING, "_find"),
    (State.JOINING, Lookup): (State.JOINING, "_lookup"),
    (State.JOINING, Leave): (State.LEFT, "_leave"),
    (State.JOINING, Stabilise): (State.JOINING, "_no_member"),
    (State.JOINING, Step): (State.JOINING, "_no_member"),
    (State.JOINING, Neighbours): (None, "_neighbours_joining"),
    (State.JOINING, Stepped): (State.JOINING, "_stepped"),
    (State.JOINING, Ping): (State.JOINING, "_ping"),
    (State.JOINING, Pong): (State.JOINING, "_pong"),
    (State.JOINING, PingFor): (State.JOINING, "_ping_for"),
    (State.JOINING, NotMember): (State.JOINING, "_not_member"),
    (State.MEMBER, "ring/round"): (State.MEMBER, "_round"),
    (State.MEMBER, "ring/wake"): (State.MEMBER, "_wake"),
    (State.MEMBER, "ring/push"): (State.MEMBER, "_push"),
    (State.MEMBER, Unreachable): (State.MEMBER, "_unreachable"),
    (State.MEMBER, Stopping): (State.LEFT, "_stopping"),
    (State.MEMBER, Find): (State.MEMBER, "_find"),
    (State.MEMBER, Lookup): (State.MEMBER, "_lookup"),
    (State.MEMBER, Leave): (State.LEFT, "_leave"),
    (State.MEMBER, Stabilise): (State.MEMBER, "_stabilise"),
    (State.MEMBER, Neighbours): (State.MEMBER, "_neighbours"),
    (State.MEMBER, Unchanged): (State.MEMBER, "_unchanged"),
    (State.MEMBER, Step): (State.MEMBER, "_step"),
    (State.MEMBER, Stepped): (State.MEMBER, "_stepped"),
    (State.MEMBER, Ping): (State.MEMBER, "_ping"),
    (State.MEMBER, Pong): (State.MEMBER, "_pong"),
    (State.MEMBER, PingFor): (State.MEMBER, "_ping_for"),
    (State.MEMBER, Vouched): (State.MEMBER, "_vouched"),
    (State.MEMBER, NotMember): (State.MEMBER, "_not_member"),
    (State.MEMBER, Goodbye): (State.MEMBER, "_goodbye"),
    (State.MEMBER, Consider): (State.MEMBER, "_consider"),
    (State.MEMBER, Unify): (State.MEMBER, "_unify"),
    (State.LEFT, Find): (State.LEFT, "_find"),
    (State.LEFT, Lookup): (State.LEFT, "_lookup"),
    (State.LEFT, Leave): (State.LEFT, "_leave"),
    (State.LEFT, Stabilise): (State.LEFT, "_no_member"),
    (State.LEFT, Step): (State.LEFT, "_no_member"),
    (State.LEFT, Ping): (State.LEFT, "_no_member"),
}
_NOT_YET = "sent to an earlier incarnation; this one has told nobody of itself"
_OVER = "good-bye has been said; what was under way is over"
IGNORED: Mapping[tuple[State, type | str], str] = {
    **{(State.NEW, message): _NOT_YET for message in MESSAGES.values()},
    **{
        (State.LEFT, message): _OVER
        for message in MESSAGES.values()
        if message not in (Stabilise, Step, Ping)
    },
    (State.NEW, Unreachable): "nothing has been sent yet",
    (State.NEW, "ring/round"): "a timer of an earlier incarnation",
    (State.NEW, "ring/wake"): "a timer of an earlier incarnation",
    (State.NEW, "ring/push"): "a timer of an earlier incarnation",
    (State.JOINING, "ring/push"): "there is nobody to push to yet",
    (State.JOINING, Unchanged): "a joiner knows no version; meant for an earlier incarnation",
    (State.JOINING, Vouched): "a joiner suspects nobody; meant for an earlier incarnation",
    (State.JOINING, Goodbye): "whom it concerns is not known here yet",
    (State.JOINING, Consider): "a joiner finds its successor by itself",
    (State.JOINING, Unify): "a joiner is in no ring that could be merged",
    (State.LEFT, "ring/round"): _OVER,
    (State.LEFT, "ring/wake"): _OVER,
    (State.LEFT, "ring/push"): _OVER,
    (State.LEFT, Unreachable): "the good-bye did not arrive; probes will tell",
    (State.LEFT, Stopping): "has left already",
}
ILLEGAL: Mapping[tuple[State, type | str], str] = {
    (State.NEW, Find): "siblings are told of the start after the ring",
    (State.NEW, Lookup): "the peer refuses questions before its start",
    (State.NEW, Leave): "the peer refuses questions before its start",
    (State.JOINING, Started): "a peer starts once; another incarnation is another machine",
    (State.MEMBER, Started): "a peer starts once; another incarnation is another machine",
    (State.LEFT, Started): "a peer starts once; another incarnation is another machine",
}
#: Where TABLE leaves the next state to the method: what it may be.
DECIDED: Mapping[tuple[State, type | str], tuple[State, ...]] = {
    (State.NEW, Started): (State.JOINING, State.MEMBER),
    (State.JOINING, "ring/round"): (State.JOINING, State.MEMBER),
    (State.JOINING, Neighbours): (State.JOINING, State.MEMBER),
}


class Table:
    """Predecessor, successors and fingers of one peer; answers who owns a key, or who is closer."""

    def __init__(self, me: Contact, successors_max: int) -> None:
        self.me = me
        self.successors_max = successors_max
        self.predecessor: Contact | None = None
        #: Clockwise from me, the nearest first.
        self.successors: tuple[Contact, ...] = ()
        #: By power: the first peer known at or behind my key + 2**power.
        self.fingers: dict[int, Contact] = {}
        #: Changes of predecessor and successors in this incarnation; never the same twice.
        self.version = me.incarnation * _VERSIONS
        #: Changes of anything.
        self.changes = 0
        self._place = int.from_bytes(me.key)
        self._route: tuple[list[int], list[Contact]] | None = None
        #: Gaps of predecessor and first successor: every look-up that passes asks for them.
        self._gap_before: int | None = None
        self._gap_first = 0

    def gap(self, contact: Contact) -> int:
        """How far clockwise of me it stands; 0 is me."""
        return (int.from_bytes(key_of_name(contact.name)) - self._place) % _ROUND

    def gap_of_key(self, key: Key) -> int:
        """How far clockwise of me a key lies; 0 is my own."""
        return (int.from_bytes(key) - self._place) % _ROUND

    # --- changes ----------------------------------------------------------------------------

    def set_predecessor(self, contact: Contact | None) -> None:
        """Another predecessor, or none known."""
        if contact != self.predecessor:
            self.predecessor = contact
            self._gap_before = None if contact is None else self.gap(contact)
            self.version += 1
            self.changes += 1

    def set_successors(self, contacts: Iterable[Contact]) -> bool:
        """Take these in their order as far as they run clockwise; whether anything is new."""
        taken: list[Contact] = []
        last = 0
        for contact in contacts:
            gap = self.gap(contact)
            if gap <= last:
                break
            taken.append(contact)
            last = gap
            if len(taken) == self.successors_max:
                break
        successors = tuple(taken)
        if successors == self.successors:
            return False
        self.successors = successors
        self._gap_first = self.gap(successors[0]) if successors else 0
        self.version += 1
        self.changes += 1
        self._route = None
        self._drop_needless_fingers()
        return True

    def set_finger(self, power: int, contact: Contact | None) -> None:
        """Another finger for a power, or none."""
        if self.fingers.get(power) == contact:
            return
        if contact is None:
            del self.fingers[power]
        else:
            self.fingers[power] = contact
        self.changes += 1
        self._route = None

    def _drop_needless_fingers(self) -> None:
        # A list that is short may only have lost somebody: then fingers are what is left.
        if len(self.successors) < self.successors_max:
            return
        first = self.powers().start
        for power in [power for power in self.fingers if power < first]:
            self.set_finger(power, None)

    def drop(self, name: str) -> None:
        """Forget a peer wherever it stands."""
        if self.predecessor is not None and self.predecessor.name == name:
            self.set_predecessor(None)
        if any(contact.name == name for contact in self.successors):
            self.set_successors(contact for contact in self.successors if contact.name != name)
        for power in [power for power, at in self.fingers.items() if at.name == name]:
            self.set_finger(power, None)

    # --- questions --------------------------------------------------------------------------

    def powers(self) -> range:
        """The powers that want a finger: none while the successor list holds the whole ring."""
        if len(self.successors) < self.successors_max:
            return range(KEY_BITS, KEY_BITS)
        return finger_powers(self.gap(self.successors[-1]))

    def owns(self, key: Key) -> bool:
        """Whether a key is mine: behind my predecessor, or anywhere if I know of nobody."""
        if self._gap_before is None:
            return not self.successors or key == self.me.key
        gap = self.gap_of_key(key)
        return gap == 0 or gap > self._gap_before

    def is_firsts(self, key: Key) -> bool:
        """Whether a key belongs to my first successor: it lies behind me, and not behind it."""
        return 0 < self.gap_of_key(key) <= self._gap_first

    def route(self) -> tuple[list[int], list[Contact]]:
        """Successors and fingers with their gaps, both ascending, each peer once."""
        if self._route is None:
            known = {contact.name: contact for contact in self.successors}
            known.update((contact.name, contact) for contact in self.fingers.values())
            pairs = sorted((self.gap(contact), contact.name) for contact in known.values())
            self._route = [gap for gap, _ in pairs], [known[name] for _, name in pairs]
        return self._route

    def closer(self, key: Key, count: int) -> list[Contact]:
        """The last peers before a key that I know of, the closest first."""
        gaps, contacts = self.route()
        # My own key lies a whole round ahead.
        end = bisect_left(gaps, self.gap_of_key(key) or _ROUND)
        return contacts[max(0, end - count) : end][::-1]

    def fingers_apart(self) -> tuple[Contact, ...]:
        """The fingers, clockwise from me, each peer once."""
        apart = {self.fingers[power].name: self.fingers[power] for power in sorted(self.fingers)}
        return tuple(sorted(apart.values(), key=self.gap))

    def __contains__(self, name: str) -> bool:
        return (
            (self.predecessor is not None and self.predecessor.name == name)
            or any(contact.name == name for contact in self.successors)
            or any(contact.name == name for contact in self.fingers.values())
        )

    def validate(self) -> None:
        """R2, as far as one peer can tell: the order of what it knows."""
        gaps = [self.gap(contact) for contact in self.successors]
        if len(gaps) > self.successors_max or gaps != sorted(dict.fromkeys(gaps)) or 0 in gaps:
            raise LocalError(f"R2: successors of {self.me.name} are not in order")
        before = None if self.predecessor is None else self.gap(self.predecessor)
        if before != self._gap_before or self._gap_first != (gaps[0] if gaps else 0):
            raise LocalError(f"R2: {self.me.name} decides by gaps of neighbours it no longer has")
        if before == 0:
            raise LocalError(f"R2: {self.me.name} is its own predecessor")
        first = self.powers().start if len(self.successors) == self.successors_max else 0
        for power, contact in self.fingers.items():
            if power < first or self.gap(contact) < 1 << power:
                raise LocalError(f"R2: finger {power} of {self.me.name} points short of its power")
