"""The Spark session of a peer, with the settings that steps rely on.

Why each is there: docs/spark.md. A caller may bring a session of its own; `check` then says which
of the settings that results depend on are wrong.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from shoal.kernel.errors import UserError

__all__ = ["REQUIRED", "Session", "build", "check", "running"]

#: The type of a session, for those who hand one on without knowing Spark.
Session = SparkSession

#: Results depend on these: instants are UTC, and writers keep statistics of event time.
REQUIRED = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.ansi.enabled": "true",
}
#: Only cost depends on these.
_TUNED = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    # Above 8,000 bytes of byte code the JVM never compiles a method; Spark's own limit is 65,535.
    "spark.sql.codegen.hugeMethodLimit": "8000",
    "spark.sql.codegen.cache.maxEntries": "1000",
    "spark.sql.parquet.compression.codec": "zstd",
    # One file is one task, never split: the ordinal of a tuple is its place in its file.
    "spark.sql.files.maxPartitionBytes": str(1 << 40),
    "spark.sql.files.openCostInBytes": str(1 << 40),
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    # Each broadcast of each step takes a page and a block at least. By default they are tens of
    # megabytes and 4 MB, which G1 takes for huge objects and collects the whole heap for.
    "spark.buffer.pageSize": "256k",
    "spark.broadcast.blockSize": "256k",
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "spark.scheduler.mode": "FAIR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.ui.retainedExecutions": "1",
    # Spark describes every plan in an event that nobody reads here.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.maxPlanStringLength": "100",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.cleaner.periodicGC.interval": "5min",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
}


def build(master: str, conf: Mapping[str, str]) -> SparkSession:
    """The session of this process: `conf` goes over our own settings, except the required."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Functions in Python run in workers; those must have what this process has.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # In quotes: the path may hold spaces, and options are told apart by them.
    quiet = f'-Dlog4j2.configurationFile="{Path(__file__).with_name("log4j2.properties")}"'
    builder = SparkSession.builder.master(master).appName("shoal")
    ours = {**_TUNED, "spark.driver.extraJavaOptions": quiet}
    for key, value in {**ours, **conf, **REQUIRED}.items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:
        raise UserError(
            "Spark could not be started",
            detail=str(error).strip().splitlines()[-1] if str(error).strip() else repr(error),
            hint="Java 17 or newer must be installed: `java -version` tells; JAVA_HOME names it",
        ) from error
    if "spark.driver.extraJavaOptions" not in conf:
        session.sparkContext.setLogLevel("FATAL")
    check(session)
    return session


def running() -> SparkSession | None:
    """The session that runs in this process already."""
    return SparkSession.getActiveSession()


def check(session: SparkSession) -> None:
    """Raise if a session that somebody brought would give other results."""
    for key, wanted in REQUIRED.items():
        found = session.conf.get(key, "")
        if found is None or found.lower() != wanted.lower():
            raise UserError(
                f"the Spark session has {key} = {found}",
                detail=f"results depend on {wanted}",
                hint=f"build it with .config({key!r}, {wanted!r})",
            )
