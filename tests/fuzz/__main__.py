"""The long form of the fuzzers; `make test` has a short one (tests/fuzz/test_fuzz.py).

    python -m tests.fuzz wire --inputs 1000000 --seed 1 --keep
    python -m tests.fuzz peer --inputs 1000000 --seed 1 --keep

A defect ends the run with the number of the input; the same seed gets there again. So does memory
that grows beyond `GROWN_KB_MAX`, however many inputs there are. `--keep` writes what came out, with
the commit, to benchmarks/results/fuzz_<what>.json.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.peer import PeerFuzzer
from tests.fuzz.wire import WireFuzzer

ROOT = Path(__file__).parents[2]
#: How much the process may grow while it runs, at its peak. A frame has at most 1 MiB, and what is
#: made of it takes at most 32 times that (`wire/codec.py`); the rest is room for what four peers
#: remember within their own bounds. Measured with 300,000 inputs: 7 MB and 3 MB.
GROWN_KB_MAX = 48 << 10
#: How often the growth is looked at.
_LOOK_EVERY = 1_000
RESULTS = ROOT / "benchmarks" / "results"


def main() -> int:
    """Run so many inputs; 0 if nothing but what is allowed came out, 1 if memory grew too much."""
    parser = argparse.ArgumentParser(description="hostile bytes and hostile messages")
    parser.add_argument("what", choices=("wire", "peer"))
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep what came out")
    asked = parser.parse_args()
    step, counts = _fuzzer(asked.what, asked.seed)
    began, memory = time.perf_counter(), _memory_kb()
    number = -1
    for number in range(asked.inputs):
        try:
            step()
        except Exception:
            print(f"input {number} of seed {asked.seed}", file=sys.stderr)
            raise
        if number % _LOOK_EVERY == 0 and _memory_kb() - memory > GROWN_KB_MAX:
            break
    wall, grown = time.perf_counter() - began, _memory_kb() - memory
    shown = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    print(f"{number + 1} inputs in {wall:.1f} s: {shown}; memory grew by {grown} kB")
    if grown > GROWN_KB_MAX:
        print(f"memory may grow by {GROWN_KB_MAX} kB", file=sys.stderr)
        return 1
    if asked.keep:
        _keep(asked, counts, wall_s=wall, grown_kb=grown)
    return 0


def _keep(asked: argparse.Namespace, counts: Counter[str], *, wall_s: float, grown_kb: int) -> None:
    """Everything that is needed to do it again, and what to compare with."""
    result = {
        "fuzz": asked.what,
        "inputs": asked.inputs,
        "seed": asked.seed,
        "commit": _git("rev-parse", "HEAD"),
        "changed": _git("status", "--porcelain", "--", "src", "tests/fuzz").splitlines(),
        "counts": dict(sorted(counts.items())),
        "memory_grown_kb": grown_kb,
        "wall_s": round(wall_s, 1),
    }
    path = RESULTS / f"fuzz_{asked.what}.json"
    path.write_text(json.dumps(result, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    print(f"kept in {path.relative_to(ROOT)}")


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.rstrip("\n")


def _fuzzer(what: str, seed: int) -> tuple[Callable[[], object], Counter[str]]:
    if what == "peer":
        peer = PeerFuzzer(seed)
        return peer.step, peer.counts
    wire = WireFuzzer(seed)
    return lambda: wire.validate(wire.input()), wire.counts


def _memory_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    sys.exit(main())
