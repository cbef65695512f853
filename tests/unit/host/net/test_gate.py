"""What strangers may cost, without a socket."""

from dataclasses import replace

from shoal.host.config import NetConfig
from shoal.host.net import gate as module
from shoal.host.net.gate import Gate

CONFIG = replace(NetConfig(), strangers_max=3, strangers_per_address_max=2, accepts_burst=2.0)


def validate_gate(kind: type[Gate]) -> None:
    """H2: strangers come from three addresses, and go."""
    gate = kind(CONFIG, 0.0)
    admitted: list[str] = []
    for number in range(60):
        host = "abc"[number % 3]
        if number % 4 == 3 and host in admitted:
            admitted.remove(host)
            gate.leave(host)
        elif gate.admit(host):
            admitted.append(host)
        gate.validate()
        assert gate.strangers == len(admitted), "H2: somebody is not counted"


def test_H2_there_are_never_more_strangers_than_may_be() -> None:
    validate_gate(Gate)


def test_so_many_from_one_address_and_so_many_altogether() -> None:
    gate = Gate(CONFIG, 0.0)
    assert [gate.admit("a"), gate.admit("a"), gate.admit("a")] == [True, True, False]
    assert [gate.admit("b"), gate.admit("b")] == [True, False]
    assert gate.strangers == 3
    assert gate.refused == {"too many strangers from one address": 1, "too many strangers": 1}
    gate.leave("a")
    assert gate.admit("b")
    for host in ("a", "b", "b"):
        gate.leave(host)
    assert gate.strangers == 0


def test_accepts_have_a_rate() -> None:
    gate = Gate(CONFIG, 0.0)
    assert [gate.wait_before_accept(0.0) for _ in range(3)] == [0.0, 0.0, 0.01]


def test_kept_out_for_a_while() -> None:
    gate = Gate(CONFIG, 0.0)
    gate.ban("p9", 100.0)
    assert gate.is_banned("p9", 129.9)
    assert not gate.is_banned("p9", 130.1)
    assert not gate.is_banned("p9", 100.0)  # it is forgotten
    assert not gate.is_banned("p1", 100.0)


def test_names_kept_out_are_bounded(monkeypatch) -> None:
    monkeypatch.setattr(module, "_BANNED_MAX", 2)
    gate = Gate(CONFIG, 0.0)
    for name in ("a", "b", "c"):
        gate.ban(name, 0.0)
    assert [gate.is_banned(name, 1.0) for name in ("a", "b", "c")] == [False, True, True]
