"""A scenario file of the simulator, played by real hosts on loopback.

    python -m tests.system.played scenarios/processes.toml --seed 3

Faults are what a person can do to processes: crash (kill -9), leave (SIGTERM), pause (SIGSTOP),
join, churn. A file with any other kind is refused. Times are the file's, by the wall clock.

Checked is what holds when settled: one ring in every host's eyes, look-ups right at every host, the
records of whoever lives and of nobody else. What must hold at every event needs the simulator:
between two looks at a process anything may have happened. Not checked: facts of gossip, which a
host shows to nobody yet; who was paused is not asked before it goes on.
"""

import argparse
import heapq
import shutil
import signal
import sys
import time
from bisect import bisect_left
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from shoal.kernel.errors import UserError
from shoal.kernel.keys import key_of_name
from shoal.kernel.rng import Rng
from shoal.sim.runs.faults import Churn, Crash, Fault, Join, Leave, Pause
from shoal.sim.runs.scenario import Scenario, read_file
from tests.system.mesh import WAIT_S, Mesh, Process, eventually

__all__ = ["Played", "keeper_of", "main", "play"]

#: Kinds that a person can do to processes.
DOABLE = (Crash, Leave, Pause, Join, Churn)
#: Names that a run may need beside those that begin it.
_SPARE = 20
_KEYS = 12


def keeper_of(key: str, names: list[str]) -> str:
    """Who keeps a key, by definition: the first peer at or behind it."""
    ordered = sorted(names, key=key_of_name)
    places = [key_of_name(name) for name in ordered]
    return ordered[bisect_left(places, key_of_name(key)) % len(ordered)]


class Played:
    """One run."""

    def __init__(self, scenario: Scenario, seed: int, mesh: Mesh) -> None:
        odd = [type(one).__name__ for one in scenario.fault if not isinstance(one, DOABLE)]
        if odd:
            raise UserError(
                f"faults of kind {', '.join(odd)} cannot be done to processes",
                hint="play the file in the simulator: `shoal sim FILE`",
            )
        self.scenario = scenario
        self.mesh = mesh
        self.rng = Rng(seed, "processes")
        #: What really happened, so often.
        self.probes: dict[str, int] = {}
        self.living: list[str] = []
        self._paused: list[str] = []
        self._losses: list[float] = []
        self._todo: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._names = 0

    # --- phases ---------------------------------------------------------------------------------

    def form(self) -> None:
        """All peers start; they are one ring."""
        for _ in range(self.scenario.peers):
            self._start(self._new_name())
        eventually(lambda: self.mesh.walks(self.living), "one ring before faults begin")

    def storm(self) -> None:
        """Faults strike at their seconds."""
        for fault in self.scenario.fault:
            for at_s in fault.at_s:
                self._at(at_s, fault)
            second = self.rng.exponential(fault.every_s) if fault.every_s else 1e9
            while second < self.scenario.faults_s:
                self._at(second, fault)
                second += self.rng.exponential(fault.every_s)
        began = time.monotonic()
        while self._todo:
            second, _, action = heapq.heappop(self._todo)
            time.sleep(max(0.0, began + second - time.monotonic()))
            action()

    def settle(self) -> None:
        """Everything that was promised holds within the bound of the file, on a busy machine."""
        limit = max(self.scenario.settle_s, WAIT_S)
        hosts = [self.mesh.hosts[name] for name in self.living]
        eventually(lambda: self.mesh.walks(self.living), "one ring after faults", wait_s=limit)
        for host in hosts:
            eventually(lambda h=host: self._right(h), "look-ups are right", wait_s=limit)
            eventually(lambda h=host: self._recorded(h), "records are right", wait_s=limit)

    def end(self) -> None:
        """Everybody ends in good order, and nobody had an error to report."""
        for name in self.living:
            self.mesh.hosts[name].signal(signal.SIGTERM)
        for name in self.living:
            host = self.mesh.hosts[name]
            assert host.child.wait(WAIT_S) == 0, host.log.read_text("utf-8")
            errors = [line for line in host.lines if line["level"] == "error"]
            assert errors == [], errors

    # --- faults ---------------------------------------------------------------------------------

    def _at(self, second: float, fault: Fault) -> None:
        self._later(second, lambda: self._strike(fault, second))

    def _later(self, second: float, action: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._todo, (second, self._number, action))

    def _strike(self, fault: Any, second: float) -> None:
        match fault:
            case Churn(count=count):
                for _ in range(count):
                    kind = self.rng.choice((Leave(), Crash(down_s=0.0), Join()))
                    self._strike(kind, second)
            case Join(count=count):
                for _ in range(count):
                    self._start(self._new_name())
                    self._mark("join")
            case Pause():
                for name in self._victims(fault.count, fault.who):
                    self.mesh.hosts[name].signal(signal.SIGSTOP)
                    self._paused.append(name)
                    self._mark("pause")
                    self._later(second + fault.span_s, lambda name=name: self._go_on(name))
            case Crash() | Leave() if self._may_lose(fault.count, second):
                for name in self._victims(fault.count, fault.who):
                    self._lose(name, fault, second)

    def _lose(self, name: str, fault: Crash | Leave, second: float) -> None:
        self._losses.append(second)
        host = self.mesh.hosts[name]
        crash = isinstance(fault, Crash)
        host.signal(signal.SIGKILL if crash else signal.SIGTERM)
        host.child.wait(WAIT_S)
        self.living.remove(name)
        disk = fault.disk if isinstance(fault, Crash) else "same"
        back = self._new_name() if disk == "another" and fault.down_s else name
        if crash:
            self._mark(f"crash, {disk} disk" if fault.down_s else "crash for good")
        else:
            self._mark("leave and come back" if fault.down_s else "leave")
        if disk == "empty":
            shutil.rmtree(host.home)
        if fault.down_s:
            self._later(second + fault.down_s, lambda: self._start(back))

    def _go_on(self, name: str) -> None:
        self.mesh.hosts[name].signal(signal.SIGCONT)
        self._paused.remove(name)

    def _may_lose(self, count: int, second: float) -> bool:
        """As in the simulator: no more at once than promises allow, and a base remains."""
        recent = [one for one in self._losses if one > second - self.scenario.repair_s]
        enough = len(self.living) - count >= self.scenario.peers_min
        return enough and len(recent) + count <= self.scenario.losses_max

    def _victims(self, count: int, who: str) -> list[str]:
        """Peers that run: any, or neighbours on the ring."""
        running = sorted((n for n in self.living if n not in self._paused), key=key_of_name)
        if who == "any":
            return self.rng.sample(running, count)
        start = self.rng.below(len(running))
        return (running + running)[start : start + min(count, len(running))]

    def _start(self, name: str) -> None:
        seeds = tuple(n for n in self.living if n not in self._paused)[:2]
        offers = [w for one in self._offers(name) for w in ("--offer", one)]
        self.mesh.start(name, *offers, join=seeds)
        self.living.append(name)
        if not seeds:
            self.mesh.address(name)

    def _new_name(self) -> str:
        self._names += 1
        return f"h{self._names:02}"

    def _offers(self, name: str) -> list[str]:
        return [f"Op.{name}.{number}" for number in range(self.scenario.workload.records_per_peer)]

    def _mark(self, what: str) -> None:
        self.probes[what] = self.probes.get(what, 0) + 1

    # --- checks ---------------------------------------------------------------------------------

    def _right(self, host: Process) -> bool:
        """Every look-up finds the keeper that there is."""
        for number in range(_KEYS):
            found = host.ask("lookup", key=f"key {number}")
            if found is None or found["owner"] is None:
                return False
            if found["owner"]["name"] != keeper_of(f"key {number}", self.living):
                return False
        return True

    def _recorded(self, host: Process) -> bool:
        """The offers of whoever lives are found once each, in this life; of others none is."""
        for name in (f"h{number:02}" for number in range(1, self._names + 1)):
            wanted = [name] if name in self.living else []
            for offer in self._offers(name):
                found = host.ask("records", key=offer)
                if found is None or [one["owner"]["name"] for one in found] != wanted:
                    return False
        return True


def play(scenario: Scenario, seed: int, folder: Path) -> dict[str, int]:
    """Play it; what really happened. AssertionError says what was promised and did not hold."""
    names = [f"h{number:02}" for number in range(1, scenario.peers + _SPARE)]
    with Mesh.of(folder, names) as mesh:
        run = Played(scenario, seed, mesh)
        run.form()
        run.storm()
        run.settle()
        run.end()
    missing = {
        what: count for what, count in scenario.require.items() if run.probes.get(what, 0) < count
    }
    assert not missing, f"it did not happen: {missing}"
    return run.probes


def main() -> None:
    """Play one file with one seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        probes = play(read_file(given.scenario), given.seed, Path(folder))
    for what, count in probes.items():
        sys.stdout.write(f"{what:30} {count}\n")


if __name__ == "__main__":
    main()
