"""Shoal through its Python API, as a user drives it.

    mesh = shoal.connect(root); mesh.create_stream(...); mesh.select_many(...); mesh.drain()

What happened is read from the reports every user can ask for; results are counted in the result
tables as any Delta reader does. Nothing here reaches inside.

Run as a side (benchmarks/side): `python -m benchmarks.shoal_side`.
"""

import gc
import time
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import SparkSession

import shoal
from benchmarks.side import serve
from benchmarks.workload import COLUMNS_TEXT
from shoal.dataplane.reports import StepDone

__all__ = ["main"]

_LATENESS = "1 minute"
_LOOK_SECONDS = 0.005


class _Shoal:
    """The mesh, its queries by stream, and the step reports not yet asked for."""

    def __init__(self) -> None:
        self._mesh: Any = None
        self._root = Path()
        self._counts: dict[str, int] = {}
        #: Every step report so far, and how many of them the harness has seen.
        self._reports: list[StepDone] = []
        self._told = 0

    def open(self, *, root: str, master: str, settings: dict[str, str]) -> None:
        self._root = Path(root)
        self._mesh = shoal.connect(root, master=master, conf=settings)

    def stream(self, *, name: str, folder: str, store: bool) -> None:
        self._mesh.create_stream(
            name,
            COLUMNS_TEXT,
            timestamp="ts",
            lateness=_LATENESS,
            source=shoal.files(folder, format="parquet", files_per_step=1),
            store=store,
        )

    def select(self, *, stream: str, texts: list[str]) -> float:
        """Add queries; seconds until all are acknowledged."""
        first = self._counts.get(stream, 0)
        pairs = [(f"{stream}_{first + k}", _over(stream, text)) for k, text in enumerate(texts)]
        began = time.monotonic()
        self._mesh.select_many(pairs)
        self._counts[stream] = first + len(texts)
        return time.monotonic() - began

    def drain(self) -> None:
        self._mesh.drain()

    def steps(self) -> list[dict[str, Any]]:
        """The reports of the steps since the last call, oldest first."""
        reports = self._all()
        fresh, self._told = reports[self._told :], len(reports)
        return [_row(report) for report in fresh]

    def install(self, *, stream: str, text: str, seconds_max: float) -> dict[str, float]:
        """Add one query while tuples flow; when was it acknowledged, when first served?

        `steps` counts the select steps that were committed after the acknowledgement, up to and
        with the first whose roster holds the query. Queries are only added, one at a time, so a
        roster of as many rows as there are queries holds the last of them.
        """
        queries = self._counts[stream] + 1
        began = time.monotonic()
        self._mesh.select(f"{stream}_{queries - 1}", _over(stream, text))
        acknowledged = time.monotonic()
        self._counts[stream] = queries
        known = len(self._select_steps(stream))
        while time.monotonic() - began < seconds_max:
            steps = self._select_steps(stream)
            serving = [k for k, report in enumerate(steps) if report.roster_rows >= queries]
            if serving:
                return {
                    "steps": max(1, serving[0] + 1 - known),
                    "acknowledged_seconds": acknowledged - began,
                    "served_seconds": time.monotonic() - began,
                }
            time.sleep(_LOOK_SECONDS)
        raise TimeoutError(f"query {queries} of {stream} was not served in {seconds_max} seconds")

    def small_jobs(self, *, folder: str, jobs: int) -> list[float]:
        """The smallest Spark jobs that write one Parquet file each; the seconds of each."""
        spark = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
        seconds = []
        for _ in range(jobs):
            began = time.monotonic()
            path = f"{folder}/{time.monotonic_ns()}"
            spark.range(1).coalesce(1).write.parquet(path)
            seconds.append(time.monotonic() - began)
        return seconds

    def heap(self) -> int:
        """Bytes of the JVM's heap in use after a collection."""
        gc.collect()
        spark = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
        jvm = spark.sparkContext._jvm
        assert jvm is not None
        runtime = jvm.java.lang.Runtime.getRuntime()
        runtime.gc()
        return int(runtime.totalMemory() - runtime.freeMemory())

    def identity(self) -> dict[str, int]:
        """The epoch of every component, and the start of the Spark application."""
        spark = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
        epochs = {view.instance: int(view.epoch) for view in self._mesh.status().components}
        return {**epochs, "application": int(spark.sparkContext.startTime or 0)}

    def results(self, *, stream: str) -> int:
        """Rows in the result tables of a stream's selects, read from outside."""
        instances = {report.instance: None for report in self._select_steps(stream)}
        tables = (DeltaTable(str(self._root / "tables" / instance)) for instance in instances)
        return sum(table.to_pyarrow_dataset().count_rows() for table in tables)

    def end(self) -> None:
        if self._mesh is not None:
            self._mesh.close()

    def _all(self) -> list[StepDone]:
        fresh = self._mesh.reports()
        self._reports.extend(report for report in fresh if isinstance(report, StepDone))
        return self._reports

    def _select_steps(self, stream: str) -> list[StepDone]:
        """Steps of the selects that read this stream: the stream's name begins its instance."""
        return [
            report for report in self._all() if report.kind == "select" and _reads(report, stream)
        ]


def _over(stream: str, text: str) -> str:
    """The workload's text over this stream: the sides run the same text but for its name."""
    return text.replace("FROM readings", f"FROM {stream}")


def _reads(report: StepDone, stream: str) -> bool:
    return any(name.rpartition("-")[0] == stream for name in report.positions)


def _row(report: StepDone) -> dict[str, Any]:
    return {
        "instance": report.instance,
        "kind": report.kind,
        "rows_in": report.rows_in,
        "rows_out": report.rows_out,
        "roster_rows": report.roster_rows,
        "busy": report.busy,
        "seconds": dict(report.seconds),
        "group": report.group,
    }


def main() -> None:
    side = _Shoal()
    serve(
        {
            "open": side.open,
            "stream": side.stream,
            "select": side.select,
            "drain": side.drain,
            "steps": side.steps,
            "install": side.install,
            "small_jobs": side.small_jobs,
            "heap": side.heap,
            "identity": side.identity,
            "results": side.results,
        },
        at_end=side.end,
    )


if __name__ == "__main__":
    main()
