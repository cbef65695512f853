"""An ingest component: the one that copies a source into the log, or indexes it."""

from shoal.dataplane import commands
from shoal.kernel.time import MILLISECOND, SECOND, Instant
from shoal.log.journal import FORGET_AFTER, Journal
from shoal.log.root import Root
from shoal.log.spool import Spool
from shoal.log.watermark import WatermarkRule
from shoal.log.writer import EVENT_TIME_PROPERTY, Writer
from shoal.query.catalog import StreamDef
from shoal.spark.ingest.files import FileSource
from shoal.spark.ingest.judge import event_time
from shoal.spark.ingest.push import PushSource
from shoal.spark.ingest.rate import RateSource
from shoal.spark.ingest.source import Source
from shoal.spark.ingest.step import DEAD_SCHEMA, DEAD_TIME, Ingest, table_schema
from shoal.spark.outcome import StepFailed

__all__ = [
    "POLL_FIRST",
    "POLL_MOST",
    "SPOOL_BYTES_MAX",
    "IngestComponent",
    "open_ingest",
    "open_source",
]

#: Wait before a source that had nothing is asked again; doubles up to the longest.
POLL_FIRST = 20 * MILLISECOND
POLL_MOST = SECOND // 4
#: Failures of one part alone before it goes to the dead letters.
ATTEMPTS_BEFORE_GIVING_UP = 4
#: Bytes that pushed batches may wait on disk; a client is refused above it.
SPOOL_BYTES_MAX = 4 << 30


class IngestComponent:
    """One source stream on this peer. Owned by the engine's thread alone."""

    kind = "ingest"

    def __init__(self, spec: commands.Ingest, ingest: Ingest, *, weight: float) -> None:
        self.spec = spec
        self.instance = spec.instance
        self.ingest = ingest
        self.writer = ingest.writer
        self.weight = weight
        self.running = False
        self.look_at: Instant = 0
        #: Everything that the source had at this instant is committed.
        self.looked: Instant = 0
        self._wait = POLL_FIRST

    def found_nothing(self, now: Instant, *, looked: Instant) -> None:
        """Ask again a little later, and later still if there is nothing again."""
        self.looked = looked
        self.look_at = now + self._wait
        self._wait = min(POLL_MOST, 2 * self._wait)

    def failed(self, outcome: StepFailed, failures: int) -> None:
        """Go part by part from now on; give up on one that cannot be read however often.

        Only what the job itself says is held against a part: a full disk is nobody's fault. And
        Spark must be well: a dead JVM reads nothing at all.
        """
        ingest = self.ingest
        alone = ingest.cautious and ingest.source.parts_are_positions
        if alone and failures >= ATTEMPTS_BEFORE_GIVING_UP and outcome.phase in ("plan", "job"):
            ingest.unreadable = outcome.reason
        ingest.cautious = True

    def found_something(self, looked: Instant) -> None:
        """There may be more right away."""
        if not self.ingest.source.waiting(self.ingest.position):
            self.looked = looked
        self._wait = POLL_FIRST
        self.look_at = 0


def open_ingest(
    root: Root, spec: commands.Ingest, *, owner: str, weight: float, now: Instant
) -> IngestComponent:
    """Create the stream's tables where there are none, and become their owner."""
    stream, instance = spec.stream, spec.instance
    properties = {EVENT_TIME_PROPERTY: event_time(stream)}
    Writer.create(
        root, instance, table_schema(stream), partition_by=["_kind"], properties=properties
    )
    letters = {EVENT_TIME_PROPERTY: DEAD_TIME}
    Writer.create(root, f"{instance}.dead", DEAD_SCHEMA, properties=letters)
    writer = Writer.take_over(root, instance, owner=owner)
    dead = Writer.take_over(root, f"{instance}.dead", owner=owner)
    if "started" not in writer.transactions:
        writer.commit(step=writer.step + 1, segments=[], transactions={"started": now, "rows": 0})
    source = open_source(root, spec, epoch=writer.epoch, started=writer.transactions["started"])
    rule = WatermarkRule.of(lateness=stream.lateness, idle_advances=stream.idle_advances)
    ingest = Ingest(stream, source, writer, dead, rule)
    return IngestComponent(spec, ingest, weight=weight)


def open_source(
    root: Root, spec: commands.Ingest, *, epoch: int | None, started: Instant
) -> Source:
    """The stream's source; owned where an epoch is given, else to read only."""
    stream: StreamDef = spec.stream
    match stream.source.kind:
        case "files":
            journal = Journal(root.folder("journals", spec.instance), forget_after=FORGET_AFTER)
            journal.refresh() if epoch is None else journal.claim(epoch)
            return FileSource(stream.source, journal, keep=not stream.store)
        case "push":
            return PushSource(
                Spool(root.folder("spools", spec.instance), bytes_max=SPOOL_BYTES_MAX)
            )
        case _:
            return RateSource(stream.source, started=started)
