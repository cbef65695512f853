"""The root of a mesh: where everything durable lies, and which format it has.

    <root>/shoal.json                 format version and mesh id, created once
    <root>/tables/<instance>/         the Delta table of an instance
        _delta_log/                   its transaction log, kept short
        _history/                     the entries trimmed from it, kept for hours
        _staging/                     where Spark writes before a file is adopted
        _mended/                      torn entries, set aside at a take-over
    <root>/rosters, journals, spools, catalog, readers

The root is inside the trust boundary: its folders have mode 0700. Opening it proves that it can
be written and that create-if-absent holds, because agreement in a mesh rests on that alone.

What is not here: what is inside the other folders; each has its own module.
"""

import contextlib
import json
import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from shoal.kernel.errors import LocalError, StorageError
from shoal.log.durable import create_if_absent, sync_folder

__all__ = ["FORMAT", "Root", "TableDir", "make_folder"]

#: The newest layout this code knows. A root with a newer one is refused.
FORMAT = 1

_INSTANCE = re.compile(r"[a-z0-9][a-z0-9_.-]{0,199}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDir:
    """The folder of one instance's table and the names inside it."""

    path: Path
    instance: str

    @property
    def log(self) -> Path:
        """The Delta transaction log."""
        return self.path / "_delta_log"

    @property
    def history(self) -> Path:
        """Entries trimmed from the transaction log, for readers that lag."""
        return self.path / "_history"

    @property
    def staging(self) -> Path:
        """Folder for files that are not yet segments; readers of Delta ignore the name."""
        return self.path / "_staging"

    @property
    def mended(self) -> Path:
        """Torn files that were set aside."""
        return self.path / "_mended"

    def entry(self, version: int) -> Path:
        """The file of one entry of the transaction log."""
        return self.log / f"{version:020d}.json"

    def entry_kept(self, version: int) -> Path:
        """The same entry after it was trimmed."""
        return self.history / f"{version:020d}.json"

    def checkpoint(self, version: int) -> Path:
        """The checkpoint of one version."""
        return self.log / f"{version:020d}.checkpoint.parquet"

    def exists(self) -> bool:
        """Whether the table was created."""
        return self.entry(0).exists() or (self.log / "_last_checkpoint").exists()


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """An opened root."""

    path: Path
    mesh: str

    @classmethod
    def open(cls, path: str | Path) -> "Root":
        """Open the root, and create it if it is not there; many may do so at once."""
        folder = Path(path).expanduser().absolute()
        make_folder(folder)
        _prove(folder)
        marker = folder / "shoal.json"
        if not marker.exists():
            content = {"format": FORMAT, "mesh": secrets.token_hex(8)}
            create_if_absent(marker, json.dumps(content).encode())
        return cls(path=folder, mesh=_read_marker(marker))

    def table(self, instance: str) -> TableDir:
        """The folder of an instance's table, which may not exist yet."""
        return TableDir(path=self.path / "tables" / _checked(instance), instance=instance)

    def folder(self, kind: str, instance: str) -> Path:
        """The folder `<root>/<kind>/<instance>`, such as rosters or spools, made if absent."""
        folder = self.path / kind / _checked(instance)
        make_folder(folder)
        return folder


def make_folder(path: Path) -> None:
    """Create the folder and those above it with mode 0700, durably."""
    if path.is_dir():
        return
    missing = [path]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    try:
        for folder in reversed(missing):
            folder.mkdir(mode=0o700, exist_ok=True)
            sync_folder(folder.parent)
    except OSError as error:
        raise StorageError(
            f"cannot create folder {path}",
            detail=str(error),
            hint="choose a place that the user who runs Shoal may write to, with space left",
        ) from error


def _checked(instance: str) -> str:
    if not _INSTANCE.fullmatch(instance):
        raise LocalError(
            f"instance {instance!r} cannot name a folder",
            detail="an instance has 1 to 200 of a-z, 0-9, '_', '.', '-' and starts with a-z or 0-9",
            hint="make instances with kernel.ids.instance_of or check_name",
        )
    return instance


def _prove(folder: Path) -> None:
    """Raise unless the folder can be written and creates a file only once."""
    probe = folder / f".probe-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        first, second = create_if_absent(probe, b"1"), create_if_absent(probe, b"2")
    finally:
        with contextlib.suppress(OSError):
            probe.unlink()
    if not first or second:
        raise StorageError(
            f"the root {folder} does not create a file only once",
            detail=f"two attempts to create one file gave {first} and {second}",
            hint="choose a file system with hard links that are atomic, such as ext4 or xfs",
        )


def _read_marker(marker: Path) -> str:
    try:
        content = json.loads(marker.read_bytes())
        found, mesh = int(content["format"]), str(content["mesh"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StorageError(
            f"cannot read {marker}",
            detail=f"{type(error).__name__}: {error}",
            hint="is this a root of Shoal? restore the file from a backup, or choose another root",
        ) from error
    if found > FORMAT:
        raise StorageError(
            f"the root {marker.parent} has format {found}",
            detail=f"this version of Shoal knows formats up to {FORMAT}",
            hint="use the newer version of Shoal that created the root",
        )
    return mesh
