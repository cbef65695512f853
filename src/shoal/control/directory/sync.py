"""How keepers and replicas come together again after the ring has changed, and stay together.

    keeper                                   replica
    Compare(low, digests by bucket) ──────▶  digests of what it has there
                                    ◀──────  Same, or Differs(buckets, what it has in them)
    Want(what is newer there)       ──────▶
                                    ◀──────  Give, in parts
    Push(what is newer here)        ──────▶  Pushed

The keeper of a range begins, always: at once with new backups, with all of them when it has
gained keys, and every sync_period. So a join, a leave, a crash, a merge and a lost message are
one case. A keeper that has gained keys it was no replica of is *learning*: it answers, and says
that it is not sure, until somebody who can vouch for the range has told it everything.

To *vouch* for a range: to have kept it, or to have been found equal by a keeper that was sure.

Promises   R1  after fewer than `copies` losses at once, copies are made again within one round.
           D1  withdrawn and expired items are compared like others, so a replica that missed a
               withdrawal hears of it; equal versions never prolong a lease.
"""

from dataclasses import dataclass, field

from shoal.control.directory.desk import Desk
from shoal.control.directory.keeper import Keeper
from shoal.control.directory.messages import (
    EXPIRED,
    LIVE,
    WITHDRAWN,
    Compare,
    Differs,
    Give,
    Have,
    Same,
    Version,
    Want,
)
from shoal.control.directory.policy import (
    BUCKETS,
    bucket_of,
    check_key,
    chunks,
    combined,
    covered,
    in_range,
    replaces,
)
from shoal.control.directory.state import Entry
from shoal.kernel.errors import RemoteError
from shoal.kernel.keys import Contact, Key
from shoal.kernel.time import SECOND, Instant

__all__ = ["Sync"]

_VOUCHES_MAX = 16
_ANSWERED_MAX = 32
#: Comparisons with one replica in a row, when changes keep coming in between.
_ROUNDS_MAX = 4
#: A keeper that learns tries again after this, then after twice as long, and so on; a guess.
_AGAIN = 1 * SECOND
_REPLY_WITHIN = 2 * SECOND


@dataclass(slots=True)
class _Comparison:
    to: Contact
    low: Key
    prints: tuple[int, ...]
    round: int
    #: The replica can vouch for the range.
    sure: bool = False
    #: It was asked to give; the parts that have come, by number.
    gives: bool = False
    given: dict[int, None] = field(default_factory=dict)
    #: Something was given that other replicas may lack.
    news: int = 0


class Sync:
    """Compares with replicas; knows for which ranges this peer can vouch."""

    def __init__(self, desk: Desk, keeper: Keeper) -> None:
        self.desk = desk
        self.keeper = keeper
        self.comparisons: dict[int, _Comparison] = {}
        #: Whether this peer is sure to have everything in its range; since when it is not.
        self.sure = False
        self.learning_since: Instant = 0
        self.next_at: Instant = 0
        #: A keeper that learns: whether it will try again, and how long it waits before.
        self._waits = False
        self._pause = _AGAIN
        #: Ranges to vouch for, and until when.
        self._vouches: list[tuple[Key, Key, Instant]] = []
        #: What was answered last, by keeper: the number and the range that Want may refer to.
        self._answered: dict[str, tuple[int, Key]] = {}

    # What this peer knows to be complete

    def vouches(self, low: Key, high: Key, now: Instant) -> bool:
        """Whether this peer can have missed nothing in (low, high]."""
        parts = [(a, b) for a, b, until in self._vouches if until > now]
        if self.sure and self.desk.place.low:
            parts.append((self.desk.place.low, self.desk.me.key))
        return covered(low, high, parts)

    def vouches_for(self, key: Key, now: Instant) -> bool:
        """Whether this peer can have missed nothing under the key."""
        if self.sure and self.desk.place.low and self.desk.place.owns(key):
            return True
        return any(in_range(a, key, b) for a, b, until in self._vouches if until > now)

    def _vouch(self, low: Key, high: Key, now: Instant) -> None:
        kept = [one for one in self._vouches if one[2] > now and (one[0], one[1]) != (low, high)]
        kept.append((low, high, now + self.desk.config.vouch_life))
        self._vouches = kept[-_VOUCHES_MAX:]

    # The ring has changed

    def moved(self, old_low: bytes, old_backups: tuple[Contact, ...], now: Instant) -> None:
        """Keep what was known; find out what was gained; compare with whoever is new."""
        place, me = self.desk.place, self.desk.me
        was_sure, low = self.sure, place.low
        if was_sure and old_low:
            self._vouch(old_low, me.key, now)
        if low != old_low:
            self.sure = False
            if low and self.vouches(low, me.key, now):
                self._learned("what it kept and copied covers it")
            else:
                self._begin_to_learn(now, anew=was_sure)
        if not self.sure:
            self.compare_all(now)
            return
        known = () if low != old_low else old_backups
        for backup in place.backups:
            if backup not in known:
                self._compare(backup, 1, now)

    def paused(self, now: Instant) -> None:
        """This peer has stood still: others may have kept its range meanwhile."""
        self._vouches.clear()
        self._begin_to_learn(now, anew=True)
        self.compare_all(now)

    def _begin_to_learn(self, now: Instant, *, anew: bool) -> None:
        if anew or not self.learning_since:
            self.learning_since = now
            self._pause = _AGAIN
            self.desk.deadlines.add(now + self.desk.config.learning_max, "learned", 0)
        self.sure = False

    def _learned(self, why: str) -> None:
        if not self.sure:
            self.desk.box.note(f"sure of its range: {why}")
        self.sure = True

    def learned_by_time(self, now: Instant) -> None:
        """Every living owner has renewed here by now, so this is all there is."""
        if self.sure:
            return
        if now - self.learning_since >= self.desk.config.learning_max and self.desk.place.low:
            self._learned("every owner has had time to renew")
        else:
            at = max(self.learning_since + self.desk.config.learning_max, now + _AGAIN)
            self.desk.deadlines.add(at, "learned", 0)

    # The keeper's side

    def compare_all(self, now: Instant) -> None:
        """Compare with every backup."""
        self.next_at = now + self.desk.config.sync_period
        if not self.desk.place.low:
            return
        for backup in self.desk.place.backups:
            self._compare(backup, 1, now)

    def again(self, now: Instant) -> None:
        """While learning: ask once more."""
        self._waits = False
        if not self.sure:
            self.compare_all(now)

    def _try_again(self, now: Instant) -> None:
        if self.sure or self._waits:
            return
        self._waits = True
        self.desk.deadlines.add(now + self._pause, "again", 0)
        self._pause = min(2 * self._pause, self.desk.config.sync_period)

    def beat(self, now: Instant) -> None:
        """Compare when it is time."""
        if now >= self.next_at:
            late = self.desk.rng.below(self.desk.config.beat_period)
            self.compare_all(now)
            self.next_at += late

    def _compare(self, to: Contact, turn: int, now: Instant) -> None:
        low, high = self.desk.place.low, self.desk.me.key
        for number, one in self.comparisons.items():
            if one.to.name == to.name:
                del self.comparisons[number]
                break
        number = self.desk.number()
        prints = self._digests(low, high)
        self.comparisons[number] = _Comparison(to, low, prints, turn)
        self.desk.deadlines.add(now + _REPLY_WITHIN, "compare", number)
        self.desk.box.send(to, Compare(number, low, prints, self.sure))

    def _digests(self, low: Key, high: Key) -> tuple[int, ...]:
        parts: list[list[int]] = [[] for _ in range(BUCKETS)]
        for entry in self.keeper.shelf.within(low, high):
            parts[bucket_of(entry.ident.key)].append(entry.print)
        return tuple(combined(part) for part in parts)

    def unanswered(self, number: int, now: Instant) -> None:
        """A replica did not answer; the next round is for that, or an earlier one if learning."""
        if self.comparisons.pop(number, None) is not None:
            self._try_again(now)

    def same(self, sender: Contact, message: Same, now: Instant) -> None:
        """A replica has what this keeper has."""
        one = self._mine(sender, message.number)
        if one is not None:
            del self.comparisons[message.number]
            one.sure = message.sure
            if one.low == self.desk.place.low:
                self._agrees(sender, one)
            self._ends(one, now)

    def _agrees(self, replica: Contact, one: _Comparison) -> None:
        """What has not changed since it was compared, the replica has."""
        high = self.desk.me.key
        prints = self._digests(one.low, high)
        for entry in self.keeper.shelf.within(one.low, high):
            at = bucket_of(entry.ident.key)
            if prints[at] == one.prints[at]:
                self.keeper.has(replica, entry)

    def differs(self, sender: Contact, message: Differs, now: Instant) -> None:
        """Send the replica what is newer here, ask for what is newer there."""
        config = self.desk.config
        if len(message.haves) > config.haves_max or any(
            not 0 <= at < BUCKETS for at in message.buckets
        ):
            raise RemoteError("a replica describes more than there can be")
        if any(have.state not in (LIVE, WITHDRAWN) for have in message.haves):
            raise RemoteError("a replica has an item in an unknown state")
        one = self._mine(sender, message.number)
        if one is None:
            return
        if one.low != self.desk.place.low:
            del self.comparisons[message.number]
            return
        newer, wanted = self._sort(one.low, message)
        self.keeper.push(sender, newer, None, now)
        one.sure = message.sure
        if not wanted:
            del self.comparisons[message.number]
            self._ends(one, now)
            self._verify(one, now)
            return
        one.gives = True
        self.desk.deadlines.add(now + _REPLY_WITHIN, "compare", message.number)
        for part in chunks(wanted, config.haves_max):
            self.desk.box.send(sender, Want(message.number, tuple(part)))

    def _sort(self, low: Key, message: Differs) -> tuple[list[Entry], list[int]]:
        """What goes out to the replica, and what comes in from it."""
        haves = {have.mark: have for have in message.haves}
        buckets = dict.fromkeys(message.buckets)
        newer: list[Entry] = []
        wanted: list[int] = []
        for entry in self.keeper.shelf.within(low, self.desk.me.key):
            if bucket_of(entry.ident.key) not in buckets:
                continue
            have = haves.pop(entry.mark, None)
            if _goes_out(entry, have):
                newer.append(entry)
            elif have is not None and _comes_in(entry, have):
                wanted.append(have.mark)
        wanted.extend(haves)
        return newer, wanted

    def give(self, sender: Contact, message: Give, now: Instant) -> None:
        """What a replica had and this keeper lacked."""
        one = self._mine(sender, message.number)
        if one is None or not one.gives or one.low != self.desk.place.low:
            return
        if not 0 <= message.part < message.parts:
            raise RemoteError(f"part {message.part} of {message.parts}")
        one.news += self.keeper.receive(message.items, self.desk.me, one.low, now)
        one.given[message.part] = None
        if len(one.given) == message.parts:
            del self.comparisons[message.number]
            self._ends(one, now)
            self._verify(one, now)

    def _mine(self, sender: Contact, number: int) -> _Comparison | None:
        one = self.comparisons.get(number)
        return one if one is not None and one.to.name == sender.name else None

    def _ends(self, one: _Comparison, now: Instant) -> None:
        if one.low != self.desk.place.low:
            return
        if one.sure and not self.sure:
            self._learned(f"{one.to.name} has told it all")
        self._try_again(now)
        if one.news:
            for backup in self.desk.place.backups:
                if backup.name != one.to.name:
                    self._compare(backup, 1, now)

    def _verify(self, one: _Comparison, now: Instant) -> None:
        """Compare once more, so that the replica learns that it can vouch."""
        names = [backup.name for backup in self.desk.place.backups]
        if one.round < _ROUNDS_MAX and one.to.name in names and one.low == self.desk.place.low:
            self._compare(one.to, one.round + 1, now)

    # The replica's side

    def compare(self, sender: Contact, message: Compare, now: Instant) -> None:
        """Say what differs in the range of a keeper."""
        check_key(message.low)
        if len(message.prints) != BUCKETS:
            raise RemoteError(f"{len(message.prints)} digests, not {BUCKETS}")
        low, high = message.low, sender.key
        sure = self.vouches(low, high, now)
        mine = self._digests(low, high)
        differing = [at for at in range(BUCKETS) if mine[at] != message.prints[at]]
        if not differing:
            if message.sure:
                self._vouch(low, high, now)
            self.desk.box.send(sender, Same(message.number, sure))
            return
        self._answered.pop(sender.name, None)
        self._answered[sender.name] = (message.number, low)
        if len(self._answered) > _ANSWERED_MAX:
            del self._answered[next(iter(self._answered))]
        buckets, haves, whole = self._haves(low, high, differing)
        # What does not fit is compared in the next round; until then nothing is said for sure.
        self.desk.box.send(sender, Differs(message.number, buckets, haves, sure and whole))

    def _haves(
        self, low: Key, high: Key, differing: list[int]
    ) -> tuple[tuple[int, ...], tuple[Have, ...], bool]:
        """The buckets that fit a message, what is here in them, and whether that is all."""
        most = self.desk.config.haves_max
        by_bucket: dict[int, list[Have]] = {at: [] for at in differing}
        for entry in self.keeper.shelf.within(low, high):
            there = by_bucket.get(bucket_of(entry.ident.key))
            if there is not None and entry.state != EXPIRED:
                version = entry.version
                there.append(Have(entry.mark, version.incarnation, version.since, entry.state))
        buckets: list[int] = []
        haves: list[Have] = []
        for at, there in by_bucket.items():
            if buckets and len(haves) + len(there) > most:
                break
            buckets.append(at)
            haves.extend(there)
        whole = len(buckets) == len(differing) and len(haves) <= most
        if len(haves) > most:
            # One bucket alone is too much: others of it each time, so that all have their turn.
            haves = self.desk.rng.sample(haves, most)
        return tuple(buckets), tuple(haves), whole

    def want(self, sender: Contact, message: Want, now: Instant) -> None:
        """Give a keeper what it lacks of its own range."""
        number, low = self._answered.get(sender.name, (0, b""))
        if number != message.number:
            return
        if len(message.marks) > self.desk.config.haves_max:
            raise RemoteError(f"{len(message.marks)} items wanted at once")
        found = [self.keeper.shelf.by_mark.get(mark) for mark in message.marks]
        items = [
            entry.item(now)
            for entry in found
            if entry is not None and in_range(low, entry.ident.key, sender.key)
        ]
        parts = [tuple(part) for part in chunks(items, self.desk.config.items_max)] or [()]
        for at, part in enumerate(parts):
            self.desk.box.send(sender, Give(number, part, at, len(parts)))


def _goes_out(entry: Entry, have: Have | None) -> bool:
    """Whether the replica should hear of the keeper's entry."""
    if have is None:
        return entry.state != EXPIRED
    mine = Version(entry.version.incarnation, entry.version.since, 0)
    theirs = Version(have.incarnation, have.since, 0)
    return replaces(mine, entry.state, theirs, have.state)


def _comes_in(entry: Entry, have: Have) -> bool:
    """Whether the keeper should have what the replica has."""
    mine = Version(entry.version.incarnation, entry.version.since, 0)
    theirs = Version(have.incarnation, have.since, 0)
    return replaces(theirs, have.state, mine, entry.state)
