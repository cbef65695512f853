"""The floor: what runs on this peer, and what it reads. Data of the engine's thread.

The desk changes it, `choose` looks at it to find the next turn.
"""

from collections.abc import Callable

from shoal.dataplane import commands as c
from shoal.dataplane.reports import Failed, Report
from shoal.dataplane.scheduler import Scheduler
from shoal.kernel.errors import LocalError, ShoalError, UserError
from shoal.kernel.time import SECOND, Instant
from shoal.log.leases import Leases
from shoal.log.root import Root
from shoal.query.catalog import StreamDef
from shoal.spark.feed import Feed
from shoal.spark.frames import all_columns
from shoal.spark.ingest.component import IngestComponent, open_source
from shoal.spark.ingest.judge import event_time
from shoal.spark.ingest.source import Source
from shoal.spark.select.component import SelectComponent
from shoal.spark.select.rostered import Rostered
from shoal.spark.turns import Input
from shoal.spark.windows.panes import CoarserComponent, PanesComponent
from shoal.spark.windows.rollup import RollUpComponent

__all__ = ["LEASE_FOR", "Floor", "Part", "Reading"]

#: How long a reader of another peer's stream is remembered after its last sign of life.
LEASE_FOR = 600 * SECOND
#: How often it gives one.
LEASE_EVERY = 60 * SECOND

#: What reads another component's table.
Reading = SelectComponent | PanesComponent | CoarserComponent | RollUpComponent
Part = IngestComponent | Reading


class Floor:
    """Components, feeds, inputs and turns of one engine."""

    def __init__(self, root: Root, *, owner: str, report: Callable[[Report], None]) -> None:
        self.root = root
        self._owner = owner
        self._report = report
        self.parts: dict[str, Part] = {}
        self.feeds: dict[str, Feed] = {}
        #: Streams whose newest commits cannot be read, and why; they are looked at again and again.
        self.unread: dict[str, str] = {}
        self.inputs: dict[str, Input] = {}
        self.scheduler = Scheduler()
        #: Those whose step in flight has no end yet: what is asked of them waits for it.
        self.undecided: dict[str, None] = {}
        #: Steps of a table since it was cared for.
        self.uncared: dict[str, int] = {}
        self._leases_at: Instant = 0
        #: Foreign streams, and the position that their owners were told last.
        self._leased: dict[str, int] = {}

    def add(self, part: Part) -> None:
        """A component runs here from now on."""
        self.parts[part.instance] = part
        self.uncared[part.instance] = 0
        self.scheduler.add(part.instance, weight=part.weight)
        if isinstance(part, IngestComponent):
            source = None if part.spec.stream.store else part.ingest.source
            self.inputs[part.instance] = _input(part.spec.stream, source)
            return
        self.feeds.setdefault(part.spec.input, part.feed)
        if isinstance(part, SelectComponent | PanesComponent):
            self._know_input(part.spec)
        self.weigh(part)

    def weigh(self, part: Rostered | Part) -> None:
        """Its rows have changed. What others read is worth what the greatest of them is."""
        readers = (self.scheduler.turn(name).weight for name in self.reader_names(part.instance))
        self.scheduler.weigh(part.instance, max([part.weight, *readers]))
        read = None if isinstance(part, IngestComponent) else self.parts.get(part.spec.input)
        if read is not None:
            self.weigh(read)

    def remove(self, instance: str) -> None:
        """A component no longer runs here; its table stays as it is."""
        part = self.parts.pop(instance)
        del self.uncared[instance]
        self.scheduler.remove(instance)
        reads = instance if isinstance(part, IngestComponent) else part.spec.input
        if reads not in self.parts and not self.reader_names(reads):
            # Nobody here looks at this stream any more; it would be tailed for ever.
            self.feeds.pop(reads, None)
            self.inputs.pop(reads, None)
            self.unread.pop(reads, None)
            self._leased.pop(reads, None)

    def select(self, instance: str) -> SelectComponent | RollUpComponent:
        """The component of this instance whose rows are queries; an error if none runs here."""
        part = self.parts.get(instance)
        if not isinstance(part, SelectComponent | RollUpComponent):
            raise LocalError(f"component {instance} does not run here as a select or roll-up")
        return part

    def feed(self, instance: str) -> Feed:
        """The feed of an instance, up to date."""
        if instance not in self.feeds:
            self.feeds[instance] = Feed.at_head(self.root, instance)
        feed = self.feeds[instance]
        feed.poll()
        return feed

    def tail(self, now: Instant, needed: Callable[[str], int | None]) -> None:
        """Take in what other peers have committed, and tell them what is `needed` here."""
        foreign = [name for name in self.feeds if name not in self.parts]
        for name in (*foreign, *(name for name in [*self.unread] if name in self.parts)):
            self.poll(name)
        if now < self._leases_at:
            return
        self._leases_at = now + LEASE_EVERY
        for name in foreign:
            position = needed(name)
            try:
                self._lease(name, position, now)
            except ShoalError as error:
                self._report_unread(name, f"lease: {error}")

    def _lease(self, name: str, position: int | None, now: Instant) -> None:
        """Tell a foreign stream's owner what is needed here, and hear it if that came too late.

        A peer that slept past its lease may hold commits in its feed whose files are gone. So it
        forgets them and reads the log again: there is what they became, or `PastHorizon`, which
        says from where one can go on.
        """
        told = self._leased.pop(name, None)
        if position is None:
            return
        leases = Leases(self.root.folder("readers", name))
        expires = now + LEASE_FOR
        try:
            if told is not None and position >= told:
                leases.renew(self._owner, position=position, expires=expires, now=now)
            else:
                # The first time here, or a back-fill that begins further back.
                leases.register(self._owner, position=position, expires=expires)
        except UserError as error:
            leases.register(self._owner, position=position, expires=expires)
            self.feeds[name].forget()
            self._report_unread(name, f"lease: {error}")
        self._leased[name] = position

    def _report_unread(self, instance: str, reason: str) -> None:
        self._report(Failed(instance=instance, attempts=1, reason=reason, retry_at=0))

    def poll(self, instance: str) -> None:
        """Take in what was committed to a stream; whoever does not read it goes on in any case."""
        try:
            self.feeds[instance].poll()
        except ShoalError as error:
            if instance not in self.unread:
                self._report_unread(instance, f"read: {error}")
            self.unread[instance] = str(error)
        else:
            self.unread.pop(instance, None)

    def readers(self, ingest: IngestComponent) -> list[SelectComponent]:
        """The selects that read what this ingest brings, but for those that go alone."""
        return [
            part
            for part in self._readers_of(ingest.instance)
            if isinstance(part, SelectComponent) and not self.scheduler.turn(part.instance).alone
        ]

    def reader_names(self, instance: str) -> list[str]:
        """The components here that read this instance, all of them."""
        return [part.instance for part in self._readers_of(instance)]

    def horizon(self, instance: str) -> int | None:
        """The lowest position of this instance that somebody here still needs."""
        return min((part.oldest_needed for part in self._readers_of(instance)), default=None)

    def needs_from(self, instance: str) -> Instant | None:
        """The event time from which somebody here still needs this instance's panes."""
        needs = (
            part.needs_from
            for part in self._readers_of(instance)
            if isinstance(part, CoarserComponent | RollUpComponent)
        )
        return min(needs, default=None)

    def _readers_of(self, instance: str) -> list[Reading]:
        return [
            part
            for part in self.parts.values()
            if not isinstance(part, IngestComponent) and part.spec.input == instance
        ]

    def release(self, instance: str) -> None:
        """Let the feed forget what nobody here needs."""
        lowest = self.horizon(instance)
        if lowest is not None:
            self.feeds[instance].release(lowest)

    def _know_input(self, reader: c.Select | c.Panes) -> None:
        """How to read a stream whose ingest runs elsewhere."""
        if reader.input in self.inputs:
            return
        source = None
        if not reader.stream.store:
            ingest = c.Ingest(instance=reader.input, stream=reader.stream)
            source = open_source(self.root, ingest, epoch=None, started=0)
        self.inputs[reader.input] = _input(reader.stream, source)


def _input(stream: StreamDef, source: Source | None) -> Input:
    return Input(
        stream=stream,
        columns=all_columns(stream),
        timestamp=event_time(stream),
        source=source,
    )
