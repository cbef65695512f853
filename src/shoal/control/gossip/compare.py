"""Comparing stores with a neighbour: what broadcasts missed, and what a late joiner needs.

    asker                              neighbour
      │── Compare(digest) ────────────▶│
      │◀── Same ───────────────────────│   nothing to tell; or
      │◀── Buckets(64 digests) ────────│
      │── Summary(names, versions) ───▶│   of the buckets that differ
      │◀── Give(facts, wants) ─────────│   what the asker lacks, and what the neighbour lacks
      │── Give(facts) ────────────────▶│
      │── Compare(digest) ────────────▶│   again, until Same

The neighbour keeps no state. The asker starts over when an answer is missing.

Away. Who heard nobody for `away_us` may know facts that were removed meanwhile and the removal
forgotten. It is in doubt: it gives nothing to anybody until it has compared with a neighbour. If
that one was sound (up, and never away) for longer than this peer was away, whatever it lacks of
what this peer knew before was removed, and is dropped; else it cannot know better, and the facts
stay. They stay too after two periods without an answer: all neighbours are in doubt then.
Durations are compared, never instants of two peers. Two halves of a ring that part for longer than
`removed_life_us` both stay sound: what one removed then comes back from the other.
"""

from collections.abc import Iterator, Sequence

from shoal.control.gossip.config import GossipConfig
from shoal.control.gossip.messages import (
    Buckets,
    Compare,
    Entry,
    Fact,
    Give,
    Same,
    Summary,
    Want,
)
from shoal.control.gossip.spread import first_number
from shoal.control.gossip.state import Store
from shoal.kernel.effects import Effect, Note, Send, SetTimer
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.kernel.time import Instant

__all__ = ["COMPARE", "Comparing", "cut", "size_of"]

COMPARE = "gossip/compare"
#: Bytes of names in one summary, and names wanted at once; far below a frame, beside facts.
_SUMMARY_BYTES_MAX = 300_000
_WANTS_MAX = 500
#: Comparisons one after the other with one neighbour in which this peer learned nothing new.
_ROUNDS_MAX = 4
#: Messages of facts at once; what is left comes in the next round. It bounds what a small question
#: can make a peer say, and hold in memory.
_GIVES_MAX = 8
#: Bytes of a fact or a name beside its texts and its body, at most: numbers and framing.
_FRAMING_BYTES = 64

_Name = tuple[str, str]


class _Session:
    """A comparison this peer has asked for."""

    __slots__ = (
        "due",
        "learned",
        "moved",
        "open",
        "partner",
        "round",
        "settles",
        "token",
        "tried",
    )

    def __init__(self, partner: Contact) -> None:
        self.partner = partner
        self.token = 0
        self.due = 0
        self.tried = 0
        self.round = 0
        #: Summaries without an answer yet; whether facts went either way in this round, and
        #: whether any was new here.
        self.open = 0
        self.moved = False
        self.learned = False
        #: The partner was sound for longer than this peer was away.
        self.settles = False


class Comparing:
    """The comparisons under way at one peer, and whether it may trust what it holds."""

    def __init__(self, me: Contact, config: GossipConfig, store: Store, rng: Rng) -> None:
        self._me = me
        self._config = config
        self._away_us = config.away_us
        self._store = store
        self._rng = rng
        self._sessions: dict[str, _Session] = {}
        self._wanted: dict[str, Contact] = {}
        self._token = first_number(me)
        self._successor: Contact | None = None
        self._soon: Instant | None = None
        self._periodic: Instant = 0
        self._sound_since: Instant = 0
        #: When a message of another peer was last heard; None before the first.
        self.touched: Instant | None = None
        #: Until when this peer knew what held; None while it is sound.
        self.doubt_from: Instant | None = None
        self._doubt_ends: Instant | None = None
        #: Comparisons that ended with equal stores, or with nothing left to give.
        self.done = 0
        self.dropped = 0

    # --- when ---------------------------------------------------------------------------------

    def start(self, now: Instant, out: list[Effect]) -> None:
        """Begin to compare from time to time, each peer at moments of its own."""
        self._sound_since = now
        self._periodic = now + 1 + self._rng.below(self._config.compare_every_us)
        self._arm(out)

    def neighbour(self, successor: Contact | None, now: Instant, out: list[Effect]) -> None:
        """The successor (the predecessor, if no successor is known) is this one now."""
        if successor is None or successor == self._successor:
            self._successor = successor
            return
        self._successor = successor
        if self.doubt_from is not None and self._doubt_ends is None:
            self._doubt_ends = now + 2 * self._config.compare_every_us
        self.soon(successor, now, out)

    def soon(self, partner: Contact, now: Instant, out: list[Effect]) -> None:
        """Compare with this peer in a moment."""
        self._wanted[partner.name] = partner
        if self._soon is None:
            wait = self._config.compare_soon_us
            self._soon = now + wait // 2 + self._rng.below(wait)
            self._arm(out)

    def gone(self, name: str) -> None:
        """No need to wait for this peer."""
        self._wanted.pop(name, None)
        self._sessions.pop(name, None)

    def timer(self, now: Instant, out: list[Effect]) -> None:
        """Whatever is due."""
        self._end_doubt(now)
        if self._soon is not None and self._soon <= now:
            self._soon = None
            partners = list(self._wanted.values())
            self._wanted.clear()
            for partner in partners:
                self._begin(partner, now, out)
        if self._periodic <= now:
            self._periodic = now + self._config.compare_every_us
            self._store.lapse(now)
            if self._successor is not None:
                self._begin(self._successor, now, out)
        for session in [one for one in self._sessions.values() if one.due <= now]:
            if session.tried < self._config.compare_tries:
                session.tried += 1
                self._ask(session, now, out)
            else:
                del self._sessions[session.partner.name]
        self._arm(out)

    # --- away ---------------------------------------------------------------------------------

    def touch(self, now: Instant, out: list[Effect]) -> bool:
        """Another peer was heard; says whether this peer finds that it was away."""
        touched = self.touched
        self.touched = now
        if touched is None or now - touched <= self._away_us:
            return False
        self.doubt(touched, now, out)
        return True

    def doubt(self, since: Instant, now: Instant, out: list[Effect]) -> None:
        """This peer may know what does not hold any more."""
        if self.doubt_from is not None:
            return
        self.doubt_from = since
        self._doubt_ends = None
        out.append(Note("gossip/away", f"heard nobody for {(now - since) // 1_000_000} s"))
        self._sessions.clear()
        if self._successor is not None:
            self._doubt_ends = now + 2 * self._config.compare_every_us
            self.soon(self._successor, now, out)

    def sound_us(self, now: Instant) -> int:
        """For how long this peer was never away."""
        return 0 if self.doubt_from is not None else max(0, now - self._sound_since)

    def _end_doubt(self, now: Instant) -> None:
        if self._doubt_ends is not None and self._doubt_ends <= now:
            self._trust(now)

    def _trust(self, now: Instant) -> None:
        if self.doubt_from is not None:
            self.doubt_from = None
            self._doubt_ends = None
            self._sound_since = now

    # --- the asker ----------------------------------------------------------------------------

    def _begin(self, partner: Contact, now: Instant, out: list[Effect]) -> None:
        if partner.name in self._sessions or partner.name == self._me.name:
            return
        session = self._sessions[partner.name] = _Session(partner)
        session.tried = 1
        self._ask(session, now, out)

    def _ask(self, session: _Session, now: Instant, out: list[Effect]) -> None:
        """Open the next round, or the same one once more."""
        self._token += 1
        session.token = self._token
        session.due = now + self._config.compare_wait_us
        session.open = 0
        session.moved = False
        session.learned = False
        out.append(Send(session.partner, Compare(session.token, self._store.digest)))

    def _session(self, sender: Contact, token: int) -> _Session | None:
        session = self._sessions.get(sender.name)
        return session if session is not None and session.token == token else None

    def same(self, sender: Contact, message: Same, now: Instant) -> None:
        """Equal: this comparison is over."""
        session = self._session(sender, message.token)
        if session is not None:
            self._end(session, now)

    def buckets(self, sender: Contact, message: Buckets, now: Instant, out: list[Effect]) -> None:
        """Say what is here in the buckets that differ."""
        session = self._session(sender, message.token)
        if session is None or session.open:
            return
        if self.doubt_from is not None:
            session.settles = message.sound_us >= now - self.doubt_from
        differing = self._store.differing(message.prints)
        if not differing:
            self._end(session, now)
            return
        session.due = now + self._config.compare_wait_us
        for chunk, entries in self._summaries(differing):
            session.open += 1
            out.append(Send(sender, Summary(session.token, chunk, entries)))

    def _summaries(
        self, buckets: Sequence[int]
    ) -> Iterator[tuple[tuple[int, ...], tuple[Entry, ...]]]:
        """What is in these buckets, several to a message as far as they fit.

        Of a bucket that does not fit at all some names are left out, others each time; the
        neighbour then gives facts that are here already.
        """
        chunk: list[int] = []
        entries: list[Entry] = []
        size = 0
        for bucket in buckets:
            found = self._store.entries(bucket)
            more = sum(_entry_size(entry) for entry in found)
            if chunk and size + more > _SUMMARY_BYTES_MAX:
                yield tuple(chunk), tuple(entries)
                chunk, entries, size = [], [], 0
            while more > _SUMMARY_BYTES_MAX:
                more -= _entry_size(found.pop(self._rng.below(len(found))))
            chunk.append(bucket)
            entries += found
            size += more
        yield tuple(chunk), tuple(entries)

    def given(
        self, sender: Contact, message: Give, now: Instant, out: list[Effect], *, learned: bool
    ) -> list[_Name]:
        """After the facts were taken: give what is wanted; returns names that must be forgotten."""
        session = self._session(sender, message.token)
        if session is None or not session.open:
            return []
        session.due = now + self._config.compare_wait_us
        session.moved = session.moved or bool(message.facts or message.wants)
        session.learned = session.learned or learned
        wanted: list[_Name] = []
        forget: list[_Name] = []
        for want in message.wants:
            name = (want.topic, want.key)
            (forget if self._is_over(session, want) else wanted).append(name)
        for facts in self._cut(wanted, now):
            out.append(Send(sender, Give(message.token, facts)))
        if message.last:
            session.open -= 1
            if not session.open:
                self._next(session, now, out)
        self.dropped += len(forget)
        return forget

    def _is_over(self, session: _Session, want: Want) -> bool:
        """Whether the partner lacks it because it was removed while this peer was away."""
        if self.doubt_from is None or not session.settles or want.held:
            return False
        learned = self._store.learned((want.topic, want.key))
        return learned is not None and learned <= self.doubt_from

    def _next(self, session: _Session, now: Instant, out: list[Effect]) -> None:
        session.round = 0 if session.learned else session.round + 1
        if session.moved and session.round < _ROUNDS_MAX:
            session.tried = 1
            self._ask(session, now, out)
        else:
            self._end(session, now)

    def _end(self, session: _Session, now: Instant) -> None:
        del self._sessions[session.partner.name]
        self.done += 1
        self._trust(now)

    # --- the neighbour ------------------------------------------------------------------------

    def compare(self, sender: Contact, message: Compare, now: Instant, out: list[Effect]) -> None:
        """Say whether the stores are equal; in doubt, say only that."""
        if message.digest == self._store.digest:
            out.append(Send(sender, Same(message.token)))
        elif self.doubt_from is None:
            buckets = Buckets(message.token, self._store.prints, self.sound_us(now))
            out.append(Send(sender, buckets))

    def summary(self, sender: Contact, message: Summary, now: Instant, out: list[Effect]) -> None:
        """Give what the asker lacks, or a part of it, and say what is lacking here."""
        if self.doubt_from is not None:
            return
        names, wants = self._store.compare(message.buckets, message.entries)
        pieces = self._cut(names, now)
        for facts in pieces[:-1]:
            out.append(Send(sender, Give(message.token, facts)))
        rest = pieces[-1] if pieces else ()
        out.append(Send(sender, Give(message.token, rest, tuple(wants[:_WANTS_MAX]), True)))

    def _cut(self, names: Sequence[_Name], now: Instant) -> list[tuple[Fact, ...]]:
        """The first of these facts, in pieces that fit into messages."""
        bytes_max = self._config.message_bytes_max
        left = _GIVES_MAX * bytes_max
        facts: list[Fact] = []
        for name in names:
            fact = self._store.told(name, now)
            if fact is not None:
                left -= size_of(fact)
                if left < 0:
                    break
                facts.append(fact)
        return cut(facts, bytes_max)

    def _arm(self, out: list[Effect]) -> None:
        dues = [self._periodic, *(one.due for one in self._sessions.values())]
        if self._soon is not None:
            dues.append(self._soon)
        if self._doubt_ends is not None:
            dues.append(self._doubt_ends)
        out.append(SetTimer(COMPARE, min(dues)))


def size_of(fact: Fact) -> int:
    """The most bytes it can take in a message."""
    texts = _length(fact.topic) + _length(fact.key) + _length(fact.version.writer)
    return _FRAMING_BYTES + texts + len(fact.body or b"")


def _entry_size(entry: Entry) -> int:
    texts = _length(entry.topic) + _length(entry.key) + _length(entry.version.writer)
    return _FRAMING_BYTES + texts


def _length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def cut(facts: Sequence[Fact], bytes_max: int) -> list[tuple[Fact, ...]]:
    """Pieces that fit into one message each."""
    pieces: list[tuple[Fact, ...]] = []
    piece: list[Fact] = []
    size = 0
    for fact in facts:
        more = size_of(fact)
        if piece and size + more > bytes_max:
            pieces.append(tuple(piece))
            piece, size = [], 0
        piece.append(fact)
        size += more
    if piece:
        pieces.append(tuple(piece))
    return pieces
