"""Many seeds: run a scenario again and again, say what failed and how to repeat it.

Not here   what one run is (`run.py`); how results are shown (`cli/sim.py`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from shoal.kernel.errors import UserError
from shoal.sim.runs.cast import Cast
from shoal.sim.runs.run import Outcome, run
from shoal.sim.runs.scenario import Scenario, read_file

__all__ = ["command", "outcomes", "probes_of", "scenario_files", "seeds_of"]


def seeds_of(text: str) -> range:
    """The seeds that a text means, the last included.

    >>> list(seeds_of("3..5")), list(seeds_of("7"))
    ([3, 4, 5], [7])
    """
    first, dots, last = text.partition("..")
    try:
        low = int(first)
        high = int(last) if dots else low
    except ValueError as error:
        raise UserError(f"seeds {text!r} cannot be read", hint="write 7 or 1..50") from error
    if not 0 <= low <= high:
        raise UserError(f"seeds {text!r} are none", hint="write the smaller first, such as 1..50")
    return range(low, high + 1)


def scenario_files(folder: Path) -> list[Path]:
    """The scenario files of a folder, by name."""
    return sorted(folder.glob("*.toml"))


def outcomes(
    files: Iterable[tuple[Path, int]], cast: Cast, *, validate_every: int = 16
) -> Iterator[tuple[Path, Outcome]]:
    """Run each file with its seed; a file is read once."""
    read: dict[Path, Scenario] = {}
    for path, seed in files:
        if path not in read:
            read[path] = read_file(path)
        outcome = run(read[path], seed, cast, validate_every=validate_every, name=path.stem)
        yield path, outcome


def command(path: str, seed: int) -> str:
    """The one command that repeats a run and shows what happened."""
    return f"shoal sim {path} --seed {seed} --trace"


def probes_of(results: Iterable[Outcome]) -> Counter[str]:
    """How often each thing happened, all runs together."""
    total: Counter[str] = Counter()
    for outcome in results:
        total.update(outcome.probes)
    return total
