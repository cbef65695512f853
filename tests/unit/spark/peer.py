"""What runs on a peer without Spark, and the chooser of what is to be done there."""

from dataclasses import replace

from shoal.dataplane import commands as c
from shoal.dataplane.progress import Progress
from shoal.dataplane.reports import Report
from shoal.kernel.time import SECOND
from shoal.log.root import Root
from shoal.query.selection import Signature
from shoal.spark.choose import Chooser
from shoal.spark.deliver.crew import Crew
from shoal.spark.floor import Floor
from shoal.spark.ingest.component import IngestComponent, open_ingest
from shoal.spark.select.component import SelectComponent, open_select
from shoal.spark.turns import (
    Turn,
)
from shoal.spark.windows.panes import CoarserComponent, PanesComponent, open_panes
from shoal.spark.windows.rollup import RollUpComponent, open_roll_up
from tests.unit.spark.small import ABOVE, INPUT, STREAM, spec
from tests.unit.spark.windows import world

NOW = 100 * SECOND


class Peer:
    """A floor, and the chooser of what is to be done on it."""

    def __init__(self, root: Root) -> None:
        self.told: list[Report] = []
        self.floor = Floor(root, owner="peer-1", report=self.told.append)
        self.crew = Crew(
            root,
            self.floor.scheduler,
            Progress(),
            feed_of=self.floor.feed,
            report=lambda _: None,
        )
        self.chooser = Chooser(self.floor, self.crew)

    def select(
        self, selection: Signature = ABOVE, *, store: bool = True, retain: int = 0
    ) -> SelectComponent:
        stream = replace(STREAM, store=store, retain=retain)
        wanted = replace(spec(selection), stream=stream)
        part = open_select(
            self.floor.root, wanted, self.floor.feed(INPUT), owner="peer-1", weight=1.0
        )
        self.floor.add(part)
        return part

    def ingest(self, *, store: bool, retain: int = 0) -> IngestComponent:
        stream = replace(STREAM, store=store, retain=retain)
        wanted = c.Ingest(instance=INPUT, stream=stream)
        part = open_ingest(self.floor.root, wanted, owner="peer-1", weight=1.0, now=NOW)
        self.floor.add(part)
        return part

    def panes(self, wanted: c.Panes | None = None) -> PanesComponent | CoarserComponent:
        wanted = wanted or world.panes_spec()
        feed = self.floor.feed(wanted.input)
        part = open_panes(self.floor.root, wanted, feed, owner="peer-1", weight=1.0)
        self.floor.add(part)
        return part

    def roll_up(self, *, retain: int = 0) -> RollUpComponent:
        plain = world.roll_up_spec(world.PLAIN)
        wanted = replace(plain, stream=replace(STREAM, retain=retain))
        feed = self.floor.feed(wanted.input)
        part = open_roll_up(self.floor.root, wanted, feed, owner="peer-1", weight=1.0)
        self.floor.add(part)
        return part

    def mark(self, panes: PanesComponent | CoarserComponent, second: int) -> None:
        """A commit of panes without any, and the watermark after it."""
        facts = {"wm": second * SECOND, "evmax": (second + 5) * SECOND}
        writer = panes.writer
        writer.commit(step=writer.step + 1, segments=[], transactions=facts)
        self.floor.feed(panes.instance)

    def next(self, now: int = NOW) -> Turn | None:
        return self.chooser.next_turn(now)

    def over(self, turn: Turn) -> None:
        """The turn has ended, whatever came of it."""
        for instance in turn.instances:
            self.floor.parts[instance].running = False
            self.floor.scheduler.idle(instance)

    def fail(self, part: SelectComponent, times: int = 1) -> None:
        for _ in range(times):
            self.floor.scheduler.failed(part.instance, NOW - 60 * SECOND)
