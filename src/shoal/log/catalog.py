"""The catalog: definitions of streams and queries, one object per version, agreed by the store.

Peers with nobody in charge agree on who owns a name because version n + 1 of a name is a file
that only one of them can create (promise L2). Every version stays: definitions are small, they
change at the pace of people, and old versions are the history that users ask for. What is
dropped gets a last version that says so, a tombstone; the name may then be taken again, and its
versions run on, so that no version of a name ever means two things.

    streams/<name>/00000001.json    {"name": ..., "version": 1, "dropped": false, "body": {...}}
    queries/<name>/00000002.json    the body is whatever the caller keeps about it, the pieces
                                    of a query's result (instance, from step, to step) included

Not here: what a definition means (`query/`), and the rows of queries (`rosterlog`).
"""

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from shoal.kernel.errors import LocalError, StorageError, UserError
from shoal.kernel.ids import check_name
from shoal.log.durable import create_if_absent, sync_folder
from shoal.log.objects import JSON, encode, file_names, read_object
from shoal.log.root import make_folder

__all__ = ["Batch", "Catalog", "Definition", "Kind"]

Kind = Literal["streams", "queries"]

_SINGULAR: dict[Kind, str] = {"streams": "stream", "queries": "query"}
_VERSION = re.compile(r"(\d{8})\.json")
#: Threads that wait for the disk in create_many; syncs of several files share its writes.
_WRITERS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One version of the definition of a stream or a query; `body` is not to be changed."""

    kind: Kind
    name: str
    version: int
    dropped: bool
    body: Mapping[str, JSON]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What create_many did: the definitions made, and the names that somebody else holds."""

    made: tuple[Definition, ...]
    taken: tuple[str, ...]


class Catalog:
    """The catalog in one folder, `<root>/catalog`. Holds no state: the folder is the truth."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, kind: Kind, name: str) -> Definition | None:
        """The newest version of what has this name; None if nothing has it (any more)."""
        newest = self._newest(kind, check_name(_SINGULAR[kind], name))
        return None if newest is None or newest.dropped else newest

    def list(self, kind: Kind) -> tuple[Definition, ...]:
        """The newest version of everything that is not dropped, by name."""
        found = (self._newest(kind, name) for name in self._names(kind))
        return tuple(item for item in found if item is not None and not item.dropped)

    def history(self, kind: Kind, name: str) -> tuple[Definition, ...]:
        """Every version that this name ever had, tombstones included, oldest first."""
        name = check_name(_SINGULAR[kind], name)
        found = (self._read(kind, name, version) for version in self._versions(kind, name))
        return tuple(item for item in found if item is not None)

    def create(self, kind: Kind, name: str, body: Mapping[str, JSON]) -> Definition:
        """Take the name; an error if it is taken. Durable on return."""
        name = check_name(_SINGULAR[kind], name)
        make_folder(self._folder / kind)
        made = self._take(kind, name, body)
        if made is None:
            raise UserError(
                f"{_SINGULAR[kind]} {name} exists already",
                detail="names are unique in a mesh; another peer may have taken it just now",
                hint="choose another name, or alter or drop the one that exists",
            )
        sync_folder(self._folder / kind)
        return made

    def create_many(self, kind: Kind, bodies: Mapping[str, Mapping[str, JSON]]) -> Batch:
        """Take many names at once, each on its own: some may be taken. Durable on return."""
        named = {check_name(_SINGULAR[kind], name): body for name, body in bodies.items()}
        if len(named) < len(bodies):
            raise UserError(
                f"two names of {kind} in one batch are the same",
                detail="letters are not told apart by case",
                hint="give each its own name",
            )
        for name, body in named.items():
            self._encoded(name, 1, body, dropped=False)
        make_folder(self._folder / kind)
        with ThreadPoolExecutor(max_workers=_WRITERS) as pool:
            results = pool.map(lambda item: self._take(kind, *item), named.items())
            outcome = dict(zip(named, results, strict=True))
        sync_folder(self._folder / kind)
        return Batch(
            made=tuple(item for item in outcome.values() if item is not None),
            taken=tuple(name for name, item in outcome.items() if item is None),
        )

    def alter(self, kind: Kind, name: str, body: Mapping[str, JSON], *, version: int) -> Definition:
        """Write the version after `version`, which must still be the newest. Durable on return."""
        return self._succeed(kind, name, body, version=version, dropped=False)

    def drop(self, kind: Kind, name: str, *, version: int) -> Definition:
        """Write the tombstone after `version`, which must still be the newest; keeps the body."""
        current = self.get(kind, name)
        body = {} if current is None else current.body
        return self._succeed(kind, name, body, version=version, dropped=True)

    def _succeed(
        self, kind: Kind, name: str, body: Mapping[str, JSON], *, version: int, dropped: bool
    ) -> Definition:
        current = self.get(kind, name)
        name = check_name(_SINGULAR[kind], name)
        if current is None:
            raise UserError(
                f"there is no {_SINGULAR[kind]} {name}",
                detail="it was never created, or it was dropped",
                hint=f"list what exists: SHOW {kind.upper()}",
            )
        made = None
        if current.version == version:
            made = self._write(kind, name, version + 1, body, dropped=dropped)
        if made is None:
            newest = self._newest(kind, name)
            raise UserError(
                f"{_SINGULAR[kind]} {name} was changed by somebody else",
                detail=f"the change is based on version {version}, "
                f"the newest is {newest.version if newest else version}",
                hint="look at the newest version and decide again",
            )
        return made

    def _take(self, kind: Kind, name: str, body: Mapping[str, JSON]) -> Definition | None:
        """The definition made, None if the name is held; the folder of the kind is not synced."""
        while True:
            newest = self._newest(kind, name)
            if newest is not None and not newest.dropped:
                return None
            if newest is None:
                self._folder_of(kind, name)
            version = 1 if newest is None else newest.version + 1
            made = self._write(kind, name, version, body, dropped=False)
            if made is not None:
                return made

    def _folder_of(self, kind: Kind, name: str) -> None:
        """Create the folder of a name; the caller syncs the folder above, once for a batch."""
        try:
            (self._folder / kind / name).mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"cannot create the folder of {_SINGULAR[kind]} {name}",
                detail=str(error.strerror),
                hint="look at the rights and the free space of the root: shoal doctor",
            ) from error

    def _write(
        self, kind: Kind, name: str, version: int, body: Mapping[str, JSON], *, dropped: bool
    ) -> Definition | None:
        data = self._encoded(name, version, body, dropped=dropped)
        if not create_if_absent(self._path(kind, name, version), data):
            return None
        return Definition(kind=kind, name=name, version=version, dropped=dropped, body=dict(body))

    def _encoded(
        self, name: str, version: int, body: Mapping[str, JSON], *, dropped: bool
    ) -> bytes:
        if not isinstance(body, Mapping) or not all(isinstance(key, str) for key in body):
            raise LocalError(f"definition of {name} is not a mapping of text")
        content = {"name": name, "version": version, "dropped": dropped, "body": dict(body)}
        return encode(content)

    def _newest(self, kind: Kind, name: str) -> Definition | None:
        versions = self._versions(kind, name)
        return self._read(kind, name, versions[-1]) if versions else None

    def _read(self, kind: Kind, name: str, version: int) -> Definition | None:
        path = self._path(kind, name, version)
        content = read_object(path)
        if content is None:
            return None
        body, dropped = content.get("body"), content.get("dropped")
        same = content.get("name") == name and content.get("version") == version
        if not same or not isinstance(body, dict) or not isinstance(dropped, bool):
            raise StorageError(
                f"damaged file {path}",
                detail=f"it is not version {version} of {_SINGULAR[kind]} {name}",
                hint="was it copied or edited by hand? restore the file from a backup",
            )
        return Definition(kind=kind, name=name, version=version, dropped=dropped, body=body)

    def _path(self, kind: Kind, name: str, version: int) -> Path:
        return self._folder / kind / name / f"{version:08d}.json"

    def _names(self, kind: Kind) -> tuple[str, ...]:
        return tuple(sorted(file_names(self._folder / kind)))

    def _versions(self, kind: Kind, name: str) -> tuple[int, ...]:
        names = file_names(self._folder / kind / name)
        matches = [_VERSION.fullmatch(item) for item in names]
        return tuple(sorted(int(match.group(1)) for match in matches if match))
