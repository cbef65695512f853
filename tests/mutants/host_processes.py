"""Broken variants of a host's parts; what watches them must catch them.

UnsyncedStore     writes and does not sync                             breaks H1
names_unsynced    leaves the names of one step of the store unsynced   breaks H1
BuildingStore     takes for durable what the process before it made    breaks H1
OpenGate          counts strangers and sends nobody away               breaks H2
BelievingTrust    does not ask for the list of revocations             breaks H3
NearsightedTrust  takes whoever has a certificate for one peer         breaks H3
HoardingOutbox    drops nothing                                        breaks H4
HastyHost         goes on while something is being stored              breaks H5
HANDED_ON         in place of AWAY: what waited for long is handed on  breaks D1, D2, G4
"""

import inspect
import os
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from shoal.host.disk import store as module
from shoal.host.disk.store import Change, Store
from shoal.host.keys.trust import Identified, Trust
from shoal.host.loop import Host
from shoal.host.net.gate import Gate
from shoal.host.net.outbox import Outbox
from shoal.kernel.time import SECOND
from shoal.log.durable import sync_folder
from shoal.wire.batches import batch

__all__ = [
    "HANDED_ON",
    "BelievingTrust",
    "BuildingStore",
    "HastyHost",
    "HoardingOutbox",
    "NearsightedTrust",
    "OpenGate",
    "UnsyncedStore",
    "names_unsynced",
]


#: D1, D2, G4: hosts that stood still have then never been away for long.
HANDED_ON = 1_000 * SECOND


class UnsyncedStore(Store):
    """H1: what the kernel has taken is good enough."""

    def write(self, changes: Sequence[Change]) -> None:
        data = batch(self._number + 1, changes)
        os.write(self._file, data)
        self._number += 1
        self._size += len(data)
        self._apply(changes)
        if self._size > self._log_bytes_max:
            self._fold()


def names_unsynced(function: str) -> Callable[[Path], None]:
    """H1: in place of the store's `sync_folder`: called by this function, it does nothing."""

    def sync(folder: Path) -> None:
        if inspect.stack()[2].function != function:  # behind `_sync_names`
            sync_folder(folder)

    return sync


class BuildingStore(Store):
    """H1: a log that is there needs no sync: whoever made it has done that."""

    def _open_log(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            if self._path("log", self._generation).exists():
                patch.setattr(module, "sync_folder", lambda folder: None)
            super()._open_log()


class OpenGate(Gate):
    """H2: everybody may wait for a hello."""

    def admit(self, host: str) -> bool:
        self._strangers[host] += 1
        return True


class BelievingTrust(Trust):
    """H3: a certificate of the authority is enough, for ever."""

    def is_revoked(self, serial: int) -> bool:
        return False


class NearsightedTrust(Trust):
    """H3: does not read whom a certificate names."""

    def identify(self, connection: ssl.SSLObject) -> Identified:
        return Identified("p2", super().identify(connection).serial)


class HoardingOutbox(Outbox):
    """H4: somebody will want it one day."""

    def put(self, frame: bytes) -> None:
        self._frames.append(frame)
        self.bytes += len(frame)
        self._total.bytes += len(frame)


class HastyHost(Host):
    """H5: the disk will manage."""

    async def _write(self, changes: Sequence[Change]) -> None:
        self._loop.run_in_executor(self._disk, self._store.write, changes)
