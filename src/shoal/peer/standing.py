"""Who is still listened to: what wrong messages cost the peer that sent them.

Each wrong message is a debt that is forgiven after `forgive_s`; debts add up and are worked off one
after the other. Above `limit_faults` of them the sender is ignored until half have been forgiven,
so that it does not flicker. A defect that sends a wrong message now and then is heard for ever; a
flood is not.

    debt   9 |      x
    limit  8 |----x---x---------------
             |  x       x                     x = the debt of one peer, in faults
           4 |x - - - - - - x  heard again
              ──────── ignored ┘

Promises   one peer's debt never falls on another; memory is bounded, and who owes nothing is
           forgotten.
Not here   what a wrong message is (each machine, `wire/`); closing a connection (host/).
"""

from dataclasses import dataclass

from shoal.kernel.errors import LocalError
from shoal.kernel.time import SECOND, Instant

__all__ = ["Standing", "StandingConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingConfig:
    """How patient a peer is. All four are guesses; nothing but malice should come near them."""

    #: A fault is forgiven after this time, one after the other. Above 0.
    forgive_s: int = 10
    #: Faults not yet forgiven above which a peer is ignored. At least 1.
    limit_faults: int = 8
    #: Faults that are remembered of one peer: bounds how long it is ignored. Above the limit.
    faults_max: int = 32
    #: Peers in debt that are remembered; the smallest debt is forgotten first. At least 1.
    peers_max: int = 4_096

    def check(self) -> None:
        """Raise LocalError if the numbers do not fit each other."""
        fits = (
            self.forgive_s > 0 and 1 <= self.limit_faults < self.faults_max and self.peers_max >= 1
        )
        if not fits:
            raise LocalError("configuration of standing does not fit", detail=repr(self))


class Standing:
    """The debts of peers, by name."""

    __slots__ = ("_clear_at", "_forgive", "_ignored", "config")

    def __init__(self, config: StandingConfig) -> None:
        config.check()
        self.config = config
        self._forgive = config.forgive_s * SECOND
        #: When each peer will owe nothing, if it does nothing wrong until then.
        self._clear_at: dict[str, Instant] = {}
        #: Who is ignored, and until when.
        self._ignored: dict[str, Instant] = {}

    def fault(self, name: str, now: Instant) -> bool:
        """Charge a peer for one wrong message; True if it is ignored from now on."""
        clear_at = max(self._clear_at.get(name, now), now) + self._forgive
        clear_at = min(clear_at, now + self.config.faults_max * self._forgive)
        self._clear_at[name] = clear_at
        if len(self._clear_at) > self.config.peers_max:
            self._forget_one(now)
        if clear_at - now <= self.config.limit_faults * self._forgive:
            return False
        news = name not in self._ignored
        self._ignored[name] = clear_at - self.config.limit_faults * self._forgive // 2
        return news

    def heard(self, name: str, now: Instant) -> bool:
        """Whether messages of this peer are listened to."""
        until = self._ignored.get(name)
        if until is None:
            return True
        if now < until:
            return False
        del self._ignored[name]
        return True

    def faults(self, name: str, now: Instant) -> int:
        """Faults of this peer that are not forgiven yet, rounded up."""
        owed = self._clear_at.get(name, now) - now
        return max(0, -(-owed // self._forgive))

    def ignored(self, now: Instant) -> tuple[str, ...]:
        """Who is not listened to."""
        return tuple(name for name, until in self._ignored.items() if now < until)

    def __len__(self) -> int:
        """How many peers are remembered."""
        return len(self._clear_at)

    def _forget_one(self, now: Instant) -> None:
        """Forget whoever owes nothing any more, or else whoever owes least."""
        least = min(self._clear_at, key=self._clear_at.__getitem__)
        clean = [name for name, clear_at in self._clear_at.items() if clear_at <= now]
        for name in clean or [least]:
            del self._clear_at[name]
            self._ignored.pop(name, None)
