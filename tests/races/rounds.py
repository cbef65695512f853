"""Races and crashes of real processes over one instance, as many as asked, from one seed.

    pause   an owner stops itself (SIGSTOP) at a named point; another takes over, commits, trims,
            compacts; the first is woken and must be fenced, or have been done before
    stale   an owner that was fenced out while idle tries to commit; one repeats a step
    crash   an owner dies (SIGKILL) at a named point; another goes on
    moment  an owner dies inside the library's commit: up to 9 ms after it began to append, or
            while it writes the file that is to be the entry, before that has its name
    crowd   four owners take over from each other while a fifth hand stops and wakes them

A reader that was opened before each round reads on after it, from wherever it lagged. At the end
the checker judges the table from outside, and `validate` does so from inside. Which process is
where when is up to the machine; what is asked of it comes from the seed.
"""

import contextlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from shoal.log.reader import Reader
from shoal.log.root import Root
from shoal.log.validate import validate
from tests.races.checker import Findings, Row, check
from tests.races.steps import INSTANCE, create, read_all

__all__ = ["COMMIT_POINTS", "CRASHES", "UPKEEP_POINTS", "Tally", "run"]

REPOSITORY = Path(__file__).parents[2]
#: Where an owner can stop or die between its first file and the end of its commit, ...
COMMIT_POINTS = (
    "segment 0 written",
    "segment 1 written",
    "files written",
    "folders synced",
    "appending",
    "appended",
    "refreshed",
    "entry synced",
    "log synced",
)
#: ... in the housekeeping after it, and in a take-over.
UPKEEP_POINTS = ("merged", "checkpointed", "trimmed")
TAKE_POINTS = ("taking over", "appending", "appended", "refreshed", "log synced", "taken over")
#: Every place where an owner can die: the order that it carries out, and the point.
CRASHES = (
    *(("commit", point) for point in (*COMMIT_POINTS, *UPKEEP_POINTS)),
    *(("take", point) for point in TAKE_POINTS),
)
#: What an owner appends when it dies at some moment, and what makes it one: the time is up, ...
MOMENTS = (("commit", "time"), ("commit", "byte"), ("take", "time"), ("take", "byte"))
#: ... at most so many microseconds after it began, ...
MOMENT_US = 9_000
#: ... or this byte of the entry is written; every entry has more.
MOMENT_BYTES = 300
Place = TypeVar("Place", str, tuple[str, str])
#: The longest that anything here may take on a busy machine before it counts as hanging.
PATIENCE_S = 120.0


@dataclass(slots=True, kw_only=True)
class Tally:
    """What a run did and what was found."""

    seed: int
    races: int = 0
    crashes: int = 0
    #: Of the crashes, those at some moment; and of these, those that left an entry without a name.
    moments: int = 0
    nameless: int = 0
    fenced: int = 0
    commits: int = 0
    take_overs: int = 0
    compactions: int = 0
    rows_read: int = 0
    seconds: float = 0.0
    points: dict[str, int] = field(default_factory=dict)
    violations: dict[str, list[str]] = field(default_factory=dict)

    def line(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))


class Process:
    """A worker process."""

    def __init__(self, root: Path, *, seed: int, diary: Path) -> None:
        self.diary = diary
        self._popen = subprocess.Popen(
            [sys.executable, "-m", "tests.races.worker", str(root), str(seed), str(diary)],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'src'}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def order(self, **order: Any) -> None:
        """Send an order without waiting for what becomes of it."""
        assert self._popen.stdin is not None
        self._popen.stdin.write(json.dumps(order) + "\n")
        self._popen.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Wait for the answer; an empty one means that the process is dead."""
        assert self._popen.stdout is not None
        line = self._popen.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {}
        assert answer.get("outcome") != "error", answer
        return answer

    def ask(self, **order: Any) -> dict[str, Any]:
        """Order and wait."""
        self.order(**order)
        return self.answer()

    def stopped_or_answered(self) -> bool:
        """Wait until the process has stopped itself (True), or passed the point by (False)."""
        assert self._popen.stdout is not None
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            flags = os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT
            status = os.waitid(os.P_PID, self._popen.pid, flags)
            if status is not None:
                return status.si_code == os.CLD_STOPPED
            if _readable(self._popen.stdout.fileno()):
                return False
        raise AssertionError(f"process {self._popen.pid} neither stopped nor answered")

    def signal(self, number: int) -> None:
        """Send a signal to this very process."""
        self._popen.send_signal(number)

    def kill(self) -> None:
        """End the process whatever it does; nothing if it has ended."""
        self._popen.kill()
        self._popen.wait(PATIENCE_S)
        for stream in (self._popen.stdin, self._popen.stdout):
            with contextlib.suppress(BrokenPipeError):
                assert stream is not None
                stream.close()

    def close(self) -> None:
        """End the process, dead or alive."""
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._popen.send_signal(signal.SIGCONT)
        try:
            self._popen.stdin.close()
        except BrokenPipeError:
            self._popen.kill()
        self._popen.wait(PATIENCE_S)
        self._popen.stdout.close()


class Run:
    """One instance, its processes and what they wrote down."""

    def __init__(self, folder: Path, *, seed: int) -> None:
        self.rng = random.Random(seed)
        self.tally = Tally(seed=seed)
        self.root = Root.open(folder / "root")
        self.folder = folder
        self.read: list[dict[int, list[Row]]] = []
        self.diaries: list[Path] = []
        self.processes: list[Process] = []
        self._packs: dict[str, list[Any]] = {}
        create(self.root)

    def process(self) -> Process:
        """A new process that is on its way; its first answer says that it is ready."""
        self.diaries.append(self.folder / f"diary-{len(self.diaries)}")
        seed = self.rng.randrange(1 << 30)
        self.processes.append(Process(self.root.path, seed=seed, diary=self.diaries[-1]))
        return self.processes[-1]

    def pauses(self, count: int) -> None:
        """Two owners: one is stopped at a point, the other goes past it."""
        owners = [self.process(), self.process()]
        for owner in owners:
            owner.answer()
        owners[0].ask(do="take")
        for number in range(count):
            first, second = owners[number % 2], owners[(number + 1) % 2]
            self._pause(first, second)
        for owner in owners:
            owner.close()

    def crashes(self, count: int, *, moments: int) -> None:
        """Owners die one after the other, at a point or a moment; the next is started meanwhile."""
        waiting = [self.process(), self.process()]
        for number in range(count + moments):
            owner = waiting.pop(0)
            waiting.append(self.process())
            owner.answer()
            if number < count:
                self._crash(owner)
            else:
                self._crash_at_a_moment(owner)
        for owner in waiting:
            owner.answer()
            owner.close()

    def crowd(self, count: int) -> None:
        """Four owners at once, some of them asleep at any time, until so many were fenced."""
        owners = [self.process() for _ in range(4)]
        for owner in owners:
            owner.answer()
        fenced = 0
        while fenced < count:
            reader = self._reader()
            for owner in owners:
                owner.order(do="race", rounds=6)
            for _ in range(30):
                sleeper = self.rng.choice(owners)
                sleeper.signal(signal.SIGSTOP)
                self._read(reader)
                sleeper.signal(signal.SIGCONT)
            fenced = sum(owner.answer()["fenced"] for owner in owners)
            self._read(reader)
        self.tally.fenced += fenced
        self.tally.races += fenced
        for owner in owners:
            owner.close()

    def judge(self) -> None:
        """The checker from outside and `validate` from inside."""
        acknowledged = [
            tuple(int(word) for word in line.split())
            for diary in self.diaries
            if diary.exists()
            for line in diary.read_text().splitlines()
        ]
        self.read.append({})
        self._read(Reader(self.root, INSTANCE, after=0))
        table = self.root.table(INSTANCE).path
        found: Findings = check(
            table, acknowledged=[(a, b, c) for a, b, c in acknowledged], read=self.read
        )
        tally = self.tally
        tally.commits += found.commits
        tally.take_overs += found.take_overs
        tally.compactions += found.compactions
        tally.rows_read += sum(len(rows) for handed in self.read for rows in handed.values())
        for promise, details in found.violations.items():
            tally.violations.setdefault(promise, []).extend(details)
        for violation in validate(self.root, INSTANCE):
            tally.violations.setdefault(violation.promise, []).append(violation.detail)

    def _pause(self, first: Process, second: Process) -> None:
        point = self._drawn("pause", (*COMMIT_POINTS, *UPKEEP_POINTS, "stale", "taking"))
        self.tally.races += 1
        reader = self._reader()
        if point == "stale":
            first.ask(do="repeat")
        elif point == "taking":
            first.order(do="take", stop_at=self._drawn("take", TAKE_POINTS))
        else:
            skip = self.rng.randrange(3) if point in COMMIT_POINTS else 0
            first.order(do="commit", steps=8, parts=2, stop_at=point, skip=skip)
        stopped = point != "stale" and first.stopped_or_answered()
        if point != "stale" and not stopped:
            first.answer()
        second.ask(do="take")
        # Enough to trim the number that the first one is about to use, or too little for that.
        second.ask(do="commit", steps=self.rng.choice((1, 2, 12)))
        if not stopped:
            answer = first.ask(do="commit", steps=1)
        else:
            first.signal(signal.SIGCONT)
            answer = first.answer()
        self._after(point, answer, first, second)
        self._read(reader)

    def _after(self, point: str, answer: dict[str, Any], first: Process, second: Process) -> None:
        """Who was passed must be fenced; of two that took over one owns the instance."""
        if answer["outcome"] == "fenced":
            self.tally.fenced += 1
        elif point == "taking":
            outcomes = [owner.ask(do="commit", steps=1)["outcome"] for owner in (first, second)]
            if sorted(outcomes) != ["fenced", "ok"]:
                self.tally.violations.setdefault("L3", []).append(f"{point}: {outcomes}")
            self.tally.fenced += 1
            second.ask(do="take")
        else:
            self.tally.violations.setdefault("L3", []).append(f"{point}: {answer}")

    def _crash(self, owner: Process) -> None:
        order, point = self._drawn("crash", CRASHES)
        self.tally.crashes += 1
        reader = self._reader()
        if order == "commit":
            owner.ask(do="take")
            skip = self.rng.randrange(3) if point in COMMIT_POINTS else 0
            answer = owner.ask(do="commit", steps=12, parts=2, die_at=point, skip=skip)
        else:
            answer = owner.ask(do="take", die_at=point)
        assert not answer, f"it was to die at {point!r}, but said {answer}"
        owner.close()
        self._read(reader)

    def _crash_at_a_moment(self, owner: Process) -> None:
        order, how = self._drawn("moment", MOMENTS)
        self.tally.crashes += 1
        self.tally.moments += 1
        reader = self._reader()
        before = self._nameless()
        end: dict[str, Any] = {"die_at": "appending"}
        if how == "time":
            end["die_after_us"] = self.rng.randrange(1, MOMENT_US)
        else:
            end["die_writing"] = self.rng.randrange(MOMENT_BYTES)
        if order == "commit":
            owner.ask(do="take")
            skip = self.rng.randrange(3)
            answer = owner.ask(do="commit", steps=12, parts=2, skip=skip, **end)
        else:
            answer = owner.ask(do="take", **end)
        assert not answer, f"it was to die {end}, but said {answer}"
        owner.close()
        found = [file for file in self._nameless() if file not in before]
        assert found or how == "time", f"it died {end} and left no entry without its name"
        self.tally.nameless += bool(found)
        self._read(reader)

    def _nameless(self) -> list[tuple[str, int]]:
        """Entries that were written, perhaps in part, and did not get their name."""
        log = self.root.table(INSTANCE).log
        files = [path for path in log.iterdir() if ".json#" in path.name]
        return [(path.name, path.stat().st_mtime_ns) for path in files]

    def _drawn(self, what: str, places: Sequence[Place]) -> Place:
        """The next place in a shuffled pack: each comes once before any comes again."""
        pack = self._packs.setdefault(what, [])
        if not pack:
            pack += self.rng.sample(places, len(places))
        place = pack.pop()
        name = f"{what} {' '.join(place) if isinstance(place, tuple) else place}"
        self.tally.points[name] = self.tally.points.get(name, 0) + 1
        return place

    def _reader(self) -> Reader:
        """A reader somewhere in the history, or at its end."""
        head = Reader.head(self.root, INSTANCE)
        assert head is not None
        after = self.rng.choice((head.step, max(0, head.step - self.rng.randrange(30))))
        reader = Reader(self.root, INSTANCE, after=after)
        self.read.append({})
        if self.rng.random() < 0.5:
            reader.poll(commits_max=1)  # now it lags in the middle of its work
        return reader

    def _read(self, reader: Reader) -> None:
        handed = read_all(self.root, reader)
        for step, rows in handed.items():
            self.read[-1].setdefault(step, []).extend(rows)


def run(folder: Path, *, seed: int, pauses: int, crashes: int, moments: int, crowd: int) -> Tally:
    """All kinds of rounds over one instance, and the judgement."""
    began = time.monotonic()
    race = Run(folder, seed=seed)
    try:
        race.pauses(pauses)
        race.crashes(crashes, moments=moments)
        if crowd:
            race.crowd(crowd)
    finally:
        for process in race.processes:
            process.kill()
    race.judge()
    race.tally.seconds = round(time.monotonic() - began, 1)
    return race.tally


def _readable(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0.002)[0])
