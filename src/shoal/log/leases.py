"""Readers' leases: how far back a table must be kept, because somebody still reads there.

A reader registers with a position and an expiry, and renews both as it goes. What lies above the
lowest position that has not expired is kept. A reader that lets its lease run out is told so when
it renews, and must look whether its position is still there before it goes on.

A lease counts until it expires, and its file is removed only `REMOVE_AFTER` later: a renewal that
began in time has long ended by then, also where the clocks of two machines differ a little.

Between a look at the horizon and a vacuum a reader may register further back. So a new reader
registers first and then looks whether its position is still within the table.

    <reader>.json    {"reader": "dashboard-1", "position": 41, "expires": 1700000000000000}

Not here: what is kept or removed (`housekeep`), and clocks: time is an argument.
"""

from dataclasses import dataclass
from pathlib import Path

from shoal.kernel.errors import LocalError, StorageError, UserError
from shoal.kernel.time import MINUTE, Instant, format_instant
from shoal.log.durable import replace, sync_folder
from shoal.log.objects import check_file_name, encode, file_names, read_object
from shoal.log.root import make_folder

__all__ = ["REMOVE_AFTER", "Lease", "Leases"]

#: Microseconds between the expiry of a lease and the removal of its file; a guess.
REMOVE_AFTER = 10 * MINUTE


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A reader that has seen everything up to `position` and needs what comes after it."""

    reader: str
    position: int
    expires: Instant


class Leases:
    """The leases on one instance, in one folder; any process may use it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def register(self, reader: str, *, position: int, expires: Instant) -> Lease:
        """Begin to read after this position, in place of any lease of the same reader."""
        check_file_name("reader", reader)
        if position < 0:
            raise LocalError(f"reader {reader} registers position {position}", detail="below 0")
        make_folder(self._folder)
        return self._write(Lease(reader=reader, position=position, expires=expires))

    def renew(self, reader: str, *, position: int, expires: Instant, now: Instant) -> Lease:
        """Move the lease on; an error if it has expired, for then nothing was kept."""
        current = self._read(check_file_name("reader", reader))
        if current is None or current.expires <= now:
            since = "" if current is None else f" since {format_instant(current.expires)}"
            raise UserError(
                f"the lease of reader {reader} has expired{since}",
                detail="what it had not read may have been removed",
                hint="register again, then look whether the position is within the table",
            )
        if position < current.position:
            raise LocalError(
                f"reader {reader} goes back from {current.position} to {position}",
                detail="a lease only moves on: what it has passed may be gone",
                hint="register again to read from further back",
            )
        return self._write(Lease(reader=reader, position=position, expires=expires))

    def release(self, reader: str) -> None:
        """End a lease; nothing happens if there is none."""
        self._path(check_file_name("reader", reader)).unlink(missing_ok=True)
        if self._folder.is_dir():
            sync_folder(self._folder)

    def list(self, now: Instant) -> tuple[Lease, ...]:
        """The leases that have not expired, by name of the reader."""
        return tuple(lease for lease in self._all() if lease.expires > now)

    def horizon(self, now: Instant) -> int | None:
        """The lowest position still leased, None if none is; removes what expired long ago."""
        for lease in self._all():
            if lease.expires + REMOVE_AFTER <= now:
                self._path(lease.reader).unlink(missing_ok=True)
        return min((lease.position for lease in self.list(now)), default=None)

    def _all(self) -> tuple[Lease, ...]:
        readers = sorted(
            name.removesuffix(".json")
            for name in file_names(self._folder)
            if name.endswith(".json")
        )
        found = (self._read(reader) for reader in readers)
        return tuple(lease for lease in found if lease is not None)

    def _path(self, reader: str) -> Path:
        return self._folder / f"{reader}.json"

    def _write(self, lease: Lease) -> Lease:
        content = {"reader": lease.reader, "position": lease.position, "expires": lease.expires}
        replace(self._path(lease.reader), encode(content))
        return lease

    def _read(self, reader: str) -> Lease | None:
        path = self._path(reader)
        content = read_object(path)
        if content is None:
            return None
        position, expires = content.get("position"), content.get("expires")
        if isinstance(position, int) and isinstance(expires, int):
            return Lease(reader=reader, position=position, expires=expires)
        raise StorageError(
            f"damaged file {path}",
            detail="a lease has a position and an expiry; without them nothing can be removed",
            hint="delete the file, and let the reader register again",
        )
