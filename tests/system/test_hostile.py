"""A real host under attack: memory and descriptors stay bounded, and peers still get through.

What each kind of stranger is told is tested in tests/unit/host/net; here it is all of them at once
against a process, which is measured from outside.
"""

import contextlib
import random
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from shoal.host.config import NetConfig
from shoal.host.keys import authority
from shoal.host.net.address import split
from tests.system.mesh import Mesh, Process, eventually

pytestmark = pytest.mark.slow

CONNECTIONS = 600
#: What they may cost at any time: 32 of 300 KB, and what each kind costs once (measured: 11).
MEGABYTES = 25


class Attacker:
    """Opens connections of every bad kind and keeps as many as it may."""

    def __init__(self, address: str, foreign: Path) -> None:
        self._place = split(address)
        self._draw = random.Random(3)
        self._open: list[socket.socket] = []
        self._foreign = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._foreign.check_hostname = False
        self._foreign.verify_mode = ssl.CERT_NONE
        self._foreign.load_cert_chain(foreign / "peers" / "p1" / "peer.pem")
        self._kinds = (self._silent, self._garbage, self._half, self._stranger, self._flood)

    def attack(self) -> None:
        """One more connection."""
        with contextlib.suppress(OSError):
            connection = socket.create_connection(self._place, timeout=0.5)
            self._open.append(connection)
            self._draw.choice(self._kinds)(connection)
        if len(self._open) > 200:
            self._open.pop(self._draw.randrange(200)).close()

    def crowd(self) -> None:
        """More at once than may wait from one address, all silent."""
        for _ in range(2 * NetConfig().strangers_per_address_max):
            with contextlib.suppress(OSError):
                self._open.append(socket.create_connection(self._place, timeout=0.5))
        while len(self._open) > 200:
            self._open.pop(0).close()

    def close(self) -> None:
        """Leave."""
        for connection in self._open:
            connection.close()

    def _silent(self, connection: socket.socket) -> None:
        """Connects and says nothing."""

    def _garbage(self, connection: socket.socket) -> None:
        connection.sendall(self._draw.randbytes(self._draw.choice([1, 100, 50_000])))

    def _half(self, connection: socket.socket) -> None:
        """The first bytes of TLS, and no more."""
        connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")

    def _flood(self, connection: socket.socket) -> None:
        """A record of TLS that never ends."""
        connection.settimeout(0.05)
        connection.sendall(b"\x16\x03\x01\x40\x00" + bytes(1 << 20))

    def _stranger(self, connection: socket.socket) -> None:
        """A whole handshake with a certificate of another authority.

        Through memory: `wrap_socket` leaves a socket open that is reset before it begins.
        """
        connection.settimeout(0.5)
        heard, said = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = self._foreign.wrap_bio(heard, said)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                connection.sendall(said.read())
                answer = connection.recv(65_536)
                if not answer:
                    return
                heard.write(answer)
        tls.write(b"hello")
        connection.sendall(said.read())


def status(host: Process) -> dict[str, Any]:
    """What it says of itself; asked again while it is too busy to answer."""
    found: dict[str, Any] = eventually(lambda: host.ask("status"), "an answer")
    return found


def others_get_through(one: Process, other: Process) -> bool:
    """Whether both are one ring."""
    for host in (one, other):
        found = host.ask("walk")
        if found is None or len(found) != 2:
            return False
    return True


def test_an_attack_costs_a_bounded_amount(tmp_path: Path) -> None:
    """Six hundred strangers of all kinds; then everything is as before."""
    authority.init(tmp_path / "foreign")
    authority.issue(tmp_path / "foreign", "p1")
    with Mesh.of(tmp_path, ["p1", "p2"]) as mesh:
        victim = mesh.start("p1")
        address = mesh.address("p1")
        other = mesh.start("p2", join=("p1",))
        eventually(lambda: mesh.walks(["p1", "p2"]), "a ring of two")
        before = victim.descriptors, victim.resident_mb
        attacker = Attacker(address, tmp_path / "foreign")
        worst = [0.0, 0.0]
        for number in range(CONNECTIONS):
            attacker.attack()
            if number % 20 == 0:
                worst = [max(worst[0], victim.descriptors), max(worst[1], victim.resident_mb)]
        limit = NetConfig()
        assert worst[0] <= before[0] + limit.strangers_per_address_max + 4
        assert worst[1] <= before[1] + MEGABYTES

        def amid_the_attack() -> bool:
            """Nobody was turned away too seldom, and who belongs here is heard all the same."""
            attacker.attack()
            attacker.crowd()
            counts = status(victim)["net"]["counts"]
            seen = (
                counts.get("too many strangers from one address", 0),
                counts.get("TLS refused", 0),
            )
            return seen[0] > 100 and seen[1] > 10 and others_get_through(victim, other)

        eventually(amid_the_attack, "a ring of two while strangers are turned away")
        attacker.close()
        eventually(lambda: status(victim)["net"]["strangers"] == 0, "strangers are gone")
        eventually(lambda: victim.descriptors <= before[0] + 2, "descriptors are as before")
        assert status(victim)["peer"]["refused"] == 0
        other.end()
        mesh.start("p2", join=("p1",))
        eventually(lambda: mesh.walks(["p1", "p2"]), "a peer that comes after it gets in")
        errors = [line for line in victim.lines if line["level"] == "error"]
        assert errors == []
        assert victim.end() == 0
