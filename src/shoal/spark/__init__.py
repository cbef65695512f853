"""Components on Spark: the only room that knows pyspark."""
