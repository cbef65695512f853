"""A mesh over a made-up world, and the oracle that judges what it answers.

    with Setting(tmp_path, spark, seed=1) as setting:
        setting.select({"hot": "kwh > 3.5"})
        setting.round(files=4, rows=100)
        setting.check()

The engine's clock is the machine's plus `ahead`, so that a test makes time pass without waiting.
"""

import functools
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import shoal
import shoal.cli.local
from shoal.cli.local import Mesh, stream_instance
from shoal.dataplane.reports import Report
from shoal.kernel.time import parse_duration
from shoal.spark.engine import SparkEngine, wall_clock
from tests.oracle.checker import (
    Oracle,
    Text,
    check_order,
    check_query,
    roster_rows,
    text_of,
)
from tests.oracle.model import Judged, judge
from tests.oracle.predicates import in_duckdb
from tests.oracle.world import COLUMNS, SCHEMA, SPLIT_BY, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Setting", "create_stream"]


class Setting:
    """A root, a mesh on it, a world, and what queries were asked."""

    def __init__(
        self,
        folder: Path,
        spark: "SparkSession",
        *,
        seed: int,
        format: str = "json",  # noqa: A002
        files_per_step: int = 64,
        store: bool = True,
        lateness: str = "10 seconds",
        functions: Sequence[str] = (),
        world: World | None = None,
    ) -> None:
        self.root, self.source = folder / "root", folder / "in"
        self.world = world or World(seed, format=format)
        self.ahead = 0
        self._spark, self._functions = spark, tuple(functions)
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(
            shoal.cli.local, "SparkEngine", functools.partial(SparkEngine, clock=self.clock)
        )
        self._patch.setattr(shoal.cli.local, "wall_clock", self.clock)
        self._lateness = lateness
        self.texts: dict[str, dict[int, Text]] = {}
        self.reports: list[Report] = []
        #: Queries that were given a start.
        self.from_the_past: dict[str, None] = {}
        self.source.mkdir(parents=True, exist_ok=True)
        self.mesh = self._open()
        create_stream(
            self.mesh, self.source, format, files_per_step, store=store, lateness=lateness
        )

    def __enter__(self) -> "Setting":
        return self

    def __exit__(self, *_: object) -> None:
        self.mesh.close()
        self._patch.undo()

    def clock(self) -> int:
        """The engine's clock."""
        return wall_clock() + self.ahead

    def _open(self) -> Mesh:
        return shoal.connect(self.root, spark=self._spark, functions=self._functions)

    def reopen(self) -> None:
        """End the mesh and open it again on the same root."""
        self.gather()
        self.mesh.close()
        self.mesh = self._open()

    def select(
        self, queries: Mapping[str, str], *, columns: Sequence[str] = COLUMNS, **options: object
    ) -> None:
        """Add queries: name to predicate, one of the list or one in both dialects."""
        shown = ", ".join(columns)
        texts = [(name, f"SELECT {shown} FROM w WHERE {where}") for name, where in queries.items()]
        self.mesh.select_many(texts, **options)  # type: ignore[arg-type]
        if options.get("start"):
            self.from_the_past |= dict.fromkeys(queries)
        for name, where in queries.items():
            self.texts[name] = {1: text_of(_duck(where), columns)}

    def alter(self, name: str, where: str) -> None:
        """Give a query another predicate."""
        versions = self.texts[name]
        columns = versions[max(versions)].columns
        self.mesh.query(name).alter(f"SELECT {', '.join(columns)} FROM w WHERE {where}")
        versions[max(versions) + 1] = text_of(_duck(where), columns)

    def round(self, *, files: int, rows: int, idle: bool = True) -> None:
        """More files, and wait until they are answered."""
        self.world.drop(self.source, files=files, rows=rows, idle=idle)
        self.drain()

    def read_catalog(self) -> None:
        """What queries were asked, as the catalog has it: also what was never acknowledged."""
        for path in sorted((self.root / "catalog" / "queries").iterdir()):
            for definition in self.mesh._catalog.history("queries", path.name):
                where = str(definition.body["text"]).partition(" WHERE ")[2]
                version = int(definition.body["version"])
                text = text_of(_duck(where), definition.body["columns"])
                self.texts.setdefault(path.name, {})[version] = text

    def drain(self) -> None:
        self.mesh.drain(timeout=900)

    def merged(self) -> None:
        """Wait until the stream's own table was compacted, as happens while nothing is to do."""
        deadline = time.monotonic() + 60
        while not list(self.table.rglob("*merged*")):
            assert time.monotonic() < deadline, "nothing was compacted"
            time.sleep(0.05)

    def gather(self) -> list[Report]:
        """All reports so far."""
        self.reports += self.mesh.reports()
        return self.reports

    def wait_for(self, kind: type[Report]) -> Report:
        """The first report of a kind from now on."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            found = [report for report in self.mesh.reports() if isinstance(report, kind)]
            if found:
                return found[0]
            time.sleep(0.02)
        raise AssertionError(f"no {kind.__name__} in time")

    # What is true

    def counter(self, name: str) -> int:
        """A counter, over all components; counters outlive whoever counted."""
        return sum(v.counters.get(name, 0) for v in self.mesh.status().components)

    @property
    def instance(self) -> str:
        return stream_instance(self.mesh._stream("w"))

    @property
    def table(self) -> Path:
        return self.root / "tables" / self.instance

    def judged(self) -> list[Judged]:
        """Every tuple, judged by the model."""
        lateness = parse_duration(self._lateness)
        return judge(self.table, self.world.files, lateness=lateness)

    def check(self, names: Sequence[str] = ()) -> Oracle:
        """Every query, or these, against the oracle (Q1, O1); returns it, closed."""
        judged = self.judged()
        done = {j.values["n"] for j in judged if j.values is not None}
        made = {t["n"] for f in self.world.files for t in f.tuples if t is not None}
        assert done == made, "Q1: some files were not read"
        oracle = Oracle(judged)
        try:
            for name in names or self.texts:
                self._check_one(oracle, name)
        finally:
            oracle.close()
        return oracle

    def check_intervals(self, oracle: Oracle, names: Iterable[str] = ()) -> None:
        """A row counts from the greatest event time consumed; versions follow on one another."""
        for name in names or self.texts:
            if name in self.from_the_past:
                continue
            rows = roster_rows(self.root, name)
            for before, row in zip([None, *rows], rows, strict=False):
                if before is None:
                    assert row.start == oracle.greatest(row.since), f"Q1: {row} starts too late"
                else:
                    assert row.start == before.until, f"Q1: {name}: a gap between versions"

    def _check_one(self, oracle: Oracle, name: str) -> pa.Table:
        got = check_query(self.mesh, self.root, oracle, name, self.texts[name])
        body = self.mesh._catalog.history("queries", name)[-1].body
        for piece in body["pieces"]:
            part = got.filter(pa.compute.equal(got.column("_version"), piece["version"]))
            select = self.root / "tables" / piece["instance"]
            check_order(part, source=self.table, select=select, name=name)
        return got


def create_stream(
    mesh: Mesh,
    source: Path,
    format: str,  # noqa: A002
    files_per_step: int,
    *,
    store: bool,
    lateness: str,
) -> None:
    """The stream of all worlds, unless it is there already."""
    if "w" in mesh._streams:
        return
    files = shoal.files(source, format=format, split_by=SPLIT_BY, files_per_step=files_per_step)
    mesh.create_stream("w", SCHEMA, timestamp="ts", lateness=lateness, store=store, source=files)


def _duck(where: str) -> str:
    try:
        return in_duckdb(where)
    except KeyError:
        return where
