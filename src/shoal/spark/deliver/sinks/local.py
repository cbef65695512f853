"""Sinks on a file system: a folder of files, one file of JSON lines, the console.

files    exactly once. A step is one file: written under a hidden name, synced, then linked to its
         name, which carries its number and the delivery. A repeated step finds its name there.
jsonl    exactly once. A step is a run of bytes at a place that was recorded first. A repeated
         step writes the same bytes at the same place, so a reader that follows the file never
         sees a line vanish, and an owner that was thought dead does no harm.
console  at least once: what was printed cannot be taken back.
"""

import contextlib
import io
import os
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.kernel.errors import StorageError
from shoal.spark.deliver.rows import IDENTITY, WantedRows
from shoal.spark.deliver.sinks.contract import Target, refused
from shoal.spark.deliver.sinks.encode import csv_text, json_lines

__all__ = ["ConsoleSink", "FileSink", "LinesSink", "tables"]

#: In the hidden name of every file that is not yet whole.
UNFINISHED = ".unfinished-"
#: Columns wider than this are cut on the console.
CONSOLE_WIDTH = 40


def tables(rows: WantedRows, *, identity: bool) -> Iterator[pa.Table]:
    """The rows as the user wants to see them."""
    for table in rows.batches():
        yield table if identity else table.drop_columns(list(IDENTITY))


class FileSink:
    """A folder of files, one a step: `part-00000007-3f2a91c0.parquet`."""

    def __init__(self, folder: Path, *, form: str, delivery: str, identity: bool) -> None:
        self._folder = folder
        self._format = form
        self._tag = delivery.rpartition("-")[2]
        self._identity = identity

    def prepare(self, schema: pa.Schema | None) -> None:
        """Make the folder, and remove what an earlier owner did not finish."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for path in self._folder.glob(f".part-*-{self._tag}.*{UNFINISHED}*"):
                path.unlink(missing_ok=True)
        except OSError as error:
            raise refused("prepare", self._folder, error) from error

    def place(self, known: int | None) -> int:
        """The number of the next file."""
        return known or 0

    def write(self, rows: WantedRows, *, place: int, target: Target) -> int:
        """Write one file whole, or find that it is there."""
        name = f"part-{place:08d}-{self._tag}.{self._format}"
        path = self._folder / name
        hidden = self._folder / f".{name}{UNFINISHED}{secrets.token_hex(4)}"
        if path.exists():
            return place + 1
        try:
            with open(hidden, "xb") as file:
                self._fill(file, rows)
                file.flush()
                os.fsync(file.fileno())
            _give_name(hidden, path)
            _sync_folder(self._folder)
        except OSError as error:
            raise refused("write to", self._folder, error) from error
        finally:
            with contextlib.suppress(OSError):
                hidden.unlink(missing_ok=True)
        return place + 1

    def _fill(self, file: BinaryIO, rows: WantedRows) -> None:
        if self._format == "parquet":
            names = [n for n in rows.schema.names if self._identity or n not in IDENTITY]
            schema = pa.schema([rows.schema.field(name) for name in names])
            with pq.ParquetWriter(file, schema, compression="zstd", store_schema=False) as writer:
                for table in tables(rows, identity=self._identity):
                    writer.write_table(table)
            return
        for number, table in enumerate(tables(rows, identity=self._identity)):
            first = number == 0
            csv = self._format == "csv"
            file.write(csv_text(table, header=first) if csv else json_lines(table))


def _give_name(hidden: Path, path: Path) -> None:
    """The whole file under its name, unless it is there already."""
    try:
        os.link(hidden, path)
    except FileExistsError:
        return
    except OSError:
        # No hard links here: a rename is whole too, and only a stale owner could be replaced.
        if not hidden.exists():
            raise
        hidden.rename(path)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class LinesSink:
    """One file that grows by JSON lines. It may be moved away (log rotation); it is made anew."""

    def __init__(self, path: Path, *, identity: bool) -> None:
        self._path = path
        self._identity = identity

    def prepare(self, schema: pa.Schema | None) -> None:
        """Make the folder."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if self._path.is_dir():
                raise IsADirectoryError(21, os.strerror(21))
        except OSError as error:
            raise refused("prepare", self._path, error) from error

    def place(self, known: int | None) -> int:
        """The end of the file, which must be where the last delivery left it."""
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise refused("look at", self._path, error) from error
        if known is not None and size != known:
            raise StorageError(
                f"sink {self._path} was changed by somebody else",
                detail=f"it has {size} bytes; the last delivery ended at {known}",
                hint="restore it, or move it away so that a new one is made, then resume()",
            )
        return size

    def write(self, rows: WantedRows, *, place: int, target: Target) -> int:
        """Write the same bytes at the same place, however often."""
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o666)
            try:
                return self._at(descriptor, rows, place)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise refused("write to", self._path, error) from error

    def _at(self, descriptor: int, rows: WantedRows, place: int) -> int:
        size = os.fstat(descriptor).st_size
        if size < place:
            raise StorageError(
                f"sink {self._path} was cut or replaced in the middle of a delivery",
                detail=f"it has {size} bytes; the delivery begins at {place}",
                hint="put the file back, then resume(); rotate it while the mesh runs",
            )
        end = place
        for table in tables(rows, identity=self._identity):
            data = memoryview(json_lines(table))
            while data:
                written = os.pwrite(descriptor, data, end)
                data, end = data[written:], end + written
        os.fsync(descriptor)
        if not place:
            _sync_folder(self._path.parent)
        return end


class ConsoleSink:
    """Rows as text on standard output."""

    def __init__(self, query: str, *, rows: int, identity: bool) -> None:
        self._query = query
        self._rows = rows
        self._identity = identity

    def prepare(self, schema: pa.Schema | None) -> None:
        """There is nothing to make."""

    def place(self, known: int | None) -> int:
        """How often something was printed."""
        return known or 0

    def write(self, rows: WantedRows, *, place: int, target: Target) -> int:
        """Print the first rows, and how many more there are."""
        out = io.StringIO()
        out.write(f"-- {self._query}: {rows.count} rows up to step {target.upto}\n")
        left = self._rows
        for number, table in enumerate(tables(rows, identity=self._identity)):
            out.write(_grid(table.slice(0, left), titled=number == 0))
            left -= min(left, table.num_rows)
            if not left:
                break
        if rows.count > self._rows:
            out.write(f"   and {rows.count - self._rows} more\n")
        sys.stdout.write(out.getvalue())
        sys.stdout.flush()
        return place + 1


def _grid(table: pa.Table, *, titled: bool) -> str:
    """Aligned columns, cut where they are long."""
    cells = [[str(v)[:CONSOLE_WIDTH] for v in column.to_pylist()] for column in table.columns]
    if titled:
        cells = [[name, *column] for name, column in zip(table.column_names, cells, strict=True)]
    widths = [max((len(cell) for cell in column), default=0) for column in cells]
    lines = zip(*cells, strict=True)
    return "".join(
        "   " + "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() + "\n"
        for line in lines
    )
