"""Numbers of a step that must not be in its code."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

__all__ = ["constants"]


def constants(session: SparkSession, values: Sequence[int]) -> DataFrame:
    """One row, one array of integers: numbers of a step that must not be in its code.

    A literal would change the generated code with every step, and the code would be compiled
    again each time; an array is handed over by reference.
    """
    array = ", ".join(f"{value}L" for value in values)
    return session.sql(f"SELECT * FROM VALUES (array({array})) AS t(_c)")
