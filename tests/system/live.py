"""Add, alter and drop queries one by one while tuples flow, and judge every one of them.

    python -m tests.system.live --changes 1000 --seed 1

Nothing may restart (epochs stay), every version of every query equals DuckDB over its interval,
and the control queries, which nobody touches, are as right as the rest.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What was done, and what came of it."""

    changes: int
    restarts: int
    queries: int
    rows: int
    source_steps: int
    change_seconds: float
    seconds: float


def change_and_check(
    folder: Path, spark: "SparkSession", *, changes: int, controls: int, seed: int
) -> Figures:
    """Make so many changes while files appear, then judge everything."""
    started = time.monotonic()
    rng = random.Random(seed)
    with Setting(folder, spark, seed=seed, files_per_step=2, lateness="1 hour") as setting:
        setting.select({f"control_{n}": f"kwh > {n / 8 - 3}" for n in range(controls)})
        setting.round(files=3, rows=30)
        epochs = {v.instance: v.epoch for v in setting.mesh.status().components}
        alive: list[str] = []
        for number in range(changes):
            if number % 4 == 0:
                setting.world.drop(setting.source, files=rng.randint(1, 3), rows=20)
            _change(setting, rng, alive, number)
        changed = time.monotonic() - started
        setting.drain()
        oracle = setting.check()
        setting.check_intervals(oracle)
        views = setting.mesh.status().components
        restarts = sum(1 for v in views if v.epoch != epochs.get(v.instance, v.epoch))
        odd = [r for r in setting.gather() if isinstance(r, Failed | FencedOff)]
        assert not odd, odd[:3]
        return Figures(
            changes=changes,
            restarts=restarts,
            queries=len(setting.texts),
            rows=sum(setting.mesh.results(name, after=0).num_rows for name in setting.texts),
            source_steps=max(v.step for v in views if v.kind == "ingest"),
            change_seconds=changed,
            seconds=time.monotonic() - started,
        )


def _change(setting: Setting, rng: random.Random, alive: list[str], number: int) -> None:
    where = rng.choice(_WHERES).format(x=round(rng.uniform(-3, 3), 2), n=rng.randrange(9))
    kind = rng.random()
    if len(alive) < 10 or kind < 0.4:
        name = f"q{number}"
        start = "2024-03-01 00:00:05" if rng.random() < 0.1 else None
        columns = ("n", "ts") if rng.random() < 0.5 else ("ts", "name", "kwh", "price")
        setting.select({name: where}, columns=columns, start=start)
        alive.append(name)
    elif kind < 0.75:
        setting.alter(rng.choice(alive), where)
    else:
        name = alive.pop(rng.randrange(len(alive)))
        setting.mesh.query(name).drop(now=rng.random() < 0.5)


def main() -> None:
    """Make the changes asked for, and print the figures."""
    from shoal.spark.session import build

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    session = build("local[2]", {"spark.driver.memory": "2g"})
    folder = Path(tempfile.mkdtemp(prefix="shoal-live-"))
    figures = change_and_check(folder, session, changes=asked.changes, controls=50, seed=asked.seed)
    sys.stdout.write(f"{figures}\n")
    session.stop()


if __name__ == "__main__":
    main()
