"""Does any of 2,000 seeds break a promise?

Seed n plays scenario n modulo the number of scenarios, in the order of their names, with whole
peers and all checkers. The result has the digest of all runs together and the commit, so that
anybody can repeat it:

    python -m benchmarks.seeds --keep              seeds 1..2000; kept in results/seeds.json
    python -m benchmarks.seeds --seeds 2001..2500  other seeds
    python -m benchmarks.seeds --quick             seeds 1..32: a smoke run

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

from benchmarks.harness import columns, machine, write_rows
from shoal.sim.runs.cast import standard
from shoal.sim.runs.many import command, outcomes, scenario_files, seeds_of
from shoal.sim.runs.run import Outcome

ROOT = Path(__file__).parents[2]
SCENARIOS = ROOT / "scenarios"
RESULT = Path(__file__).parents[1] / "results" / "seeds.json"
SEEDS = "1..2000"
QUICK = "1..32"


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

    def result(self, *, seeds: str, wall_s: float) -> dict[str, Any]:
        """All of it, as it is kept."""
        scenarios = sorted({row["scenario"] for row in self.rows})
        return {
            "benchmark": "seeds",
            "seeds": seeds,
            "commit": _git("rev-parse", "HEAD"),
            "changed": _git("status", "--porcelain", "--", "src", "scenarios").splitlines(),
            "digest": self.digest,
            "keys": {
                "runs": len(self.rows),
                "failed": len(self.failures),
                "scenarios": len(scenarios),
                "events": self.events,
                "events_per_s": round(self.events / wall_s),
                "wall_s": round(wall_s, 1),
            },
            "failures": self.failures,
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, say, keep."""
    parser = argparse.ArgumentParser(prog="benchmarks.seeds", description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", default=SEEDS, help="which: 1..2000")
    parser.add_argument("--quick", action="store_true", help=f"a smoke run: {QUICK}")
    parser.add_argument("--keep", action="store_true", help="keep the result")
    parser.add_argument("--raw", type=Path, help="write every run to this CSV file")
    options = parser.parse_args(arguments)
    if options.keep and options.quick:
        parser.error("a quick run cannot be kept: leave out --keep")
    seeds = QUICK if options.quick else options.seeds
    print(f"seeds: does any of {seeds} break a promise?", flush=True)
    tally = Tally()
    began = time.perf_counter()
    for path, outcome, wall_s in timed(jobs(seeds_of(seeds), scenario_files(SCENARIOS))):
        tally.add(path, outcome, wall_s)
        if not outcome.ok:
            failure = tally.failures[-1]
            print(f"  FAILED {failure['scenario']} seed {failure['seed']}: {failure['what']}")
            print(f"    {failure['repeat']}", flush=True)
        elif len(tally.rows) % 100 == 0:
            print(f"  {len(tally.rows)} runs, {len(tally.failures)} failed", flush=True)
    result = tally.result(seeds=seeds, wall_s=time.perf_counter() - began)
    print(table(tally.rows))
    if options.raw is not None:
        write_rows(options.raw, tally.rows)
    if options.keep:
        RESULT.parent.mkdir(parents=True, exist_ok=True)
        RESULT.write_text(json.dumps(result, indent=2, sort_keys=True) + "\n")
        print(f"kept in {RESULT.relative_to(ROOT)}")
    print(json.dumps(result, sort_keys=True))
    return 1 if tally.failures else 0


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.rstrip("\n") if done.returncode == 0 else ""


if __name__ == "__main__":
    sys.exit(main())
