"""Kill a process at a chosen call into the file system, and check what it leaves behind.

    python -m tests.unit.log.crash --kills 60 --seed 1      many kills, one line of JSON

Every call that changes or lists files is a point: the process kills itself with SIGKILL just
before the n-th of them. What it acknowledged before is on its standard output.
"""

import argparse
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

CALLS = ("open", "fsync", "link", "unlink", "replace", "mkdir", "listdir")
ROOT = Path(__file__).resolve().parents[3]
#: Calls that one life of a worker makes at least; points are drawn below this.
POINTS = {"numbered": 160, "spool": 160}


def arm(point: int) -> None:
    """Die before the n-th call from now on."""
    count = 0

    def deadly(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            if count == point:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **kwargs)

        return wrapped

    for name in CALLS:
        setattr(os, name, deadly(getattr(os, name)))


def _say(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def numbered(folder: Path, life: int, point: int) -> None:
    """Append numbers that run on, acknowledge each, condense often."""
    from shoal.log.numbered import NumberedLog

    arm(point)
    log = NumberedLog(folder)
    values = folded(log.claim(life).entries)
    while True:
        value = len(values)
        log.append([value])
        values.append(value)
        _say(value)
        if value % 4 == 3:
            log.snapshot([values])


def folded(entries: tuple[Any, ...]) -> list[int]:
    """The numbers behind these entries; a list stands for all before it."""
    values: list[int] = []
    for entry in entries:
        values = list(entry) if isinstance(entry, list) else [*values, entry]
    return values


def spool(folder: Path, life: int, point: int) -> None:
    """Push batches that run on, acknowledge each, release often, sometimes repeat one."""
    import pyarrow as pa

    from shoal.log.spool import Spool

    arm(point)
    store = Spool(folder, bytes_max=1 << 30)
    while True:
        last = store.last("c")
        value = 0 if last is None else last + 1
        position = store.append("c", value, pa.table({"n": [value]}))
        assert store.append("c", value, pa.table({"n": [-1]})) == position
        _say(value)
        if value % 4 == 3:
            store.release(position - 2, now=life, forget_after=1 << 60)


def kill_once(kind: str, folder: Path, life: int, point: int) -> list[int]:
    """Run a worker until it dies at this point; returns what it acknowledged."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.log.crash", kind, str(folder), str(life), str(point)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    return [int(line) for line in done.stdout.split()]


def check_numbered(folder: Path, acknowledged: int) -> None:
    """L1, L4: every value is there once and in order, as far as acknowledged or further."""
    from shoal.log.numbered import NumberedLog

    values = folded(NumberedLog(folder).read(0).entries)
    assert values == list(range(len(values)))
    assert len(values) > acknowledged


def check_spool(folder: Path, acknowledged: int) -> None:
    """L1, L2: every batch is there once, or was released; batch n is at position n + 1."""
    from shoal.log.spool import Spool

    store = Spool(folder, bytes_max=1 << 30)
    entries = store.entries(store.released, store.head)
    assert [entry.position for entry in entries] == list(range(store.released + 1, store.head + 1))
    assert [entry.sequence for entry in entries] == list(range(store.released, store.head))
    for entry in entries:
        assert store.read(entry).to_pydict() == {"n": [entry.sequence]}
    last = store.last("c")
    assert acknowledged <= (-1 if last is None else last)


CHECKS = {"numbered": check_numbered, "spool": check_spool}


def run(kind: str, folder: Path, *, kills: int, rng: random.Random) -> int:
    """Kill one worker after the other on the same folder; returns the last acknowledged value."""
    acknowledged = -1
    for life in range(1, kills + 1):
        values = kill_once(kind, folder, life, rng.randrange(1, POINTS[kind]))
        assert values == sorted(values)
        acknowledged = max([acknowledged, *values])
        CHECKS[kind](folder, acknowledged)
    return acknowledged


def main() -> None:
    """Either one worker that dies, or many kills and a summary."""
    if len(sys.argv) == 5 and sys.argv[1] in CHECKS:
        kind, folder, life, point = sys.argv[1:]
        {"numbered": numbered, "spool": spool}[kind](Path(folder), int(life), int(point))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    summary: dict[str, int] = {"kills": options.kills, "seed": options.seed}
    for kind in CHECKS:
        with tempfile.TemporaryDirectory() as folder:
            rng = random.Random(options.seed)
            summary[kind] = run(kind, Path(folder) / kind, kills=options.kills, rng=rng)
    sys.stdout.write(json.dumps(summary) + "\n")


if __name__ == "__main__":
    main()
