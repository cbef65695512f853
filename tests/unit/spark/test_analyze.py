"""Spark types an expression, or says why it cannot."""

from typing import TYPE_CHECKING

import pytest

from shoal.kernel.errors import UserError
from shoal.spark.analyze import analyze

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OF = "FROM (SELECT CAST(NULL AS INT) AS meter) AS s"


@pytest.mark.slow
def test_the_cells_of_the_probe(spark: "SparkSession") -> None:
    """In the order of the questions, as text."""
    probe = f"SELECT typeof(s.meter + 1L), typeof(s.meter > 1.5), typeof(NULL) {_OF}"
    assert analyze(spark, probe) == ("bigint", "boolean", "void")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("expression", "why"),
    [("s.metre", "metre"), ("s.meter +", "PARSE_SYNTAX_ERROR"), ("s.meter > DATE'x'", "INVALID")],
)
def test_what_spark_cannot_read_is_the_user_s_affair(
    spark: "SparkSession", expression: str, why: str
) -> None:
    with pytest.raises(UserError, match="cannot make sense") as refused:
        analyze(spark, f"SELECT typeof({expression}) {_OF}")
    assert why in refused.value.detail
