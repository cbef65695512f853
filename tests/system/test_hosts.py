"""Twenty hosts as real processes form a ring; some are killed, some stopped; the rest go on.

Bar 7 of the control plane. What must settle is polled; what must never happen is checked at the
end: a look-up with a wrong owner, a record that is lost while its owner lives, a host that ends.
"""

import signal
import sys
import time
from bisect import bisect_left
from pathlib import Path

import pytest

from shoal.kernel.keys import key_of_name
from tests.system.mesh import WAIT_S, Mesh, Process, eventually, ring_order

pytestmark = pytest.mark.slow

COUNT = 20
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


def start_all(mesh: Mesh) -> None:
    """The first one begins the ring; the others join through it or the second."""
    mesh.start(NAMES[0], "--offer", f"Op.{NAMES[0]}")
    mesh.address(NAMES[0])
    for number, name in enumerate(NAMES[1:], start=1):
        seeds = (NAMES[0],) if number == 1 else (NAMES[0], NAMES[1])
        mesh.start(name, "--offer", f"Op.{name}", join=seeds)


def beside_links(host: Process) -> tuple[int, int]:
    """Descriptors and tasks that no connection explains."""
    status = host.ask("status")
    links = len(status["net"]["links"])
    return host.descriptors - links, status["tasks"] - 2 * links


def as_before(host: Process, before: tuple[int, int]) -> bool:
    """Whether a host has no more of either than before; a dial or a stranger may be under way."""
    descriptors, tasks = beside_links(host)
    return descriptors <= before[0] and tasks <= before[1]


def test_twenty_hosts(tmp_path: Path) -> None:
    """Form, lose five to kill -9 and five to SIGSTOP, go on, take all of them back, end."""
    with Mesh.of(tmp_path, NAMES) as mesh:
        began = time.monotonic()
        start_all(mesh)
        eventually(lambda: mesh.walks(NAMES), "one ring of twenty")
        sys.stdout.write(f"ring of {COUNT} after {time.monotonic() - began:.1f} s" + "\n")
        first = mesh.hosts[NAMES[0]]
        eventually(lambda: recorded(first, NAMES), "twenty offers are found")
        sys.stdout.write(f"offers {time.monotonic() - began:.1f} s\n")
        assert max(host.resident_mb for host in mesh.hosts.values()) < 120

        before = {name: beside_links(host) for name, host in mesh.hosts.items()}
        killed, stopped = taken(ring_order(NAMES, NAMES[0]))
        for name in killed:
            mesh.hosts[name].signal(signal.SIGKILL)
        for name in stopped:
            mesh.hosts[name].signal(signal.SIGSTOP)
        began = time.monotonic()
        living = [name for name in NAMES if name not in (*killed, *stopped)]
        eventually(lambda: mesh.walks(living), "the ten others are one ring")
        sys.stdout.write(f"ring of {len(living)} after {time.monotonic() - began:.1f} s" + "\n")
        for name in living[:3]:
            host = mesh.hosts[name]
            eventually(lambda host=host: right(host, living, NAMES), "look-ups are right")
            sys.stdout.write(f"  right {time.monotonic() - began:.1f} s\n")
            eventually(lambda host=host: recorded(host, living), "no record is lost")
            sys.stdout.write(f"  recorded {time.monotonic() - began:.1f} s\n")

        for name in killed:
            mesh.hosts[name].child.wait()
            mesh.start(name, "--offer", f"Op.{name}", join=(living[0], living[1]))
        for name in stopped:
            mesh.hosts[name].signal(signal.SIGCONT)
        began = time.monotonic()
        eventually(lambda: mesh.walks(NAMES), "all twenty are one ring again")
        sys.stdout.write(f"ring of {COUNT} again after {time.monotonic() - began:.1f} s" + "\n")
        for name in (living[0], killed[0], stopped[0]):
            host = mesh.hosts[name]
            eventually(lambda host=host: right(host, NAMES, NAMES), "look-ups are right")
            sys.stdout.write(f"  right {time.monotonic() - began:.1f} s\n")
            eventually(lambda host=host: recorded(host, NAMES), "every offer is found")
            sys.stdout.write(f"  recorded {time.monotonic() - began:.1f} s\n")

        for name in (*living, *stopped):
            host = mesh.hosts[name]
            eventually(
                lambda host=host, name=name: as_before(host, before[name]),
                f"{name} has {before[name]} descriptors and tasks again, now {beside_links(host)}",
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
