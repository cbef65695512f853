"""What a worker works with: the same for every turn."""

from concurrent.futures import Executor
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from shoal.log.root import Root
from shoal.spark.select.step import Rosters
from shoal.spark.windows.step import KnownShapes

__all__ = ["Bench"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What a worker works with."""

    session: SparkSession
    root: Root
    rosters: Rosters
    commits: Executor
    shapes: KnownShapes = field(default_factory=KnownShapes)
