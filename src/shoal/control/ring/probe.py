"""Failure detection: ask the silent again, ask others to ask, suspect, and at last give up.

    an answer is overdue ─▶ Ping ─▶ Ping again, and PingFor through `relays` others ─▶ suspected: a
    Ping and one PingFor every `suspicion_period`, until `suspicion` is over ─▶ on the desk as lost

There are no probes on top of the protocol's own requests: stabilising probes the successor, the
absence of it the predecessor, checks the fingers. Whoever answers, or is vouched for, is alive.

Source     SWIM, section 3.1 (indirect probes) and 4.2 (suspicion); the beliefs are in `watch.py`.
Not here   what follows from a loss (`machine.py`).
"""

from shoal.control.ring.desk import Desk, Request
from shoal.control.ring.messages import Ping, PingFor, Vouched
from shoal.control.ring.watch import Belief
from shoal.kernel.keys import Contact
from shoal.kernel.time import Instant

__all__ = ["Prober"]

#: Probes made for others at once; a relay that is asked for more keeps silent.
_RELAYED_MAX = 256


class Prober:
    """Finds out who is gone."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._relayed = 0

    def silent(self, contact: Contact, since: Instant, now: Instant) -> None:
        """It has not answered what was sent at `since`: doubt it, if it stands in the table."""
        desk = self._desk
        found = desk.watch.get(contact.name)
        if found is None or found.belief is not Belief.ALIVE or found.heard >= since:
            return
        if contact.name not in desk.table:
            return
        # Most silences are a lost message: ask once more before others are troubled.
        found.believe(Belief.DOUBTED, now)
        wait = desk.watch.timeout(contact.name)
        desk.ask("doubt", found.contact, Ping, now=now, about="alone", timeout=wait)

    def expired(self, request: Request, now: Instant) -> None:
        """A Ping of ours went unanswered: `doubt`, `suspect` or `relay`."""
        if request.kind == "relay":
            self._relayed -= 1
            return
        desk = self._desk
        config = desk.config
        found = desk.watch.get(request.to.name)
        if found is None or found.contact.incarnation != request.to.incarnation:
            return
        if request.about == "alone" and found.belief is Belief.DOUBTED:
            wait = 2 * desk.watch.timeout(found.contact.name)
            desk.ask("doubt", found.contact, Ping, now=now, timeout=wait)
            self._through_others(found.contact, config.relays, wait, now)
            return
        if request.kind == "doubt" and found.belief is Belief.DOUBTED:
            found.believe(Belief.SUSPECTED, now)
            desk.suspected = True
            desk.note(f"{request.to.name} is suspected")
        elif request.kind != "suspect" or found.belief is not Belief.SUSPECTED:
            return
        if now - found.since >= config.suspicion:
            desk.lost.append(request.to.name)
            return
        wait = config.suspicion_period
        desk.ask("suspect", found.contact, Ping, now=now, timeout=wait)
        self._through_others(found.contact, 1, wait, now)

    def _through_others(self, target: Contact, count: int, wait: int, now: Instant) -> None:
        desk = self._desk
        _, known = desk.table.route()
        others = [c for c in known if c.name != target.name and desk.watch.is_alive(c.name)]
        for other in desk.rng.sample(others, count):
            desk.ask("vouch", other, PingFor, target, now=now, about=target.name, timeout=wait)

    def ping_for(self, sender: Contact, message: PingFor, now: Instant) -> None:
        """Ask the target on behalf of the sender."""
        if self._relayed < _RELAYED_MAX:
            self._relayed += 1
            about = (sender, message.request)
            self._desk.ask("relay", message.target, Ping, now=now, about=about)

    def answered(self, request: Request, sender: Contact) -> None:
        """The target of a relayed probe is there: vouch for it."""
        self._relayed -= 1
        assert isinstance(request.about, tuple)
        origin, number = request.about
        self._desk.send(origin, Vouched(number, sender))
