"""Numbers of a step as one array, whatever they are."""

from typing import TYPE_CHECKING

import pytest

from shoal.spark.constants import constants

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
def test_numbers_come_as_they_are(spark: "SparkSession") -> None:
    """Also the extremes that stand for always and for ever, and in their order."""
    values = [3, -(1 << 62), 1 << 62, 0, -1]
    frame = constants(spark, values)
    assert frame.dtypes == [("_c", "array<bigint>")]
    joined = spark.range(2).select("*", frame.scalar().alias("_c"))
    assert [row["_c"] for row in joined.collect()] == [values, values]
