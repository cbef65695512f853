"""Let Spark type an expression: its own analysis decides what a literal is coerced to."""

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from shoal.kernel.errors import UserError

__all__ = ["analyze"]


def analyze(session: SparkSession, probe: str) -> tuple[str, ...]:
    """The cells of the one row of a probe (query/draft.py)."""
    try:
        row = session.sql(probe).collect()[0]
    except PySparkException as error:
        raise UserError("Spark cannot make sense of the predicate", detail=str(error)) from error
    return tuple(str(cell) for cell in row)
