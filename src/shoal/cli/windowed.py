"""Start what a windowed query needs: panes, a roll-up, and a row in it.

    readings ─▶ panes of 1 s ─▶ roll-up ◀─ rows of queries that differ in constants
                     └─▶ panes of 1 min ─▶ roll-up ◀─ ...

Panes of the same keys, filters, conditions and measures differ in their length alone. New ones are
made of the longest that run here already and fit, else of the stream; they go on from the same
for good, so a restart starts those first.
"""

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, replace

from shoal.dataplane import commands as c
from shoal.dataplane.contract import Answer
from shoal.dataplane.rows import RosterRow
from shoal.kernel.errors import LocalError
from shoal.kernel.ids import instance_of
from shoal.kernel.time import Instant
from shoal.log.reader import Reader
from shoal.log.root import Root
from shoal.query.catalog import StreamDef
from shoal.query.windows.plan import Panes, Windowed
from shoal.query.windows.shape import INSTANT, LADDER

__all__ = ["Windows", "row_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Windowed queries over one stream. `running` names what runs here, and is kept up to date."""

    root: Root
    stream: StreamDef
    #: The instance that ingests the stream.
    input: str
    call: Callable[[c.Command], Answer]
    running: MutableMapping[str, None]

    def add(self, windowed: Windowed, row: RosterRow, *, begin: Instant | None) -> str:
        """Start what the query needs, and add its row; the roll-up's instance."""
        instance = self.start(windowed)
        self.call(c.AddRows(instance=instance, rows=(row,), begin=begin))
        return instance

    def start(self, windowed: Windowed) -> str:
        """Start panes and roll-up where they do not run yet; the roll-up's instance."""
        roll_up = windowed.roll_up
        panes = self._start_panes(roll_up.panes)
        instance = instance_of("rollup", f"{roll_up.name} over {panes}")
        self._start(c.RollUp(instance=instance, input=panes, stream=self.stream, roll_up=roll_up))
        return instance

    def _start_panes(self, panes: Panes) -> str:
        instance = self._instance(panes)
        if instance not in self.running:
            finer = self._finer(panes, instance)
            source = self.input if finer is None else self._start_panes(finer)
            self._start(
                c.Panes(
                    instance=instance,
                    input=source,
                    stream=self.stream,
                    panes=panes,
                    merges=finer is not None,
                )
            )
        return instance

    def _start(self, component: c.Component) -> None:
        if component.instance not in self.running:
            self.call(c.Start(component=component, weight=1.0))
            self.running[component.instance] = None

    def _instance(self, panes: Panes) -> str:
        """The identity of panes: what they hold and read, whatever they are called."""
        content = (panes.keys, panes.filters, panes.always, panes.errors, panes.measures)
        return instance_of("panes", f"{content!r} each {panes.pane} over {self.input}")

    def _finer(self, panes: Panes, instance: str) -> Panes | None:
        """What these panes are made of, if not of the stream: as they began, or the best here."""
        shorter = [
            replace(panes, pane=length)
            for length in reversed((INSTANT, *LADDER))
            if length < panes.pane and panes.pane % length == 0
        ]
        head = Reader.head(self.root, instance)
        facts = () if head is None else head.transactions
        begun = next((key[3:] for key in facts if key[:3] == "in/"), None)
        if begun is None:
            return next((one for one in shorter if self._instance(one) in self.running), None)
        if begun == self.input:
            return None
        found = next((one for one in shorter if self._instance(one) == begun), None)
        if found is None:
            raise LocalError(f"panes {instance} go on from {begun}, which is not known")
        return found


def row_of(query: str, version: int, windowed: Windowed, *, weight: float = 1.0) -> RosterRow:
    """The row of a windowed query."""
    return RosterRow(
        query=query,
        version=version,
        parameters=(windowed.shape.number, *windowed.parameters),
        columns=tuple(column.name for column in windowed.roll_up.columns()),
        weight=weight,
        shape=windowed.shape,
    )
