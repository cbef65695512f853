"""Each mutant of a host's parts is caught by what watches it, and the real ones are not."""

from pathlib import Path

import pytest

import shoal.sim.world
from shoal.host import run
from shoal.host.disk import store as module
from shoal.host.disk.store import Store
from shoal.host.keys.trust import Trust
from shoal.host.net.gate import Gate
from shoal.host.net.outbox import Outbox
from shoal.kernel.errors import LocalError
from shoal.sim.runs.cast import standard
from tests.mutants.host_processes import (
    HANDED_ON,
    BelievingTrust,
    BuildingStore,
    HastyHost,
    HoardingOutbox,
    NearsightedTrust,
    OpenGate,
    UnsyncedStore,
    names_unsynced,
)
from tests.sim.played import caught
from tests.unit.host.disk.power import validate_store, validate_store_after_a_kill
from tests.unit.host.keys.tls import validate_trust
from tests.unit.host.net.test_gate import validate_gate
from tests.unit.host.net.test_outbox import validate_outbox
from tests.unit.host.test_loop import validate_order


def test_H1_a_store_that_does_not_sync_is_caught(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="H1"):
        validate_store(tmp_path / "disk", UnsyncedStore)


@pytest.mark.parametrize("function", ["_open_log", "_fold", "_make_folder"])
def test_H1_a_store_that_leaves_names_unsynced_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    """Each of the three places where a name is made matters."""
    monkeypatch.setattr(module, "sync_folder", names_unsynced(function))
    with pytest.raises(AssertionError, match="H1"):
        validate_store(tmp_path / "disk")


@pytest.mark.slow
def test_H1_a_store_that_builds_on_what_was_not_synced_is_caught(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="H1"):
        validate_store_after_a_kill(tmp_path / "disk", BuildingStore)


def test_H1_the_real_store_passes(tmp_path: Path) -> None:
    """The same life; the many states are in tests/unit/host/disk/test_store.py."""
    assert validate_store(tmp_path / "disk", Store) > 20


def test_H2_a_gate_without_a_limit_is_caught() -> None:
    validate_gate(Gate)
    with pytest.raises(LocalError, match="H2"):
        validate_gate(OpenGate)


@pytest.mark.parametrize("kind", [BelievingTrust, NearsightedTrust])
def test_H3_mutants_are_caught(tmp_path: Path, kind: type[Trust]) -> None:
    """One lets the revoked in, the other takes one peer for another."""
    with pytest.raises((AssertionError, pytest.fail.Exception), match="H3"):
        validate_trust(tmp_path, kind)


def test_H4_an_outbox_that_drops_nothing_is_caught() -> None:
    validate_outbox(Outbox)
    with pytest.raises(LocalError, match="H4"):
        validate_outbox(HoardingOutbox)


@pytest.mark.slow
def test_H5_a_host_that_does_not_wait_for_its_disk_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "Host", HastyHost)
    with pytest.raises(AssertionError, match="H5"):
        validate_order(tmp_path)


@pytest.mark.slow
def test_D1_a_host_that_hands_on_what_waited_for_long_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What others have withdrawn and forgotten meanwhile is in it."""
    monkeypatch.setattr(shoal.sim.world, "AWAY", HANDED_ON)
    assert caught(standard().factory, "away", range(1, 6)).startswith(("D1", "D2", "G4"))
