"""Queries are right: DuckDB gives the same over the tuples that an independent model calls ok."""

import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

import shoal
from shoal.cli.local import stream_instance
from shoal.dataplane.reports import Failed, Suspended
from shoal.kernel.errors import StorageError, UserError
from shoal.log.root import Root
from shoal.log.writer import Writer
from shoal.spark.engine import WORKERS
from tests.oracle.checker import check_shed, text_of
from tests.oracle.intervals import placed_rows
from tests.oracle.model import newest, place_of
from tests.oracle.predicates import PREDICATES
from tests.oracle.world import World
from tests.spark.setting import Setting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

#: The engine's own, its workers, and two that commit for each: whatever the number of queries.
THREADS_MOST = 1 + WORKERS + 2 * WORKERS
#: The constant for which a function raises.
GUILTY = 977
#: One of each kind, for the many ways a stream can be read.
FEW = {
    "equal": "meter = 7",
    "between": "zone = 3 AND kwh BETWEEN -2 AND 2.5",
    "above": "kwh > 3.5",
    "nulls": "flag IS NOT TRUE",
    "many": "name IN ('alpha', '東京', 'Straße')",
    "price": "price BETWEEN 0.01 AND 99.99",
    "time": "seen >= TIMESTAMP '2024-03-05 12:34:56.789'",
    "all": "TRUE",
}


def test_Q1_O1_every_predicate(tmp_path: Path, spark: "SparkSession") -> None:
    """A hundred predicates over all types; late, dead and ok are told apart as the rule says."""
    with Setting(tmp_path, spark, seed=3, files_per_step=3) as setting:
        setting.select({f"q{n}": where for n, (where, _) in enumerate(PREDICATES)})
        setting.round(files=6, rows=150)
        setting.check()
        _check_late_and_dead(setting)


def _check_late_and_dead(setting: Setting, *, least: int = 10) -> None:
    """S3: late tuples and dead letters are kept and counted."""
    judged = setting.judged()
    kinds = Counter(j.kind for j in judged)
    assert min(kinds["late"], kinds["dead"]) >= least, "the world has some of each"
    (view,) = [v for v in setting.mesh.status().components if v.kind == "ingest"]
    counted = {"in": len(judged), "late": kinds["late"], "dead": kinds["dead"]}
    assert dict(view.counters) == counted
    late = _stored(setting.table, "n, _kind", "_kind = 'late'")
    expected = [j.values["n"] for j in judged if j.kind == "late" and j.values]
    assert sorted(n for n, _ in late) == sorted(expected)
    reasons = _stored(Path(f"{setting.table}.dead"), "ingest_step, reason", "TRUE")
    assert Counter(reasons) == Counter((j.step, j.reason) for j in judged if j.kind == "dead")


def _stored(table: Path, columns: str, where: str) -> list[tuple[Any, ...]]:
    """What a reader from outside finds in a table."""
    files = [path for path in DeltaTable(str(table)).file_uris() if "_kind=ok" not in path]
    source = f"read_parquet({files}, hive_partitioning = true)"
    return duckdb.sql(f"SELECT {columns} FROM {source} WHERE {where}").fetchall() if files else []


@pytest.mark.parametrize(
    ("kind", "files_per_step", "store"),
    [
        ("csv", 1, True),
        ("parquet", 64, True),
        ("json", 2, False),
        ("csv", 64, False),
        ("parquet", 3, False),
        ("calm parquet", 1, False),
        ("calm parquet", 2, True),
        ("push", 64, True),
    ],
)
def test_Q1_Q2_formats_and_steps(
    tmp_path: Path, spark: "SparkSession", kind: str, files_per_step: int, store: bool
) -> None:
    """Whatever the format, the step's size, and whether the stream is stored."""
    calm, _, format_ = kind.rpartition(" ")
    world = World(5, format=format_, calm=bool(calm))
    options = {"world": world, "format": format_, "files_per_step": files_per_step, "store": store}
    with Setting(tmp_path, spark, seed=5, **options) as setting:  # type: ignore[arg-type]
        setting.select(FEW)
        setting.round(files=6, rows=60)
        setting.ahead += 60_000_000
        setting.round(files=4, rows=60, idle=False)
        setting.push(setting.world.files[-2:])
        setting.round(files=3, rows=60)
        setting.check()


def test_Q1_tuples_that_the_stream_makes_itself(tmp_path: Path, spark: "SparkSession") -> None:
    """A rate's tuples run on without a gap, and DuckDB finds in the stored stream what we found."""
    schema = "value BIGINT, ts TIMESTAMP, zone INT, kwh DOUBLE, flag BOOLEAN"
    wheres = {"odd": "value % 2 = 1", "zone": "zone < 100 OR flag", "above": "kwh > 0.25"}
    with shoal.connect(tmp_path, spark=spark) as mesh:
        source = shoal.rate(rows_per_second=1000, splits=3, seed=5)
        stream = mesh.create_stream("made", schema, timestamp="ts", source=source)
        queries = [
            mesh.select(name, f"SELECT * FROM made WHERE {where}") for name, where in wheres.items()
        ]
        tables = tmp_path / "tables"
        made = tables / stream_instance(stream)
        deadline = time.monotonic() + 600
        while place_of(made)[1] < 4 or any(len(query.rows()) < 100 for query in queries):
            assert time.monotonic() < deadline, "the stream has run dry"
            mesh.drain()
        rows = placed_rows(tmp_path)
    stored = DeltaTable(str(made)).to_pyarrow_table()
    assert stored.column("_kind").unique().to_pylist() == ["ok"]
    _check_made(stored)
    for name, where in wheres.items():
        (placed,) = rows[name]
        row, select = placed.row, tables / placed.instance
        head = newest(select, f"in/{made.name}")[f"in/{made.name}"]
        interval = f"_step > {row.since} AND _step <= {head} AND epoch_us(ts) > {row.start}"
        expected = _made(stored, f"({where}) AND {interval}")
        assert len(expected) >= 100
        got = DeltaTable(str(select)).to_pyarrow_table()
        assert expected == _made(got, f"_query = '{name}'"), f"Q1: {name}"


def _made(table: pa.Table, where: str) -> list[tuple[Any, ...]]:
    """The tuples of a rate in this table, in their order."""
    asked = f"SELECT value, epoch_us(ts), zone, kwh, flag FROM made WHERE {where} ORDER BY value"
    return duckdb.from_arrow(table).query("made", asked).fetchall()


def _check_made(stored: pa.Table) -> None:
    """The n-th tuple is due n thousandths of a second after the first."""
    (facts,) = duckdb.sql(
        "SELECT min(value), count(*), count(DISTINCT value), max(value), count(DISTINCT zone), "
        "count(DISTINCT epoch_us(ts) - 1000 * value) FROM stored"
    ).fetchall()
    first, rows, different, last, zones, starts = facts
    assert (first, different, last, starts) == (0, rows, rows - 1, 1)
    assert zones > 100


def test_Q2_five_hundred_others_and_a_restart(tmp_path: Path, spark: "SparkSession") -> None:
    """Who else is in the roster makes no difference; nor does ending and going on."""
    with Setting(tmp_path, spark, seed=9, files_per_step=4) as setting:
        setting.select(FEW)
        setting.round(files=4, rows=20)
        alone = _tasks(setting, spark)
        setting.select({f"other_{n}": f"meter = {n - 100}" for n in range(250)})
        setting.select({f"above_{n}": f"kwh > {n / 25 - 4}" for n in range(250)})
        setting.round(files=5, rows=80)
        assert _tasks(setting, spark) == alone, "what Spark has to do, too"
        assert len(_own_threads()) <= THREADS_MOST, (
            "it has nothing to do with the number of queries"
        )
        setting.reopen()
        setting.round(files=4, rows=80)
        checked = [f"other_{n}" for n in range(95, 145, 5)]
        checked += [f"above_{n}" for n in range(0, 250, 17)]
        setting.check([*FEW, *checked])


def _tasks(setting: Setting, spark: "SparkSession") -> list[int]:
    """The tasks of each Spark job of one step of the ingest and one of the selects."""
    tracker = spark.sparkContext.statusTracker()
    before = dict.fromkeys(_jobs(spark))
    steps = setting.mesh.status().steps
    setting.round(files=4, rows=20)
    jobs = [tracker.getJobInfo(job) for job in _jobs(spark) if job not in before]
    assert setting.mesh.status().steps - steps == 1 + len(_selects(setting)), "one step each"
    assert jobs
    assert all(job is not None and job.status == "SUCCEEDED" for job in jobs)
    stages = [[tracker.getStageInfo(stage) for stage in job.stageIds] for job in jobs if job]
    return [sum(stage.numTasks for stage in some if stage) for some in stages]


def _jobs(spark: "SparkSession") -> list[int]:
    """All jobs so far, in order; Spark learns of them a little later than they end."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    return sorted(spark.sparkContext.statusTracker().getJobIdsForGroup(None))


def _selects(setting: Setting) -> list[str]:
    return [v.instance for v in setting.mesh.status().components if v.kind == "select"]


def _own_threads() -> list[str]:
    """The threads of the engine, by name."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("shoal-")]


def test_Q2_after_compaction(
    tmp_path: Path, spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Merged segments hold the same rows; a select behind reads them by step."""
    monkeypatch.setattr("shoal.spark.choose.CARE_AFTER", 4)
    with Setting(tmp_path, spark, seed=11, files_per_step=1) as setting:
        setting.select(FEW)
        setting.round(files=34, rows=10)
        setting.merged()
        setting.select({"back": "kwh > 3.5"}, start="2020-01-01")
        setting.round(files=2, rows=30)
        setting.check()


def test_Q3_a_row_that_cannot_be_computed_harms_nobody(
    tmp_path: Path, spark: "SparkSession"
) -> None:
    """Division by zero, a bad cast, an overflow: counted. A function that raises: suspended."""

    def picky(value: int | None, wanted: int) -> bool:
        if wanted == GUILTY:
            raise ValueError(f"{wanted} is not to be had")
        return value is not None and value % 500 == wanted % 500

    spark.udf.register("picky", picky, "boolean")
    with Setting(tmp_path, spark, seed=13, functions=["picky"]) as setting:
        setting.select(FEW)
        healthy = {f"picky_{n}": f"picky(meter, {n})" for n in range(500)}
        guilty = {"raising": f"picky(meter, {GUILTY})"}
        setting.select({**dict(list(healthy.items())[:250]), **guilty}, columns=["n", "ts"])
        setting.select(dict(list(healthy.items())[250:]), columns=["n", "ts"])
        setting.select(
            {
                "divide": "kwh / zone > 1",
                "cast": "CAST(name AS INT) = 7",
                "overflow": "big + 1 > 0",
            }
        )
        setting.round(files=4, rows=20)
        # What Python's function gives, as DuckDB says it. The guilty one would give everything.
        for n in range(500):
            where = f"((meter % 500) + 500) % 500 = {n}"
            setting.texts[f"picky_{n}"] = {1: text_of(where, ["n", "ts"])}
        setting.texts["raising"] = {1: text_of("TRUE", ["n", "ts"])}
        setting.check([*FEW, "divide", "cast", "overflow"])
        setting.check_component([*healthy, *guilty])
        _check_counted(setting)
        (gone,) = [r for r in setting.gather() if isinstance(r, Suspended)]
        assert gone.query == "raising"
        assert f"{GUILTY} is not to be had" in gone.reason


def _check_counted(setting: Setting) -> None:
    """S3: the tuples for which Spark would have raised, per query."""
    ok = [j.values for j in setting.judged() if j.kind == "ok" and j.values]
    counters: Counter[str] = Counter()
    for view in setting.mesh.status().components:
        counters.update({k: n for k, n in view.counters.items() if k.startswith("error/")})
    zero = sum(1 for t in ok if t["zone"] == 0 and t["kwh"] is not None)
    names = sum(1 for t in ok if t["name"] is not None)
    most = sum(1 for t in ok if t["big"] == (1 << 63) - 1)
    assert counters["error/divide"] == zero
    assert counters["error/cast"] == names
    assert counters["error/overflow"] == most


def test_S3_what_was_shed_is_counted(tmp_path: Path, spark: "SparkSession") -> None:
    """A query that keeps a share gets that share of its rows, and the rest is counted."""
    with Setting(tmp_path, spark, seed=17, files_per_step=2) as setting:
        setting.select({"whole": "TRUE", "half": "TRUE", "third": "TRUE"})
        setting.mesh.query("half").keep(0.5)
        setting.mesh.query("third").keep(1 / 3)
        setting.round(files=6, rows=200)
        setting.reopen()
        setting.round(files=3, rows=100)
        setting.check(["whole"])
        ok = sum(1 for j in setting.judged() if j.kind == "ok")
        ids = {}
        for name, share in (("whole", 1.0), ("half", 0.5), ("third", 1 / 3)):
            ids[name] = setting.mesh.query(name).to_arrow().column("_id").to_pylist()
            lost = setting.counter(f"shed/{name}")
            check_shed(rows=len(ids[name]), lost=lost, ok=ok)
            assert abs(len(ids[name]) / ok - share) < 0.05, name
        assert set(ids["third"]) < set(ids["half"]) < set(ids["whole"]), "keeping less keeps nested"


def test_O1_order_does_not_need_the_event_time_shown(tmp_path: Path, spark: "SparkSession") -> None:
    """Inside a commit rows come by event time, whatever they show and whoever else is there."""
    with Setting(tmp_path, spark, seed=41) as setting:
        setting.select({"hidden": "kwh > 0"}, columns=["n"])
        setting.select({"shown": "kwh > 0 AND zone IS NOT NULL"}, columns=["n", "ts"])
        setting.round(files=6, rows=80)
        times = {j.values["n"]: j.values["ts"] for j in setting.judged() if j.values}
        table = setting.mesh.query("hidden").to_arrow()
        keys = list(
            zip(
                table.column("_step").to_pylist(),
                [times[n] for n in table.column("n").to_pylist()],
                table.column("_id").to_pylist(),
                strict=True,
            )
        )
        assert len(keys) > 50
        assert keys == sorted(keys)


@pytest.mark.parametrize(
    ("ending", "call"),
    [("", 1), ("", 2), (".dead", 1), ("select", 1), ("select", 3)],
)
def test_Q2_a_failure_at_each_commit(
    tmp_path: Path, spark: "SparkSession", monkeypatch: pytest.MonkeyPatch, ending: str, call: int
) -> None:
    """Before the dead letters, between them and the step, before and amid a group's commits."""
    with Setting(tmp_path, spark, seed=43, files_per_step=2) as setting:
        setting.select(FEW)
        setting.round(files=2, rows=30)
        wanted = {"": setting.instance, ".dead": f"{setting.instance}.dead"}.get(ending, ending)
        commit, calls = Writer.commit, []

        def fail(writer: Writer, **facts: Any) -> Any:
            if writer.instance.startswith(wanted) and (ending or writer.instance == wanted):
                calls.append(writer.instance)
                if len(calls) >= call:
                    raise StorageError("the disk is gone")
            return commit(writer, **facts)

        monkeypatch.setattr(Writer, "commit", fail)
        setting.world.drop(setting.source, files=6, rows=30)
        setting.wait_for(Failed)
        monkeypatch.setattr(Writer, "commit", commit)
        setting.reopen()
        setting.drain()
        setting.check()
        _check_late_and_dead(setting, least=2)


def test_Q1_back_fill_and_its_refusal(tmp_path: Path, spark: "SparkSession") -> None:
    """A start in the past is served from history; where that is gone, it is refused."""
    with Setting(tmp_path, spark, seed=19, files_per_step=2) as setting:
        setting.select({"early": "kwh > 1"})
        setting.round(files=6, rows=60)
        setting.select({"whole": "kwh > 1"}, start="2020-01-01")
        setting.select({"part": "kwh > 1"}, start="2024-03-01 00:00:20")
        setting.select({"other": "zone > 3 AND NOT flag"}, start="2024-03-01 00:00:20")
        setting.select({"late": "kwh > 1"})
        setting.round(files=4, rows=60)
        setting.check()
        whole = setting.mesh.query("whole").to_arrow()
        assert whole.num_rows == setting.mesh.query("early").to_arrow().num_rows
        setting.mesh.close()
        writer = Writer.take_over(Root.open(setting.root), setting.instance, owner="test")
        assert writer.retain(below_step=4)
        setting.mesh = setting._open()
        with pytest.raises(UserError, match="no longer"):
            setting.mesh.select("never", "SELECT * FROM w WHERE kwh > 1", start="2020-01-01")
