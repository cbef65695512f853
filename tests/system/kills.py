"""Kill a mesh at random moments, and see that nothing is lost, doubled or out of order.

    python -m tests.system.kills --count 30 --seed 1

A child runs the mesh; files appear and queries are added, altered and dropped while it runs; it is
killed with SIGKILL, its JVM with it, and started again. At the end a last mesh answers what is
left, and the oracle judges every query, also those whose command was never acknowledged.
"""

import argparse
import contextlib
import os
import random
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.oracle.world import World
from tests.spark.setting import Setting
from tests.system.child import LATENESS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Figures", "Killing", "judge"]

_REPOSITORY = Path(__file__).parents[2]
#: Seconds that a child may take to start, or a command to be carried out.
PATIENCE = 180.0
_WHERES = (
    "kwh > 3.5", "kwh > 1", "meter = 7", "meter = 9", "zone = 3 AND kwh > 0", "flag IS NOT TRUE",
    "name IN ('alpha', '東京')", "price > 10", "TRUE",
)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Figures:
    """What happened."""

    kills: int = 0
    in_command: int = 0
    acknowledged: int = 0
    rows: int = 0
    queries: int = 0
    steps: dict[str, int] = field(default_factory=dict)


class Killing:
    """A root, a world that goes on, and the child of the moment."""

    def __init__(self, folder: Path, *, seed: int, store: bool, kind: str = "json") -> None:
        self.folder, self._store, self._kind = folder, store, kind
        self.world = World(seed, format=kind)
        self.figures = Figures()
        #: What was acknowledged: the version each query must have, or 0 once it is dropped.
        self.promised: dict[str, int] = {}
        self._asked: dict[str, int] = {}
        #: Whose last command was not acknowledged: it may have been carried out, or not.
        self._unsure: dict[str, None] = {}
        self._rng = random.Random(seed)
        (folder / "in").mkdir(parents=True)

    def life(self) -> None:
        """Start a child, keep it busy, kill it."""
        with self._child() as child:
            _expect(child, "ready")
            self._drop()
            wanted = self._rng.random()
            until = time.monotonic() + self._rng.uniform(0.0, 4.0)
            while time.monotonic() < until:
                line = self._command()
                _tell(child, line)
                if wanted < 0.4 and until - time.monotonic() < 1.0:
                    time.sleep(self._rng.uniform(0.0, 0.2))
                    self.figures.in_command += 1
                    self._unsure[line.split(" ")[1]] = None
                    break
                _expect(child, f"done {line}")
                self._acknowledged(line)
                if self._rng.random() < 0.3:
                    self._drop()
        self.figures.kills += 1

    def _drop(self) -> None:
        rows = self._rng.choice((1, 20, 60))
        self.world.drop(self.folder / "in", files=self._rng.randint(1, 4), rows=rows)

    def _command(self) -> str:
        """A change that a user might ask for."""
        rng = self._rng
        alive = [n for n, version in self.promised.items() if version and n not in self._unsure]
        if len(alive) < 4 or rng.random() < 0.4:
            name = f"q{len(self._asked)}"
            self._asked[name] = 1
            return f"select {name} {rng.choice(_WHERES)}"
        name = rng.choice(alive)
        if rng.random() < 0.7:
            self._asked[name] += 1
            return f"alter {name} {rng.choice(_WHERES)}"
        return f"{rng.choice(('drop', 'now'))} {name}"

    def _acknowledged(self, line: str) -> None:
        word, name, *_ = line.split(" ")
        self.figures.acknowledged += 1
        self.promised[name] = 0 if word in ("drop", "now") else self._asked[name]

    @contextlib.contextmanager
    def _child(self) -> Iterator["subprocess.Popen[str]"]:
        with (self.folder / "child.log").open("a") as log:
            child = subprocess.Popen(
                [
                    sys.executable, "-m", "tests.system.child", str(self.folder / "root"),
                    str(self.folder / "in"), self._kind, "8", str(self._store),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=_REPOSITORY,
                env=os.environ | {"PYTHONPATH": f"{_REPOSITORY}{os.pathsep}{_REPOSITORY}/src"},
                start_new_session=True,
            )  # fmt: skip
            try:
                yield child
            finally:
                _kill(child)


def _kill(child: "subprocess.Popen[str]") -> None:
    """With its JVM, which is of the same group."""
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    for pipe in (child.stdin, child.stdout):
        with contextlib.suppress(BrokenPipeError):
            pipe.close()  # type: ignore[union-attr]


def _tell(child: "subprocess.Popen[str]", line: str) -> None:
    assert child.stdin is not None
    child.stdin.write(line + "\n")
    child.stdin.flush()


def _expect(child: "subprocess.Popen[str]", wanted: str) -> None:
    """Wait for this line; the child must be well until then."""
    assert child.stdout is not None
    with selectors.DefaultSelector() as ready:
        ready.register(child.stdout, selectors.EVENT_READ)
        assert ready.select(PATIENCE), f"no {wanted!r} from the child in time; see child.log"
    line = child.stdout.readline().strip()
    assert line == wanted, f"the child said {line!r} instead of {wanted!r}; see child.log"


def judge(killing: Killing, spark: "SparkSession", *, store: bool, kind: str) -> Figures:
    """Open the root once more, drain it, and hold every query to its promises."""
    with Setting(
        killing.folder,
        spark,
        seed=0,
        format=kind,
        store=store,
        lateness=LATENESS,
        world=killing.world,
    ) as setting:
        setting.drain()
        setting.read_catalog()
        known = setting.mesh.queries()
        for name, version in killing.promised.items():
            assert max(setting.texts[name]) >= version, f"Q1: {name} lost version {version}"
            assert (name in known) or not version or killing._asked[name] >= version
        oracle = setting.check()
        setting.check_intervals(oracle)
        figures = killing.figures
        figures.queries = len(setting.texts)
        figures.rows = sum(setting.mesh.results(name, after=0).num_rows for name in setting.texts)
        figures.steps = {v.instance: v.step for v in setting.mesh.status().components}
        return figures


def main() -> None:
    """Kill as often as asked, and print the figures."""
    from shoal.spark.session import build

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store-none", action="store_true")
    parser.add_argument("--format", default="json")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="shoal-kills-"))
    killing = Killing(folder, seed=asked.seed, store=not asked.store_none, kind=asked.format)
    for _ in range(asked.count):
        killing.life()
    session = build("local[2]", {"spark.driver.memory": "1g"})
    figures = judge(killing, session, store=not asked.store_none, kind=asked.format)
    sys.stdout.write(f"{figures}\n")
    session.stop()


if __name__ == "__main__":
    main()
