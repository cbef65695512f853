"""The floor: what runs on this peer, and what it reads. Data of the engine's thread.

The desk changes it, `choose` looks at it to find the next turn.
"""

from shoal.dataplane import commands as c
from shoal.dataplane.scheduler import Scheduler
from shoal.kernel.errors import LocalError
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
from shoal.spark.turns import Input

__all__ = ["LEASE_FOR", "Floor", "Part"]

#: How long a reader of another peer's stream is remembered after its last sign of life.
LEASE_FOR = 600 * SECOND
#: How often it gives one.
LEASE_EVERY = 60 * SECOND

Part = IngestComponent | SelectComponent


class Floor:
    """Components, feeds, inputs and turns of one engine."""

    def __init__(self, root: Root, *, owner: str) -> None:
        self.root = root
        self._owner = owner
        self.parts: dict[str, Part] = {}
        self.feeds: dict[str, Feed] = {}
        self.inputs: dict[str, Input] = {}
        self.scheduler = Scheduler()
        #: Selects whose step in flight has no end yet: what is asked of them waits for it.
        self.undecided: dict[str, None] = {}
        #: Steps of a table since it was cared for.
        self.uncared: dict[str, int] = {}
        self._leases_at: Instant = 0

    def add(self, part: Part) -> None:
        """A component runs here from now on."""
        self.parts[part.instance] = part
        self.uncared[part.instance] = 0
        self.scheduler.add(part.instance, weight=part.weight)
        if isinstance(part, IngestComponent):
            source = None if part.spec.stream.store else part.ingest.source
            self.inputs[part.instance] = _input(part.spec.stream, source)
        else:
            self._know_input(part.spec)

    def remove(self, instance: str) -> None:
        """A component no longer runs here; its table stays as it is."""
        del self.parts[instance]
        del self.uncared[instance]
        self.scheduler.remove(instance)

    def select(self, instance: str) -> SelectComponent:
        """The select of this instance; an error if none runs here."""
        part = self.parts.get(instance)
        if not isinstance(part, SelectComponent):
            raise LocalError(f"component {instance} does not run here as a select")
        return part

    def feed(self, instance: str) -> Feed:
        """The feed of an instance, up to date."""
        if instance not in self.feeds:
            self.feeds[instance] = Feed.at_head(self.root, instance)
        feed = self.feeds[instance]
        feed.poll()
        return feed

    def tail(self, now: Instant) -> None:
        """Take in what other peers have committed, and tell them that somebody reads."""
        foreign = {name: feed for name, feed in self.feeds.items() if name not in self.parts}
        for feed in foreign.values():
            feed.poll()
        if now < self._leases_at:
            return
        self._leases_at = now + LEASE_EVERY
        for name in foreign:
            position = self.horizon(name)
            if position is not None:
                leases = Leases(self.root.folder("readers", name))
                leases.register(self._owner, position=position, expires=now + LEASE_FOR)

    def readers(self, ingest: IngestComponent) -> list[SelectComponent]:
        """The selects that read what this ingest brings, but for those that go alone."""
        return [
            part
            for part in self.parts.values()
            if isinstance(part, SelectComponent)
            and part.spec.input == ingest.instance
            and not self.scheduler.turn(part.instance).alone
        ]

    def horizon(self, instance: str) -> int | None:
        """The lowest position of this instance that a select here still needs."""
        needed = [
            part.oldest_needed
            for part in self.parts.values()
            if isinstance(part, SelectComponent) and part.spec.input == instance
        ]
        return min(needed, default=None)

    def release(self, instance: str) -> None:
        """Let the feed forget what nobody here needs."""
        lowest = self.horizon(instance)
        if lowest is not None:
            self.feeds[instance].release(lowest)

    def _know_input(self, select: c.Select) -> None:
        """How to read the input of a select whose ingest runs elsewhere."""
        if select.input in self.inputs:
            return
        source = None
        if not select.stream.store:
            ingest = c.Ingest(instance=select.input, stream=select.stream)
            source = open_source(self.root, ingest, epoch=None, started=0)
        self.inputs[select.input] = _input(select.stream, source)


def _input(stream: StreamDef, source: Source | None) -> Input:
    return Input(
        stream=stream,
        columns=all_columns(stream),
        timestamp=event_time(stream),
        source=source,
    )
