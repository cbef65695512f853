"""The tunables of a host: each with its unit, its bound, and where it comes from.

`NetConfig.strangers_*` bound what anybody can cost who has not shown a certificate and said hello;
the rest bounds what a peer of the mesh can cost that is slow, stopped, broken or malicious.
"""

from dataclasses import dataclass, fields

from shoal.kernel.errors import LocalError
from shoal.wire.frames import FRAME_BYTES_MAX

__all__ = ["HostConfig", "NetConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NetConfig:
    """Connections."""

    #: From being accepted to a whole hello, TLS included, however the bytes trickle in. Twenty
    #: round trips over a bad link; honest peers need 20 ms. A guess.
    hello_s: float = 5.0
    #: Connections before their hello, all together and from one address. A stranger costs one
    #: descriptor and some 100 KB of TLS; so 64 of them cost less than 10 MB for `hello_s`.
    strangers_max: int = 64
    strangers_per_address_max: int = 32
    #: Bytes of the first frame; a hello has about 150.
    hello_bytes_max: int = 4_096
    #: Connections accepted in a second, and at once. Behind it the kernel's backlog fills, which
    #: costs us nothing. An accept costs about 1 ms with TLS, so a flood costs a tenth of a core.
    accepts_per_s: float = 100.0
    accepts_burst: float = 200.0
    #: Connections that may wait in the kernel.
    backlog: int = 128
    #: Established connections. A peer of a ring of 1,000 has about 50 neighbours and fingers.
    links_max: int = 512
    #: Peers to which something waits or was sent of late; a message to one more is dropped.
    routes_max: int = 4_096
    #: Dials at once; a handshake costs about 2 ms of CPU on each side. A guess.
    dials_max: int = 32

    #: What one peer may send in a second, and at once. Beyond that it is not read until it may
    #: go on. A busy peer of the ring sends 20 messages a second; a hand-over some MB. Guesses.
    frames_per_s: float = 2_000.0
    frames_burst: float = 4_000.0
    bytes_per_s: float = 16e6
    bytes_burst: float = 32e6
    #: Who has been held back for this long without a pause of a second is closed, and not let in
    #: for `flood_ban_s`. Guesses.
    flood_s: float = 20.0
    flood_ban_s: float = 30.0
    #: Wrong messages on one connection before it is closed.
    faults_max: int = 16

    #: What waits to be sent to one peer; beyond it the oldest is dropped. At least one frame.
    waiting_messages_max: int = 1_000
    waiting_bytes_max: int = 4 << 20
    #: What waits to be sent to all peers together.
    waiting_bytes_all_max: int = 64 << 20
    #: Bytes handed to the socket before we wait for it to take them. A guess.
    socket_bytes_max: int = 128 << 10

    #: The back-off between dials that fail: from, to, times; each drawn between half and whole,
    #: so that a mesh that comes back does not beat as one.
    dial_again_min_s: float = 0.2
    dial_again_max_s: float = 10.0
    dial_again_factor: float = 2.0
    #: A dial that takes longer has failed, TLS and hello included. Above `hello_s`.
    dial_s: float = 6.0
    #: A connection on which nothing went either way for this long is closed. Longer than any
    #: period of the ring's, so that neighbours keep theirs.
    idle_s: float = 60.0
    #: A connection whose peer takes no byte of what waits for it, or leaves a frame unfinished,
    #: for this long is given up. Longer than the pauses of a healthy peer (10 s of garbage).
    stall_s: float = 15.0
    #: How often connections are looked through for the above.
    sweep_s: float = 0.5
    #: Names whose highest incarnation is remembered.
    names_max: int = 10_000

    def check(self) -> None:
        """Raise LocalError if the numbers do not fit each other."""
        rules = {
            "every number is above 0": all(getattr(self, one.name) > 0 for one in fields(self)),
            "a dial outlasts a hello": self.dial_s > self.hello_s,
            "a frame fits into what waits": self.waiting_bytes_max >= FRAME_BYTES_MAX,
            "one address is fewer than all": self.strangers_per_address_max <= self.strangers_max,
            "the back-off grows": self.dial_again_min_s <= self.dial_again_max_s
            and self.dial_again_factor >= 1,
            "sweeps are finer than what they find": self.sweep_s <= self.hello_s,
        }
        _hold("connections", rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostConfig:
    """The loop around a peer."""

    net: NetConfig = NetConfig()
    #: Events that wait for the peer, and the bytes of their messages; beyond it no connection is
    #: read. At 33 microseconds an event, 10,000 are a third of a second.
    inbox_events_max: int = 10_000
    inbox_bytes_max: int = 32 << 20
    #: Events handled before sockets get their turn. A guess: about 5 ms.
    turn_events_max: int = 128
    #: What has not been answered after this long never will be.
    answer_s: float = 30.0
    #: How long good-byes and what waits to be sent may take at the end.
    drain_s: float = 3.0
    #: How often the files of keys and revocations are looked at.
    keys_refresh_s: float = 2.0
    #: Programs that talk to the control socket at once, and the longest line they may send.
    control_clients_max: int = 16
    control_line_bytes_max: int = 64 << 10

    def check(self) -> None:
        """Raise LocalError if the numbers do not fit each other."""
        self.net.check()
        numbers = [one.name for one in fields(self) if one.name != "net"]
        rules = {
            "every number is above 0": all(getattr(self, name) > 0 for name in numbers),
            "a frame fits into the inbox": self.inbox_bytes_max >= FRAME_BYTES_MAX,
        }
        _hold("host", rules)


def _hold(what: str, rules: dict[str, bool]) -> None:
    broken = [rule for rule, holds in rules.items() if not holds]
    if broken:
        raise LocalError(f"configuration of {what} does not fit", detail="; ".join(broken))
