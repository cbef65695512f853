"""A mesh over a made-up world, and the oracle that judges what it answers.

    with Setting(tmp_path, spark, seed=1) as setting:
        setting.select({"hot": "kwh > 3.5"})
        setting.round(files=4, rows=100)
        setting.check()

The engine's clock is the machine's plus `ahead`, so that a test makes time pass without waiting.
"""

import functools
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import shoal
import shoal.cli.local
from shoal.cli.local import Mesh, stream_instance
from shoal.dataplane.reports import Report
from shoal.dataplane.rows import RosterRow
from shoal.kernel.time import parse_duration, parse_instant
from shoal.spark.engine import SparkEngine, wall_clock
from tests.oracle.checker import Oracle, Text, check_order, check_query, plain_rows, text_of
from tests.oracle.intervals import Placed, Witness, check_intervals, placed_rows
from tests.oracle.model import Judged, judge
from tests.oracle.predicates import in_duckdb
from tests.oracle.world import COLUMNS, SCHEMA, SPLIT_BY, File, World, arrow_of

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
        self.source.mkdir(parents=True, exist_ok=True)
        self.mesh = self._open()
        create_stream(
            self.mesh, self.source, format, files_per_step, store=store, lateness=lateness
        )
        self.witness = Witness(self.root, self.instance)

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
        start = options.get("start")
        self.witness.asks("add", queries, begin=parse_instant(str(start)) if start else None)
        self.mesh.select_many(texts, **options)  # type: ignore[arg-type]
        self.witness.has_answer(queries)
        for name, where in queries.items():
            self.texts[name] = {1: text_of(_duck(where), columns)}

    def alter(self, name: str, where: str) -> None:
        """Give a query another predicate."""
        versions = self.texts[name]
        columns = versions[max(versions)].columns
        self.witness.asks("alter", [name])
        self.mesh.query(name).alter(f"SELECT {', '.join(columns)} FROM w WHERE {where}")
        self.witness.has_answer([name])
        versions[max(versions) + 1] = text_of(_duck(where), columns)

    def end(self, name: str, *, now: bool = False) -> None:
        """Drop a query."""
        self.witness.asks("now" if now else "drop", [name])
        self.mesh.query(name).drop(now=now)
        self.witness.has_answer([name])

    def round(self, *, files: int, rows: int, idle: bool = True) -> None:
        """More files, and wait until they are answered."""
        self.push(self.world.drop(self.source, files=files, rows=rows, idle=idle))
        self.drain()

    def push(self, files: Sequence[File]) -> None:
        """Append those that are batches; files lie in their folder already."""
        for file in files:
            if file.pushed:
                rows = arrow_of([t for t in file.tuples if t is not None])
                self.mesh.append("w", rows, client=file.split, sequence=file.sequence)

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
        rows = placed_rows(self.root)
        try:
            for name in names or self.texts:
                self._check_one(oracle, name, rows.get(name, []))
        finally:
            oracle.close()
        return oracle

    def check_component(self, names: Sequence[str]) -> None:
        """Many queries of one component (Q1), whose table is read once: what is theirs is there."""
        placed = placed_rows(self.root)
        (instance,) = {row.instance for name in names for row in placed[name]}
        table = DeltaTable(str(self.root / "tables" / instance)).to_pyarrow_table()
        assert set(table.column("_query").unique().to_pylist()) <= set(names)
        oracle = Oracle(self.judged())
        try:
            for name in names:
                got = table.filter(pa.compute.equal(table.column("_query"), name))
                rows = [one.row for one in placed[name]]
                check_query(oracle, name, got, rows, self.texts[name])
        finally:
            oracle.close()

    def check_intervals(self, oracle: Oracle, names: Iterable[str] = ()) -> None:
        """Rows are valid when section 7's table says so."""
        rows = placed_rows(self.root)
        for name in names or self.texts:
            check_intervals(oracle, name, rows.get(name, []), self.witness.changes[name])

    def rows_of(self, name: str) -> list[RosterRow]:
        """All rows of a query, in the order of versions."""
        return [placed.row for placed in placed_rows(self.root).get(name, [])]

    def bags(self, names: Iterable[str]) -> dict[str, "Counter[Any]"]:
        """What the users of these queries see, in no order."""
        found = {}
        for name in names:
            (columns,) = {text.columns for text in self.texts[name].values()}
            found[name] = plain_rows(self.mesh.results(name, after=0), columns)
        return found

    def _check_one(self, oracle: Oracle, name: str, rows: Sequence[Placed]) -> None:
        got = self.mesh.results(name, after=0)
        check_query(oracle, name, got, [placed.row for placed in rows], self.texts[name])
        body = self.mesh._catalog.history("queries", name)[-1].body
        for piece in body["pieces"]:
            part = got.filter(pa.compute.equal(got.column("_version"), piece["version"]))
            select = self.root / "tables" / piece["instance"]
            check_order(part, source=self.table, select=select, name=name)


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
    if format == "push":
        given = shoal.push()
    else:
        given = shoal.files(source, format=format, split_by=SPLIT_BY, files_per_step=files_per_step)
    mesh.create_stream("w", SCHEMA, timestamp="ts", lateness=lateness, store=store, source=given)


def _duck(where: str) -> str:
    try:
        return in_duckdb(where)
    except KeyError:
        return where
