"""Files in a folder as a source: JSON lines, CSV or Parquet, each read once.

New files are noted in the journal, which gives them their numbers; a step reads a range of these.
A file must appear whole: write it elsewhere on the same file system and rename it into place.
Names that start with `_` or `.` are left alone, as Spark does. The split of a file is the folder
it lies in, or the first group of `split_by`, a regular expression over its path below the source.

One file is one task, never split, so the place of a tuple in its file is its ordinal.
"""

import os
import re
import string
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from pyspark.sql import DataFrame, SparkSession

from shoal.kernel.errors import StorageError, UserError
from shoal.kernel.time import Instant
from shoal.log.journal import FoundFile, Journal, JournalEntry
from shoal.query.catalog import Column, SourceDef, StreamDef, format_schema
from shoal.spark.ingest.footers import Footer, read_footer
from shoal.spark.ingest.source import ROW_IN_TASK, Batch, Raw

__all__ = ["BYTES_PER_STEP", "FILES_PER_STEP", "FileSource"]

#: Where Spark puts the text of a line that does not fit the schema.
CORRUPT = "_corrupt"
#: Files of one step at most, unless the stream says otherwise. A task costs some 5 ms.
FILES_PER_STEP = 64
#: Bytes of one step at most; a single larger file still is one step.
BYTES_PER_STEP = 128 << 20
#: Splits of one step at most: each costs an aggregate in the step.
SPLITS_PER_STEP = 64
#: Files looked at to tell which splits wait to be read.
WAITING_LOOK = 10_000
#: A folder whose time stamp is older than this and unchanged has nothing new in it. File systems
#: stamp with a granularity of some milliseconds; network ones with up to a second.
SETTLED_NS = 2_000_000_000
_PATTERN = re.compile(r"[{}\[\]*?\\]")
#: What java.net.URI leaves as it is in a path.
_URI_PLAIN = string.ascii_letters + string.digits + "_-!.~'()*,;:$&+=/@"


class FileSource:
    """The files below one folder."""

    parts_are_positions = True

    def __init__(self, definition: SourceDef, journal: Journal, *, keep: bool) -> None:
        options = definition.options
        self._path = Path(options["path"]).absolute()
        self._format = options["format"]
        self._pattern = options.get("pattern", "*")
        self._options = {k: v for k, v in options.items() if k in ("header", "delimiter")}
        self._files_most = int(options.get("files_per_step", FILES_PER_STEP))
        self._split_by = _expression(options.get("split_by"))
        self._journal = journal
        self._keep = keep
        self._stamps: dict[str, int] = {}

    def discover(self, now: Instant) -> None:
        """Note the files that are new since the last look."""
        found = [f for folder in self._changed_folders(now) for f in self._files_of(folder)]
        if found:
            self._journal.discover(found, now=now)

    def next_batch(self, after: int) -> Batch | None:
        chosen: list[JournalEntry] = []
        splits: dict[str, None] = {}
        size = 0
        for entry in self._journal.entries(after, after + self._files_most):
            size += entry.size
            splits[entry.split] = None
            if chosen and (size > BYTES_PER_STEP or len(splits) > SPLITS_PER_STEP):
                break
            chosen.append(entry)
        return self.batch(after, chosen[-1].sequence) if chosen else None

    def batch(self, after: int, upto: int) -> Batch:
        if self._journal.head < upto:
            self._journal.refresh()  # the ingest runs elsewhere, or did not always run here
        entries = self._journal.entries(after, upto)
        if len(entries) != upto - after:
            raise StorageError(
                f"files {after + 1} to {upto} of {self._path} are not all known",
                detail=f"the journal ends with file {self._journal.head}",
                hint="a commit names files that its journal does not have: was an older copy of "
                "the root restored?",
            )
        return Batch(
            after=after,
            upto=upto,
            parts=len(entries),
            splits=tuple(dict.fromkeys(entry.split for entry in entries)),
            bytes=sum(entry.size for entry in entries),
        )

    def describe(self, batch: Batch) -> str:
        entries = self._journal.entries(batch.after, batch.upto)
        return ", ".join(entry.path for entry in entries)

    def footers(self, batch: Batch, stream: StreamDef) -> list[tuple[str, Footer]] | None:
        if self._format != "parquet" or not stream.timestamp:
            return None
        columns = [column.name for column in stream.columns]
        found = []
        for entry in self._journal.entries(batch.after, batch.upto):
            footer = read_footer(entry.path, stream.timestamp, columns)
            if footer is None:
                return None
            found.append((entry.split, footer))
        return found

    def waiting(self, after: int) -> tuple[str, ...]:
        entries = self._journal.entries(after, after + WAITING_LOOK)
        return tuple(dict.fromkeys(entry.split for entry in entries))

    def release(self, upto: int, now: Instant) -> None:
        """Let go of the entries, unless the stream is not stored and readers come here."""
        if not self._keep:
            self._journal.prune(upto)

    def forget(self, upto: int) -> None:
        self._journal.prune(upto)

    def read(self, session: SparkSession, batch: Batch, columns: Sequence[Column]) -> Raw:
        entries = self._journal.entries(batch.after, batch.upto)
        # Spark takes paths for patterns; a backslash makes a character mean itself.
        paths = [_PATTERN.sub(r"\\\g<0>", entry.path) for entry in entries]
        return Raw(
            frame=self._frame(session, paths, columns),
            corrupt="CAST(NULL AS STRING)" if self._format == "parquet" else CORRUPT,
            part="spark_partition_id()",
            row=ROW_IN_TASK,
            split="0" if len(batch.splits) == 1 else _split_of_path(entries, batch.splits),
        )

    def _frame(
        self, session: SparkSession, paths: Sequence[str], columns: Sequence[Column]
    ) -> DataFrame:
        schema = format_schema(tuple(columns))
        reader = session.read
        if self._format == "parquet":
            return reader.schema(schema).parquet(*paths)
        reader = (
            reader.schema(f"{schema}, {CORRUPT} STRING")
            .option("mode", "PERMISSIVE")
            .option("columnNameOfCorruptRecord", CORRUPT)
        )
        if self._format == "json":
            return reader.json(list(paths))
        for key, value in self._options.items():
            reader = reader.option(key, value)
        # Without all columns Spark would not see that an unread one is malformed.
        return reader.option("columnPruning", "false").csv(list(paths))

    def _changed_folders(self, now: Instant) -> Iterator[Path]:
        try:
            stamps = {str(path): path.stat().st_mtime_ns for path in _folders(self._path)}
        except FileNotFoundError:
            return
        for name, stamp in stamps.items():
            settled = stamp < now * 1000 - SETTLED_NS
            if not (settled and self._stamps.get(name) == stamp):
                yield Path(name)
            if settled:
                self._stamps[name] = stamp

    def _files_of(self, folder: Path) -> Iterator[FoundFile]:
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda e: e.name):
                if entry.name[0] in "_." or not entry.is_file():
                    continue
                relative = Path(entry.path).relative_to(self._path)
                if not relative.match(self._pattern):
                    continue
                known = entry.stat()
                if known.st_size:
                    yield FoundFile(
                        path=entry.path,
                        size=known.st_size,
                        mtime_ns=known.st_mtime_ns,
                        split=self._split_of(relative),
                    )

    def _split_of(self, relative: Path) -> str:
        if self._split_by is None:
            return relative.parent.as_posix()
        match = self._split_by.search(relative.as_posix())
        return match.group(1) if match else ""


def _folders(path: Path) -> Iterator[Path]:
    """The folder and all those below it that do not hide."""
    for name, below, _ in os.walk(path):
        below[:] = [folder for folder in below if folder[0] not in "_."]
        yield Path(name)


def _expression(text: str | None) -> re.Pattern[str] | None:
    if text is None:
        return None
    try:
        expression = re.compile(text)
    except re.error as error:
        raise UserError(
            f"split_by {text!r} is not a regular expression",
            detail=str(error),
            hint="give one group that names the split, such as '^(site-[0-9]+)'",
        ) from error
    if expression.groups < 1:
        raise UserError(
            f"split_by {text!r} has no group",
            detail="the first group is the name of the split",
            hint="put parentheses around what tells splits apart: '^(site-[0-9]+)'",
        )
    return expression


def _split_of_path(entries: Sequence[JournalEntry], splits: Sequence[str]) -> str:
    """The number of a file's split, by its path: a CASE over the splits, most files first."""
    numbers = {name: number for number, name in enumerate(splits)}
    branches = []
    for name in splits:
        files = [_java_uri(e.path) for e in entries if e.split == name]
        # A file system may or may not name the empty authority: file:/x and file:///x are one.
        forms = [scheme + f for f in files for scheme in ("file:", "file://")]
        quoted = ", ".join("'" + f.replace("\\", "\\\\").replace("'", "\\'") + "'" for f in forms)
        branches.append(f"WHEN _metadata.file_path IN ({quoted}) THEN {numbers[name]}")
    # Without its split a tuple would move no watermark, and nobody would notice.
    return "CASE " + " ".join(branches) + " ELSE raise_error('file without a split') END"


def _java_uri(path: str) -> str:
    """A path as java.net.URI writes it: text beyond ASCII stays, but for spaces and controls."""
    return "".join(
        c
        if c in _URI_PLAIN or (c > "\x7f" and unicodedata.category(c)[0] not in "ZC")
        else quote(c)
        for c in path
    )
