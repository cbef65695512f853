"""Plain Spark as its documentation suggests: one streaming query for each question.

    readStream of Parquet files with a schema and maxFilesPerTrigger 1
    the query's own SQL text over it
    writeStream to Parquet with a checkpoint

Its tuning is on: checkpoint files through the plain file system (half the cost of a trigger),
no checksum files, no `_SUCCESS`, no web interface, no long descriptions of plans. With `fair`
each query has a pool of its own under FAIR scheduling (`--plain-fair`).

Run as a side (benchmarks/side): `python -m benchmarks.plain`.
"""

import os
import shutil
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.side import serve
from benchmarks.workload import COLUMNS_TEXT

__all__ = ["SPARK_SETTINGS", "main"]

_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"
SPARK_SETTINGS = {
    "spark.ui.enabled": "false",
    # As on Shoal's side: Spark describes every plan in an event that nobody reads here.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.maxPlanStringLength": "100",
    "spark.driver.memory": "2g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.checkpointFileManagerClass": (
        f"{_CHECKPOINTING}.FileSystemBasedCheckpointFileManager"
    ),
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


class _Plain:
    """The session and its streaming queries, by group: one group, one input folder."""

    def __init__(self) -> None:
        self._spark: SparkSession | None = None
        self._groups: dict[str, list[Any]] = {}
        self._fair = False

    def start_session(self, *, master: str, settings: dict[str, str], fair: bool) -> int:
        """Build the session; its JVM's process id."""
        builder = SparkSession.builder.master(master).appName("plain")
        for key, value in {**SPARK_SETTINGS, **settings}.items():
            builder = builder.config(key, value)
        if fair:
            builder = builder.config("spark.scheduler.mode", "FAIR")
        self._fair = fair
        self._spark = builder.getOrCreate()
        self._spark.sparkContext.setLogLevel("ERROR")
        return os.getpid()

    def start(self, *, group: str, texts: list[str], folder: str) -> None:
        """Start one streaming query per text over `<folder>/in`; results go to `<folder>/q<i>`."""
        assert self._spark is not None
        reader = self._spark.readStream.schema(COLUMNS_TEXT).option("maxFilesPerTrigger", 1)
        queries = self._groups.setdefault(group, [])
        for text in texts:
            place = Path(folder) / f"q{len(queries)}"
            reader.parquet(f"{folder}/in").createOrReplaceTempView("readings")
            if self._fair:
                self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", place.name)
            writer = (
                self._spark.sql(text)
                .writeStream.format("parquet")
                .option("path", str(place / "out"))
                .option("checkpointLocation", str(place / "checkpoint"))
            )
            queries.append(writer.start())

    def stop(self, *, group: str) -> None:
        for query in self._groups.pop(group):
            query.stop()

    def errors(self, *, group: str) -> list[str]:
        """What queries of the group died of."""
        raised = [query.exception() for query in self._groups[group]]
        return [str(error) for error in raised if error is not None]

    def remove(self, *, folder: str) -> None:
        shutil.rmtree(folder)

    def end(self) -> None:
        if self._spark is not None:
            self._spark.stop()


def main() -> None:
    plain = _Plain()
    serve(
        {
            "start_session": plain.start_session,
            "start": plain.start,
            "stop": plain.stop,
            "errors": plain.errors,
            "remove": plain.remove,
        },
        at_end=plain.end,
    )


if __name__ == "__main__":
    main()
