"""Rows into a Delta table of the user's, exactly once, beside whoever else writes to it.

Each delivery has an application id of its own in the table, for each table that its rows come from:
`shoal/<delivery>/<instance>`; its version is (epoch, step) in one integer, as for our own tables
(fence.py). It is read from the very handle that commits, and the library refuses
the commit if anybody added one under the id after that. So of two owners that believe in the same
step one lands, and the other sees that it did.

Promises
    L2  rows up to a step are added once, whoever repeats it.
    L3  an owner whose epoch is lower than the one recorded adds nothing.

A table that is not there is created, and marked as ours: columns that a later version of the query
has are added to it. A table of the user's is never changed: rows must fit it, its further columns
stay NULL, and of `_version`, `_step`, `_id` it gets those that it has.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import TableNotFoundError

from shoal.kernel.errors import Fenced, ShoalError, StorageError
from shoal.log.durable import sync_file, sync_folder
from shoal.log.entries import Mark, read_entry
from shoal.log.root import TableDir

__all__ = ["SinkTable"]

#: Property of a table that a delivery created.
MADE_BY = "shoal.delivery"
#: Foreign commits at the same moment that the library passes over, and our own attempts after it.
RETRIES_MAX = 15
ATTEMPTS_MAX = 5


def _untraced(point: str) -> None:
    """The trace of production: none. Tests stop or kill the process at the named points."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTable:
    """A Delta table that a delivery adds to; `optional` are columns that only some tables have."""

    path: Path
    delivery: str
    optional: tuple[str, ...]
    trace: Callable[[str], None] = _untraced

    def check(self, wanted: pa.Schema | None) -> None:
        """Raise unless this is a table, or nothing yet, that rows of this schema fit."""
        handle = self._open()
        if handle is None:
            if self.path.is_dir() and any(self.path.iterdir()):
                raise StorageError(
                    f"sink {self.path} is not a Delta table",
                    detail="the folder is not empty and has no _delta_log",
                    hint="name an empty folder, or a table",
                )
            return
        if wanted is not None and not self._ours(handle):
            self._missing(handle, wanted)

    def append(
        self,
        schema: pa.Schema,
        batches: Callable[[], Iterator[pa.Table]],
        *,
        instance: str,
        mark: Mark,
    ) -> None:
        """Add the rows of a step unless they are there; durable on return."""
        application = f"shoal/{self.delivery}/{instance}"
        failure: Exception | None = None
        for _ in range(ATTEMPTS_MAX):
            handle = self._open() or self._create(schema)
            recorded = Mark.unpack(handle.transaction_version(application))
            if recorded.step >= mark.step:
                self._sync(handle, application, recorded)
                return
            if recorded.epoch > mark.epoch:
                raise Fenced(
                    f"delivery {self.delivery} has another owner",
                    detail=f"it was at {mark}; the sink {self.path} records {recorded}",
                    hint="it goes on there; stop it here",
                )
            self.trace("checked")
            failure = self._write(handle, schema, batches, application, mark)
            self.trace("committed")
        raise StorageError(
            f"cannot write to sink {self.path}",
            detail=f"{type(failure).__name__}: {failure}".splitlines()[0],
            hint="look at its disk (space, mount, rights) and at its schema, then resume()",
        ) from failure

    def _write(
        self,
        handle: DeltaTable,
        schema: pa.Schema,
        batches: Callable[[], Iterator[pa.Table]],
        application: str,
        mark: Mark,
    ) -> Exception | None:
        """Ask the library once; what became of it is read from the table."""
        ours = self._ours(handle)
        shape = _merged(handle, schema) if ours else self._shape(handle, schema)
        rows = pa.RecordBatchReader.from_batches(
            shape, (b for table in batches() for b in _fitted(table, shape).to_batches())
        )
        try:
            write_deltalake(
                handle,
                rows,
                mode="append",
                schema_mode="merge" if ours and len(shape) > len(handle.schema().fields) else None,
                commit_properties=CommitProperties(
                    app_transactions=[Transaction(application, mark.pack())],
                    max_commit_retries=RETRIES_MAX,
                ),
            )
        except ShoalError:
            raise
        except Exception as error:  # noqa: BLE001  any error leaves the outcome open
            return error
        return None

    def _open(self) -> DeltaTable | None:
        failure: Exception | None = None
        for _ in range(ATTEMPTS_MAX):
            try:
                return DeltaTable(str(self.path)) if self._exists() else None
            except TableNotFoundError:
                return None
            except Exception as error:  # noqa: BLE001  a listing may miss a file
                failure = error
        raise StorageError(
            f"cannot open sink {self.path}",
            detail=f"{type(failure).__name__}: {failure}".splitlines()[0],
            hint="is it a whole Delta table, and may we read it?",
        ) from failure

    def _exists(self) -> bool:
        try:
            return any((self.path / "_delta_log").iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return False

    def _create(self, schema: pa.Schema) -> DeltaTable:
        """A new table, marked as ours; whoever is first creates it."""
        try:
            DeltaTable.create(
                str(self.path),
                schema,
                mode="error",
                configuration={MADE_BY: self.delivery},
                raise_if_key_not_exists=False,
            )
        except Exception as error:
            if not self._exists():
                raise StorageError(
                    f"cannot create sink {self.path}",
                    detail=f"{type(error).__name__}: {error}".splitlines()[0],
                    hint="look at its disk (space, mount, rights), then resume()",
                ) from error
        sync_folder(self.path.parent)
        return DeltaTable(str(self.path))

    def _ours(self, handle: DeltaTable) -> bool:
        return handle.metadata().configuration.get(MADE_BY) == self.delivery

    def _missing(self, handle: DeltaTable, wanted: pa.Schema) -> None:
        """Raise if a table of the user's lacks a column, or has it with another type."""
        found = _schema(handle)
        for field in wanted:
            if field.name in self.optional and field.name not in found.names:
                continue
            if field.name not in found.names:
                raise StorageError(
                    f"sink {self.path} has no column {field.name}",
                    detail="columns: " + ", ".join(found.names),
                    hint="add the column to the table, or leave it out of the query",
                )
            if not _fits(field.type, found.field(field.name).type):
                raise StorageError(
                    f"column {field.name} of sink {self.path} has another type",
                    detail=f"the table has {found.field(field.name).type}, rows {field.type}",
                    hint="cast it in the query, or deliver into another table",
                )

    def _shape(self, handle: DeltaTable, schema: pa.Schema) -> pa.Schema:
        """The columns of a table of the user's, which the rows must fit."""
        self._missing(handle, schema)
        return _schema(handle)

    def _sync(self, handle: DeltaTable, application: str, recorded: Mark) -> None:
        """Make the commit that recorded this mark durable; the library does not."""
        table = TableDir(path=self.path, instance=application)
        for version in range(handle.version(), -1, -1):
            entry = read_entry(table, version)
            if entry is None:
                return  # checkpointed and trimmed: long on disk
            if entry.transactions.get(application) != recorded.pack():
                continue
            for segment in entry.new:
                sync_file(self.path / segment.path)
                sync_folder((self.path / segment.path).parent)
            sync_file(table.entry(version))
            sync_folder(table.log)
            return


def _schema(handle: DeltaTable) -> pa.Schema:
    """The table's schema in pyarrow's terms."""
    return pa.schema(handle.schema().to_arrow())


def _merged(handle: DeltaTable, schema: pa.Schema) -> pa.Schema:
    """The table's columns, and those of the rows that it does not have yet."""
    found = _schema(handle)
    return pa.schema([*found, *(field for field in schema if field.name not in found.names)])


def _fits(rows: pa.DataType, table: pa.DataType) -> bool:
    """Whether values of one type go into the other whole."""
    if rows == table or (pa.types.is_timestamp(rows) and pa.types.is_timestamp(table)):
        return True
    wider = pa.types.is_signed_integer(rows) and pa.types.is_signed_integer(table)
    floats = pa.types.is_floating(rows) and pa.types.is_floating(table)
    text = _is_text(rows) and _is_text(table)
    return ((wider or floats) and rows.bit_width <= table.bit_width) or text


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or str(kind) == "string_view"
    )


def _fitted(rows: pa.Table, shape: pa.Schema) -> pa.Table:
    """The rows in the shape of the table; a column that they lack is NULL."""
    arrays = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in shape
    ]
    return pa.Table.from_arrays(arrays, schema=shape)
