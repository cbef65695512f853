"""The roster as a frame: what the rows of a step group look like to Spark.

Built when a roster changes and kept until the next change; a step only joins with it. It is a
local relation, so that broadcasting it costs no Spark job, and all constants are data: the text
of a step's plan, and so its compiled code, stays the same whatever the queries ask for.

Columns: `_k` the probe's hash, `_m` the member, `_query`, `_version`, the intervals, `_keep`, and
the parameters in slots `p<hole>_<type>` that signatures of equal types share.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from shoal.dataplane.rows import RosterRow
from shoal.log.types import arrow_type, arrow_values
from shoal.query.selection import Signature, Value
from shoal.spark.select.hoist import Hoisted
from shoal.spark.select.index import Member, ProbeClass, classify

__all__ = [
    "KEEP_LEVELS",
    "KEEP_ONE",
    "PREDICATES_MAX",
    "Roster",
    "RosterPart",
    "build",
    "edges_name",
    "inner_name",
    "keep_threshold",
    "slot",
]

#: `keep` as an integer share of this, compared with a hash of the tuple's identity.
KEEP_ONE = 1 << 16
#: Different values of `keep` below one that a group tells apart; others are rounded up.
KEEP_LEVELS = 8
#: Characters of predicates in one part. All of a part's are one method of generated code, which
#: the JVM only compiles up to 8,000 bytes; beyond 64 KB it cannot even be loaded.
PREDICATES_MAX = 2_400


@dataclass(frozen=True, slots=True, kw_only=True)
class RosterPart:
    """Some members of a group, few enough that their predicates compile as one method."""

    #: Number of the first member in the group.
    first: int
    #: What predicates and probes need of a tuple and is computed once for it (hoist.py); the texts
    #: of members and classes name it.
    once: tuple[str, ...]
    members: tuple[Member, ...]
    classes: tuple[ProbeClass, ...]
    frame: DataFrame
    #: For each class, by name, frames of one row: the array of its bins' edges, and one of each
    #: inner constant's values, slot by slot.
    arrays: tuple[Mapping[str, DataFrame], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Roster:
    """The rows of a step group, ready to be joined."""

    members: tuple[Member, ...]
    parts: tuple[RosterPart, ...]
    #: Ascending thresholds of the rows that keep less than everything; empty if none does.
    keep_levels: tuple[int, ...]
    #: One row, `_l`: the levels padded to `KEEP_LEVELS`, then the greatest threshold of all, above
    #: which no row looks at a tuple. None where every row keeps everything.
    keep_frame: DataFrame | None
    columns: tuple[str, ...]
    size: int
    #: Ways in which a tuple can meet a row: none where there are no rows, or their keys are NULL.
    entries: int


def slot(hole: int, spark_type: str) -> str:
    """The name of the roster column that holds this hole's constants."""
    tag = "".join(c if c.isalnum() else "_" for c in spark_type.lower())
    return f"p{hole}_{tag}"


def build(spark: SparkSession, members: Sequence[Member]) -> Roster:
    """The roster of a group of members; the order of members numbers them."""
    rows = [row for member in members for row in member.rows]
    levels = _keep_levels(rows)
    parts = []
    first = 0
    hoisted = Hoisted()
    for some in _chunks([_hoisted(member, hoisted) for member in members]):
        parts.append(_part(spark, first, some, levels, hoisted))
        first += len(some)
    return Roster(
        members=tuple(members),
        parts=tuple(parts),
        keep_levels=levels,
        keep_frame=_keep_frame(spark, rows, levels),
        columns=tuple(dict.fromkeys(c for row in rows for c in row.columns)),
        size=len(rows),
        entries=sum(len(found.entries) for part in parts for found in part.classes),
    )


def _chunks(members: Sequence[Member]) -> list[list[Member]]:
    """The members in order, cut where the text of their predicates would grow too long."""
    chunks: list[list[Member]] = [[]]
    size = 0
    for member in members:
        signature = member.signature
        text = len(signature.condition)
        if signature.errors:
            # What can fail is evaluated to choose the tuple, and again to say which it was.
            text = 2 * (text + len(signature.errors))
        if chunks[-1] and size + text > PREDICATES_MAX:
            chunks.append([])
            size = 0
        chunks[-1].append(member)
        size += text
    return chunks


def _hoisted(member: Member, hoisted: Hoisted) -> Member:
    """The member with what only reads the tuple taken out, unless its texts may throw."""
    signature = member.signature
    if signature.may_throw:
        return member
    bounds = signature.range
    return replace(
        member,
        signature=replace(
            signature,
            condition=hoisted.take(signature.condition),
            errors=hoisted.take(signature.errors),
            keys=tuple(
                replace(key, expression=hoisted.take(key.expression)) for key in signature.keys
            ),
            range=bounds and replace(bounds, expression=hoisted.take(bounds.expression)),
        ),
    )


def _part(
    spark: SparkSession,
    first: int,
    members: Sequence[Member],
    levels: Sequence[int],
    hoisted: Hoisted,
) -> RosterPart:
    classes = classify(members)
    tables = [
        _hashed(spark, number, found, members, levels)
        for number, found in enumerate(classes)
        if found.entries
    ]
    united = _united(tables, members)
    numbers = pc.add(united.column("_m"), pa.scalar(first, pa.int32()))
    united = united.set_column(united.schema.get_field_index("_m"), "_m", numbers)
    return RosterPart(
        first=first,
        once=hoisted.columns_of(text for member in members for text in _texts(member.signature)),
        members=tuple(members),
        classes=classes,
        frame=spark.createDataFrame(united),
        arrays=tuple(_arrays(spark, number, found) for number, found in enumerate(classes)),
    )


def _texts(signature: Signature) -> list[str]:
    """All texts that may name something that is computed once."""
    ranged = [] if signature.range is None else [signature.range.expression]
    keys = [key.expression for key in signature.keys]
    return [signature.condition, signature.errors, *keys, *ranged]


def _keep_frame(
    spark: SparkSession, rows: Sequence[RosterRow], levels: Sequence[int]
) -> DataFrame | None:
    if not levels:
        return None
    padded = [*levels, *[KEEP_ONE] * (KEEP_LEVELS - len(levels))]
    padded.append(max(keep_threshold(row, levels) for row in rows))
    return spark.createDataFrame(pa.table({"_l": pa.array([padded], pa.list_(pa.int32()))}))


def _keep_levels(rows: Sequence[RosterRow]) -> tuple[int, ...]:
    wanted = sorted(dict.fromkeys(int(row.keep * KEEP_ONE) for row in rows if row.keep < 1.0))
    return tuple(wanted[-KEEP_LEVELS:])


def keep_threshold(row: RosterRow, levels: Sequence[int]) -> int:
    """The row looks at a tuple iff its hash is below this."""
    threshold = int(row.keep * KEEP_ONE)
    return next((level for level in levels if level >= threshold), KEEP_ONE)


_FIXED = [
    ("_m", pa.int32()),
    ("_query", pa.string()),
    ("_version", pa.int32()),
    ("_start", pa.int64()),
    ("_until", pa.int64()),
    ("_since", pa.int64()),
    ("_cut", pa.int64()),
    ("_keep", pa.int32()),
]


def _hashed(
    spark: SparkSession,
    number: int,
    found: ProbeClass,
    members: Sequence[Member],
    levels: Sequence[int],
) -> pa.Table:
    """The entries of one class with the hash that Spark itself computes for their key."""
    rows = [members[entry.member].rows[entry.row] for entry in found.entries]
    columns: dict[str, pa.Array] = {
        "_m": pa.array([entry.member for entry in found.entries], pa.int32()),
        "_query": pa.array([row.query for row in rows], pa.string()),
        "_version": pa.array([row.version for row in rows], pa.int32()),
        "_start": pa.array([row.start for row in rows], pa.int64()),
        "_until": pa.array([row.until for row in rows], pa.int64()),
        "_since": pa.array([row.since for row in rows], pa.int64()),
        "_cut": pa.array([row.cut for row in rows], pa.int64()),
        "_keep": pa.array([keep_threshold(row, levels) for row in rows], pa.int32()),
    }
    for name, (hole, kind) in _slots(members).items():
        columns[name] = arrow_values(
            [
                row.parameters[hole] if _has(members[entry.member], hole, kind) else None
                for entry, row in zip(found.entries, rows, strict=True)
            ],
            kind,
        )
    keys: dict[str, pa.Array] = {}
    hashed = [str(number)]
    if found.inner_types:
        keys["_slot"] = pa.array([entry.slot for entry in found.entries], pa.int32())
        hashed.append("_slot")
    for i, (kind, fails) in enumerate(zip(found.types, found.fails, strict=True)):
        keys[f"_key{i}"] = arrow_values([entry.key[i] for entry in found.entries], kind)
        hashed += [f"_key{i}", f"isnull(_key{i})"] if fails else [f"_key{i}"]
    keys["_b"] = pa.array([entry.bin for entry in found.entries], pa.int32())
    hash_of = f"xxhash64({', '.join([*hashed, '_b'])}) AS _k"
    frame = spark.createDataFrame(pa.table(columns | keys))
    return frame.selectExpr(hash_of, *(f"`{c}`" for c in columns)).toArrow()


def _united(tables: Sequence[pa.Table], members: Sequence[Member]) -> pa.Table:
    fields = [("_k", pa.int64()), *_FIXED]
    fields += [(name, arrow_type(kind)) for name, (_, kind) in _slots(members).items()]
    schema = pa.schema(fields)
    return pa.concat_tables([schema.empty_table(), *(table.cast(schema) for table in tables)])


def _slots(members: Sequence[Member]) -> dict[str, tuple[int, str]]:
    """Slot name to (hole, type), over all members."""
    return {
        slot(hole, kind): (hole, kind)
        for member in members
        for hole, kind in enumerate(member.signature.holes)
    }


def _has(member: Member, hole: int, kind: str) -> bool:
    holes = member.signature.holes
    return hole < len(holes) and holes[hole] == kind


def edges_name(number: int) -> str:
    """The name of the array of a class's edges."""
    return f"_e{number}"


def inner_name(number: int, place: int) -> str:
    """The name of the array of one inner constant's values."""
    return f"_i{number}_{place}"


def _arrays(spark: SparkSession, number: int, found: ProbeClass) -> Mapping[str, DataFrame]:
    arrays: dict[str, tuple[tuple[Value, ...], str]] = {}
    if found.range_type is not None and found.bins.edges:
        arrays[edges_name(number)] = (found.bins.edges, found.range_type)
    for place, kind in enumerate(found.inner_types):
        arrays[inner_name(number, place)] = (tuple(v[place] for v in found.slots), kind)
    return {
        name: spark.createDataFrame(pa.table({name: arrow_values([values], f"ARRAY<{kind}>")}))
        for name, (values, kind) in arrays.items()
    }
