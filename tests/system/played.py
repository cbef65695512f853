"""A scenario file of the simulator, played by real hosts on loopback.

    python -m tests.system.played scenarios/processes.toml --seed 3

Faults are what a person can do to processes: crash (kill -9) and come back with the same, an empty,
an old disk or as another peer; leave (SIGTERM), pause (SIGSTOP), join, churn. Times are the file's,
by the wall clock. A file that asks for anything else is refused: `odd_of` says what it is.

Of a workload only the records that peers own are played; questions are asked when all is settled.

Checked is what holds when settled: one ring in every host's eyes, look-ups right at every host, the
records of whoever lives and of nobody else, the same facts at every host, nothing refused. What
must hold at every event needs the simulator: between two looks at a process anything may have
happened. docs/simulator.md lists it by checker. Not checked: who is paused is not asked meanwhile.
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

__all__ = ["Played", "keeper_of", "main", "odd_of", "play"]

#: Kinds that a person can do to processes.
DOABLE = (Crash, Leave, Pause, Join, Churn)
#: What a file may say of the world: the world of processes is as it is.
_AS_IT_IS = ("weather", "topology", "delay_ms", "machines", "config")
#: How often disks are copied, for restarts with an old one; as in the simulator.
_BACKUP_S = 40.0
#: Names that a run may need beside those that begin it.
_SPARE = 20
_KEYS = 12


def keeper_of(key: str, names: list[str]) -> str:
    """Who keeps a key, by definition: the first peer at or behind it."""
    ordered = sorted(names, key=key_of_name)
    places = [key_of_name(name) for name in ordered]
    return ordered[bisect_left(places, key_of_name(key)) % len(ordered)]


def odd_of(scenario: Scenario) -> list[str]:
    """What of a scenario cannot be played by processes; nothing if all of it can."""
    odd: dict[str, None] = {}
    for fault in scenario.fault:
        kind = fault.__struct_config__.tag
        if not isinstance(fault, DOABLE):
            odd[f"fault {kind}"] = None
            continue
        if fault.after:
            odd[f"{kind} after {fault.after}"] = None
        if isinstance(fault, Crash) and fault.writes != "lost":
            odd[f"{kind} with writes {fault.writes}"] = None
    usual = Scenario(title="")
    for key in _AS_IT_IS:
        if getattr(scenario, key) != getattr(usual, key):
            odd[f"{key} of its own"] = None
    return list(odd)


class Played:
    """One run."""

    def __init__(self, scenario: Scenario, seed: int, mesh: Mesh) -> None:
        if odd := odd_of(scenario):
            raise UserError(
                f"scenario {scenario.title!r} cannot be played by processes",
                detail=f"it has: {', '.join(odd)}",
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
        #: What the disk of each host held some time ago.
        self._disks: dict[str, dict[str, bytes]] = {}
        #: Notes that were told to all peers; a removed one counts.
        self._notes = 0
        self._todo: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._names = 0

    # --- phases ---------------------------------------------------------------------------------

    def form(self) -> None:
        """All peers start; they are one ring, and know one note and of one that was removed."""
        for _ in range(self.scenario.peers):
            self._start(self._new_name())
        eventually(lambda: self.mesh.walks(self.living), "one ring before faults begin")
        self._tell(self.living[0], "stays", "told before faults")
        self._tell(self.living[1], "goes", "told before faults")
        eventually(self._alike, "two notes are everywhere")
        self._tell(self.living[1], "goes", "", new=False)
        eventually(self._alike, "a removal is everywhere")

    def storm(self) -> None:
        """Faults strike at their seconds."""
        for number in range(int(self.scenario.faults_s // _BACKUP_S) + 1):
            self._later(number * _BACKUP_S, self._back_up)
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
        eventually(self._alike, "all know the notes of before", wait_s=limit)
        self._tell(self.living[-1], "last", "told after faults")
        eventually(self._alike, "all know the last note", wait_s=limit)
        for host in hosts:
            status = host.ask("status")
            refused, unreadable = (
                status["peer"]["refused"],
                status["net"]["counts"].get("unreadable", 0),
            )
            assert refused == 0, f"{host.name} has refused {refused} messages, and nobody lies"
            assert unreadable == 0, f"{host.name} could not read {unreadable} messages"

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
            case Churn():
                self._churn(fault.count, second)
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
                victims = self._victims(fault.count, fault.who)
                for name in victims:
                    self._lose(name, fault, second)
                if isinstance(fault, Crash) and len(victims) > 1:
                    self._mark(f"crash of {len(victims)} {fault.who} at once")

    def _churn(self, count: int, second: float) -> None:
        for _ in range(count):
            self._strike(self.rng.choice((Leave(), Crash(down_s=0.0), Join())), second)
        if count > 1:
            self._mark("churn burst")

    def _lose(self, name: str, fault: Crash | Leave, second: float) -> None:
        self._losses.append(second)
        host = self.mesh.hosts[name]
        host.signal(signal.SIGKILL if isinstance(fault, Crash) else signal.SIGTERM)
        host.child.wait(WAIT_S)
        self.living.remove(name)
        back = name
        if isinstance(fault, Leave):
            self._mark("leave and come back" if fault.down_s else "leave")
        elif not fault.down_s:
            self._mark("crash for good")
        else:
            disk = "same" if fault.disk == "old" and name not in self._disks else fault.disk
            self._mark(f"crash, {disk} disk")
            if disk == "another":
                back = self._new_name()
            elif disk == "empty":
                shutil.rmtree(host.home)
            elif disk == "old" and host.put_disk(self._disks[name]):
                self._mark("an old disk that differs")
        if fault.down_s:
            self._later(second + fault.down_s, lambda: self._start(back))

    def _back_up(self) -> None:
        """Copy the disk of every host that runs: what a restart with an old disk will find."""
        for name in self.living:
            if name not in self._paused:
                self._disks[name] = self.mesh.hosts[name].disk()

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

    def _tell(self, name: str, key: str, text: str, *, new: bool = True) -> None:
        """Tell all peers a note; without a text it is removed."""
        host = self.mesh.hosts[name]
        eventually(lambda: host.ask("tell", key=key, thing=text), f"{name} takes a note")
        self._notes += new

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

    def _alike(self) -> bool:
        """Every host has all the notes, and the same of each."""
        found = [self.mesh.hosts[name].ask("status") for name in self.living]
        stores = [one["gossip"] for one in found if one is not None]
        alike = len(stores) == len(self.living) and all(one == stores[0] for one in stores)
        return alike and stores[0]["facts"] == self._notes


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


def main() -> int:
    """Play one file with one seed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("scenario", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    try:
        with TemporaryDirectory() as folder:
            probes = play(read_file(given.scenario), given.seed, Path(folder))
    except UserError as error:
        sys.stderr.write(f"{error.what}\n  {error.detail}\n  {error.hint}\n")
        return 2
    for what, count in probes.items():
        sys.stdout.write(f"{what:30} {count}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
