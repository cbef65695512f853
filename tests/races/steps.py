"""What the owners of a race write: small steps whose rows say which attempt wrote them."""

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from shoal.kernel.ids import tuple_id
from shoal.log.housekeep import Upkeep
from shoal.log.reader import Reader
from shoal.log.root import Root
from shoal.log.segment import Segment, write_segment
from shoal.log.writer import EVENT_TIME_PROPERTY, Commit, Writer
from tests.races.checker import Row, rows_of

__all__ = ["EAGER", "INSTANCE", "commit_step", "create", "read_all", "write_parts"]

INSTANCE = "race"
#: Everything that is rare in production happens every few steps here.
EAGER = Upkeep(
    checkpoint_every=5,
    log_entries_kept=3,
    merge_from=4,
    sweep_every_s=0.0,
    grace_s=2.0,
)
SCHEMA = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        ("attempt", pa.int64()),
        ("rows", pa.int64()),
        ("_step", pa.int64()),
        ("_id", pa.int64()),
        ("_kind", pa.string()),
    ]
)
#: Rows of a part; a step has up to three parts, the last of them late.
PART_ROWS = 4


def create(root: Root, instance: str = INSTANCE) -> None:
    """The table of a race."""
    properties = {EVENT_TIME_PROPERTY: "at"}
    Writer.create(root, instance, SCHEMA, partition_by=["_kind"], properties=properties)


def write_parts(
    writer: Writer, *, parts: int, rng: random.Random, trace: Callable[[str], None]
) -> tuple[int, list[Segment]]:
    """The files of the next step, and the attempt they are of: its last two digits are the rows."""
    step = writer.step + 1
    rows = parts * PART_ROWS
    attempt = rng.randrange(1, 1 << 40) * 100 + rows
    segments = []
    for part in range(parts):
        ordinals = range(part * PART_ROWS, (part + 1) * PART_ROWS)
        content = {
            "at": pa.array([step * 1000 + ordinal for ordinal in ordinals], SCHEMA.field(0).type),
            "attempt": [attempt] * PART_ROWS,
            "rows": [rows] * PART_ROWS,
            "_step": [step] * PART_ROWS,
            "_id": [tuple_id(step=step, ordinal=ordinal) for ordinal in ordinals],
        }
        partition = {"_kind": "late" if part == 2 else "ok"}
        segments.append(
            write_segment(
                writer.table,
                pa.table(content),
                epoch=writer.epoch,
                step=step,
                part=part,
                partition=partition,
            )
        )
        trace(f"segment {part} written")
    return attempt, segments


def commit_step(
    writer: Writer, *, parts: int, rng: random.Random, trace: Callable[[str], None]
) -> tuple[Commit, int]:
    """Write and commit the next step; the commit and the attempt."""
    attempt, segments = write_parts(writer, parts=parts, rng=rng, trace=trace)
    commit = writer.commit(
        step=writer.step + 1,
        segments=segments,
        transactions={"in/source": writer.step + 1},
        info={"attempt": str(attempt)},
    )
    return commit, attempt


def read_all(root: Root, reader: Reader, instance: str = INSTANCE) -> dict[int, list[Row]]:
    """Step to rows of everything that the reader is handed until it is handed nothing."""
    rows: dict[int, list[Row]] = {}
    while commits := reader.poll(commits_max=7):
        for commit in commits:
            for row in _rows(root.table(instance).path, reader, commit):
                rows.setdefault(row[0], []).append(row)
            for step in range(commit.first_step, commit.step + 1):
                rows.setdefault(step, [])
    return rows


def _rows(table: Path, reader: Reader, commit: Commit) -> list[Row]:
    """The rows of a commit; where its files were swept meanwhile, from a snapshot."""
    segments = commit.segments
    while True:
        try:
            rows = [row for segment in segments for row in rows_of(table / segment.path)]
        except FileNotFoundError:
            segments = reader.segments_between(commit.first_step - 1, commit.step)
            continue
        return [row for row in rows if commit.first_step <= row[0] <= commit.step]
