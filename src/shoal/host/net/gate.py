"""What a stranger may cost: how many connections wait for their hello, and from where.

    accepted ──▶ stranger ──hello──▶ known
                    │ too many, too slow
                    ▼
                 refused

A stranger is whoever has connected and not yet shown a certificate and said hello. Decisions are
made before TLS begins. Time is an argument, so that all of this is tested without waiting.

Promises   H2  at no time are there more strangers than the configuration says, from one address and
           altogether. A name that is kept out is kept out for its time.
Not here   who is let in in the end (`keys/trust.py`, `net/hello.py`).
"""

from collections import Counter

from shoal.host.config import NetConfig
from shoal.host.net.bucket import Bucket
from shoal.kernel.errors import LocalError

__all__ = ["Gate"]

#: Names kept out that are remembered; each costs a certificate of the mesh.
_BANNED_MAX = 1_000


class Gate:
    """Counts strangers, and remembers who is kept out for a while."""

    def __init__(self, config: NetConfig, now: float) -> None:
        self._config = config
        self._strangers: Counter[str] = Counter()
        self._accepts = Bucket(rate=config.accepts_per_s, burst=config.accepts_burst, now=now)
        self._banned: dict[str, float] = {}
        #: Connections that were turned away, by reason.
        self.refused: Counter[str] = Counter()

    @property
    def strangers(self) -> int:
        """How many connections wait for their hello."""
        return self._strangers.total()

    def wait_before_accept(self, now: float) -> float:
        """Take the right to one more accept; the seconds to wait for the next."""
        return self._accepts.take(1, now)

    def admit(self, host: str) -> bool:
        """Let a stranger's handshake begin, or say no; whoever is admitted also leaves."""
        if self.strangers >= self._config.strangers_max:
            self.refused["too many strangers"] += 1
            return False
        if self._strangers[host] >= self._config.strangers_per_address_max:
            self.refused["too many strangers from one address"] += 1
            return False
        self._strangers[host] += 1
        return True

    def leave(self, host: str) -> None:
        """It is no stranger any more: it said hello, or it is gone."""
        self._strangers[host] -= 1
        if self._strangers[host] <= 0:
            del self._strangers[host]

    def validate(self) -> None:
        """H2: no more strangers than may be, and none is counted who is not there."""
        config, counts = self._config, self._strangers.values()
        if self.strangers > config.strangers_max or any(
            not 0 < count <= config.strangers_per_address_max for count in counts
        ):
            raise LocalError(f"H2: {self.strangers} strangers", detail=repr(dict(self._strangers)))

    def ban(self, name: str, now: float) -> None:
        """Keep a peer out for a while."""
        self._banned.pop(name, None)
        self._banned[name] = now + self._config.flood_ban_s
        if len(self._banned) > _BANNED_MAX:
            del self._banned[next(iter(self._banned))]

    def is_banned(self, name: str, now: float) -> bool:
        """Whether it is kept out now."""
        until = self._banned.get(name)
        if until is None:
            return False
        if now < until:
            return True
        del self._banned[name]
        return False
