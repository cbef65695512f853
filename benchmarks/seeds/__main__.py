"""Does any of 2,000 seeds break a promise?

Seed n plays scenario n modulo the number of scenarios, in the order of their names, with whole
peers and all checkers. The result has the digest of all runs together and the commit, so that
anybody can repeat it:

    python -m benchmarks.seeds --keep              seeds 1..2000; kept in results/seeds.json
    python -m benchmarks.seeds --seeds 2001..2500  other seeds
    python -m benchmarks.seeds --quick             seeds 1..32: a smoke run

What is too large for so many seeds (scenarios/large) is played with --large, and with --keep, with
three seeds each; their digests are kept one by one.

The last line is one line of JSON. Unlike other benchmarks this one fails if a run fails.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import columns, last_line, machine, write_rows
from shoal.sim.runs.cast import standard
from shoal.sim.runs.many import command, outcomes, scenario_files, seeds_of
from shoal.sim.runs.run import Outcome

ROOT = Path(__file__).parents[2]
SCENARIOS = ROOT / "scenarios"
LARGE = SCENARIOS / "large"
RESULT = Path(__file__).parents[1] / "results" / "seeds.json"
SEEDS = "1..2000"
QUICK = "1..32"
LARGE_SEEDS = "1..3"


def jobs(seeds: Sequence[int], files: Sequence[Path]) -> list[tuple[Path, int]]:
    """Which scenario each seed plays."""
    return [(files[seed % len(files)], seed) for seed in seeds]


class Tally:
    """What all runs came to."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.failures: list[dict[str, Any]] = []
        self.probes: Counter[str] = Counter()
        self._digest = hashlib.sha256()
        self.events = 0

    def add(self, path: Path, outcome: Outcome, wall_s: float) -> None:
        self._digest.update(f"{outcome.scenario} {outcome.seed} {outcome.digest}\n".encode())
        self.events += outcome.events
        self.probes.update(outcome.probes)
        row = {"scenario": outcome.scenario, "seed": outcome.seed, "ok": outcome.ok}
        row |= {"events": outcome.events, "messages": outcome.messages, "peers": outcome.peers}
        self.rows.append({**row, "digest": outcome.digest, "wall_s": round(wall_s, 3)})
        if outcome.failure is not None:
            self.failures.append(
                {
                    "scenario": outcome.scenario,
                    "seed": outcome.seed,
                    "at_s": round(outcome.failure.at_s, 3),
                    "who": outcome.failure.who,
                    "what": outcome.failure.what.partition("\n")[0],
                    "repeat": command(str(path.relative_to(ROOT)), outcome.seed),
                }
            )

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    def result(self, large: "Tally", *, seeds: str, wall_s: float) -> dict[str, Any]:
        """All of it, as it is kept; the large runs one by one, beside the figures of the others."""
        scenarios = sorted({row["scenario"] for row in self.rows})
        return {
            "benchmark": "seeds",
            "seeds": seeds,
            "large": large.rows,
            "commit": _git("rev-parse", "HEAD"),
            "changed": _git("status", "--porcelain", "--", "src", "scenarios").splitlines(),
            "digest": self.digest,
            "keys": {
                "runs": len(self.rows),
                "failed": len(self.failures),
                "large_runs": len(large.rows),
                "large_failed": len(large.failures),
                "scenarios": len(scenarios),
                "events": self.events,
                "events_per_s": round(self.events / wall_s),
                "wall_s": round(wall_s, 1),
            },
            "failures": [*self.failures, *large.failures],
            "probes": dict(sorted(self.probes.items())),
            "machine": machine(),
        }


def timed(chosen: Sequence[tuple[Path, int]]) -> Iterator[tuple[Path, Outcome, float]]:
    """Runs with the seconds each took."""
    last = time.perf_counter()
    for path, outcome in outcomes(chosen, standard()):
        now = time.perf_counter()
        yield path, outcome, now - last
        last = now


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line for each scenario."""
    lines = [("scenario", "runs", "failed", "events a run", "events a second")]
    for name in sorted({row["scenario"] for row in rows}):
        own = [row for row in rows if row["scenario"] == name]
        events = sum(row["events"] for row in own)
        wall_s = sum(row["wall_s"] for row in own)
        failed = sum(not row["ok"] for row in own)
        rate = f"{events / wall_s:.0f}" if wall_s else "-"
        lines.append((name, str(len(own)), str(failed), f"{events // len(own)}", rate))
    return columns(lines)


def play(chosen: Sequence[tuple[Path, int]], *, say_every: int) -> Tally:
    """All of these; a failure is said at once, and how far it is after so many."""
    tally = Tally()
    for path, outcome, wall_s in timed(chosen):
        tally.add(path, outcome, wall_s)
        if not outcome.ok:
            failure = tally.failures[-1]
            print(f"  FAILED {failure['scenario']} seed {failure['seed']}: {failure['what']}")
            print(f"    {failure['repeat']}", flush=True)
        elif len(tally.rows) % say_every == 0:
            print(f"  {len(tally.rows)} runs, {len(tally.failures)} failed", flush=True)
    return tally


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What the command line asked for."""
    parser = argparse.ArgumentParser(prog="benchmarks.seeds", description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", default=SEEDS, help="which: 1..2000")
    parser.add_argument("--quick", action="store_true", help=f"a smoke run: {QUICK}")
    parser.add_argument("--large", action="store_true", help="the large scenarios too")
    parser.add_argument("--keep", action="store_true", help="keep the result; implies --large")
    parser.add_argument("--raw", type=Path, help="write every run to this CSV file")
    options = parser.parse_args(arguments)
    if options.keep and options.quick:
        parser.error("a quick run cannot be kept: leave out --keep")
    return options


def main(
    arguments: Sequence[str] | None = None, *, large: Path = LARGE, result: Path = RESULT
) -> int:
    """Run, say, keep."""
    options = options_of(arguments)
    seeds = QUICK if options.quick else options.seeds
    print(f"seeds: does any of {seeds} break a promise?", flush=True)
    began = time.perf_counter()
    tally = play(jobs(seeds_of(seeds), scenario_files(SCENARIOS)), say_every=100)
    wall_s = time.perf_counter() - began
    pairs = [(path, seed) for path in scenario_files(large) for seed in seeds_of(LARGE_SEEDS)]
    if pairs and (options.large or options.keep):
        print(f"and seeds {LARGE_SEEDS} of the large scenarios?", flush=True)
    more = play(pairs if options.large or options.keep else [], say_every=1)
    found = tally.result(more, seeds=seeds, wall_s=wall_s)
    rows = [*tally.rows, *more.rows]
    print(table(rows))
    if options.raw is not None:
        write_rows(options.raw, rows)
    if options.keep:
        result.parent.mkdir(parents=True, exist_ok=True)
        result.write_text(json.dumps(found, indent=2, sort_keys=True) + "\n")
        print(f"kept in {result}")
    print(last_line(found))
    return 1 if found["failures"] else 0


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.rstrip("\n") if done.returncode == 0 else ""


if __name__ == "__main__":
    sys.exit(main())
