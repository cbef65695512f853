"""Kill a deliver process at a chosen call, serve on with the next, and compare sinks with results.

    python -m tests.unit.spark.deliver.crash --kills 100 --seed 1     many kills, one line of JSON

Every call that changes files, and every point of the Delta sink, counts: the process kills itself
with SIGKILL just before the n-th of them.
"""

import argparse
import functools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.unit.spark.deliver.world import World, content, four_sinks

CALLS = ("open", "fsync", "link", "unlink", "replace", "mkdir", "pwrite")
ROOT = Path(__file__).resolve().parents[4]
#: Calls that one life makes before it is through, roughly; points are drawn below this.
POINTS = 200


def arm(point: int) -> None:
    """Die before the n-th call from now on."""
    count = 0

    def hit(*_: Any) -> None:
        nonlocal count
        count += 1
        if count == point:
            os.kill(os.getpid(), signal.SIGKILL)

    def deadly(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            hit()
            return call(*args, **kwargs)

        return wrapped

    for name in CALLS:
        setattr(os, name, deadly(getattr(os, name)))
    from shoal.spark.deliver.sinks import opened

    traced: Any = functools.partial(opened.SinkTable, trace=hit)
    opened.SinkTable = traced  # type: ignore[misc]


def live(folder: Path, point: int) -> None:
    """One life: deliver everything, or die on the way."""
    arm(point)
    world = World(folder / "root")
    world.add(four_sinks(folder))
    world.serve()
    world.close()


def kill_once(folder: Path, point: int) -> bool:
    """Run a life until it dies at this point; whether it did."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.spark.deliver.crash", str(folder), str(point)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0


def run(folder: Path, *, kills: int, rng: random.Random) -> int:
    """Kill one process after the other; what the sinks hold is right as far as it goes."""
    sinks = four_sinks(folder)
    world = World(folder / "root")
    world.commit([], rows=0)
    world.add(sinks)
    world.close()
    died = 0
    for life in range(kills):
        for _ in range(rng.randrange(1, 4)):
            world.commit([q for q in sinks if rng.random() < 0.8], rows=rng.randrange(1, 5))
        died += kill_once(folder, rng.randrange(1, POINTS))
        check(world, folder, whole=False, life=life)
    world.add(sinks)
    world.serve()
    check(world, folder, whole=True, life=kills)
    world.close()
    return died


def check(world: World, folder: Path, *, whole: bool, life: int) -> None:
    """L2, O1: every sink holds a beginning of its query's results, in the end all of them."""
    for query, sink in four_sinks(folder).items():
        rows = world.expected(query)
        if sink.kind == "jsonl" and not whole:
            continue  # the last line may be torn until the step is repeated
        found = content(sink)
        assert found == rows[: len(found)], (life, query)
        assert not whole or len(found) == len(rows), (life, query, len(found), len(rows))


def main() -> None:
    """Either one life, or many kills and a summary."""
    if len(sys.argv) == 3 and not sys.argv[1].startswith("-"):
        live(Path(sys.argv[1]), int(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        died = run(Path(folder), kills=options.kills, rng=random.Random(options.seed))
    summary = {"kills": options.kills, "died": died, "seed": options.seed, "violations": 0}
    sys.stdout.write(json.dumps(summary) + "\n")


if __name__ == "__main__":
    main()
