"""Kill a mesh at random moments, and see that nothing is lost, doubled or out of order.

    python -m tests.system.kills --count 30 --seed 1

A child runs the mesh; tuples arrive and queries are added, altered and dropped while it runs; it
is killed with SIGKILL, its JVM with it, and started again:

    in step      when files or dead letters of a step are written and the step is not committed:
                 the child is stopped again and again, looked at, and killed if that is so; what
                 was pushed last is sent again
    in command   up to 0.2 s after a command, which is not acknowledged
    after files  up to 0.2 s after tuples arrived, so mostly while they are read and answered
    anywhen      up to 4 s after it was ready

At the end a last mesh answers what is left, and the oracle judges every query, also those whose
command was never acknowledged.
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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from shoal.dataplane.rows import FOREVER
from shoal.log.segment import SegmentName
from tests.oracle.intervals import Witness, placed_rows
from tests.oracle.model import entries, newest, place_of
from tests.oracle.world import File, World, arrow_of
from tests.spark.setting import Setting
from tests.system.child import LATENESS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["KINDS", "Figures", "Killing", "judge"]

_REPOSITORY = Path(__file__).parents[2]
#: The kinds of lives, by how they end.
KINDS = ("in step", "in command", "after files", "anywhen")
#: Seconds that a child may take to start, or a command to be carried out.
PATIENCE = 180.0
#: Seconds that a step is waited for before more tuples are brought, and in all.
STEP_WITHIN = 1.0
STEP_PATIENCE = 900.0
_WHERES = (
    "kwh > 3.5", "kwh > 1", "meter = 7", "meter = 9", "zone = 3 AND kwh > 0", "flag IS NOT TRUE",
    "name IN ('alpha', '東京')", "price > 10", "TRUE",
)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Figures:
    """What happened."""

    kills: int = 0
    #: Kills after which a step had written files, or dead letters, and had not committed.
    in_step: int = 0
    #: Kills after which tuples were unread or commits unanswered.
    undone: int = 0
    unanswered: int = 0
    #: Pushed batches that were sent again because nobody had heard of the first time.
    resent: int = 0
    acknowledged: int = 0
    epochs: int = 0
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
        #: Batches that were not acknowledged; they are sent again, in this order.
        self.unsent: list[File] = []
        self._asked: dict[str, int] = {}
        #: Whose last command was not acknowledged: it may have been carried out, or not.
        self.unsure: dict[str, None] = {}
        self._rng = random.Random(seed)
        (folder / "in").mkdir(parents=True)
        self._tables = folder / "root" / "tables"
        self._source: Path | None = None
        self._witness: Witness | None = None

    @property
    def witness(self) -> Witness:
        """Who has seen all commands; there is one as soon as a child was ready."""
        assert self._witness is not None
        return self._witness

    def life(self, kind: str) -> None:
        """Start a child, keep it busy, kill it."""
        ends = {
            "in step": self._in_step,
            "in command": self._in_command,
            "after files": self._after_files,
            "anywhen": self._anywhen,
        }
        with self._child() as child:
            _expect(child, "ready")
            self._find_source()
            self.figures.resent += len(self.unsent)
            self._bring(child)
            ends[kind](child)
        self.figures.kills += 1
        self.figures.in_step += self._amid_a_step()
        self.figures.undone += self._amid_a_step() or self.behind()

    # How lives end

    def _in_step(self, child: "subprocess.Popen[str]") -> None:
        self._change(child, f"select {self._new_name()} TRUE")
        deadline = time.monotonic() + STEP_PATIENCE
        while time.monotonic() < deadline:
            last = self._bring(child)
            until = time.monotonic() + STEP_WITHIN
            while time.monotonic() < until:
                if self._stopped_amid_a_step(child):
                    # As if the answer to what was pushed last had been lost on its way.
                    self.unsent = [last] if last.pushed else []
                    return
                time.sleep(self._rng.uniform(0.0, 0.02))
        raise AssertionError("no step was met in time")

    def _in_command(self, child: "subprocess.Popen[str]") -> None:
        self._live(child, self._rng.uniform(0.0, 3.0))
        line = self._command()
        self._tell(child, line)
        self.unsure[line.split(" ")[1]] = None
        self.figures.unanswered += 1
        time.sleep(self._rng.uniform(0.0, 0.2))

    def _after_files(self, child: "subprocess.Popen[str]") -> None:
        self._live(child, self._rng.uniform(0.0, 3.0))
        made = self._drop()
        if self.unsent:
            _tell(child, self._pushing(made[0]))
        time.sleep(self._rng.uniform(0.0, 0.2))

    def _anywhen(self, child: "subprocess.Popen[str]") -> None:
        self._live(child, self._rng.uniform(0.0, 4.0))

    def _live(self, child: "subprocess.Popen[str]", seconds: float) -> None:
        """Change queries and bring tuples for so long."""
        self._bring(child)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._change(child, self._command())
            if self._rng.random() < 0.3:
                self._bring(child)

    # What the world does

    def _drop(self) -> list[File]:
        """More tuples; those to be pushed wait to be sent."""
        rows = self._rng.choice((1, 20, 60))
        made = self.world.drop(self.folder / "in", files=self._rng.randint(1, 4), rows=rows)
        self.unsent += [file for file in made if file.pushed]
        return made

    def _bring(self, child: "subprocess.Popen[str]") -> File:
        """More tuples, after those that were not acknowledged; the last of them."""
        made = self._drop()
        while self.unsent:
            line = self._pushing(self.unsent[0])
            _tell(child, line)
            _expect(child, f"done {line}")
            del self.unsent[0]
        return made[-1]

    def _pushing(self, file: File) -> str:
        path = self.folder / "in" / f"{file.split}-{file.sequence}.parquet"
        if not path.exists():
            pq.write_table(arrow_of([t for t in file.tuples if t is not None]), path)
        return f"push {file.split} {file.sequence} {path}"

    def _command(self) -> str:
        """A change that a user might ask for."""
        rng = self._rng
        alive = [n for n, version in self.promised.items() if version and n not in self.unsure]
        if len(alive) < 4 or rng.random() < 0.4:
            return f"select {self._new_name()} {rng.choice(_WHERES)}"
        name = rng.choice(alive)
        if rng.random() < 0.7:
            self._asked[name] += 1
            return f"alter {name} {rng.choice(_WHERES)}"
        return f"{rng.choice(('drop', 'now'))} {name}"

    def _new_name(self) -> str:
        name = f"q{len(self._asked)}"
        self._asked[name] = 1
        return name

    def _change(self, child: "subprocess.Popen[str]", line: str) -> None:
        """Give a command and wait until it is acknowledged."""
        word, name, *_ = line.split(" ")
        self._tell(child, line)
        _expect(child, f"done {line}")
        self.witness.has_answer([name])
        self.figures.acknowledged += 1
        self.promised[name] = 0 if word in ("drop", "now") else self._asked[name]

    def _tell(self, child: "subprocess.Popen[str]", line: str) -> None:
        word, name, *_ = line.split(" ")
        self.witness.asks("add" if word == "select" else word, [name])
        _tell(child, line)

    # What can be seen of the child

    def _find_source(self) -> None:
        """The stream has one table from its first start on."""
        if self._witness is None:
            (self._source,) = (path for path in self._tables.glob("w-*") if not path.suffix)
            self._witness = Witness(self.folder / "root", self._source.name)

    def _stopped_amid_a_step(self, child: "subprocess.Popen[str]") -> bool:
        """Stop it and look: a step is under way, and stays so; if none is, let it go on.

        Looking first would not do: a step is quicker than a look and a signal on a busy machine.
        """
        os.killpg(child.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED)
        if self._amid_a_step():
            return True
        os.killpg(child.pid, signal.SIGCONT)
        return False

    def _amid_a_step(self) -> bool:
        """Whether files of the present owner's next step are there, or its dead letters."""
        assert self._source is not None
        buried = newest(self._source.with_name(f"{self._source.name}.dead"), "of").get("of", 0)
        if buried > place_of(self._source)[1]:
            return True
        return any(self._has_uncommitted(table) for table in self._tables.iterdir())

    def _has_uncommitted(self, table: Path) -> bool:
        names = [SegmentName.parse(path.name) for path in table.rglob("e*-s*.parquet")]
        if not names:
            return False
        epoch, step = place_of(table)
        return SegmentName(epoch=epoch, step=step + 1) in names

    def behind(self) -> bool:
        """Whether tuples were there and not read, or commits and not answered."""
        assert self._source is not None
        sent = len(self.world.files) - len(self.unsent)
        if newest(self._source, "in/source").get("in/source", 0) < sent:
            return True
        key, head = f"in/{self._source.name}", self.witness.head
        rows = [one for some in placed_rows(self.folder / "root").values() for one in some]
        # What is cut is over: nobody runs a component for it.
        served = {one.instance for one in rows if one.row.cut == FOREVER}
        return any(newest(self._tables / name, key).get(key, 0) < head for name in served)

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
        killing.figures.resent += len(killing.unsent)
        setting.push(killing.unsent)
        killing.unsent.clear()
        setting.round(files=3, rows=20)
        assert not killing.behind(), "all that kills left undone has been done"
        setting.read_catalog()
        _check_promised(killing, setting.mesh.queries())
        setting.witness = killing.witness
        oracle = setting.check()
        setting.check_intervals(oracle)
        figures = killing.figures
        figures.epochs = len({entry.epoch for entry in entries(setting.table)})
        assert figures.epochs > 1, "several owners have committed steps of the source"
        assert figures.in_step > 0, "a kill has met a step before its commit"
        figures.queries = len(setting.texts)
        figures.rows = sum(setting.mesh.results(name, after=0).num_rows for name in setting.texts)
        figures.steps = {v.instance: v.step for v in setting.mesh.status().components}
        return figures


def _check_promised(killing: Killing, known: Sequence[str]) -> None:
    """What was acknowledged is so, unless somebody asked for another change and died."""
    rows = placed_rows(killing.folder / "root")
    for name, version in killing.promised.items():
        if name in killing.unsure:
            continue
        newest_row = rows[name][-1].row
        if version:
            assert name in known, f"Q1: {name} is lost"
            assert newest_row.version == version, f"Q1: {name} lost version {version}"
            assert newest_row.until == FOREVER, f"Q1: {name} has ended"
        else:
            assert name not in known, f"Q1: {name} was dropped and is there"
            assert newest_row.until < FOREVER, f"Q1: {name} was dropped and goes on"


def main() -> None:
    """Kill as often as asked, and print the figures."""
    from shoal.spark.session import build

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store-none", action="store_true")
    parser.add_argument("--format", default="json", choices=["json", "csv", "parquet", "push"])
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="shoal-kills-"))
    killing = Killing(folder, seed=asked.seed, store=not asked.store_none, kind=asked.format)
    for number in range(asked.count):
        killing.life(KINDS[number % len(KINDS)])
    session = build("local[2]", {"spark.driver.memory": "1g"})
    figures = judge(killing, session, store=not asked.store_none, kind=asked.format)
    sys.stdout.write(f"{figures}\n")
    session.stop()


if __name__ == "__main__":
    main()
