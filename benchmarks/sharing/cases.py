"""The cases that are compared by throughput: how many queries, of which kind, on which side.

A case is a name, a set of queries and a side. All cases of a run are prepared first and then
measured in turn, so every ratio is between neighbours in time. Plain groups are started anew
for each repeat, because idle streaming queries poll and would disturb the other cases; starting
and warming up is outside the window.

Not here: fixed costs and growth (fixed), the ratios (__main__).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.contenders import Plain, Shoal
from benchmarks.harness import Bench, interleaved
from benchmarks.signatures import many_signatures
from benchmarks.workload import (
    QuerySet,
    equality_and_range,
    narrow_ranges,
    one_sided_ranges,
    zone_and_range,
)

__all__ = ["Case", "Effort", "Measured", "cases_of", "measure"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One set of queries on one side."""

    name: str
    plain: bool
    queries: QuerySet
    #: Whether Shoal keeps the tuples; plain Spark never does.
    store: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is done: files of a window, files before it, files that warm a session up."""

    files: int
    warm_up: int
    session_warm_up: int
    repeats: int
    many: int
    most: int


FULL = Effort(files=10, warm_up=4, session_warm_up=40, repeats=3, many=1_000, most=10_000)
QUICK = Effort(files=2, warm_up=1, session_warm_up=2, repeats=1, many=100, most=1_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Per file of one window: CPU and wall seconds."""

    cpu: float
    wall: float


def cases_of(effort: Effort) -> list[Case]:
    """Every case; names are used by the ratios in __main__."""
    many, most = effort.many, effort.most
    plain = [Case(name=f"plain {n}", plain=True, queries=equality_and_range(n)) for n in (1, 5, 20)]
    shoal = {
        "one": equality_and_range(1),
        "many": equality_and_range(many),
        "most": equality_and_range(most),
        "zone most": zone_and_range(most),
        "narrow one": narrow_ranges(1),
        "narrow most": narrow_ranges(most),
        "one-sided one": one_sided_ranges(1),
        "one-sided most": one_sided_ranges(most),
        "signatures": many_signatures(many),
    }
    stored = ("one", "many", "most")
    return [
        *plain,
        *(Case(name=name, plain=False, queries=queries) for name, queries in shoal.items()),
        *(Case(name=f"stored {n}", plain=False, queries=shoal[n], store=True) for n in stored),
    ]


def measure(
    bench: Bench, plain: Plain, shoal: Shoal, cases: Sequence[Case], effort: Effort
) -> dict[str, list[Measured]]:
    """Every case in interleaved repeats, and a check of every result."""
    _warm_up(plain, shoal, cases, effort)
    found: dict[str, list[Measured]] = {case.name: [] for case in cases}
    for repeat, case in interleaved(cases, repeats=effort.repeats):
        run = _run_plain if case.plain else _run_shoal
        found[case.name].append(run(bench, plain, shoal, case, effort, repeat))
    for case in cases:
        if not case.plain:
            shoal.check(_stream(case))
    return found


def _warm_up(plain: Plain, shoal: Shoal, cases: Sequence[Case], effort: Effort) -> None:
    """Run both JVMs until their compilers have seen the work: not measured."""
    queries = equality_and_range(5)
    plain.start("warm", queries.texts, warm_up=effort.session_warm_up)
    plain.stop("warm", queries)
    shoal.stream("warm", store=False)
    shoal.select("warm", equality_and_range(effort.many), warm_up=effort.session_warm_up)
    for case in cases:
        if not case.plain:
            shoal.stream(_stream(case), store=case.store)
            shoal.select(_stream(case), case.queries, warm_up=effort.warm_up)
    shoal.steps()


def _run_plain(
    bench: Bench, plain: Plain, shoal: Shoal, case: Case, effort: Effort, repeat: int
) -> Measured:
    group = f"{_stream(case)}_{repeat}"
    plain.start(group, case.queries.texts, warm_up=effort.warm_up)
    window = plain.run(group, effort.files)
    plain.stop(group, case.queries)
    found = Measured(cpu=window.cpu_seconds / effort.files, wall=window.wall_seconds / effort.files)
    bench.row(
        case=case.name,
        repeat=repeat,
        queries=len(case.queries.texts),
        cpu_per_file=found.cpu,
        wall_per_file=found.wall,
        resident_mb=window.resident_bytes_peak >> 20,
        threads=window.threads,
        descriptors=window.descriptors,
    )
    return found


def _run_shoal(
    bench: Bench, plain: Plain, shoal: Shoal, case: Case, effort: Effort, repeat: int
) -> Measured:
    window = shoal.run(_stream(case), effort.files)
    steps = shoal.steps()
    found = Measured(cpu=window.cpu_seconds / effort.files, wall=window.wall_seconds / effort.files)
    bench.row(
        case=case.name,
        repeat=repeat,
        queries=len(case.queries.texts),
        cpu_per_file=found.cpu,
        wall_per_file=found.wall,
        resident_mb=window.resident_bytes_peak >> 20,
        threads=window.threads,
        descriptors=window.descriptors,
        steps=len(steps),
        rows_out=sum(step["rows_out"] for step in steps if step["kind"] == "select"),
    )
    return found


def _stream(case: Case) -> str:
    return case.name.replace(" ", "_").replace("-", "_")
