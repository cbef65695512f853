"""Hosts as a person starts them: real processes on loopback, each with a home and keys.

Addresses are read from the line that each host writes when it is up. Everything is polled with a
generous deadline; no test sleeps for a while and hopes.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

from shoal.control.ring.config import RingConfig
from shoal.host.console.lines import ask
from shoal.host.keys import authority
from shoal.kernel.errors import UserError
from shoal.kernel.keys import key_of_name

__all__ = ["WAIT_S", "Mesh", "Process", "eventually", "ring_order"]

SUCCESSORS = RingConfig().successors_max
#: How long anything may take that happens at all. The machine may be busy with other tests.
WAIT_S = 120.0
COMMAND = [sys.executable, "-c", "from shoal.cli.main import main; main()"]
#: The code beside these tests, wherever else another Shoal may be installed.
_SOURCE = str(Path(__file__).parents[2] / "src")


class Process:
    """One life of one host."""

    def __init__(self, name: str, folder: Path, words: list[str]) -> None:
        self.name = name
        self.home = folder / name
        self.log = folder / f"{name}.{time.monotonic_ns()}.log"
        with self.log.open("wb") as log:
            self.child = subprocess.Popen(
                [*COMMAND, "up", "--name", name, "--home", str(self.home), "--log-json", *words],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | {"PYTHONPATH": _SOURCE},
            )

    @property
    def lines(self) -> list[dict[str, Any]]:
        """What it has logged."""
        found = []
        for line in self.log.read_text("utf-8").splitlines():
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
        return found

    def up(self) -> dict[str, Any] | None:
        """The line that says where it listens."""
        assert self.child.poll() is None, self.log.read_text("utf-8")
        return next((line for line in self.lines if line["event"] == "up"), None)

    def ask(self, question: str, **fields: Any) -> Any:
        """Ask it; None while it cannot answer."""
        try:
            return ask(self.home, {"ask": question, **fields}, wait_s=40.0)
        except UserError:
            return None

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.child.send_signal(number)

    def end(self) -> int:
        """Stop it as a person would; its exit code."""
        self.signal(signal.SIGTERM)
        return self.child.wait(WAIT_S)

    def disk(self) -> dict[str, bytes]:
        """What its store holds, file by file, all of one moment: it stands still meanwhile."""
        self.signal(signal.SIGSTOP)
        try:
            eventually(self._stands, f"{self.name} stands still")
            return self._files()
        finally:
            self.signal(signal.SIGCONT)

    def put_disk(self, files: dict[str, bytes]) -> bool:
        """After its end: put an older store in place of its own; whether that is another one."""
        differs = files != self._files()
        shutil.rmtree(self.home / "store")
        (self.home / "store").mkdir(mode=0o700)
        for name, data in files.items():
            (self.home / "store" / name).write_bytes(data)
        return differs

    def _files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted((self.home / "store").iterdir())}

    def _stands(self) -> bool:
        """Whether every thread has stopped."""
        stats = Path(f"/proc/{self.child.pid}/task").glob("*/stat")
        return all(stat.read_text().rpartition(") ")[2].startswith("T") for stat in stats)

    @property
    def descriptors(self) -> int:
        """Open descriptors."""
        return psutil.Process(self.child.pid).num_fds()

    @property
    def resident_mb(self) -> float:
        """Memory."""
        return psutil.Process(self.child.pid).memory_info().rss / (1 << 20)


class Mesh:
    """Hosts of one mesh, by name."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self.folder = folder
        self.keys = folder / "k"
        self.hosts: dict[str, Process] = {}
        authority.init(self.keys)
        for name in names:
            authority.issue(self.keys, name)

    def start(self, name: str, *words: str, join: tuple[str, ...] = ()) -> Process:
        """Start a host that joins through these, if any."""
        seeds = [word for other in join for word in ("--join", self.address(other))]
        keys = ["--keys", str(self.keys)]
        self.hosts[name] = Process(name, self.folder, [*keys, *seeds, *words])
        return self.hosts[name]

    def address(self, name: str) -> str:
        """Where a host listens."""
        line = eventually(self.hosts[name].up, f"{name} is up")
        return str(line["address"])

    def walks(self, names: list[str]) -> bool:
        """Whether each of these sees the ring of all of these, in their order."""
        for name in names:
            found = self.hosts[name].ask("walk")
            if found is None or [one["name"] for one in found] != ring_order(names, name):
                return False
        return True

    def settled(self, names: list[str]) -> bool:
        """Whether the lists of each of these are whole and right, and nobody suspects anybody."""
        for name in names:
            found = self.hosts[name].ask("ring")
            around = ring_order(names, name)
            if found is None or found["view"]["suspected"]:
                return False
            view = found["view"]
            before = view["predecessor"] and view["predecessor"]["name"]
            behind = [one["name"] for one in view["successors"]]
            if before != around[-1] or behind != around[1 : 1 + SUCCESSORS]:
                return False
        return self.walks(names)

    def kill_all(self) -> None:
        """Leave no process behind, whatever happened."""
        for host in self.hosts.values():
            if host.child.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(host.child.pid, signal.SIGKILL)
                host.child.wait()

    @classmethod
    @contextlib.contextmanager
    def of(cls, folder: Path, names: list[str]) -> Iterator["Mesh"]:
        """A mesh that is gone at the end."""
        mesh = cls(folder, names)
        try:
            yield mesh
        finally:
            mesh.kill_all()


def ring_order(names: list[str], first: str) -> list[str]:
    """The names clockwise from one of them."""
    ordered = sorted(names, key=key_of_name)
    start = ordered.index(first)
    return ordered[start:] + ordered[:start]


def eventually(condition: Callable[[], Any], what: str, *, wait_s: float = WAIT_S) -> Any:
    """Poll until it holds."""
    deadline = time.monotonic() + wait_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not in {wait_s:.0f} s: {what}"
        time.sleep(0.05)
    return found
