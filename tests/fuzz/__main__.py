"""The long form of the fuzzers; `make test` has a short one (tests/fuzz/test_fuzz.py).

    python -m tests.fuzz wire --inputs 1000000 --seed 1
    python -m tests.fuzz peer --inputs 300000 --seed 1

A defect ends the run with the number of the input; the same seed gets there again.
"""

import argparse
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable

from tests.fuzz.peer import PeerFuzzer
from tests.fuzz.wire import WireFuzzer


def main() -> int:
    """Run so many inputs; 0 if nothing but what is allowed came out."""
    parser = argparse.ArgumentParser(description="hostile bytes and hostile messages")
    parser.add_argument("what", choices=("wire", "peer"))
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    step, counts = _fuzzer(asked.what, asked.seed)
    began, memory = time.perf_counter(), _memory_kb()
    for number in range(asked.inputs):
        try:
            step()
        except Exception:
            print(f"input {number} of seed {asked.seed}", file=sys.stderr)
            raise
    wall, grown = time.perf_counter() - began, _memory_kb() - memory
    shown = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    print(f"{asked.inputs} inputs in {wall:.1f} s: {shown}; memory grew by {grown} kB")
    return 0


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
