"""Twenty hosts as real processes form a ring; some are killed, some stopped; the rest go on.

Bar 7 of the control plane. What must settle is polled. What must never happen is watched for, from
the kill on, by asking one survivor again and again (`Survivor`): an answer that lacks the offer of
an owner who lives. What must not happen any more once the ring has settled is counted: a look-up
with a wrong owner. How long each took is printed, for people; no time decides.

What is certain, and why. Before the kill each offer has three copies, with its keeper and the next
two, for so its owner was told, and all lists were right. Nobody kills or stops three in a row
(`taken`), so one of the three lives. No record is lost (R1), and whoever keeps a key behind those
who are gone is one who has it; so what is answered at all has it too. Not certain: that there is an
answer while the ring takes the silent for alive, and that a look-up names nobody who is gone.
"""

import signal
import sys
import time
from bisect import bisect_left
from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.control.directory.config import DirectoryConfig
from shoal.kernel.keys import key_of_name
from tests.system.mesh import WAIT_S, Mesh, Process, eventually, ring_order

pytestmark = pytest.mark.slow

COUNT = 20
COPIES = DirectoryConfig().copies
NAMES = [f"h{number:02}" for number in range(COUNT)]


def owner_of(key: bytes, names: list[str]) -> str:
    """Who keeps a key, by definition: the first peer at or behind it."""
    ordered = sorted(names, key=key_of_name)
    places = [key_of_name(name) for name in ordered]
    return ordered[bisect_left(places, key) % len(ordered)]


def taken(ordered: list[str]) -> tuple[list[str], list[str]]:
    """Five to kill and five to stop, no three of them in a row on the ring: k is 3."""
    killed = [ordered[place] for place in (1, 5, 9, 13, 17)]
    stopped = [ordered[place] for place in (2, 7, 10, 15, 19)]
    return killed, stopped


def right(host: Process, names: list[str], keys: list[str]) -> bool:
    """Whether every look-up at this host finds the owner that there is."""
    for key in keys:
        found = host.ask("lookup", key=key)
        if found is None or found["owner"] is None:
            return False
        if found["owner"]["name"] != owner_of(key_of_name(key), names):
            return False
    return True


def recorded(host: Process, owners: list[str]) -> bool:
    """Whether the offer of each of these is found from here."""
    for owner in owners:
        found = host.ask("records", key=f"Op.{owner}")
        if found is None or [one["owner"]["name"] for one in found] != [owner]:
            return False
    return True


class Survivor:
    """Asks one host who keeps each of these offers, and what is under its key; in rounds."""

    def __init__(self, host: Process, owners: list[str]) -> None:
        self._host = host
        self._owners = owners
        self.answers = self.unanswered = self.wrong = 0

    def ask(self) -> None:
        """One round. An answer without the offer of an owner who lives is a broken promise."""
        for owner in self._owners:
            key = f"Op.{owner}"
            located = self._host.ask("lookup", key=key)
            if located is not None and located["owner"] is not None:
                keeper = owner_of(key_of_name(key), self._owners)
                self.wrong += located["owner"]["name"] != keeper
            found = self._host.ask("records", key=key)
            if found is None:
                self.unanswered += 1
                continue
            self.answers += 1
            names = [one["owner"]["name"] for one in found]
            assert names == [owner], f"{self._host.name} finds {names} under {key}"

    def ask_until(self, condition: Callable[[], bool], what: str) -> None:
        """Rounds until something holds."""

        def asked() -> bool:
            self.ask()
            return condition()

        eventually(asked, what)


def start_all(mesh: Mesh) -> None:
    """The first one begins the ring; the others join through it or the second."""
    mesh.start(NAMES[0])
    mesh.address(NAMES[0])
    for number, name in enumerate(NAMES[1:], start=1):
        mesh.start(name, join=(NAMES[0],) if number == 1 else (NAMES[0], NAMES[1]))


def offered(mesh: Mesh, names: list[str]) -> bool:
    """Whether the offer of each of these has its three copies; who has none makes it now."""
    told = [mesh.hosts[name].ask("offer", key=f"Op.{name}") for name in names]
    return all(one is not None and one["copies"] == COPIES for one in told)


def beside_links(host: Process) -> tuple[int, int]:
    """Descriptors and tasks that no connection explains."""
    status = host.ask("status")
    links = len(status["net"]["links"])
    return host.descriptors - links, status["tasks"] - 2 * links


def as_before(host: Process, before: tuple[int, int]) -> bool:
    """Whether a host has no more of either than before; a dial or a stranger may be under way."""
    descriptors, tasks = beside_links(host)
    return descriptors <= before[0] and tasks <= before[1]


def say(what: str, began: float) -> None:
    """A line for people."""
    sys.stdout.write(f"{what} after {time.monotonic() - began:.1f} s\n")


def lose(mesh: Mesh, killed: list[str], stopped: list[str]) -> None:
    """Five are killed and five stop; what the others say meanwhile is right, and they go on."""
    living = [name for name in NAMES if name not in (*killed, *stopped)]
    for name in killed:
        mesh.hosts[name].signal(signal.SIGKILL)
    for name in stopped:
        mesh.hosts[name].signal(signal.SIGSTOP)
    began = time.monotonic()
    survivor = Survivor(mesh.hosts[living[0]], living)
    survivor.ask_until(lambda: mesh.settled(living), "the ten others are one ring")
    say(f"ring of {len(living)}", began)
    for name in living:
        host = mesh.hosts[name]
        eventually(lambda host=host: right(host, living, NAMES), "look-ups are right")
        eventually(lambda host=host: recorded(host, living), "every offer is found")
    survivor.ask_until(lambda: offered(mesh, living), "lost copies are made again")
    say("three copies of each offer", began)
    sys.stdout.write(f"  {survivor.answers} answers, {survivor.unanswered} times none\n")
    assert survivor.answers > 0
    for name in living:
        settled = Survivor(mesh.hosts[name], living)
        settled.ask()
        assert (settled.wrong, settled.unanswered) == (0, 0), name


def take_back(mesh: Mesh, killed: list[str], stopped: list[str]) -> None:
    """Those who were killed start again, those who were stopped go on; all are one ring."""
    living = [name for name in NAMES if name not in (*killed, *stopped)]
    for name in killed:
        mesh.hosts[name].child.wait()
        mesh.start(name, "--offer", f"Op.{name}", join=(living[0], living[1]))
    for name in stopped:
        mesh.hosts[name].signal(signal.SIGCONT)
    began = time.monotonic()
    eventually(lambda: mesh.settled(NAMES), "all twenty are one ring again")
    say(f"ring of {COUNT} again", began)
    for name in (living[0], killed[0], stopped[0]):
        host = mesh.hosts[name]
        eventually(lambda host=host: right(host, NAMES, NAMES), "look-ups are right")
        eventually(lambda host=host: recorded(host, NAMES), "every offer is found")
    say("twenty offers found again", began)


def end(mesh: Mesh, before: dict[str, tuple[int, int]]) -> None:
    """Nothing was leaked, nobody had an error to report, and all end in good order."""
    for name, counts in before.items():
        host = mesh.hosts[name]
        eventually(
            lambda host=host, counts=counts: as_before(host, counts),
            f"{name} has {counts} descriptors and tasks again, now {beside_links(host)}",
        )
    for host in mesh.hosts.values():
        descriptors, tasks = beside_links(host)
        assert descriptors < 25, f"{host.name}: {descriptors} beside its connections"
        assert tasks < 20, f"{host.name}: {tasks} tasks"
        errors = [line for line in host.lines if line["level"] == "error"]
        assert errors == []
    for host in mesh.hosts.values():
        host.signal(signal.SIGTERM)
    codes = {name: host.child.wait(WAIT_S) for name, host in mesh.hosts.items()}
    assert codes == dict.fromkeys(NAMES, 0)


def test_twenty_hosts(tmp_path: Path) -> None:
    """Form, lose five to kill -9 and five to SIGSTOP, go on, take all of them back, end."""
    with Mesh.of(tmp_path, NAMES) as mesh:
        began = time.monotonic()
        start_all(mesh)
        eventually(lambda: mesh.walks(NAMES), "one ring of twenty")
        say(f"ring of {COUNT}", began)
        eventually(lambda: mesh.settled(NAMES), "all lists are right")
        say("all lists right", began)
        eventually(lambda: offered(mesh, NAMES), "three copies of twenty offers")
        say("three copies of each offer", began)
        assert max(host.resident_mb for host in mesh.hosts.values()) < 120
        killed, stopped = taken(ring_order(NAMES, NAMES[0]))
        before = {
            name: beside_links(host) for name, host in mesh.hosts.items() if name not in killed
        }
        lose(mesh, killed, stopped)
        take_back(mesh, killed, stopped)
        end(mesh, before)


def test_nobody_loses_a_whole_neighbourhood() -> None:
    """Of any three in a row one lives: what the twenty hosts assert rests on it."""
    killed, stopped = taken(NAMES)
    gone = {*killed, *stopped}
    assert len(gone) == 10
    around = NAMES + NAMES
    assert all(set(around[at : at + COPIES]) - gone for at in range(COUNT))
