"""How soon does a new query count, where others run?

Both sides run the same twenty queries while the same files arrive, slowly enough for both. The
new query is asked for at the moment when one more file is put, so there is something for it to
read at once, and its time runs from the call to the first commit that serves it. On plain Spark
this is the 21st streaming query; on Shoal it is a row.

Then queries join Shoal one by one in a faster flow, and the steps between the acknowledgement
and the first step that serves the query are counted. Nothing may restart meanwhile: the epoch
of every component and the JVM stay what they were.
"""

import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contenders import Plain, Shoal
from benchmarks.harness import Bar, Bench, parse_options
from benchmarks.workload import QuerySet, equality_and_range

QUESTION = "how soon does a new query count, where others run?"
BARS = (
    Bar(key="install_p95_steps", at_most=2),
    Bar(key="install_speedup", at_least=5),
    Bar(key="restarts", at_most=0),
)
_RUNNING = 20
_SERVED_SECONDS_MAX = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How often, and how fast files arrive."""

    repeats: int
    installs: int
    warm_up: int
    session_warm_up: int
    #: Twenty plain queries take about two seconds for a file on two cores.
    compared_every_seconds: float
    counted_every_seconds: float


FULL = Effort(
    repeats=5,
    installs=120,
    warm_up=3,
    session_warm_up=40,
    compared_every_seconds=4.0,
    counted_every_seconds=0.5,
)
QUICK = Effort(
    repeats=1,
    installs=5,
    warm_up=1,
    session_warm_up=2,
    compared_every_seconds=4.0,
    counted_every_seconds=0.5,
)


@contextmanager
def flow(put: Callable[[], object], *, every_seconds: float) -> Iterator[None]:
    """Files arrive while the block runs."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(every_seconds):
            put()

    thread = threading.Thread(target=run, name="flow", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def plain_install(plain: Plain, queries: QuerySet, repeat: int, effort: Effort) -> float:
    """Seconds until a 21st streaming query has committed its first batch."""
    group = f"install_{repeat}"
    plain.start(group, queries.texts[:_RUNNING], warm_up=effort.warm_up)
    with flow(lambda: plain.feed(group, 1), every_seconds=effort.compared_every_seconds):
        plain.feed(group, 1)
        seconds = plain.add(group, queries.texts[_RUNNING])
    plain.wait(group)
    plain.stop(group, queries)
    return seconds


def shoal_install(shoal: Shoal, stream: str, text: str) -> dict[str, float]:
    """What `shoal_side.install` says about one more query, with one more file to read."""
    shoal.feed(stream, 1)
    answer: dict[str, float] = shoal.side.call(
        "install", stream=stream, text=text, seconds_max=_SERVED_SECONDS_MAX
    )
    return answer


def compare(bench: Bench, plain: Plain, shoal: Shoal, effort: Effort) -> None:
    """Key install_speedup: one query more on either side, in turns."""
    queries = equality_and_range(_RUNNING + 1)
    running = QuerySet(name=queries.name, texts=queries.texts[:_RUNNING], matches=queries.matches)
    shoal.stream("compared", store=True)
    shoal.select("compared", running, warm_up=effort.session_warm_up)
    plain.start("warm", queries.texts, warm_up=effort.session_warm_up)
    plain.stop("warm", queries)
    ratios = []
    for repeat in range(1, effort.repeats + 1):
        plain_seconds = plain_install(plain, queries, repeat, effort)
        with flow(lambda: shoal.feed("compared", 1), every_seconds=effort.compared_every_seconds):
            answer = shoal_install(shoal, "compared", queries.texts[_RUNNING])
        shoal.side.call("drain")
        ratios.append(plain_seconds / answer["served_seconds"])
        bench.row(case="21st query", repeat=repeat, plain_seconds=plain_seconds, **answer)
    bench.key("install_speedup", ratios)


def count(bench: Bench, shoal: Shoal, effort: Effort) -> None:
    """Keys install_p95_steps and restarts: queries join one by one in a steady flow."""
    queries = equality_and_range(1_000)
    start = QuerySet(name=queries.name, texts=queries.texts[:1], matches=queries.matches)
    shoal.stream("counted", store=True)
    shoal.select("counted", start, warm_up=effort.warm_up)
    before = _identity(shoal)
    steps, acknowledged, served = [], [], []
    with flow(lambda: shoal.feed("counted", 1), every_seconds=effort.counted_every_seconds):
        for number in range(1, effort.installs + 1):
            answer = shoal.side.call(
                "install",
                stream="counted",
                text=queries.texts[number],
                seconds_max=_SERVED_SECONDS_MAX,
            )
            steps.append(answer["steps"])
            acknowledged.append(answer["acknowledged_seconds"])
            served.append(answer["served_seconds"])
            bench.row(case="joins a flow", repeat=number, **answer)
    shoal.side.call("drain")
    after = _identity(shoal)
    bench.key("install_p95_steps", [percentile_95(steps)])
    bench.key("acknowledged_p95_seconds", [percentile_95(acknowledged)])
    bench.key("served_p95_seconds", [percentile_95(served)])
    bench.key("restarts", [sum(after[who] != what for who, what in before.items())])


def _identity(shoal: Shoal) -> dict[str, int]:
    """The epoch of each component, and the JVM: what a restart would change."""
    identity: dict[str, int] = shoal.side.call("identity")
    return identity


def percentile_95(values: list[float]) -> float:
    """The smallest value that 95 in 100 do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-95 * len(ordered) // 100) - 1)]


def _compare(bench: Bench, work: Path, shoal: Shoal, effort: Effort) -> None:
    with closing(Plain(work, fair=bench.options.plain_fair)) as plain:
        compare(bench, plain, shoal, effort)


def main() -> int:
    options = parse_options("install", QUESTION, plain=True)
    bench = Bench("install", QUESTION, BARS, options)
    effort = QUICK if options.quick else FULL
    with tempfile.TemporaryDirectory(prefix="shoal-install-") as folder:
        work = Path(folder)
        with closing(Shoal(work)) as shoal:
            if options.wants("compare"):
                _compare(bench, work, shoal, effort)
            if options.wants("count"):
                count(bench, shoal, effort)
    return bench.finish()


if __name__ == "__main__":
    sys.exit(main())
