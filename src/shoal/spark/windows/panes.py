"""Components that make panes: of a stream's tuples, or of finer panes.

Owned by the engine's thread alone. Panes of tuples follow the stream's commits. Coarser panes are
made once the watermark has passed their end, from the finer ones that lie in the log by then: so
each is made once, whatever the steps were.

A new one over a stored stream begins as far back as the stream is kept, in bounded steps, and over
finer panes with the first of them. What was there before is not whole, and `whole` says from when.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from shoal.dataplane.commands import Panes
from shoal.dataplane.rows import ALWAYS, FOREVER
from shoal.kernel.errors import LocalError
from shoal.kernel.time import Instant
from shoal.log.reader import Reader
from shoal.log.root import Root
from shoal.log.writer import EVENT_TIME_PROPERTY, Writer
from shoal.query.windows.plan import PANE
from shoal.query.windows.shape import Window
from shoal.spark.feed import Feed, Range
from shoal.spark.ingest.judge import event_time
from shoal.spark.outcome import StepOutcome
from shoal.spark.select.rostered import ROWS_PER_STEP
from shoal.spark.windows.due import Wanted, source_stamp
from shoal.spark.windows.follow import Follower
from shoal.spark.windows.shelf import WHOLE, whole_from
from shoal.spark.windows.step import CoarserWork, PanesWork, panes_schema

__all__ = [
    "PASS_ABOVE",
    "TRY_EVERY",
    "CoarserComponent",
    "PanesComponent",
    "open_panes",
]

#: Panes for each tuple above which tuples are passed through. At 0.8 that saves a third of the
#: step and costs readers little (docs/spark.md); below, a guess.
PASS_ABOVE = 0.5
#: Steps after which grouping is tried again.
TRY_EVERY = 32
#: Tuples of a step that passes them through: all of them come back as Arrow.
PASSED_PER_STEP = 200_000


@dataclass(slots=True)
class _Grouping:
    """Whether to group: measured from the steps that did."""

    possible: bool
    share: float = 0.0
    passed: int = 0

    @property
    def pays(self) -> bool:
        return not self.possible or self.share <= PASS_ABOVE or self.passed >= TRY_EVERY

    def saw(self, *, rows_in: int, rows_out: int, grouped: bool) -> None:
        if grouped and rows_in:
            self.share = rows_out / rows_in
            self.passed = 0
        elif not grouped:
            self.passed += 1


class _Component:
    """What both kinds of panes have in common."""

    kind = "panes"

    def __init__(self, spec: Panes, writer: Writer, feed: Feed, *, weight: float) -> None:
        self.spec = spec
        self.instance = spec.instance
        self.writer = writer
        self.feed = feed
        self.weight = weight
        self.running = False

    @property
    def watermark(self) -> Instant | None:
        """The event time up to which nothing is added any more."""
        return self.writer.transactions.get("wm")

    @property
    def whole(self) -> Instant:
        """Windows that begin at or after this are whole."""
        return whole_from(self.writer.transactions)


class PanesComponent(_Component):
    """Panes of one stream's tuples."""

    def __init__(self, spec: Panes, writer: Writer, feed: Feed, *, weight: float) -> None:
        super().__init__(spec, writer, feed, weight=weight)
        self.position = writer.transactions[f"in/{spec.input}"]
        partials = (partial for measure in spec.panes.measures for partial in measure.partials)
        self._grouping = _Grouping(possible=all(partial.each for partial in partials))

    @property
    def ready(self) -> bool:
        """Whether there is something to do."""
        return self.lag > 0

    @property
    def lag(self) -> int:
        """Commits of the input that are still to be consumed."""
        return self.feed.head - self.position

    @property
    def oldest_needed(self) -> int:
        """The lowest position of the input that is still to be read."""
        return self.position

    def next_range(self) -> Range | None:
        """The next range of the input, if there is one."""
        most = ROWS_PER_STEP if self._grouping.pays else PASSED_PER_STEP
        return self.feed.next_range(self.position, rows_max=most)

    def work(self, read: Range) -> PanesWork:
        """The step over a range."""
        facts = {f"in/{self.spec.input}": read.upto}
        for key in ("wm", "evmax"):
            commits = (self.writer.transactions, *(commit.transactions for commit in read.commits))
            told = [found[key] for found in commits if key in found]
            if told:
                facts[key] = max(told)
        return PanesWork(
            instance=self.instance,
            panes=self.spec.panes,
            writer=self.writer,
            timestamp=event_time(self.spec.stream),
            rows_in=read.rows,
            grouped=self._grouping.pays,
            transactions=facts,
            source_committed=source_stamp(read.commits),
        )

    def done(self, work: PanesWork, outcome: StepOutcome) -> None:
        """A step was committed."""
        self.position = outcome.commit.transactions[f"in/{self.spec.input}"]
        self._grouping.saw(rows_in=work.rows_in, rows_out=outcome.rows_out, grouped=work.grouped)


class CoarserComponent(_Component):
    """Panes made of finer ones, each once the watermark has passed its end."""

    def __init__(self, spec: Panes, writer: Writer, feed: Feed, *, weight: float) -> None:
        super().__init__(spec, writer, feed, weight=weight)
        self._follower = Follower(feed, writer)
        length = spec.panes.pane
        tumbling = Window(length=length, slide=length, offset=0)
        self._wanted = (Wanted(window=tumbling, after=ALWAYS, upto=FOREVER),)

    @property
    def ready(self) -> bool:
        """Whether there is something to do."""
        return self._follower.next(self._wanted) is not None

    @property
    def lag(self) -> int:
        """Commits of the input that are still to be consumed."""
        return self._follower.lag

    @property
    def position(self) -> int:
        """The commit of the input that was consumed last."""
        return self._follower.position

    @property
    def oldest_needed(self) -> int:
        """The lowest position of the input that is still to be read."""
        return self._follower.durable

    @property
    def needs_from(self) -> Instant:
        """Finer panes that begin earlier are needed no more."""
        return self._follower.done - self.spec.panes.pane

    def work(self) -> CoarserWork:
        """The step over what is due."""
        due = self._follower.next(self._wanted)
        assert due is not None, self.instance
        return CoarserWork(
            instance=self.instance,
            panes=self.spec.panes,
            writer=self.writer,
            due=due,
            source_committed=due.source_committed,
        )

    def done(self, outcome: StepOutcome) -> None:
        """A step was committed."""
        self._follower.committed(outcome.commit.transactions)


def open_panes(
    root: Root, spec: Panes, feed: Feed, *, owner: str, weight: float
) -> PanesComponent | CoarserComponent:
    """Create the table where there is none, and become its owner."""
    properties = {EVENT_TIME_PROPERTY: PANE}
    Writer.create(root, spec.instance, panes_schema(spec.panes), properties=properties)
    writer = Writer.take_over(root, spec.instance, owner=owner)
    begun = [key for key in writer.transactions if key[:3] == "in/"]
    if not begun:
        first = _first(root, spec, feed)
        writer.commit(step=writer.step + 1, segments=[], transactions=first)
    elif begun != [f"in/{spec.input}"]:
        raise LocalError(
            f"panes {spec.instance} do not read {spec.input}",
            detail=f"their table goes on from {begun[0][3:]}",
            hint="start them over what they were made of",
        )
    kind = CoarserComponent if spec.merges else PanesComponent
    return kind(spec, writer, feed, weight=weight)


def _first(root: Root, spec: Panes, feed: Feed) -> dict[str, int]:
    """Where new panes begin. The greatest event time is the input's: a query that is added now
    counts from there, although the panes have yet to come that far."""
    head = Reader.head(root, spec.input)
    facts: Mapping[str, int] = {} if head is None else head.transactions
    evmax = facts.get("evmax", ALWAYS)
    after_all = ALWAYS if evmax == ALWAYS else evmax + 1
    position, whole = 0, ALWAYS
    if spec.merges:
        whole = whole_from(facts)
    elif head is not None and not spec.stream.store:
        # What the source still has cannot be told; what is lost can: it is not after the head.
        position, whole = head.step, after_all
    elif head is not None and (lost := feed.lost()).step:
        position, whole = lost.step, min(lost.time + 1, after_all)
    first = {f"in/{spec.input}": position, WHOLE: whole}
    return first if evmax == ALWAYS else first | {"evmax": evmax}
