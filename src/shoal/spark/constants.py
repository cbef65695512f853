"""Numbers of a step that must not be in its code."""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

__all__ = ["constants"]


def constants(session: SparkSession, values: Sequence[int]) -> DataFrame:
    """One row, one array of integers: numbers of a step that must not be in its code.

    A literal would change the generated code with every step, and the code would be compiled
    again each time; an array is handed over by reference.
    """
    column = pa.array([list(values)], pa.list_(pa.int64()))
    return session.createDataFrame(pa.table({"_c": column}))
