"""Who stands next to this peer: stabilise, adopt, rectify, consider, say good-bye.

    Stabilise ──▶ first successor that is not suspected
                  answers Neighbours(predecessor p, successors) or Unchanged
    list          becomes [suspected ones before it, it, its list]
    p between?    Stabilise to p as well; its own answer decides

Nobody is adopted by hearsay: a successor is whoever has just answered for itself (Zave's condition
that a candidate is alive), and the list is its own. Whoever was given up here is left out of it
and asked again when it is named: if it lives, all who copy this list would skip it, too.

One exception: a newcomer from another ring does not know those whom I know. For some seconds from
then on both lists are taken together, so that neither ring's members are skipped while each learns
of the other; who is gone may stand in a list for that much longer.

Not here   when a round comes, joins and merges (`machine.py`); silence (`probe.py`).
"""

from collections.abc import Iterator

from shoal.control.ring.desk import Desk
from shoal.control.ring.messages import Consider, Goodbye, Neighbours, Ping, Stabilise, Unchanged
from shoal.control.ring.probe import Prober
from shoal.control.ring.watch import Belief
from shoal.kernel.keys import Contact
from shoal.kernel.time import SECOND, Instant

__all__ = ["Neighbourhood"]


#: How long lists of two rings are joined: a few rounds, so that all neighbours have told theirs.
_MERGING = 10 * SECOND


class Neighbourhood:
    """Keeps predecessor and successor list right."""

    def __init__(self, desk: Desk, prober: Prober) -> None:
        self._desk = desk
        self._prober = prober
        #: Whose version is known, and which.
        self._known_of: Contact | None = None
        self._known = 0
        #: The version told to the predecessor last.
        self.told = 0
        #: Until then lists of two rings are joined, not replaced.
        self._merging_until: Instant = 0

    # --- asking -----------------------------------------------------------------------------

    def stabilise(self, now: Instant) -> None:
        """Ask the first successor that nothing speaks against."""
        desk = self._desk
        for contact in desk.table.successors:
            if desk.watch.is_alive(contact.name):
                break
        else:
            return
        if desk.requests.pending("stabilise", contact.name):
            return
        known = self._known if contact is self._known_of else 0
        desk.ask("stabilise", contact, Stabilise, known, True, now=now)

    def try_candidate(self, contact: Contact, now: Instant) -> bool:
        """Ask somebody who may stand between me and my successor; whether that may be so."""
        desk = self._desk
        gap = desk.table.gap(contact)
        first = desk.table.successors[0] if desk.table.successors else None
        if gap == 0 or (first is not None and gap >= desk.table.gap(first)):
            return False
        if not desk.requests.pending("candidate", contact.name):
            desk.ask("candidate", contact, Stabilise, 0, True, now=now)
        return True

    def ask_anew(self) -> None:
        """The list is not only what the successor told: have it told again."""
        self._known_of = None

    # --- being asked ------------------------------------------------------------------------

    def answer(self, sender: Contact, message: Stabilise, now: Instant) -> None:
        """Tell who is around me; first see whether the sender is my predecessor."""
        table = self._desk.table
        if message.member:
            self._notified(sender, now)
        if message.known == table.version:
            self._desk.send(sender, Unchanged(message.request))
            return
        self._desk.send(sender, self._mine(message.request))

    def _mine(self, request: int) -> Neighbours:
        table = self._desk.table
        return Neighbours(request, table.version, table.predecessor, table.successors)

    def _notified(self, sender: Contact, now: Instant) -> None:
        """Rectify: take a nearer predecessor; ask after one that somebody farther passes over."""
        desk = self._desk
        table = desk.table
        before = table.predecessor
        if before is sender:
            return
        desk.watch.meet(sender, now)
        if before is None or before.name == sender.name or table.gap(sender) > table.gap(before):
            self._set_predecessor(sender)
            if not table.successors:
                self.try_candidate(sender, now)
            return
        found = desk.watch.get(before.name)
        if found is not None and now - found.heard > desk.config.round_period:
            self._prober.silent(before, now, now)

    def _set_predecessor(self, contact: Contact | None) -> None:
        table = self._desk.table
        if contact == table.predecessor:
            return
        table.set_predecessor(contact)
        self._desk.note(f"predecessor {contact.name if contact else 'unknown'}")

    def push(self) -> None:
        """Tell the predecessor what has changed."""
        table = self._desk.table
        self.told = table.version
        if table.predecessor is not None:
            self._desk.send(table.predecessor, self._mine(0))

    # --- adopting ---------------------------------------------------------------------------

    def adopt(self, sender: Contact, message: Neighbours, now: Instant) -> None:
        """The sender lives and has told its list: it stands in mine if nobody sure is before it."""
        desk = self._desk
        table = desk.table
        gap = table.gap(sender)
        before = [c for c in table.successors if table.gap(c) < gap]
        if any(desk.watch.is_alive(c.name) for c in before):
            return
        old = table.successors
        told = [*before, sender, *self._believed(message.successors)]
        taken = list(told)
        if self._is_foreign(sender, message):
            self._merging_until = now + _MERGING
        if now < self._merging_until:
            both = {c.name: c for c in (*old, *taken) if c.name != desk.me.name}
            taken = sorted(both.values(), key=table.gap)
        elif all(c.name != sender.name for c in old):
            # A newcomer's list may be short; until it has told a whole one, keep what is behind it.
            last = max(table.gap(c) for c in taken)
            taken.extend(c for c in old if table.gap(c) > last)
        if table.set_successors(taken):
            self._changed(old, sender, message, now)
        self._known_of, self._known = sender, message.version
        if any(contact not in told for contact in taken):
            self.ask_anew()  # "unchanged" would keep for ever what stands beside its own
        self._ask_the_lost(message.successors, now)
        self._look_between(sender, message, now)

    def _is_foreign(self, sender: Contact, message: Neighbours) -> bool:
        """A newcomer that does not know the successor I had stands in another ring."""
        old = self._desk.table.successors
        return (
            bool(old)
            and all(c.name != sender.name for c in old)
            and all(c.name != old[0].name for c in message.successors)
        )

    def _believed(self, contacts: tuple[Contact, ...]) -> Iterator[Contact]:
        watch = self._desk.watch
        return (contact for contact in contacts if not watch.is_gone(contact))

    def _ask_the_lost(self, told: tuple[Contact, ...], now: Instant) -> None:
        """Who is lost here and stands in a list just heard may be back: ask it, round by round.

        It is left out until it answers, by this peer and by all before it, who copy this list. One
        lost message must not have them wait for its turn among all the lost (`Merger`).
        """
        desk = self._desk
        for contact in told:
            if desk.watch.believes(contact.name, Belief.LOST):
                if not desk.requests.pending("lost", contact.name):
                    desk.ask("lost", contact, Ping, now=now)
                self.ask_anew()

    def _changed(
        self, old: tuple[Contact, ...], sender: Contact, message: Neighbours, now: Instant
    ) -> None:
        desk = self._desk
        table = desk.table
        for contact in table.successors:
            desk.watch.meet(contact, now)
        first = table.successors[0]
        if old and old[0].name == first.name:
            return
        desk.note(f"successor {old[0].name if old else 'none'} -> {first.name}")
        if old and first is sender and all(c.name != old[0].name for c in message.successors):
            desk.send(sender, Consider(old[0]))

    def _look_between(self, sender: Contact, message: Neighbours, now: Instant) -> None:
        """Somebody whom the sender knows may stand between us; until that is settled, ask anew."""
        table = self._desk.table
        known = [c for c in message.successors if 0 < table.gap(c) < table.gap(sender)]
        if message.predecessor is not None:
            known.append(message.predecessor)
        nearest = min(known, key=table.gap, default=None)
        # A predecessor on the far side of me has a greater gap and is no candidate.
        if nearest is not None and self.try_candidate(nearest, now):
            self.ask_anew()

    def pushed(self, sender: Contact, message: Neighbours, now: Instant) -> None:
        """News that nobody asked for count only from who stands in the list."""
        if any(contact.name == sender.name for contact in self._desk.table.successors):
            self.adopt(sender, message, now)

    # --- leaving ----------------------------------------------------------------------------

    def say_goodbye(self) -> None:
        """Tell those next to me who is next to them now."""
        table = self._desk.table
        told = {contact.name: contact for contact in table.successors[:2]}
        if table.predecessor is not None:
            told[table.predecessor.name] = table.predecessor
        for contact in told.values():
            self._desk.send(contact, Goodbye(table.predecessor, table.successors))

    def goodbye(self, sender: Contact, message: Goodbye, now: Instant) -> None:
        """Close the gap that a neighbour leaves."""
        desk = self._desk
        table = desk.table
        was_first = bool(table.successors) and table.successors[0].name == sender.name
        was_before = table.predecessor is not None and table.predecessor.name == sender.name
        desk.watch.left(sender, now)
        table.drop(sender.name)
        if was_first and not table.successors:
            table.set_successors(self._believed(message.successors))
            for contact in table.successors:
                desk.watch.meet(contact, now)
        if was_before:
            heir = message.predecessor
            if heir is not None and heir.name != desk.me.name and not desk.watch.is_gone(heir):
                desk.watch.meet(heir, now)
                self._set_predecessor(heir)
        self.ask_anew()
        if was_first:
            self.stabilise(now)
