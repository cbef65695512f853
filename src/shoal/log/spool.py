"""The spool: batches that clients push, durable before they are acknowledged.

A batch is one Arrow file named by its position; positions run on from 1 without a gap, and only
one process can create each, so many processes may append. An ingest reads positions a + 1 to b
as a step, and releases them when that step is committed.

Promises
    L1  a batch is there whole or not at all, and there when `append` returned.
    L2  a batch is accepted once. A client numbers its batches 0, 1, 2, ...; one that was accepted
        before is acknowledged again and not stored again. A gap is refused, as Kafka refuses it
        of an idempotent producer: had 2 been taken before 1, then 1 would look like a repetition
        and be lost. Send again from `last` + 1.
    L4  a reader sees every batch once; a position that was released is an error, not a hole.

A client's last number outlives its batches: it is in the release. One that was silent for
`forget_after` is forgotten and starts again at 0; so memory goes with the clients of that span.
(Kafka forgets producers the same way. The ingest keeps the number, too, as a transaction of
its table.)

A release is written before the first file goes. A process that was stopped for long could find
its position free because its file is gone; so each append looks, after it, for a release at or
above its position, takes its stray file away and tries again.

    000...042.arrow              a batch; client and number are in the metadata of its schema
    released/000...041.json      {"upto": 41, "clients": {"c": [7, instant], ...}}; two are kept

Not here: what the batches mean, tuples that do not fit (`spark/ingest`), and HTTP.
"""

import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from shoal.kernel.errors import LocalError, StorageError, UserError
from shoal.kernel.time import DAY, Instant
from shoal.log.durable import create_if_absent, sync_folder
from shoal.log.objects import encode, file_names, read_object
from shoal.log.root import make_folder

__all__ = ["BYTES_MAX", "FORGET_AFTER", "Spool", "SpoolEntry"]

#: Bytes of batches that wait; a guess: minutes of a fast client.
BYTES_MAX = 4 * 1024**3
#: Microseconds without a batch after which a client is forgotten; a guess, Kafka says one day.
FORGET_AFTER = 7 * DAY
#: Characters of a client's name.
CLIENT_MAX = 200
#: How often an append starts again because other processes took its position; a guess.
ATTEMPTS_MAX = 1_000
#: Releases kept, so that a listing made while one is replaced still finds one.
RELEASES_KEPT = 2

_BATCH = re.compile(r"(\d{20})\.arrow")
_RELEASE = re.compile(r"(\d{20})\.json")
_METADATA = b"shoal.batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolEntry:
    """One batch that waits; `bytes` is the size of its file."""

    position: int
    client: str
    sequence: int
    rows: int
    bytes: int
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class _Release:
    """What was let go, and the last number of each client up to there, with when it was heard."""

    upto: int
    clients: Mapping[str, tuple[int, Instant]]


class Spool:
    """The spool in one folder. Threads may share it."""

    def __init__(self, folder: Path, *, bytes_max: int) -> None:
        make_folder(folder / "released")
        self._folder = folder
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._release = _Release(upto=0, clients={})
        #: Batches above the release, by position, without a gap.
        self._waiting: dict[int, SpoolEntry] = {}
        #: Of each client: its last number and that batch's position.
        self._last: dict[str, tuple[int, int]] = {}
        self._waiting_bytes = 0
        with self._lock:
            self._catch_up()
            self._check_whole()

    @property
    def head(self) -> int:
        """The position of the newest batch that this object knows of."""
        return self._release.upto + len(self._waiting)

    @property
    def released(self) -> int:
        """The position up to which batches were released, as far as this object knows."""
        return self._release.upto

    def append(self, client: str, sequence: int, rows: pa.Table) -> int:
        """Store a batch, durable on return; returns its position, again if it was stored before.

        Of a repeated batch that was released already, a position at or above its own is returned.
        """
        data = _encoded(client, sequence, rows)
        with self._lock:
            for _ in range(ATTEMPTS_MAX):
                self._catch_up()
                known = self._acknowledged(client, sequence)
                if known is not None:
                    return known
                self._check_room(len(data))
                position = self.head + 1
                path = self._path(position)
                if not create_if_absent(path, data):
                    continue
                if self._released_upto() >= position:
                    path.unlink(missing_ok=True)
                    continue
                self._note(
                    SpoolEntry(
                        position=position,
                        client=client,
                        sequence=sequence,
                        rows=rows.num_rows,
                        bytes=len(data),
                        path=path,
                    )
                )
                return position
        raise StorageError(
            f"cannot append to spool {self._folder}",
            detail=f"other processes were faster {ATTEMPTS_MAX} times",
            hint="let fewer processes push to one stream",
        )

    def last(self, client: str) -> int | None:
        """The number of the client's last accepted batch; None if the client is not known."""
        with self._lock:
            self._catch_up()
            known = self._last.get(client)
        return None if known is None else known[0]

    def entries(self, after: int, upto: int) -> tuple[SpoolEntry, ...]:
        """The batches at positions after + 1 to upto, or to the head if that is lower."""
        with self._lock:
            self._catch_up()
            if after < self._release.upto:
                raise StorageError(
                    f"batches {after + 1} to {self._release.upto} of {self._folder} are released",
                    detail="a step that read them was committed",
                    hint="go on from the position of the ingest's newest commit",
                )
            wanted = range(after + 1, min(upto, self.head) + 1)
            return tuple(self._waiting[position] for position in wanted)

    def read(self, entry: SpoolEntry) -> pa.Table:
        """The tuples of a batch, with the schema that the client pushed."""
        try:
            with pa.OSFile(str(entry.path)) as file, pa.ipc.open_file(file) as batches:
                table = batches.read_all()
        except (OSError, pa.ArrowException) as error:
            raise _damaged(entry.path, error) from error
        metadata = dict(table.schema.metadata or {})
        metadata.pop(_METADATA, None)
        return table.replace_schema_metadata(metadata or None)

    def release(self, upto: int, *, now: Instant, forget_after: int) -> None:
        """Remove the batches up to this committed position; what clients have sent stays known."""
        with self._lock:
            self._catch_up()
            if upto > self.head:
                raise LocalError(
                    f"spool {self._folder} cannot be released to {upto}",
                    detail=f"its newest batch is {self.head}",
                )
            if upto > self._release.upto:
                self._write_release(upto, now, forget_after)
                self._catch_up()
            self._remove_released()

    def _write_release(self, upto: int, now: Instant, forget_after: int) -> None:
        clients = {
            client: (sequence, heard)
            for client, (sequence, heard) in self._release.clients.items()
            if heard > now - forget_after
        }
        for position in range(self._release.upto + 1, upto + 1):
            entry = self._waiting[position]
            clients[entry.client] = (entry.sequence, now)
        for position in range(upto + 1, self.head + 1):
            # A client with a batch that waits is not silent, however long it was before.
            client = self._waiting[position].client
            if client in self._release.clients and client not in clients:
                clients[client] = self._release.clients[client]
        content = {"upto": upto, "clients": {name: list(pair) for name, pair in clients.items()}}
        create_if_absent(self._folder / "released" / f"{upto:020d}.json", encode(content))

    def _remove_released(self) -> None:
        for position in _numbers(self._folder, _BATCH):
            if position <= self._release.upto:
                self._path(position).unlink(missing_ok=True)
        folder = self._folder / "released"
        for upto in _numbers(folder, _RELEASE)[:-RELEASES_KEPT]:
            (folder / f"{upto:020d}.json").unlink(missing_ok=True)

    def _acknowledged(self, client: str, sequence: int) -> int | None:
        """The position of a batch that was accepted before; an error if one is missing."""
        known = self._last.get(client)
        expected = 0 if known is None else known[0] + 1
        if sequence > expected:
            raise UserError(
                f"batch {sequence} of client {client!r} cannot be accepted yet",
                detail="the client is not known here" if known is None else f"{known[0]} came last",
                hint=f"send batch {expected} first, or go on under a new client name from 0",
            )
        if known is None or sequence == expected:
            return None
        if sequence == known[0]:
            return known[1]
        for entry in self._waiting.values():
            if entry.client == client and entry.sequence == sequence:
                return entry.position
        return self._release.upto

    def _check_room(self, size: int) -> None:
        if size > self._bytes_max:
            raise UserError(
                f"a batch of {size} bytes is too large",
                detail=f"the whole spool may hold {self._bytes_max} bytes",
                hint="push smaller batches",
            )
        if self._waiting_bytes + size > self._bytes_max:
            raise StorageError(
                f"spool {self._folder} is full",
                detail=f"{self._waiting_bytes} bytes in {len(self._waiting)} batches wait, "
                f"at most {self._bytes_max} may",
                hint="is the ingest running? send this batch again when it has caught up",
            )

    def _catch_up(self) -> None:
        """Learn what other processes released and appended."""
        while True:
            upto = self._released_upto()
            if upto > self._release.upto:
                self._load_release(upto)
            found = False
            while (entry := self._look(self.head + 1)) is not None:
                self._note(entry)
                found = True
            if found:
                # Whoever made these may not have synced them yet, and we may acknowledge them.
                sync_folder(self._folder)
            # What was read counts only if no release has reached it meanwhile.
            if self._released_upto() <= self._release.upto:
                return

    def _check_whole(self) -> None:
        """Raise if a batch is missing below one that is there."""
        while (newest := max(_numbers(self._folder, _BATCH), default=0)) > self.head:
            known = self.head
            self._catch_up()
            # Other processes append and release meanwhile; only if nothing moves is it a hole.
            if self.head == known:
                raise StorageError(
                    f"batch {known + 1} of spool {self._folder} is missing",
                    detail=f"batch {newest} is there, and {known + 1} was not released",
                    hint="was a file removed by hand? restore it from a backup",
                )

    def _load_release(self, upto: int) -> None:
        path = self._folder / "released" / f"{upto:020d}.json"
        content = read_object(path)
        if content is None:
            return
        try:
            clients = {
                name: (int(last), int(at)) for name, (last, at) in content["clients"].items()
            }
        except (KeyError, AttributeError, TypeError, ValueError) as error:
            raise _damaged(path, error) from error
        self._release = _Release(upto=upto, clients=clients)
        waiting = [entry for position, entry in self._waiting.items() if position > upto]
        self._waiting, self._waiting_bytes = {}, 0
        self._last = {name: (last, upto) for name, (last, _) in clients.items()}
        for entry in waiting:
            self._note(entry)

    def _look(self, position: int) -> SpoolEntry | None:
        """The batch at this position, None if there is none."""
        path = self._path(position)
        try:
            with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as batches:
                label = json.loads((batches.schema.metadata or {})[_METADATA])
                size = file.size()
            return SpoolEntry(
                position=position,
                client=str(label["client"]),
                sequence=int(label["sequence"]),
                rows=int(label["rows"]),
                bytes=size,
                path=path,
            )
        except FileNotFoundError:
            return None
        except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
            raise _damaged(path, error) from error

    def _note(self, entry: SpoolEntry) -> None:
        self._waiting[entry.position] = entry
        self._waiting_bytes += entry.bytes
        self._last[entry.client] = (entry.sequence, entry.position)

    def _released_upto(self) -> int:
        return max(_numbers(self._folder / "released", _RELEASE), default=0)

    def _path(self, position: int) -> Path:
        return self._folder / f"{position:020d}.arrow"


def _encoded(client: str, sequence: int, rows: pa.Table) -> bytes:
    """The bytes of a batch's file."""
    if not 0 < len(client) <= CLIENT_MAX or not client.isprintable():
        raise UserError(
            f"client name {client[:CLIENT_MAX]!r} cannot be used",
            detail=f"a client name has 1 to {CLIENT_MAX} printable characters",
            hint="choose a name that is unique and stays the same when the client restarts",
        )
    if not 0 <= sequence < 1 << 63:
        raise UserError(
            f"batch number {sequence} of client {client!r} cannot be used",
            detail="numbers begin at 0 and go up by 1",
        )
    label = json.dumps({"client": client, "sequence": sequence, "rows": rows.num_rows})
    metadata = {**(rows.schema.metadata or {}), _METADATA: label.encode()}
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    labelled = rows.replace_schema_metadata(metadata)
    with pa.ipc.new_file(sink, labelled.schema, options=options) as writer:
        writer.write_table(labelled)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _numbers(folder: Path, pattern: re.Pattern[str]) -> list[int]:
    matches = [pattern.fullmatch(name) for name in file_names(folder)]
    return sorted(int(match.group(1)) for match in matches if match)


def _damaged(path: Path, error: Exception) -> StorageError:
    return StorageError(
        f"damaged file {path}",
        detail=f"{type(error).__name__}: {error}",
        hint="Shoal writes such files whole or not at all: suspect the disk, or an edit by hand; "
        "restore the file from a backup",
    )
