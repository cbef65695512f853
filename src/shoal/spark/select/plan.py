"""Select as a plan: tuples meet the rows of a roster.

    tuples ─ drop what nobody keeps ─ probe (hash of keys and bin) ─ broadcast join ─ predicate
                                                                        roster

One plan serves a whole group of signatures: a tuple probes once per class, and the predicate of
the member that owns the row decides. The text holds no constant and no count of queries, so the
compiled code is reused step after step and row after row.

Promises   Q1  a result is a tuple that satisfies its row's predicate inside its row's intervals.
           S3  what `keep` drops is counted, per level of keep (the caller maps it to queries).
Not here   which tuples a step covers (dataplane/scheduler.py); writing results (spark/step.py).
"""

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from shoal.query.catalog import quote
from shoal.query.selection import Signature
from shoal.spark.select.index import ProbeClass
from shoal.spark.select.roster import (
    KEEP_LEVELS,
    KEEP_ONE,
    Roster,
    RosterPart,
    edges_name,
    inner_name,
    slot,
)

__all__ = ["ERROR", "MATCH", "Meeting"]

#: TRUE where the predicate holds; only there in groups with a member that can fail.
MATCH = "_match"
#: TRUE where evaluating the predicate as written would have raised.
ERROR = "_error"

_HOLE = re.compile(r"`[^`]*`|\bp\.p(\d+)\b")
_INNER = re.compile(r"`[^`]*`|\bi\.(\d+)\b")


def _unwatched(tuples: DataFrame) -> DataFrame:
    return tuples


@dataclass(frozen=True, slots=True)
class _PartPlan:
    """What stays the same of one part from step to step: parsed once, used by every step."""

    part: RosterPart
    rows: DataFrame
    on: Column
    out: tuple[Column, ...]


class Meeting:
    """How tuples meet one roster. Made when the roster changes; each step only adds its tuples."""

    def __init__(self, roster: Roster, *, timestamp: str, also: Sequence[str] = ()) -> None:
        """`also`: more columns, as expressions over the tuple's `s.` and the roster's `p.`."""
        self.roster = roster
        fallible = any(member.signature.errors for member in roster.members)
        self._plans = tuple(
            _part_plan(roster, part, timestamp, also, fallible=fallible) for part in roster.parts
        )

    def results(
        self, tuples: DataFrame, *, watch: Callable[[DataFrame], DataFrame] = _unwatched
    ) -> DataFrame:
        """The tuples that belong to the roster's rows, tagged with member, query and version.

        While some row sheds, `watch` is given the tuples with their hash before any is dropped.
        """
        kept = tuples
        if self.roster.keep_frame is not None:
            hashed = f"CAST(pmod(xxhash64(_id), {KEEP_ONE}) AS INT) AS _h"
            levels = self.roster.keep_frame.scalar().alias("_l")
            leveled = tuples.select("*", F.expr(hashed), levels)
            kept = watch(leveled).where(f"_h < _l[{KEEP_LEVELS}]").drop("_l")
        met = [
            _probed(kept, plan.part).join(plan.rows, plan.on).select(*plan.out)
            for plan in self._plans
        ]
        return functools.reduce(DataFrame.unionAll, met)


def _part_plan(
    roster: Roster, part: RosterPart, timestamp: str, also: Sequence[str], *, fallible: bool
) -> _PartPlan:
    key = _hashes(0, part.classes[0])[0] if _probes_in_join(part) else "s._k"
    on = [f"{key} = p._k", *_intervals(timestamp)]
    if roster.keep_frame is not None:
        on.append("s._h < p._keep")
    condition = _by_member(part, _condition)
    fails = any(member.signature.errors for member in part.members)
    errors = _by_member(part, _errors) if fails else "FALSE"
    on.append(f"(({condition}) OR ({errors}))" if fails else f"({condition})")
    out = [
        "p._m",
        "p._query",
        "p._version",
        *(f"s.{quote(column)}" for column in roster.columns),
        "s._id",
        *also,
    ]
    if fails:
        out += [f"coalesce({condition}, FALSE) AS {MATCH}", f"coalesce({errors}, FALSE) AS {ERROR}"]
    elif fallible:
        out += [f"TRUE AS {MATCH}", f"FALSE AS {ERROR}"]
    return _PartPlan(
        part=part,
        rows=F.broadcast(part.frame).alias("p"),
        on=F.expr(" AND ".join(on)),
        out=tuple(F.expr(text) for text in out),
    )


def _intervals(timestamp: str) -> list[str]:
    instant = f"unix_micros(s.{quote(timestamp)})"
    return [
        f"{instant} > p._start",
        f"{instant} <= p._until",
        "s._step > p._since",
        "s._step <= p._cut",
    ]


def _probes_in_join(part: RosterPart) -> bool:
    """One class that only reads the tuple: its hash can stand in the join's condition itself."""
    return len(part.classes) == 1 and not part.arrays[0]


def _probed(tuples: DataFrame, part: RosterPart) -> DataFrame:
    """The tuples as `s`, with `_k` where the join needs it: one row per class to look into."""
    aliased = tuples.alias("s")
    if part.once:
        aliased = aliased.selectExpr("s.*", *part.once).alias("s")
    if _probes_in_join(part):
        return aliased
    hashes = [text for number, found in enumerate(part.classes) for text in _hashes(number, found)]
    if not hashes:
        return aliased.selectExpr("s.*", "CAST(NULL AS BIGINT) AS _k").alias("s")
    scalars = [
        array.scalar().alias(name) for arrays in part.arrays for name, array in arrays.items()
    ]
    if scalars:
        aliased = aliased.select("s.*", *scalars).alias("s")
    names = [line for number, found in enumerate(part.classes) for line in _search(number, found)]
    if len(hashes) == 1:
        return aliased.selectExpr("s.*", *names, f"{hashes[0]} AS _k").alias("s")
    if names:
        aliased = aliased.selectExpr("s.*", *names).alias("s")
    return aliased.selectExpr("s.*", f"explode(array({', '.join(hashes)})) AS _k").alias("s")


def _search(number: int, found: ProbeClass) -> list[str]:
    """A binary search over the class's edges, unrolled; each name builds on the one before."""
    if found.range_expression is None or not found.bins.edges:
        return []
    lines: list[str] = []
    before = "0"
    for level in range(found.bins.levels - 1, -1, -1):
        at = f"({before} + {(1 << level) - 1})"
        name = f"_b{number}_{level}"
        reached = f"element_at({edges_name(number)}, {at} + 1) <= ({found.range_expression})"
        lines.append(f"{before} + if({reached}, {1 << level}, 0) AS {name}")
        before = name
    return lines


def _hashes(number: int, found: ProbeClass) -> list[str]:
    """The hash of each slot. Slots are rounded up, so that a new one rarely is new code."""
    searched = found.range_expression is not None and bool(found.bins.edges)
    place = f"_b{number}_0" if searched else "0"
    if not found.inner_types:
        return [f"xxhash64({', '.join([str(number), *_keys(number, found, 0), place])})"]
    count = 1 << max(0, len(found.slots) - 1).bit_length()
    return [
        f"if({at} < size({inner_name(number, 0)}), "
        f"xxhash64({', '.join([str(number), str(at), *_keys(number, found, at), place])}), NULL)"
        for at in range(count)
    ]


def _keys(number: int, found: ProbeClass, at: int) -> list[str]:
    """What a tuple is found by, with the inner constants of a slot."""

    def constant(match: re.Match[str]) -> str:
        if match.group(1) is None:
            return match.group(0)
        return f"get({inner_name(number, int(match.group(1)))}, {at})"

    texts = []
    for expression, kind, fails in zip(found.expressions, found.types, found.fails, strict=True):
        text = _INNER.sub(constant, expression)
        texts.append(f"CAST({text} AS {kind})")
        if fails:
            # A hash passes over NULL, and would take one key's NULL for another's.
            texts.append(f"isnull({text})")
    return texts


def _by_member(part: RosterPart, text: Callable[[Signature], str]) -> str:
    """The text of the member that owns the row: a balanced tree of comparisons of `_m`."""

    def tree(low: int, high: int) -> str:
        if high - low == 1:
            return text(part.members[low].signature)
        middle = (low + high) // 2
        return f"if(p._m < {part.first + middle}, {tree(low, middle)}, {tree(middle, high)})"

    return tree(0, len(part.members)) if part.members else "FALSE"


def _condition(signature: Signature) -> str:
    return _bound(signature.condition, signature.holes)


def _errors(signature: Signature) -> str:
    return _bound(signature.errors, signature.holes) if signature.errors else "FALSE"


def _bound(text: str, holes: Sequence[str]) -> str:
    """The text with its holes named by their slots."""

    def named(match: re.Match[str]) -> str:
        if match.group(1) is None:
            return match.group(0)
        hole = int(match.group(1))
        return f"p.{slot(hole, holes[hole])}"

    return _HOLE.sub(named, text)
