"""Plain Spark's side has what Shoal's side has, where it spares work that neither reads."""

import pytest

from benchmarks.plain import SPARK_SETTINGS
from shoal.spark.session import _TUNED, REQUIRED

SPARED = (
    "spark.ui.enabled",
    "spark.sql.ui.explainMode",
    "spark.sql.maxPlanStringLength",
    "spark.hadoop.fs.file.impl",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs",
    "spark.sql.parquet.outputTimestampType",
    "spark.sql.session.timeZone",
    "spark.sql.shuffle.partitions",
    "spark.driver.memory",
)


@pytest.mark.parametrize("key", SPARED)
def test_both_sides_are_spared_the_same(key: str) -> None:
    assert SPARK_SETTINGS[key] == {**_TUNED, **REQUIRED}[key]
