"""Covering intervals: give the parts away, wait for each to be taken, mend what nobody took.

    duty     an interval given to a delegate that has not acknowledged it yet
    repair   a silent delegate's interval, given to whoever is nearest before it (`policy.assign`)

A delegate that acknowledges and is lost within `watch_us` may have died before it passed the
facts on; its interval is covered again. Who had them already recognises the wave and only answers,
or covers the part that is new to it, so that repairing too much costs messages and nothing else.

Not here   facts and their versions (`state.py`); what no repair can reach, such as an interval
           acknowledged by a peer that dies unseen: comparison finds it (`compare.py`).
"""

from collections import deque

from shoal.control.gossip.config import GossipConfig
from shoal.control.gossip.messages import Fact, Spread, Taken
from shoal.control.gossip.policy import Order, assign, before
from shoal.control.gossip.state import Wave, Waves
from shoal.kernel.effects import CancelTimer, Effect, Note, Send, SetTimer
from shoal.kernel.keys import Contact, Key
from shoal.kernel.time import Instant

__all__ = ["RETRY", "Spreading", "first_number"]

RETRY = "gossip/retry"
#: Names of silent peers that travel with a repair.
_LOST_MAX = 32
#: Acknowledged duties that are watched.
_WATCHED_MAX = 1_024
_NOBODY: dict[str, object] = {}


def first_number(me: Contact) -> int:
    """Where a peer begins to number things, so that no two of its lives use one number."""
    return me.incarnation % 1_000_000 * 1_000_000_000


class _Duty:
    """An interval of a wave, and who was given it."""

    __slots__ = ("due", "facts", "high", "hops", "lost", "low", "to", "token", "tried", "wave")

    def __init__(
        self,
        wave: Wave,
        to: Contact,
        low: Key,
        high: Key,
        *,
        facts: tuple[Fact, ...],
        hops: int,
        lost: tuple[str, ...],
    ) -> None:
        self.wave = wave
        self.to = to
        self.low = low
        self.high = high
        self.facts = facts
        #: Hops from the origin to this peer.
        self.hops = hops
        self.lost = lost
        self.token = 0
        self.tried = 0
        self.due = 0


class Spreading:
    """The broadcasts under way at one peer."""

    def __init__(self, me: Contact, config: GossipConfig) -> None:
        self._me = me
        self._key = me.key
        self._config = config
        self.order = Order(me=me.key, ranks=(), contacts=())
        self._waves = Waves(me.key, size_max=config.waves_max)
        self._duties: dict[int, _Duty] = {}
        self._watched: deque[tuple[Instant, _Duty]] = deque(maxlen=_WATCHED_MAX)
        self._suspects: dict[str, Instant] = {}
        #: Distinct in all incarnations of this peer, so that no late answer fits another duty.
        self._token = self._number = first_number(me)
        self.repairs = 0

    @property
    def full(self) -> bool:
        """Whether there is no room for more duties."""
        return len(self._duties) >= self._config.duties_max

    @property
    def open(self) -> int:
        """Duties that nobody acknowledged yet."""
        return len(self._duties)

    def begin(self, facts: tuple[Fact, ...], now: Instant, out: list[Effect]) -> None:
        """A broadcast of these facts to everybody else."""
        self._number += 1
        wave = (self._me.name, self._number)
        self._waves.cover(wave, self._key)
        self._cover(wave, facts, self._key, self._key, now=now, hops=0, lost=(), out=out)

    def received(self, sender: Contact, spread: Spread, now: Instant, out: list[Effect]) -> None:
        """Take the interval over, and cover what of it was not covered from here before.

        Without tables (this peer is joining) or room it stays silent: another one will do it.
        """
        if not self.order.contacts or self.full:
            return
        if spread.token:
            out.append(Send(sender, Taken(spread.token)))
        wave = (spread.origin, spread.wave)
        low: Key | None = spread.low
        if low == self._key:
            low = self._waves.cover(wave, spread.high)
        elif not self._waves.repair(wave, spread.low, spread.high):
            low = None
        if low is None:
            return
        self._cover(
            wave,
            spread.facts,
            low,
            spread.high,
            now=now,
            hops=spread.hops,
            lost=spread.lost,
            out=out,
        )

    def taken(self, sender: Contact, token: int, now: Instant, out: list[Effect]) -> None:
        """A delegate has its interval."""
        duty = self._duties.get(token)
        if duty is None or duty.to.name != sender.name:
            return
        del self._duties[token]
        if not self._duties:
            out.append(CancelTimer(RETRY))
        horizon = now - self._config.watch_us
        while self._watched and self._watched[0][0] < horizon:
            self._watched.popleft()
        if self._config.watch_us:
            self._watched.append((now, duty))

    def heard_from(self, name: str) -> None:
        """Whoever speaks is not silent."""
        if self._suspects:
            self._suspects.pop(name, None)

    def silent(self, peer: Contact, now: Instant, out: list[Effect]) -> None:
        """Somebody believes that this peer cannot be reached: mend what it was given."""
        horizon = now - self._config.watch_us
        kept: list[tuple[Instant, _Duty]] = []
        taken: list[_Duty] = []
        for at, duty in self._watched:
            if duty.to.name == peer.name:
                taken.append(duty)
            elif at >= horizon:
                kept.append((at, duty))
        self._watched = deque(kept, maxlen=_WATCHED_MAX)
        had = bool(self._duties)
        self._give_up(peer.name, now, out)
        for duty in taken:
            self._repair(duty, now, out)
        if had and not self._duties:
            out.append(CancelTimer(RETRY))

    def retry(self, now: Instant, out: list[Effect]) -> None:
        """The timer: send again what nobody acknowledged, or give it to another."""
        for duty in [duty for duty in self._duties.values() if duty.due <= now]:
            if duty.token not in self._duties:
                continue  # repaired with another one of the same delegate
            if duty.tried < self._config.tries:
                del self._duties[duty.token]
                self._send(duty, now, out)
            else:
                self._give_up(duty.to.name, now, out)
        self._arm(out)

    def _give_up(self, name: str, now: Instant, out: list[Effect]) -> None:
        """Expect nothing of this peer for a while: what it was given goes to others."""
        self._suspects[name] = now + self._config.suspect_us
        failed = [duty for duty in self._duties.values() if duty.to.name == name]
        for duty in failed:
            del self._duties[duty.token]
        for duty in failed:
            self._repair(duty, now, out)

    def validate(self) -> bool:
        """Whether every open duty is known by its token and somebody is going to look at it."""
        return all(token == duty.token and duty.tried for token, duty in self._duties.items())

    def _repair(self, duty: _Duty, now: Instant, out: list[Effect]) -> None:
        """Cover a silent delegate's interval, and the delegate's own place, by others."""
        self.repairs += 1
        out.append(Note("gossip/repair", f"{duty.to.name} is silent, its interval goes elsewhere"))
        low = before(duty.low) if duty.low == duty.to.key else duty.low
        lost = (*duty.lost, duty.to.name)[-_LOST_MAX:]
        self._cover(
            duty.wave, duty.facts, low, duty.high, now=now, hops=duty.hops, lost=lost, out=out
        )

    def _cover(
        self,
        wave: Wave,
        facts: tuple[Fact, ...],
        low: Key,
        high: Key,
        *,
        now: Instant,
        hops: int,
        lost: tuple[str, ...],
        out: list[Effect],
    ) -> None:
        """Give the parts of (low, high) away."""
        absent = self._absent(lost, now) if lost or self._suspects else _NOBODY
        idle = not self._duties
        for share in assign(self.order, low, high, absent):
            if share.copy:
                spread = Spread(*wave, 0, share.low, share.high, facts, hops + 1)
                out.append(Send(share.to, spread))
                continue
            duty = _Duty(wave, share.to, share.low, share.high, facts=facts, hops=hops, lost=lost)
            self._send(duty, now, out)
        if idle:
            self._arm(out)

    def _send(self, duty: _Duty, now: Instant, out: list[Effect]) -> None:
        if not duty.token:
            self._token += 1
            duty.token = self._token
        duty.tried += 1
        duty.due = now + self._config.ack_us
        self._duties[duty.token] = duty
        out.append(
            Send(
                duty.to,
                Spread(
                    *duty.wave,
                    duty.token,
                    duty.low,
                    duty.high,
                    duty.facts,
                    duty.hops + 1,
                    duty.lost,
                ),
            )
        )

    def _arm(self, out: list[Effect]) -> None:
        """All wait equally long, so the first that was sent is the first that is due."""
        for duty in self._duties.values():
            out.append(SetTimer(RETRY, duty.due))
            return

    def _absent(self, lost: tuple[str, ...], now: Instant) -> dict[str, object]:
        """Who gets no interval: the suspects of this peer and of those who tried before."""
        over = [name for name, until in self._suspects.items() if until <= now]
        for name in over:
            del self._suspects[name]
        absent: dict[str, object] = dict(self._suspects)
        absent.update(dict.fromkeys(lost))
        return absent
