"""Sources of an invented engine: what is pushed, and rates.

A source numbers what it has, and a batch is a function of its range: asked again, after a crash
or by a reader of a stream that is not stored, it gives the same tuples (promise Q2).

Not here   files: there is no disk. The rate's tuples are not those of Spark's rate: the same number
           always gives the same tuple, but by another hash.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from shoal.kernel.errors import Fenced, LocalError
from shoal.kernel.time import DAY, SECOND, Instant
from shoal.query.catalog import Column, SourceDef, StreamDef
from shoal.query.terms.types import INTEGRAL
from shoal.sim.engine.config import EngineConfig
from shoal.sim.engine.memory import Memory, Spool, Volume

__all__ = [
    "Batch",
    "Content",
    "PushSource",
    "RateSource",
    "Source",
    "check_source",
    "mixed",
    "open_source",
]

#: Tuples by column name, and texts that fit no schema.
Content = Sequence[Mapping[str, Any] | str]


@dataclass(frozen=True, slots=True)
class Batch:
    """Numbers (after, upto] of a source: per part its split and what it holds."""

    after: int
    upto: int
    parts: tuple[tuple[str, Content | Volume], ...]

    @property
    def rows(self) -> int:
        return sum(p.rows if isinstance(p, Volume) else len(p) for _, p in self.parts)


class Source(Protocol):
    """A place where tuples come from."""

    def next_batch(self, after: int, now: Instant) -> Batch | None:
        """The next batch after a position; None if there is nothing."""
        ...

    def batch(self, after: int, upto: int) -> Batch:
        """Exactly this range again."""
        ...

    def waiting(self, after: int) -> tuple[str, ...]:
        """Splits that have something after a position, as of the last look."""
        ...

    def release(self, upto: int) -> None:
        """Everything up to this number is committed."""
        ...


class PushSource:
    """What was pushed, in the order of acceptance."""

    def __init__(self, spool: Spool, *, most: int) -> None:
        self._spool = spool
        self._most = most

    def next_batch(self, after: int, now: Instant) -> Batch | None:
        if after < self._spool.released:
            raise Fenced(
                "what was pushed after this position is committed",
                detail=f"position {after}, committed by somebody up to {self._spool.released}",
            )
        found = self._spool.after(after, most=self._most)
        return self.batch(after, found[-1].position) if found else None

    def batch(self, after: int, upto: int) -> Batch:
        entries = self._spool.after(after, most=upto - after)
        return Batch(after, upto, tuple((entry.client, entry.content) for entry in entries))

    def waiting(self, after: int) -> tuple[str, ...]:
        entries = self._spool.after(after, most=self._most)
        return tuple(dict.fromkeys(entry.client for entry in entries))

    def release(self, upto: int) -> None:
        self._spool.release(upto)


class RateSource:
    """So many tuples a second since the stream was first started. Position n is the n-th."""

    def __init__(self, stream: StreamDef, *, started: Instant, most: int, volumes: bool) -> None:
        options = stream.source.options
        self._stream = stream
        self._rate = int(options["rows_per_second"])
        self._splits = int(options.get("splits", "1"))
        self._seed = int(options.get("seed", "0"))
        self._started = started
        self._most = most
        self._volumes = volumes
        self._reached = 0

    def next_batch(self, after: int, now: Instant) -> Batch | None:
        due = (now - self._started) * self._rate // SECOND
        self._reached = max(self._reached, due)
        upto = min(self._reached, after + self._most)
        return self.batch(after, upto) if upto > after else None

    def batch(self, after: int, upto: int) -> Batch:
        if self._volumes:
            volume = Volume(upto - after, self._due(after), self._due(upto - 1))
            return Batch(after, upto, (("rate-0", volume),))
        made = [self._tuple(number) for number in range(after, upto)]
        parts = tuple(
            (f"rate-{split}", tuple(made[(split - after) % self._splits :: self._splits]))
            for split in range(self._splits)
        )
        return Batch(after, upto, parts)

    def waiting(self, after: int) -> tuple[str, ...]:
        count = 1 if self._volumes else self._splits
        return tuple(f"rate-{n}" for n in range(count)) if self._reached > after else ()

    def release(self, upto: int) -> None:
        """Nothing is kept."""

    def _due(self, number: int) -> Instant:
        return self._started + number * SECOND // self._rate

    def _tuple(self, number: int) -> dict[str, Any]:
        return {column.name: self._value(column, number) for column in self._stream.columns}

    def _value(self, column: Column, number: int) -> Any:
        spread = mixed(number * 1_009 + sum(column.name.encode()) + self._seed * 1_000_003)
        if column.name.lower() == "value" and column.type == "BIGINT":
            return number
        if column.type == "TIMESTAMP":
            return self._due(number)
        if column.type == "DATE":
            return self._due(number) // DAY
        if column.type in INTEGRAL:
            most = {"TINYINT": 100, "SMALLINT": 1_000, "INT": 10_000, "BIGINT": 1_000_000}
            return spread % most[column.type]
        if column.type in ("DOUBLE", "FLOAT"):
            return spread % 1_000_000 / 1_000_000
        if column.type == "BOOLEAN":
            return spread % 2 == 0
        if column.type == "STRING":
            return str(spread % 1_000_000)
        raise LocalError(
            f"a rate cannot make a {column.type} here",
            detail=f"column {column.name} of stream {self._stream.name}",
        )


def mixed(number: int) -> int:
    """A number that looks random, always the same (the finalizer of splitmix64)."""
    z = (number + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
    return z ^ (z >> 31)


def check_source(source: SourceDef) -> None:
    """Raise LocalError unless there is such a source here."""
    if source.kind not in ("push", "rate"):
        raise LocalError(
            f"source kind {source.kind} cannot be imitated",
            detail="an invented engine has no files; it reads what is pushed, and rates",
        )


def open_source(memory: Memory, instance: str, stream: StreamDef, config: EngineConfig) -> Source:
    """The source of a stream; its table is there already."""
    if stream.source.kind == "push":
        return PushSource(memory.spool(instance), most=config.batches_per_step)
    started = memory.table(instance).transactions["started"]
    return RateSource(stream, started=started, most=config.rows_per_step, volumes=config.volumes)
