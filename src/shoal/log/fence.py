"""The fence of an instance: entries are added by one owner at a time, or not at all.

Promises
    L1  An entry is there whole or not at all, and it stays: synced before `append` returns.
    L2  A mark (epoch, step) is recorded for new rows once.
    L3  After an entry with a higher epoch no lower epoch adds one.
    M1  Each epoch has one owner.

How. One application id fences the table; its version is the mark. The
recorded mark is compared with ours after every refresh of the handle, and the library refuses an
entry from a handle at version v if anybody added one under the id after v: the check at v and
the library's check over (v, entry] leave no hole. Neither holds it alone. An error from the
library means "unknown": refresh, look for our nonce, decide.

An owner that was fenced, or that cannot learn what became of its entry, stops for good.

What is not here: what entries are for (writer); torn ones (mend).
"""

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from shoal.kernel.errors import Fenced, ShoalError, StorageError
from shoal.log.durable import sync_file, sync_folder
from shoal.log.entries import APPLICATION, Entry, Mark, read_entry
from shoal.log.root import TableDir
from shoal.log.segment import Segment

__all__ = ["Change", "Fence", "open_handle", "refused"]

#: The library's own retries: each is a foreign entry that does not conflict.
RETRIES_MAX = 15
#: Our attempts after an error that left nothing in the log.
ATTEMPTS_MAX = 5

_NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What one entry does.

    new     segments with rows that the table did not have
    moved   segments with rows of `gone` ones, and no others (compaction)
    lost    segments whose rows leave the table (retention)
    """

    kind: str
    new: Sequence[Segment] = ()
    moved: Sequence[Segment] = ()
    gone: Sequence[Segment] = ()
    lost: Sequence[Segment] = ()
    transactions: Mapping[str, int] = field(default_factory=dict)
    info: Mapping[str, str] = field(default_factory=dict)

    def actions(self) -> list[AddAction | RemoveAction]:
        """The change in the library's terms."""
        now_ms = int(time.time() * 1000)
        return [
            *(_add(segment, now_ms, data_change=True) for segment in self.new),
            *(_add(segment, now_ms, data_change=False) for segment in self.moved),
            *(_remove(segment, now_ms, data_change=False) for segment in self.gone),
            *(_remove(segment, now_ms, data_change=True) for segment in self.lost),
        ]


class Fence:
    """A handle of the table and the mark that must be recorded there for it to go on."""

    def __init__(self, table: TableDir, *, owner: str, trace: Callable[[str], None]) -> None:
        self.table = table
        self.owner = owner
        self._trace = trace
        self._stopped: ShoalError | None = None
        self.mark = self._open()
        self._schema = self._handle.schema()
        self._partition_by = list(self._handle.metadata().partition_columns)

    @property
    def version(self) -> int:
        """The version of the table at which the mark was checked last."""
        return self._handle.version()

    def property(self, name: str) -> str | None:
        """A property of the table."""
        return self._handle.metadata().configuration.get(name)

    def check(self) -> None:
        """Raise if this owner has stopped."""
        if self._stopped is not None:
            raise self._stopped

    def append(self, change: Change, *, mark: Mark) -> Entry:
        """Add one entry that records the mark, whatever errors come between."""
        self.check()
        actions = change.actions()
        transactions = {**change.transactions, APPLICATION: mark.pack()}
        said: dict[str, Any] = {
            "nonce": secrets.token_hex(8),
            "kind": change.kind,
            "owner": self.owner,
            # The entry's own line, then one for each action: a torn entry has fewer.
            "lines": 1 + len(actions) + len(transactions),
            "info": dict(change.info),
        }
        properties = CommitProperties(
            custom_metadata={"shoal": said},
            max_commit_retries=RETRIES_MAX,
            app_transactions=[Transaction(name, value) for name, value in transactions.items()],
        )
        failure: Exception | None = None
        for _ in range(ATTEMPTS_MAX):
            before = self.version
            self._trace("appending")
            failure = self._create(actions, properties) or failure
            self._trace("appended")
            entry = self._resolve(before, nonce=said["nonce"], mark=mark)
            if entry is not None:
                self.mark = mark
                return entry
        raise refused(self.table, "commit", failure) from failure

    def checkpoint(self) -> int:
        """Write a checkpoint of the version that was checked last; not synced. Its version."""
        self.check()
        try:
            self._handle.create_checkpoint()
        except Exception as error:  # the library names no classes here
            raise refused(self.table, "write a checkpoint", error) from error
        return self.version

    def reopen(self) -> None:
        """A new handle, because a live one does not notice a checkpoint."""
        self.check()
        recorded = self._open()
        if recorded != self.mark:
            self.stop(recorded)

    def stop(self, recorded: Mark) -> NoReturn:
        """Stop for good: the table says that somebody else owns the instance."""
        self._stopped = Fenced(
            f"{self.owner} no longer owns {self.table.instance}",
            detail=f"it was at {self.mark}; the table records {recorded}. What it was "
            "committing may be there or not; the owner now goes on from what is there",
            hint="stop this component here; take it over again only on purpose",
        )
        raise self._stopped

    def _create(
        self, actions: list[AddAction | RemoveAction], properties: CommitProperties
    ) -> Exception | None:
        """Ask the library once; what it answers is only a hint at the outcome."""
        try:
            self._handle.create_write_transaction(
                actions,
                "append",
                self._schema,
                self._partition_by,
                commit_properties=properties,
                post_commithook_properties=_NO_HOOKS,
            )
        except Exception as error:  # noqa: BLE001  any error leaves the outcome open
            return error
        return None

    def _resolve(self, before: int, *, nonce: str, mark: Mark) -> Entry | None:
        """The entry if it landed, None if it did not; raises where another owner came between."""
        recorded = self._refresh()
        self._trace("refreshed")
        if recorded not in (self.mark, mark):
            self.stop(recorded)
        for version in range(before + 1, self.version + 1):
            entry = read_entry(self.table, version)
            if entry is not None and entry.nonce == nonce:
                self._sync(version)
                return entry
        if recorded != self.mark:
            self.stop(recorded)
        return None

    def _sync(self, version: int) -> None:
        try:
            sync_file(self.table.entry(version))
            self._trace("entry synced")
            sync_folder(self.table.log)
            self._trace("log synced")
        except StorageError:
            # A later owner has trimmed the entry, which it does below a synced checkpoint only.
            if not self.table.entry_kept(version).exists():
                raise

    def _refresh(self) -> Mark:
        """Bring the handle up to date; the mark recorded there. Never a guess on failure."""
        failure: Exception | None = None
        for attempt in range(ATTEMPTS_MAX):
            try:
                if failure is not None:
                    return self._open()
                self._handle.update_incremental()
                return self._recorded()
            except Exception as error:  # noqa: BLE001  a listing may miss a file
                failure = error
                time.sleep(0.002 * attempt)
        self._stopped = refused(self.table, "read the table after a commit", failure)
        raise self._stopped from failure

    def _open(self) -> Mark:
        """A new handle and the mark recorded there; both read files that may be trimmed."""
        failure: Exception | None = None
        for attempt in range(ATTEMPTS_MAX):
            self._handle = open_handle(self.table)
            try:
                return self._recorded()
            except Exception as error:  # noqa: BLE001  the library reads what it needs only now
                failure = error
                time.sleep(0.002 * attempt)
        raise refused(self.table, "read the table", failure) from failure

    def _recorded(self) -> Mark:
        return Mark.unpack(self._handle.transaction_version(APPLICATION))


def open_handle(table: TableDir) -> DeltaTable:
    """A handle at the newest version; a listing may miss a file, so it is tried again."""
    failure: Exception | None = None
    for attempt in range(ATTEMPTS_MAX):
        try:
            return DeltaTable(str(table.path))
        except TableNotFoundError as error:
            raise refused(table, "open the table", error) from error
        except Exception as error:  # noqa: BLE001  a listing may miss a file
            failure = error
            time.sleep(0.002 * attempt)
    raise refused(table, "open the table", failure) from failure


def refused(table: TableDir, verb: str, error: Exception | None) -> StorageError:
    """The three-part error of a table that could not be read or written."""
    return StorageError(
        f"cannot {verb} for {table.instance}",
        detail=f"{type(error).__name__}: {error}",
        hint="look at the disk of the root (space, mount, rights), then start the component again",
    )


def _add(segment: Segment, now_ms: int, *, data_change: bool) -> AddAction:
    partition = dict(segment.partition)
    return AddAction(segment.path, segment.bytes, partition, now_ms, data_change, segment.stats)


def _remove(segment: Segment, now_ms: int, *, data_change: bool) -> RemoveAction:
    partition: dict[str, str | None] = dict(segment.partition)
    return RemoveAction(segment.path, data_change, now_ms, segment.bytes, partition)
