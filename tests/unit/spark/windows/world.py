"""Signatures made by hand, and components that a test steps itself.

    keys      k0 = meter modulo 3 (NULL where the meter is)
    filters   f0 = meter
    measures  count(*), sum(kwh), avg(kwh)
    WHERE     f0 < ?           HAVING    count(*) > ?

`Lab` owns a stream (small.py), its panes and a roll-up, and runs their steps as a worker would.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from shoal.dataplane import commands as c
from shoal.dataplane.rows import RosterRow
from shoal.log.reader import Reader
from shoal.log.root import Root
from shoal.query.selection import Key, Signature, Value
from shoal.query.windows.plan import Grouped, Measure, Panes, Partial, RollUp, Shape
from shoal.query.windows.shape import Window
from shoal.spark.bench import Bench
from shoal.spark.feed import Feed
from shoal.spark.outcome import StepOutcome
from shoal.spark.select.step import Rosters
from shoal.spark.turns import CoarserTurn, Input, PanesTurn, RollUpTurn
from shoal.spark.windows.panes import CoarserComponent, PanesComponent, open_panes
from shoal.spark.windows.rollup import RollUpComponent, open_roll_up
from tests.unit.spark.small import INPUT, SECOND, STREAM, Stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = Measure(
    name="a0",
    type="BIGINT",
    partials=(
        Partial(name="a0_n", type="BIGINT", make="count(*)", merge="sum(`a0_n`)", each="1L"),
    ),
    final="`a0_n`",
)
SUM = Measure(
    name="a1",
    type="DOUBLE",
    partials=(
        Partial(
            name="a1_s", type="DOUBLE", make="sum(s.`kwh`)", merge="sum(`a1_s`)", each="s.`kwh`"
        ),
    ),
    final="`a1_s`",
)
AVG = Measure(
    name="a2",
    type="DOUBLE",
    partials=(
        Partial(
            name="a2_s", type="DOUBLE", make="sum(s.`kwh`)", merge="sum(`a2_s`)", each="s.`kwh`"
        ),
        Partial(
            name="a2_n",
            type="BIGINT",
            make="count(s.`kwh`)",
            merge="sum(`a2_n`)",
            each="CAST(s.`kwh` IS NOT NULL AS BIGINT)",
        ),
    ),
    final="try_divide(`a2_s`, `a2_n`)",
)
PANES = Panes(
    stream="readings",
    reads=STREAM.canonical_name,
    pane=SECOND,
    keys=(Grouped(name="k0", expression="pmod(s.`meter`, 3)", type="INT"),),
    filters=(Grouped(name="f0", expression="s.`meter`", type="INT"),),
    always="",
    errors="(s.`kwh` = 13.0D)",
    measures=(COUNT, SUM, AVG),
    name="v1 panes of 1 s over readings",
)
#: The number of the shape comes first among HAVING's holes.
IS_SHAPE = Key(expression="s.`_shape`", hole=0, many=False)


def signature(condition: str, *holes: str, keys: Sequence[Key] = ()) -> Signature:
    """WHERE or HAVING without its constants."""
    return Signature(
        stream="readings",
        holes=holes,
        keys=tuple(keys),
        range=None,
        condition=condition,
        errors="",
        may_throw=False,
        name=f"v1 {condition} {holes}",
    )


ROLL_UP = RollUp(
    panes=PANES,
    where=signature("(s.`f0` < p.p0)", "INT"),
    having=signature(
        "(s.`_shape` = p.p0) AND (s.`a0` > p.p1)", "BIGINT", "BIGINT", keys=[IS_SHAPE]
    ),
    name="v1 roll-up",
)
#: Without WHERE and HAVING.
PLAIN = RollUp(
    panes=PANES,
    where=signature("TRUE"),
    having=signature("(s.`_shape` = p.p0)", "BIGINT", keys=[IS_SHAPE]),
    name="v1 roll-up of all",
)


def window(length: int, slide: int | None = None, offset: int = 0) -> Window:
    """A window, in seconds; it tumbles unless told."""
    moves = length if slide is None else slide
    return Window(length=length * SECOND, slide=moves * SECOND, offset=offset * SECOND)


def row(
    query: str, wanted: Window, below: int | None = None, above: int | None = None, **more: Any
) -> RosterRow:
    """A query: meters below so much, groups of more than so many; None: no WHERE or HAVING."""
    shape = Shape(window=wanted, parameters=() if below is None else (below,))
    having: tuple[Value, ...] = () if above is None else (above,)
    fields: dict[str, Any] = {"version": 1, "columns": ()}
    return RosterRow(
        query=query, parameters=(shape.number, *having), shape=shape, **(fields | more)
    )


def panes_spec(panes: Panes = PANES, *, finer: str = "", store: bool = True) -> c.Panes:
    return c.Panes(
        instance=f"panes-{panes.pane}",
        input=finer or INPUT,
        stream=replace(STREAM, store=store),
        panes=panes,
        merges=bool(finer),
    )


def roll_up_spec(roll_up: RollUp = ROLL_UP, instance: str = "rollup-1") -> c.RollUp:
    return c.RollUp(
        instance=instance,
        input=f"panes-{roll_up.panes.pane}",
        stream=STREAM,
        roll_up=roll_up,
    )


class Lab:
    """A stream, panes and a roll-up. Close it."""

    def __init__(self, root: Path, spark: "SparkSession", roll_up: RollUp = ROLL_UP) -> None:
        self.root = Root.open(root)
        self.stream = Stream(self.root)
        self._pool = ThreadPoolExecutor(2)
        self.bench = Bench(
            session=spark, root=self.root, rosters=Rosters(spark), commits=self._pool
        )
        self.input = Input(stream=STREAM, columns=STREAM.columns, timestamp="ts", source=None)
        self.roll_up = roll_up

    def __enter__(self) -> "Lab":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def feed(self, instance: str) -> Feed:
        feed = Feed.at_head(self.root, instance)
        feed.poll()
        return feed

    def panes(self, spec: c.Panes | None = None) -> PanesComponent | CoarserComponent:
        """The next owner of panes."""
        spec = spec or panes_spec()
        return open_panes(self.root, spec, self.feed(spec.input), owner="test", weight=1.0)

    def roller(self, spec: c.RollUp | None = None) -> RollUpComponent:
        """The next owner of a roll-up."""
        spec = spec or roll_up_spec(self.roll_up)
        return open_roll_up(self.root, spec, self.feed(spec.input), owner="test", weight=1.0)

    def make(self, panes: PanesComponent | CoarserComponent) -> list[StepOutcome]:
        """All steps of panes that are there to do."""
        panes.feed.poll()
        done = []
        while panes.ready:
            done.append(self.step(panes))
        return done

    def step(self, panes: PanesComponent | CoarserComponent) -> StepOutcome:
        if isinstance(panes, CoarserComponent):
            (outcome,) = CoarserTurn(instances=(panes.instance,), work=panes.work())(
                self.bench
            ).outcomes
            assert isinstance(outcome, StepOutcome), outcome
            panes.done(outcome)
            return outcome
        read = panes.next_range()
        assert read is not None
        work = panes.work(read)
        turn = PanesTurn(instances=(panes.instance,), input=self.input, read=read, work=work)
        (outcome,) = turn(self.bench).outcomes
        assert isinstance(outcome, StepOutcome), outcome
        panes.done(work, outcome)
        return outcome

    def roll(self, roller: RollUpComponent) -> list[StepOutcome]:
        """All steps of a roll-up that are there to do."""
        roller.feed.poll()
        done = []
        while roller.ready:
            done.append(self.roll_once(roller))
        return done

    def roll_once(self, roller: RollUpComponent) -> StepOutcome:
        fill = roller.fill_row if roller.fill_is_due else None
        work = roller.fill_work() if fill is not None else roller.work()
        turn = RollUpTurn(instances=(roller.instance,), work=work, fill=fill, suspects=False)
        (outcome,) = turn(self.bench).outcomes
        assert isinstance(outcome, StepOutcome), outcome
        if fill is None:
            roller.done(outcome)
        else:
            roller.filled_by(fill, work, outcome)
        return outcome

    def rows(self, instance: str) -> list[dict[str, Any]]:
        """What a table holds, in order of step and identity."""
        folder = self.root.table(instance).path
        segments = Reader(self.root, instance, after=0).segments_between(0, 1 << 62)
        found = [row for s in segments for row in pq.read_table(folder / s.path).to_pylist()]
        return sorted(found, key=lambda one: (one["_step"], one["_id"]))

    def results(self, query: str, instance: str = "rollup-1") -> list[tuple[Any, ...]]:
        """A query's windows: begin and end in seconds, group, count, sum and mean."""
        return brief(row for row in self.rows(instance) if row["_query"] == query)


def brief(rows: Iterable[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """Windows in order, without what is the same in all."""
    found = [
        (
            int(row["window_start"].timestamp()),
            int(row["window_end"].timestamp()),
            row["k0"],
            row["a0"],
            row["a1"],
            row["a2"],
        )
        for row in rows
    ]
    return sorted(found, key=repr)
