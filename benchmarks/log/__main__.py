"""What does a commit cost, does it stay that way, and where does the time go?

One instance gets 20,000 commits of one segment each, with housekeeping after each as in
production. Then it is compared with instances of 100 commits, commit by commit in turns, so that
whatever else the machine does falls on both: `commit_growth` is the ratio of the medians.
Memory, descriptors and threads are read along the way; the parts of a commit come from the
writer's own trace points. At last eight instances commit from one thread and from four.
"""

import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path

import psutil
import pyarrow as pa

from benchmarks.harness import Bar, Bench, Options, parse_options
from shoal.log.reader import Reader
from shoal.log.root import Root
from shoal.log.segment import write_segment
from shoal.log.validate import validate
from shoal.log.writer import EVENT_TIME_PROPERTY, Writer

QUESTION = "what does a commit cost, and does it stay that way?"
BARS = (Bar(key="commit_growth", at_most=2.0),)
PARTS = (
    "files written",
    "folders synced",
    "appending",
    "appended",
    "refreshed",
    "entry synced",
    "log synced",
)
COMMITS = 20_000
YOUNG = 100
#: Pairs of commits, one old and one young, of each of the three repeats.
PAIRS = 200
WINDOW = 1_000
SCHEMA = pa.schema(
    [
        ("meter", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("value", pa.float64()),
        ("_step", pa.int64()),
        ("_id", pa.int64()),
        ("_kind", pa.string()),
    ]
)
ROWS = 10


class Instance:
    """One instance that commits, and how long its parts took."""

    def __init__(self, root: Root, name: str) -> None:
        properties = {EVENT_TIME_PROPERTY: "at"}
        Writer.create(root, name, SCHEMA, partition_by=["_kind"], properties=properties)
        self.parts: dict[str, list[float]] = defaultdict(list)
        self._last = 0.0
        self.writer = Writer.take_over(root, name, owner="bench", trace=self._trace)

    def commit(self) -> tuple[float, float, float]:
        """Milliseconds of writing the segment, of the commit, and of housekeeping."""
        step = self.writer.step + 1
        rows = pa.table(
            {
                "meter": [f"m{number}" for number in range(ROWS)],
                "at": pa.array(range(step, step + ROWS), SCHEMA.field("at").type),
                "value": [0.5 * number for number in range(ROWS)],
                "_step": [step] * ROWS,
                "_id": range(step << 35, (step << 35) + ROWS),
            }
        )
        began = time.perf_counter()
        segment = write_segment(
            self.writer.table,
            rows,
            epoch=self.writer.epoch,
            step=step,
            part=0,
            partition={"_kind": "ok"},
        )
        written = self._last = time.perf_counter()
        transactions = {"in/source": step, "wm": step, "clock": step}
        self.writer.commit(step=step, segments=[segment], transactions=transactions)
        committed = time.perf_counter()
        self.writer.housekeep(horizon=None)
        kept = time.perf_counter()
        return (written - began) * 1e3, (committed - written) * 1e3, (kept - committed) * 1e3

    def _trace(self, point: str) -> None:
        now = time.perf_counter()
        self.parts[point].append((now - self._last) * 1e3)
        self._last = now


def grow(bench: Bench, instance: Instance, commits: int) -> None:
    """Many commits, with what a window of them cost and what the process held."""
    process = psutil.Process()
    window = min(WINDOW, commits // 4)
    held: list[tuple[int, int, int]] = []
    for first in range(0, commits, window):
        times = [instance.commit() for _ in range(min(window, commits - first))]
        written, committed, kept = zip(*times, strict=True)
        held.append((process.memory_info().rss, process.num_fds(), process.num_threads()))
        bench.row(
            case="grow",
            commits=instance.writer.step,
            write_p50_ms=statistics.median(written),
            commit_p50_ms=statistics.median(committed),
            commit_p99_ms=sorted(committed)[int(0.99 * len(committed))],
            housekeep_mean_ms=statistics.fmean(kept),
            live_segments=len(instance.writer.live),
            log_files=sum(1 for _ in instance.writer.table.log.iterdir()),
            resident_mb=held[-1][0] / 1e6,
            descriptors=held[-1][1],
            threads=held[-1][2],
        )
    tenth = max(1, len(held) // 10)
    # The first window warms allocators and thread pools up; growth is what comes after it.
    for place, name in enumerate(("memory_growth", "descriptors_growth", "threads_growth")):
        early = statistics.median(reading[place] for reading in held[1 : 1 + tenth])
        late = statistics.median(reading[place] for reading in held[-tenth:])
        bench.key(name, [late / early])


def compare(bench: Bench, root: Root, old: Instance, pairs: int) -> None:
    """Old and young in turns."""
    growth, medians = [], []
    for repeat in range(1, 4):
        young = Instance(root, f"young-{repeat}")
        for _ in range(YOUNG):
            young.commit()
        both = [(old.commit()[1], young.commit()[1]) for _ in range(pairs)]
        late, early = (statistics.median(times) for times in zip(*both, strict=True))
        growth.append(late / early)
        medians.append(early)
        bench.row(case="pairs", repeat=repeat, old_p50_ms=late, young_p50_ms=early)
    bench.key("commit_growth", growth)
    bench.key("commit_p50_ms", medians)
    for part in PARTS:
        bench.key(f"part_{part.replace(' ', '_')}_ms", [statistics.median(old.parts[part][-600:])])


def tail(bench: Bench, root: Root, instance: Instance) -> None:
    """What a reader costs."""
    reader = Reader(root, instance.writer.instance, after=instance.writer.step - 100)
    began = time.perf_counter()
    found = len(reader.poll(commits_max=1000))
    polled = time.perf_counter()
    for _ in range(1000):
        reader.poll(commits_max=1)
    ended = time.perf_counter()
    bench.row(case="tail", commits=found, seek_and_read_ms=(polled - began) * 1e3)
    bench.key("idle_poll_ms", [ended - polled])


def threads(bench: Bench, root: Root, commits: int) -> None:
    """Eight instances from one thread and from four."""
    instances = [Instance(root, f"parallel-{number}") for number in range(8)]
    speedups = []
    for repeat in range(1, 4):
        took = {}
        for count in (1, 4):
            groups = [instances[first::count] for first in range(count)]
            workers = [threading.Thread(target=_commit_all, args=(g, commits)) for g in groups]
            began = time.perf_counter()
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            took[count] = time.perf_counter() - began
        speedups.append(took[1] / took[4])
        bench.row(case="threads", repeat=repeat, one_s=took[1], four_s=took[4])
    bench.key("threads_speedup", speedups)


def _commit_all(instances: list[Instance], commits: int) -> None:
    for _ in range(commits):
        for instance in instances:
            instance.commit()


def run(bench: Bench, options: Options, folder: Path) -> int:
    """All parts over one root."""
    root = Root.open(folder)
    commits = 400 if options.quick else COMMITS
    old = Instance(root, "old")
    grow(bench, old, commits)
    compare(bench, root, old, 20 if options.quick else PAIRS)
    tail(bench, root, old)
    threads(bench, root, 5 if options.quick else 25)
    old.writer.validate()
    broken = validate(root, "old")
    if broken:
        bench.say(f"broken: {broken[:5]}")
        return 1
    return bench.finish()


def main() -> int:
    """The command line."""
    options = parse_options("log", QUESTION)
    bench = Bench("log", QUESTION, bars=BARS, options=options)
    with tempfile.TemporaryDirectory(prefix="shoal-bench-log-") as folder:
        return run(bench, options, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
