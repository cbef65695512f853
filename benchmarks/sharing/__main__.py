"""What does one more query cost, where all share one Spark?

Parts (`--only`): cases, fixed, growth. README.md says what each key means.
"""

import sys
import tempfile
from pathlib import Path

from benchmarks.contenders import Plain, Shoal
from benchmarks.harness import Bar, Bench, least_squares_slope, parse_options
from benchmarks.sharing import cases, fixed
from benchmarks.sharing.cases import Effort, Measured

QUESTION = "what does one more query cost, where all share one Spark?"
BARS = (
    Bar(key="select_ratio_1000", at_least=200),
    Bar(key="select_10000_vs_1", at_least=0.25),
    Bar(key="range_10000_vs_1", at_least=0.1),
    Bar(key="signatures_100_vs_1", at_most=5),
    Bar(key="single_overhead", at_most=1.3),
    Bar(key="step_fixed_ratio", at_most=2.5),
    Bar(key="step_growth", at_most=1.2),
    Bar(key="heap_growth", at_most=1.2),
    Bar(key="descriptors_growth", at_most=1.1),
    Bar(key="threads_growth", at_most=1.1),
)

_Found = dict[str, list[Measured]]


def ratios(bench: Bench, found: _Found, effort: Effort) -> None:
    """The keys that come from throughput; one value per repeat, from neighbours in time."""
    repeats = range(effort.repeats)

    def cpu(case: str, repeat: int) -> float:
        return found[case][repeat].cpu

    slopes = [
        least_squares_slope([(n, cpu(f"plain {n}", repeat)) for n in (1, 5, 20)])
        for repeat in repeats
    ]
    bench.key("plain_cpu_per_query", slopes)
    for prefix, suffix in (("stored ", ""), ("", "_store_none")):
        shares = [cpu(f"{prefix}many", repeat) / effort.many for repeat in repeats]
        bench.key(f"shoal_cpu_per_query{suffix}", shares)
        bench.key(
            f"select_ratio_1000{suffix}",
            [slope / share for slope, share in zip(slopes, shares, strict=True)],
        )

    def compare(key: str, above: str, below: str) -> None:
        bench.key(key, [cpu(above, repeat) / cpu(below, repeat) for repeat in repeats])

    compare("select_10000_vs_1", "one", "most")
    compare("select_10000_vs_1_stored", "stored one", "stored most")
    compare("zone_10000_vs_1", "one", "zone most")
    compare("range_narrow_10000_vs_1", "narrow one", "narrow most")
    compare("range_one_sided_10000_vs_1", "one-sided one", "one-sided most")
    bench.key(
        "range_10000_vs_1",
        [
            min(
                cpu("narrow one", repeat) / cpu("narrow most", repeat),
                cpu("one-sided one", repeat) / cpu("one-sided most", repeat),
            )
            for repeat in repeats
        ],
    )
    compare("signatures_100_vs_1", "signatures", "many")
    compare("single_overhead", "one", "plain 1")
    compare("single_overhead_stored", "stored one", "plain 1")


def main() -> int:
    options = parse_options("sharing", QUESTION, plain=True)
    bench = Bench("sharing", QUESTION, BARS, options)
    with tempfile.TemporaryDirectory(prefix="shoal-sharing-") as folder:
        work = Path(folder)
        if options.wants("cases"):
            effort = cases.QUICK if options.quick else cases.FULL
            plain, shoal = Plain(work, fair=options.plain_fair), Shoal(work)
            try:
                found = cases.measure(bench, plain, shoal, cases.cases_of(effort), effort)
            finally:
                plain.close()
                shoal.close()
            ratios(bench, found, effort)
        for part, run in (("fixed", _fixed), ("growth", _growth)):
            if options.wants(part):
                run(bench, work / part, fixed.QUICK if options.quick else fixed.FULL)
    return bench.finish()


def _fixed(bench: Bench, work: Path, effort: fixed.Effort) -> None:
    shoal = Shoal(work)
    try:
        fixed.fixed_cost(bench, shoal, work, effort)
    finally:
        shoal.close()


def _growth(bench: Bench, work: Path, effort: fixed.Effort) -> None:
    shoal = Shoal(work)
    try:
        fixed.growth(bench, shoal, effort)
    finally:
        shoal.close()


if __name__ == "__main__":
    sys.exit(main())
