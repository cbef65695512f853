"""Write docs/track-record.md: what the simulator has found, and what it looked at.

    python tools/track_record.py            write the page
    python tools/track_record.py --check    say whether it is stale; 1 if it is

It is made from tests/sim/regressions/*.toml, one file for each defect that a run has found, and
from benchmarks/results/seeds.json. A regression file is a small scenario with a table of its own:

    [found]
    what = "a peer whose successors were wiped never found its way back"
    promise = "R2"
    by = "wiped, seed 2"
    on = "2026-11-19"
    introduced = "14ced06"
    reproduces = "32081f8"
    fixed = "c373abd"
    seeds = "1..5"

`introduced` and `reproduces` are the first and the last commit that have the defect, as far as it
was tried; `fixed` is the first without it. The test plays the scenario with these seeds.
"""

import argparse
import json
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["FIELDS", "main", "page", "regressions"]

ROOT = Path(__file__).parents[1]
REGRESSIONS = ROOT / "tests" / "sim" / "regressions"
RESULT = ROOT / "benchmarks" / "results" / "seeds.json"
PAGE = ROOT / "docs" / "track-record.md"
FIELDS = ("what", "promise", "by", "on", "introduced", "reproduces", "fixed", "seeds")

_HEAD = """\
# The track record: defects that the simulator has found

Made by `tools/track_record.py` from `tests/sim/regressions` and `benchmarks/results/seeds.json`;
do not edit. How to repeat a run: [simulator.md](simulator.md).

Every line was a defect in code that its author took to be right. It was found by a run, made small,
and is played again in every `make test`. *Seen from* is the commit that brought it, *still in* the
last one that it was repeated on, *gone with* the one that mended it.

"""


def regressions(folder: Path = REGRESSIONS) -> list[tuple[str, dict[str, str]]]:
    """Name and description of each regression, by date and name."""
    found = []
    for path in sorted(folder.glob("*.toml")):
        about = tomllib.loads(path.read_text(encoding="utf-8")).get("found", {})
        missing = [name for name in FIELDS if not about.get(name)]
        if missing:
            raise SystemExit(f"{path.name}: [found] has no {', '.join(missing)}")
        found.append((path.name, about))
    return sorted(found, key=lambda one: (one[1]["on"], one[0]))


def page(found: Sequence[tuple[str, dict[str, str]]], seeds: dict[str, Any] | None) -> str:
    """The text of the page."""
    lines = ["| found | what | promise | by | seen from | still in | gone with | regression |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for name, about in found:
        link = f"[{name}](../tests/sim/regressions/{name})"
        cells = [about[key] for key in FIELDS[:-1]]
        what, promise, by, on, *commits = cells
        lines.append(f"| {' | '.join([on, what, promise, by, *commits, link])} |")
    return _HEAD + "\n".join(lines) + "\n" + _looked_at(seeds)


def _looked_at(seeds: dict[str, Any] | None) -> str:
    if seeds is None:
        return ""
    keys = seeds["keys"]
    lines = [
        "",
        "## What was looked at",
        "",
        f"Seeds {seeds['seeds']} over {keys['scenarios']} scenarios: {keys['runs']:,} runs, "
        f"{keys['events']:,} events, {keys['failed']} failed.",
        f"Commit `{seeds['commit'][:12]}`, digest of all runs `{seeds['digest'][:16]}`. "
        "From `benchmarks/results/seeds.json`.",
        *_large(seeds.get("large", ())),
        "",
        "What really happened in these runs:",
        "",
        "| what | times |",
        "|---|---|",
    ]
    lines += [f"| {name} | {count:,} |" for name, count in seeds["probes"].items()]
    return "\n".join(lines) + "\n"


def _large(rows: Sequence[dict[str, Any]]) -> list[str]:
    if not rows:
        return []
    names = ", ".join(dict.fromkeys(row["scenario"] for row in rows))
    failed = sum(not row["ok"] for row in rows)
    return [f"Beside them {names}, too large for so many: {len(rows)} runs, {failed} failed."]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description="Write docs/track-record.md.")
    parser.add_argument("--check", action="store_true", help="only say whether it is stale")
    options = parser.parse_args(arguments)
    seeds = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else None
    text = page(regressions(), seeds)
    if options.check:
        stale = not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text
        if stale:
            print("docs/track-record.md is stale: python tools/track_record.py")
        return int(stale)
    PAGE.write_text(text, encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
