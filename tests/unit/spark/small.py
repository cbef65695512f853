"""A small stream and small selections of it, with no Spark where none is needed.

`Stream` owns the table of a source stream and commits tuples to it as an ingest would, so that a
select component, the floor and the desk have something to read.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.dataplane import commands as c
from shoal.dataplane.rows import RosterRow, Value
from shoal.log.root import Root
from shoal.log.segment import write_segment
from shoal.log.writer import EVENT_TIME_PROPERTY, Commit, Writer
from shoal.query.catalog import SourceDef, StreamDef, parse_schema
from shoal.query.selection import Key, Range, Signature
from shoal.spark.feed import Feed
from shoal.spark.feed import Range as Read
from shoal.spark.ingest.judge import event_time
from shoal.spark.ingest.step import table_schema
from shoal.spark.select.component import SelectComponent, open_select
from shoal.spark.select.step import SelectWork

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SECOND = 1_000_000
INPUT = "readings-0123456789ab"
STREAM = StreamDef(
    name="readings",
    columns=parse_schema("ts TIMESTAMP, meter INT, kwh DOUBLE"),
    timestamp="ts",
    lateness=10 * SECOND,
    store=True,
    idle_advances=False,
    source=SourceDef(kind="push", options={}),
)
TUPLES = "ts TIMESTAMP, meter INT, kwh DOUBLE, _step BIGINT, _id BIGINT"
#: Second of the event time, meter, kwh.
Tuple = tuple[int, int | None, float | None]


def signature(
    condition: str,
    *holes: str,
    keys: Sequence[Key] = (),
    ranged: Range | None = None,
    errors: str = "",
) -> Signature:
    """A selection without its constants."""
    return Signature(
        stream="readings",
        holes=holes,
        keys=tuple(keys),
        range=ranged,
        condition=condition,
        errors=errors,
        may_throw=False,
        name=f"v1 select from readings where {condition} {holes}",
    )


ABOVE = signature(
    "(s.`kwh` > p.p0)",
    "DOUBLE",
    ranged=Range(expression="s.`kwh`", lower=0, lower_strict=True, upper=None, upper_strict=False),
)
EQUAL = signature(
    "(s.`meter` = p.p0)", "INT", keys=[Key(expression="s.`meter`", hole=0, many=False)]
)
#: A ratio that is undefined where `kwh` is zero: that is counted, and no match.
RATIO = signature("(try_divide(s.`meter`, s.`kwh`) > p.p0)", "DOUBLE", errors="(s.`kwh` = 0.0D)")


def row(query: str, *parameters: Value, **more: Any) -> RosterRow:
    """A query's row; it counts from the beginning unless told."""
    fields: dict[str, Any] = {"version": 1, "columns": ("ts", "meter", "kwh")}
    return RosterRow(query=query, parameters=parameters, **(fields | more))


def spec(selection: Signature = ABOVE, instance: str = "") -> c.Select:
    """The component of a selection."""
    name = instance or f"select-{selection.key[:12]}"
    return c.Select(instance=name, input=INPUT, stream=STREAM, signature=selection)


class Stream:
    """The owner of a stream's table."""

    def __init__(self, root: Root, instance: str = INPUT, stream: StreamDef = STREAM) -> None:
        self.root, self.instance = root, instance
        properties = {EVENT_TIME_PROPERTY: event_time(stream)}
        Writer.create(
            root, instance, table_schema(stream), partition_by=["_kind"], properties=properties
        )
        self.writer = Writer.take_over(root, instance, owner="ingest")

    def commit(
        self, tuples: Iterable[Tuple] = (), *, late: Iterable[Tuple] = (), wm: int | None = None
    ) -> Commit:
        """One step: these tuples, and the watermark in seconds where it has moved."""
        step = self.writer.step + 1
        ok = list(tuples)
        segments = [
            write_segment(
                self.writer.table,
                _rows(some, step),
                epoch=self.writer.epoch,
                step=step,
                part=kind,
                partition={"_kind": kind},
            )
            for kind, some in (("ok", ok), ("late", list(late)))
            if some
        ]
        known = self.writer.transactions
        seen = [known.get("evmax"), *(second * SECOND for second, _, _ in ok)]
        marks = [known.get("wm"), None if wm is None else wm * SECOND]
        facts = {"rows": len(ok)}
        for name, values in (("evmax", seen), ("wm", marks)):
            if told := [value for value in values if value is not None]:
                facts[name] = max(told)
        return self.writer.commit(
            step=step, segments=segments, transactions=facts, info={"wall": str(step)}
        )

    def feed(self) -> Feed:
        """A reader of this stream."""
        feed = Feed.at_head(self.root, self.instance)
        feed.poll()
        return feed


def _rows(tuples: Sequence[Tuple], step: int) -> pa.Table:
    size = len(tuples)
    return pa.table(
        {
            "ts": pa.array([t[0] * SECOND for t in tuples], pa.timestamp("us", "UTC")),
            "meter": pa.array([t[1] for t in tuples], pa.int32()),
            "kwh": pa.array([t[2] for t in tuples], pa.float64()),
            "_step": pa.array([step] * size, pa.int64()),
            "_id": pa.array([step << 35 | n for n in range(size)], pa.int64()),
        }
    )


def opened(
    stream: Stream, selection: Signature = ABOVE, feed: Feed | None = None
) -> SelectComponent:
    """A select of the stream, its table made where there is none."""
    return open_select(
        stream.root, spec(selection), feed or stream.feed(), owner="select", weight=1.0
    )


def served(component: SelectComponent, *, rows_out: int = 0) -> tuple[Read, SelectWork]:
    """Do the next live step, as a worker would that found nothing."""
    component.feed.poll()
    read = component.next_range()
    assert read is not None
    work = component.work(read)
    committed(work)
    component.done(upto=read.upto, rows_in=read.rows, rows_out=rows_out)
    return read, work


def filled(component: SelectComponent) -> SelectWork:
    """Do the next step of a row's history."""
    found, read = component.next_fill()
    work = component.fill_work(found, read)
    committed(work)
    component.filled(found, read.upto)
    return work


def committed(work: SelectWork) -> None:
    """Commit a step that found nothing."""
    writer = work.writer
    writer.commit(step=writer.step + 1, segments=[], transactions=work.transactions)


def frame(spark: "SparkSession", tuples: Sequence[Tuple], *, step: int = 1) -> "DataFrame":
    """Tuples of one step, as a select reads them."""
    return spark.createDataFrame(_rows(tuples, step))


def results(root: Root, instance: str) -> list[dict[str, Any]]:
    """What a select's table holds, in order of step, event time and identity."""
    files = sorted(root.table(instance).path.glob("e*.parquet"))
    found = [found for file in files for found in pq.read_table(file).to_pylist()]
    return sorted(found, key=lambda one: (one["_step"], one["ts"], one["_id"]))


def matched(found: Iterable[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """Query and ordinal of each result, in order."""
    return sorted((one["_query"], one["_id"] & ((1 << 35) - 1)) for one in found)
