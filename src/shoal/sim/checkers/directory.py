"""Records are found while their owners live, gone when they are not, and never come back.

What is true comes from the questions that owners were asked and the answers they got; who lives,
from the world. Always, also under faults:

    R1  a record that had its copies is held by somebody as long as its owner runs, unless so many
        of its holders were lost at once as there are copies, or peers are cut off from each other,
        or the owner stands still for so long that it cannot renew; no owner is told of more copies
        than there are, but for holders that were just lost
    D1  what is withdrawn, or whose owner has ended, is not found once every lease has run out; a
        peer that starts holds nothing, whatever its disk says
    D2  no peer goes back to an older version, nor from dead to alive at the same version; only an
        end that it need not remember any longer, by its own clock, may be followed by an older end
    D3  every question is answered within the time the machine promises

When nothing was disturbed for a while (GRACE), answers must be right at once: what is published
is found (R1), what is withdrawn is not (D1). When everything has settled, the peer that should
keep a key holds exactly what is true, and so do its replicas.

Not checked   in which order watchers hear of changes; loads and positions, which are whatever the
              owner said last; how many messages it took (benchmarks).
"""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from shoal.control.directory.config import DirectoryConfig
from shoal.control.directory.machine import DirectoryMachine
from shoal.control.directory.messages import (
    EXPIRED,
    LIVE,
    WITHDRAWN,
    Find,
    Found,
    Give,
    Ident,
    Item,
    Publish,
    Published,
    Push,
    Store,
    Version,
    Withdraw,
    Withdrawn,
    ident_of,
)
from shoal.kernel.effects import Answer, Effect
from shoal.kernel.errors import ShoalError
from shoal.kernel.events import Asked, Received, Started
from shoal.kernel.keys import Key, short
from shoal.kernel.time import SECOND, Instant
from shoal.sim.checkers.checker import Checker, Violation
from shoal.sim.node import PAUSED, UP, Node

__all__ = ["DirectoryChecker"]

#: Without a fault for so long, the ring and the directory have repaired themselves.
GRACE = 45 * SECOND
#: Within this, losses count as simultaneous: the ring notices, and copies are made again.
REPAIR = 30 * SECOND
#: The longest that a message may have waited somewhere: a clogged link, a paused host.
LATE_MAX = 60 * SECOND
#: How late an answer may be: the machine's own clock may drift.
ANSWER_SLACK = 2 * SECOND
#: Faults that keep an owner from its keepers; renewals may then come too late.
_CUTS = ("partition", "isolate", "swizzle", "clog")
#: With more peers, who holds what is counted every so many seconds.
_PEERS_MANY = 100
_COUNT_SECONDS = 10


#: What a peer held: version and state, and until when it remembers that, if it is an end, by its
#: own clock: that may leap, and then it forgets before others do.
_Seen = tuple[Version, int, Instant]


class _Truth:
    """One record, as its owner wants it."""

    __slots__ = ("holders", "published", "secured_at", "stored", "withdrawn")

    def __init__(self) -> None:
        #: When it was stored as the owner knows, and withdrawn as it knows; None: not yet.
        self.stored: Instant | None = None
        self.withdrawn: Instant | None = None
        #: Whether the owner wants it on record.
        self.published = True
        #: Who held it when it last had all its copies.
        self.holders: tuple[Node, ...] = ()
        self.secured_at: Instant = 0


class _Life:
    """One incarnation of an owner."""

    __slots__ = ("ended", "incarnation", "node", "records")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.incarnation = node.contact.incarnation
        self.records: dict[Ident, _Truth] = {}
        self.ended: Instant | None = None


class _Question:
    __slots__ = ("asked", "since", "what")

    def __init__(self, what: Struct, now: Instant) -> None:
        self.what = what
        self.asked = now
        #: Since when its peer has had the chance to answer.
        self.since = now


class DirectoryChecker(Checker):
    """Reads shelves, questions and answers of all peers."""

    name = "directory"
    bound_s = 60.0

    def __init__(self, config: DirectoryConfig | None = None) -> None:
        self.config = config or DirectoryConfig()
        self._lives: dict[tuple[str, int], _Life] = {}
        #: What each running peer holds, as far as messages have said.
        self._seen: dict[Node, dict[Ident, _Seen]] = {}
        self._questions: dict[tuple[Node, int], _Question] = {}
        self._downs: dict[Node, Instant] = {}
        #: When peers were last cut off from each other.
        self._cut_at: Instant = -GRACE
        self._seconds = 0
        self.judged = 0
        self.secured = 0

    # What happens

    def up(self, node: Node) -> None:
        if _machine(node) is None:
            return
        self._lives[node.contact.name, node.contact.incarnation] = _Life(node)
        self._seen[node] = {}

    def down(self, node: Node) -> None:
        life = self._life(node)
        if life is None:
            return
        life.ended = self.world.now
        self._downs[node] = self.world.now
        self._seen.pop(node, None)
        for pair in [pair for pair in self._questions if pair[0] is node]:
            del self._questions[pair]

    def after_event(self, node: Node, event: Struct, effects: Sequence[Effect]) -> None:
        if isinstance(event, Received):
            message = event.message
            if isinstance(message, Store | Push | Give):
                self._check_versions(node, message)
        elif isinstance(event, Asked):
            self._asked(node, event)
        elif isinstance(event, Started):
            machine = _machine(node)
            if machine is not None and machine.held(node.local(self.world.now)):
                raise Violation("D1", f"{node.name} starts with records of an earlier life")
        if self._questions:
            for effect in effects:
                if type(effect) is Answer:
                    self._answered(node, effect)

    def _asked(self, node: Node, event: Asked) -> None:
        question, life = event.question, self._life(node)
        if life is None or not isinstance(question, Publish | Withdraw | Find):
            return
        self._questions[node, event.request] = _Question(question, self.world.now)
        if isinstance(question, Publish):
            for record in question.records:
                life.records[ident_of(record)] = _Truth()
        elif isinstance(question, Withdraw):
            for ident in question.idents:
                if ident in life.records:
                    life.records[ident].published = False

    def _answered(self, node: Node, answer: Answer) -> None:
        question = self._questions.pop((node, answer.request), None)
        life = self._life(node)
        if question is None or life is None:
            return
        what, result, now = question.what, answer.result, self.world.now
        if isinstance(what, Publish) and isinstance(result, Published) and not result.waiting:
            idents = [ident_of(record) for record in what.records]
            for ident in idents:
                life.records[ident].stored = now
            still = [ident for ident in idents if life.records[ident].published]
            self._check_copies(node, result.copies, still)
        elif isinstance(what, Withdraw) and isinstance(result, Withdrawn) and not result.waiting:
            for ident in what.idents:
                if ident in life.records and not life.records[ident].published:
                    life.records[ident].withdrawn = now
        elif isinstance(what, Find):
            self._judge(node, what.key, question, result)

    def _check_copies(self, node: Node, copies: int, idents: Sequence[Ident]) -> None:
        """R1: what is said to be stored has its copies, but for holders lost just now.

        Outside faults these are as many as there should be.
        """
        now = self.world.now
        lost = sum(at >= now - REPAIR for at in self._downs.values())
        least = min(self.config.copies, len(self._seen)) if self.world.quiet_for() >= GRACE else 0
        holders = self._holders(idents)
        for ident in idents:
            held = len(holders.get((ident, node.contact.incarnation), ()))
            what = f"{node.name} was told of {copies} copies of {_say(ident)}"
            if held + lost < copies:
                raise Violation("R1", f"{what}; {held} hold it, {lost} peers were lost of late")
            if copies < least:
                raise Violation("R1", f"{what}; in peace there should be {least}")

    def _check_versions(self, node: Node, message: Store | Push | Give) -> None:
        """D2, of the items that a message was about."""
        machine, seen = _machine(node), self._seen.get(node)
        if machine is None or seen is None:
            return
        entries, here = machine.keeper.shelf.entries, node.local(self.world.now)
        for item in message.items:
            ident, told = ident_of(item.record), (item.version, item.state)
            entry, old = entries.get(ident), seen.get(ident)
            if entry is None:
                # An end that is not remembered must not be undone all the same. A record that was
                # not taken (it belongs elsewhere) was never held.
                ended = item.state != LIVE
                if ended and old is not None and told > old[:2]:
                    seen[ident] = (*told, here + self.config.tombstone_life)
                continue
            new = (entry.version, entry.state)
            if old is not None and new < old[:2]:
                if self._may_be(ident, entry.version, entry.state, old, here):
                    continue
                before = old[:2]
                if before[1] != LIVE and entry.state == LIVE:
                    raise Violation(
                        "D1", f"{node.name} has {_say(ident)} back: {new} after {before}"
                    )
                raise Violation(
                    "D2", f"{node.name} went from {before} back to {new} of {_say(ident)}"
                )
            if old is None or new > old[:2]:
                copied = new == told and not isinstance(message, Store)
                seen[ident] = (*new, here + self._span(item if copied else None))

    def _span(self, copy: Item | None) -> int:
        """For how long an end is remembered; no copy of a withdrawal outlives the original."""
        life = self.config.tombstone_life
        return life if copy is None or copy.state != WITHDRAWN else min(life, copy.left)

    def _may_be(
        self, ident: Ident, version: Version, state: int, old: _Seen, here: Instant
    ) -> bool:
        """Whether an end that is forgotten by now may be followed by this: by another end; or, as
        it had only run out, by the same record of an owner that has stood still and goes on."""
        known, end, until = old
        if end == LIVE or here < until:
            return False
        if state != LIVE:
            return True
        life = self._lives.get((ident.owner, version.incarnation))
        truth = life.records.get(ident) if life is not None and life.ended is None else None
        return end == EXPIRED and version == known and truth is not None and truth.published

    # Answers

    def _judge(self, node: Node, key: Key, question: _Question, result: Any) -> None:
        quiet = self.world.quiet_for() >= GRACE
        if isinstance(result, ShoalError):
            if quiet:
                raise Violation("R1", f"{node.name} could not find {short(key)}: {result.what}")
            return
        assert isinstance(result, Found)
        self.judged += 1
        found: dict[Ident, None] = {}
        for record in result.records:
            ident = ident_of(record)
            if ident in found:
                raise Violation("R1", f"{node.name} found {_say(ident)} twice")
            found[ident] = None
            incarnation = record.owner.incarnation
            life = self._lives.get((record.owner.name, incarnation))
            truth = life.records.get(ident) if life is not None else None
            if life is None or truth is None:
                raise Violation("D1", f"{node.name} found {_say(ident)}, which never was")
            self._judge_found(node, ident, life, truth, question.asked, quiet=quiet)
        if quiet:
            self._judge_missing(node, key, question.asked, found)

    def _judge_found(
        self,
        node: Node,
        ident: Ident,
        life: _Life,
        truth: _Truth,
        asked: Instant,
        *,
        quiet: bool,
    ) -> None:
        over = self.config.lease + LATE_MAX
        if life.ended is not None and asked > life.ended + over:
            since = (asked - life.ended) / SECOND
            raise Violation("D1", f"{node.name} found {_say(ident)}, ended {since:.0f} s before")
        if truth.withdrawn is not None and asked > truth.withdrawn + (0 if quiet else over):
            since = (asked - truth.withdrawn) / SECOND
            raise Violation(
                "D1", f"{node.name} found {_say(ident)}, withdrawn {since:.0f} s before"
            )

    def _judge_missing(
        self, node: Node, key: Key, asked: Instant, found: dict[Ident, None]
    ) -> None:
        for life in self._lives.values():
            if life.ended is not None:
                continue
            for ident, truth in life.records.items():
                if ident.key != key or not truth.published or truth.stored is None:
                    continue
                if truth.stored < asked and ident not in found:
                    raise Violation("R1", f"{node.name} did not find {_say(ident)}")

    # Every second

    def every_second(self) -> None:
        self._seconds += 1
        self._check_answers()
        if len(self._seen) < _PEERS_MANY or self._seconds % _COUNT_SECONDS == 0:
            self._check_holders()

    def _check_answers(self) -> None:
        """D3: nobody who could answer has kept silent for too long."""
        now = self.world.now
        for (node, request), question in self._questions.items():
            if node.state != UP or node.service or node.inbox or node.outbox:
                question.since = now
            elif now - question.since > self.config.question_timeout + ANSWER_SLACK:
                kind = type(question.what).__name__
                raise Violation("D3", f"{node.name} has not answered {kind} ({request})")

    def _check_holders(self) -> None:
        """R1: whatever had its copies is held by somebody. D1: the dead are held by nobody."""
        now, holders = self.world.now, self._holders()
        if any(fault.startswith(_CUTS) for fault in self.world.ongoing()):
            self._cut_at = now
        over = self.config.lease + LATE_MAX + self.config.beat_period
        for life, ident, truth in self._records():
            there = holders.get((ident, life.incarnation), ())
            ended = life.ended if life.ended is not None else truth.withdrawn
            if ended is None and self._stands_still(life.node):
                truth.holders = ()
            elif ended is None and truth.published:
                self._check_held(ident, truth, there)
            elif ended is not None and there and now > ended + over:
                names = ", ".join(node.name for node in there)
                raise Violation("D1", f"{names} still holds {_say(ident)}")

    def _records(self) -> Iterator[tuple[_Life, Ident, _Truth]]:
        """Every record that ever was, with the life of its owner."""
        for life in self._lives.values():
            for ident, truth in life.records.items():
                yield life, ident, truth

    def _stands_still(self, owner: Node) -> bool:
        """Whether an owner is paused for so long that its records may run out."""
        spare = self.config.suspect_lease - self.config.renew_period
        return owner.state == PAUSED and self.world.now - owner.paused_at > spare

    def _check_held(self, ident: Ident, truth: _Truth, there: Sequence[Node]) -> None:
        now, copies = self.world.now, self.config.copies
        if now - self._cut_at < GRACE:
            truth.holders = ()
        elif len(there) >= copies:
            self.secured += not truth.holders
            truth.holders, truth.secured_at = tuple(there), now
        elif not there and truth.holders:
            lost = [
                self._downs[node]
                for node in truth.holders
                if self._downs.get(node, -1) >= truth.secured_at - SECOND * _COUNT_SECONDS
            ]
            if len(lost) < copies or max(lost) - min(lost) > REPAIR:
                raise Violation("R1", f"nobody holds {_say(ident)} any more")
            truth.holders = ()

    def _holders(
        self, idents: Sequence[Ident] | None = None
    ) -> dict[tuple[Ident, int], list[Node]]:
        """Who holds what alive (of these, if given), by identity and incarnation of the owner."""
        holders: dict[tuple[Ident, int], list[Node]] = {}
        for node in self._seen:
            machine = _machine(node)
            if machine is None:
                continue
            entries, now = machine.keeper.shelf.entries, node.local(self.world.now)
            for ident in entries if idents is None else idents:
                entry = entries.get(ident)
                if entry is not None and entry.state == LIVE and entry.until > now:
                    holders.setdefault((ident, entry.version.incarnation), []).append(node)
        return holders

    # When faults are over

    def settled(self) -> None:
        """Who should keep a key holds exactly what is true; so do its replicas."""
        nodes = sorted(self._seen, key=lambda node: node.contact.key)
        if not nodes:
            return
        holders = self._holders()
        keys: dict[Key, None] = {}
        for life, ident, truth in self._records():
            keys[ident.key] = None
            there = holders.get((ident, life.incarnation), [])
            right = _keepers(nodes, ident.key, self.config.copies)
            wanted = life.ended is None and truth.published
            missing = [node.name for node in right if wanted and node not in there]
            if missing:
                raise Violation("R1", f"{', '.join(missing)} does not hold {_say(ident)}")
            if not wanted and self._is_over(life, truth) and right[0] in there:
                raise Violation("D1", f"{right[0].name} still keeps {_say(ident)}")
        for at, key in enumerate(keys):
            for node in (nodes[at % len(nodes)], nodes[(at * 7 + 3) % len(nodes)]):
                if node.state == UP:
                    self.world.ask(node, Find(key), self)

    def _is_over(self, life: _Life, truth: _Truth) -> bool:
        if life.ended is None:
            return truth.withdrawn is not None
        return self.world.now > life.ended + self.config.lease + LATE_MAX

    def answered(self, node: Node, request: int, result: Any) -> None:
        """Our own question; it was judged when the peer answered."""

    def lost(self, node: Node, request: int) -> None:
        """Our own question; the peer has ended."""

    def at_end(self) -> None:
        for node, _ in self._questions:
            if node.state == UP:
                raise Violation("D3", f"{node.name} has not answered by the end")

    def figures(self) -> dict[str, float]:
        return {"finds_judged": self.judged, "records_secured": self.secured}

    def _life(self, node: Node) -> _Life | None:
        return self._lives.get((node.contact.name, node.contact.incarnation))


def _machine(node: Node) -> DirectoryMachine | None:
    machine = node.peer.machines.get("directory") if node.peer is not None else None
    # In tests a machine may be wrapped in one that watches it (tests/checked.py).
    machine = getattr(machine, "inner", machine)
    return machine if isinstance(machine, DirectoryMachine) else None


def _keepers(nodes: Sequence[Node], key: Key, copies: int) -> list[Node]:
    """Who should hold a key: the first peer at or behind it, and the next ones."""
    at = next((i for i, node in enumerate(nodes) if node.contact.key >= key), 0)
    return [nodes[(at + i) % len(nodes)] for i in range(min(copies, len(nodes)))]


def _say(ident: Ident) -> str:
    return f"{ident.thing!r} of {ident.owner} under {short(ident.key)}"
