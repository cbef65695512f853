"""Add, alter and drop queries one by one while tuples flow, and judge every one of them.

    python -m tests.system.live --queries 1000 --seed 1

Each query is added, altered once at least, and dropped, among others at all three stages. Nothing
may restart (every epoch is the first), every version of every query equals DuckDB over its
interval, and the control queries, which nobody touches, are as right as the rest.
"""

import argparse
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.dataplane.reports import Failed, FencedOff
from tests.spark.setting import Setting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Figures", "change_and_check"]

#: Texts that changes choose from: few signatures, many constants, one that fails for some tuples.
_WHERES = (
    "kwh > {x}", "meter = {n}", "zone = {n} AND kwh > {x}", "price > {n}", "kwh / zone > 1",
    "name IN ('alpha', '東京')", "kwh BETWEEN -1 AND 2.5",
)  # fmt: skip

#: Changes between two arrivals of files, and the queries that are there at any time.
FILES_EVERY = 4
ALIVE_LEAST, ALIVE_MOST = 10, 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What was done, and what came of it."""

    changes: int
    restarts: int
    #: Those that were added, altered and dropped, and all that were judged.
    dropped: int
    queries: int
    rows: int
    source_steps: int
    change_seconds: float
    seconds: float


def change_and_check(
    folder: Path, spark: "SparkSession", *, queries: int, controls: int, seed: int
) -> Figures:
    """Let so many queries come and go while files appear, then judge everything."""
    started = time.monotonic()
    rng = random.Random(seed)
    with Setting(folder, spark, seed=seed, files_per_step=2, lateness="1 hour") as setting:
        setting.select({f"control_{n}": f"kwh > {n / 8 - 3}" for n in range(controls)})
        setting.round(files=3, rows=30)
        application = spark.sparkContext.applicationId
        lives = Lives(setting, rng, queries)
        while lives.change():
            if lives.changes % FILES_EVERY == 0:
                setting.world.drop(setting.source, files=rng.randint(1, 3), rows=20)
        changed = time.monotonic() - started
        setting.drain()
        oracle = setting.check()
        setting.check_intervals(oracle)
        views = setting.mesh.status().components
        # The root is fresh: whoever owns a component is its first owner.
        restarts = sum(view.epoch != 1 for view in views)
        assert spark.sparkContext.applicationId == application, "Spark was started again"
        odd = [r for r in setting.gather() if isinstance(r, Failed | FencedOff)]
        assert not odd, odd[:3]
        return Figures(
            changes=lives.changes,
            restarts=restarts,
            dropped=lives.dropped,
            queries=len(setting.texts),
            rows=sum(setting.mesh.results(name, after=0).num_rows for name in setting.texts),
            source_steps=max(v.step for v in views if v.kind == "ingest"),
            change_seconds=changed,
            seconds=time.monotonic() - started,
        )


class Lives:
    """Queries that come, change and go, one change at a time."""

    def __init__(self, setting: Setting, rng: random.Random, queries: int) -> None:
        self._setting = setting
        self._rng = rng
        self._to_come = [f"q{number}" for number in reversed(range(queries))]
        #: Those that are there, by whether they have been altered.
        self._fresh: list[str] = []
        self._altered: list[str] = []
        self.changes = 0
        self.dropped = 0

    def change(self) -> bool:
        """Make one change; False when all have come and gone."""
        there = len(self._fresh) + len(self._altered)
        kind = self._rng.random()
        if self._to_come and (there < ALIVE_LEAST or (kind < 0.4 and there < ALIVE_MOST)):
            self._fresh.append(self._to_come.pop())
            self._add(self._fresh[-1])
        elif self._fresh and (kind < 0.7 or not self._altered):
            self._altered.append(self._fresh.pop(self._rng.randrange(len(self._fresh))))
            self._setting.alter(self._altered[-1], self._where())
        elif self._altered:
            self._end(self._altered[self._rng.randrange(len(self._altered))])
        else:
            return False
        self.changes += 1
        return True

    def _add(self, name: str) -> None:
        start = "2024-03-01 00:00:05" if self._rng.random() < 0.1 else None
        columns = ("n", "ts") if self._rng.random() < 0.5 else ("ts", "name", "kwh", "price")
        self._setting.select({name: self._where()}, columns=columns, start=start)

    def _end(self, name: str) -> None:
        """Drop it; or, now and then, alter it once more."""
        if self._rng.random() < 0.1:
            self._setting.alter(name, self._where())
            return
        self._altered.remove(name)
        self._setting.end(name, now=self._rng.random() < 0.5)
        self.dropped += 1

    def _where(self) -> str:
        number = self._rng.randrange(9)
        return self._rng.choice(_WHERES).format(x=round(self._rng.uniform(-3, 3), 2), n=number)


def main() -> None:
    """Let the queries asked for come and go, and print the figures."""
    from shoal.spark.session import build

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    session = build("local[2]", {"spark.driver.memory": "2g"})
    folder = Path(tempfile.mkdtemp(prefix="shoal-live-"))
    figures = change_and_check(folder, session, queries=asked.queries, controls=50, seed=asked.seed)
    sys.stdout.write(f"{figures}\n")
    session.stop()


if __name__ == "__main__":
    main()
