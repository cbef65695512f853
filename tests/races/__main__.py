"""`python -m tests.races --count 1000 --seed 7`: many races and crashes, one line of JSON.

Runs batches until the count is reached and ends with status 1 if any promise was broken.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.races.rounds import Tally, run

BATCH = 100


def main() -> int:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(prog="python -m tests.races", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="races and crashes at least")
    parser.add_argument("--seed", type=int, default=1, help="of the first batch")
    chosen = parser.parse_args()
    total = Tally(seed=chosen.seed)
    batch = 0
    while total.races + total.crashes < chosen.count:
        with tempfile.TemporaryDirectory(prefix="shoal-races-") as folder:
            seed = chosen.seed + batch
            tally = run(Path(folder), seed=seed, pauses=40, crashes=25, moments=15, crowd=20)
        add(total, tally)
        batch += 1
        print(tally.line(), file=sys.stderr, flush=True)
    print(total.line())
    return 1 if total.violations else 0


def add(total: Tally, tally: Tally) -> None:
    """Sum up."""
    for name in (
        "races",
        "crashes",
        "moments",
        "nameless",
        "fenced",
        "commits",
        "take_overs",
        "compactions",
    ):
        setattr(total, name, getattr(total, name) + getattr(tally, name))
    total.rows_read += tally.rows_read
    total.seconds = round(total.seconds + tally.seconds, 1)
    for point, count in tally.points.items():
        total.points[point] = total.points.get(point, 0) + count
    for promise, details in tally.violations.items():
        total.violations.setdefault(promise, []).extend(f"seed {tally.seed}: {d}" for d in details)


if __name__ == "__main__":
    sys.exit(main())
