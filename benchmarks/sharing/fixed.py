"""What a step costs apart from its tuples, and whether it stays that way over 10,000 steps.

The fixed cost of a select step is taken with ten tuples a step, against the smallest Spark job
that writes one Parquet file, in the same session, in turns. Input and job are both as small as
they get, so what differs is the step itself: its plan, its roster, its commit.

Growth feeds the same ten tuples 10,000 times and compares the beginning with the end: seconds
of a step, heap after a collection, descriptors, threads.

Not here: steps with real work (cases).
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contenders import Shoal
from benchmarks.harness import Bench
from benchmarks.workload import equality_and_range

__all__ = ["Effort", "fixed_cost", "growth"]

_TUPLES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How many steps each part takes."""

    warm_up: int
    batch: int
    turns: int
    growth_steps: int
    growth_batch: int
    settle: int


FULL = Effort(warm_up=200, batch=30, turns=5, growth_steps=10_000, growth_batch=100, settle=500)
QUICK = Effort(warm_up=5, batch=3, turns=2, growth_steps=40, growth_batch=5, settle=10)


def fixed_cost(bench: Bench, shoal: Shoal, work: Path, effort: Effort) -> None:
    """Keys step_fixed_ratio (CPU) and step_fixed_ratio_wall, and both with storage."""
    for store, suffix in ((False, ""), (True, "_stored")):
        stream = f"fixed{suffix}"
        shoal.stream(stream, store=store, rows=_TUPLES)
        shoal.select(stream, equality_and_range(1), warm_up=effort.warm_up)
        shoal.side.call("small_jobs", folder=str(work / "jobs"), jobs=effort.warm_up)
        shoal.steps()
        cpu, wall = [], []
        for turn in range(1, effort.turns + 1):
            step_cpu, step_wall = _steps(shoal, stream, effort.batch)
            with shoal.side.window() as window:
                jobs = shoal.side.call("small_jobs", folder=str(work / "jobs"), jobs=effort.batch)
            job_cpu, job_wall = window.cpu_seconds / effort.batch, statistics.median(jobs)
            cpu.append(step_cpu / job_cpu)
            wall.append(step_wall / job_wall)
            bench.row(
                case=stream,
                repeat=turn,
                step_cpu=step_cpu,
                step_wall=step_wall,
                job_cpu=job_cpu,
                job_wall=job_wall,
            )
        bench.key(f"step_fixed_ratio{suffix}", cpu)
        bench.key(f"step_fixed_ratio{suffix}_wall", wall)


def _steps(shoal: Shoal, stream: str, steps: int) -> tuple[float, float]:
    """CPU and wall seconds of a step: everything a file of ten tuples sets in motion."""
    window = shoal.run(stream, steps)
    busy: dict[int, float] = {}
    for report in shoal.steps():
        busy[report["group"]] = busy.get(report["group"], 0.0) + report["busy"]
    return window.cpu_seconds / steps, sum(busy.values()) / steps


def growth(bench: Bench, shoal: Shoal, effort: Effort) -> None:
    """Keys step_growth (CPU), step_growth_wall and the growth of heap, descriptors, threads."""
    shoal.stream("growth", store=True, rows=_TUPLES)
    shoal.select("growth", equality_and_range(100), warm_up=effort.settle)
    cpu, wall, heap, descriptors, threads = [], [], [], [], []
    for done in range(0, effort.growth_steps, effort.growth_batch):
        window = shoal.run("growth", effort.growth_batch)
        shoal.steps()
        usage = shoal.side.usage()
        cpu.append(window.cpu_seconds / effort.growth_batch)
        wall.append(window.wall_seconds / effort.growth_batch)
        descriptors.append(usage.descriptors)
        threads.append(usage.threads)
        heap.append(shoal.side.call("heap"))
        bench.row(
            case="growth",
            steps=done + effort.growth_batch,
            step_cpu=cpu[-1],
            step_wall=wall[-1],
            heap_mb=heap[-1] >> 20,
            resident_mb=usage.resident_bytes >> 20,
            descriptors=descriptors[-1],
            threads=threads[-1],
        )
    shoal.check("growth")
    bench.key("step_growth", [last_over_first(cpu)])
    bench.key("step_growth_wall", [last_over_first(wall)])
    bench.key("heap_growth", [last_over_first(heap)])
    bench.key("descriptors_growth", [last_over_first(descriptors)])
    bench.key("threads_growth", [last_over_first(threads)])


def last_over_first(series: Sequence[float]) -> float:
    """The median of the last tenth over the median of the first tenth, at least three values."""
    part = max(3, len(series) // 10)
    return statistics.median(series[-part:]) / statistics.median(series[:part])
