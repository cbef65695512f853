"""What every sink is to a delivery, and the sinks there are.

A step fixes a *place* in the sink before it writes: a file's number, an offset in a file. The
place is durable before the first byte is written, so a step that was interrupted is repeated with
the same rows at the same place, and a sink only has to make that harmless.

    place(known)     where the next rows go, given where the last ended; looks at the sink first
    write(rows, ..)  write these rows at this place, whole and durable; the place after them.
                     The same call may come again, also from an owner that was thought dead

A sink that cannot be written raises a ShoalError in three parts; whoever runs it backs off and
suspends the delivery. Kinds and their options are checked here, with the nearest known word.
"""

import errno
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from shoal.dataplane.commands import Sink
from shoal.kernel.errors import StorageError, UserError
from shoal.query.terms.types import nearest
from shoal.spark.deliver.rows import WantedRows

__all__ = ["FORMATS", "OPTIONS", "OpenSink", "Target", "check_sink", "refused"]

#: What each kind of sink can be told: (required, optional).
OPTIONS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "files": (("path", "format"), ("identity",)),
    "delta": (("path",), ("identity",)),
    "jsonl": (("path",), ("identity",)),
    "console": ((), ("rows", "identity")),
}
FORMATS = ("parquet", "json", "csv")

_HINTS = {
    errno.ENOSPC: "free space on its disk; the delivery goes on by itself, or after resume()",
    errno.EDQUOT: "free space within the quota; the delivery goes on by itself, or after resume()",
    errno.EROFS: "it is mounted read-only: mount it for writing, then resume()",
    errno.EACCES: "give the user that runs Shoal the right to write there, then resume()",
    errno.EPERM: "give the user that runs Shoal the right to write there, then resume()",
    errno.ENOENT: "its folder is gone: put it back, or let resume() make an empty one",
    errno.ENOTDIR: "a file stands where a folder belongs: move it away, then resume()",
    errno.EISDIR: "a folder stands where a file belongs: move it away, then resume()",
}


class Target(Protocol):
    """Whose rows a write carries, and up to which step of which table."""

    @property
    def table(self) -> str: ...

    @property
    def upto(self) -> int: ...

    @property
    def epoch(self) -> int: ...


class OpenSink(Protocol):
    """A sink of one delivery. One call at a time."""

    def prepare(self, schema: pa.Schema | None) -> None:
        """Make what may be missing, such as a folder; see that rows of this schema will fit."""
        ...

    def place(self, known: int | None) -> int:
        """Where the next rows go; `known` is where the last ended, None before the first."""
        ...

    def write(self, rows: WantedRows, *, place: int, target: Target) -> int:
        """Write the rows at this place, durable on return; the place after them."""
        ...


def check_sink(sink: Sink, *, root: Path) -> None:
    """Raise UserError unless the kind and its options are known, complete and make sense."""
    if sink.kind not in OPTIONS:
        known = list(OPTIONS)
        hint = nearest(sink.kind, known) or "one of " + ", ".join(known)
        raise UserError(f"sink kind {sink.kind!r} is not known", hint=hint)
    required, optional = OPTIONS[sink.kind]
    known = [*required, *optional]
    for option in sink.options:
        if option not in known:
            hint = nearest(option, known) or "possible: " + (", ".join(known) or "none")
            raise UserError(f"option {option!r} of sink {sink.kind} is not known", hint=hint)
    for option in required:
        if not sink.options.get(option):
            raise UserError(f"sink {sink.kind} needs the option {option!r}", hint="name it")
    given = sink.options.get("format", FORMATS[0])
    if given not in FORMATS:
        hint = nearest(given, list(FORMATS)) or ", ".join(FORMATS)
        raise UserError(f"format {given!r} cannot be written", hint=hint)
    if sink.options.get("identity", "true") not in ("true", "false"):
        raise UserError("option 'identity' of a sink is true or false")
    if not sink.options.get("rows", "1").isdecimal():
        raise UserError("option 'rows' of sink console is a number", hint="rows=20")
    if "path" in sink.options:
        _check_path(sink.options["path"], root=root)


def _check_path(text: str, *, root: Path) -> None:
    if "://" in text:
        raise UserError(
            f"sink path {text} cannot be used",
            detail="sinks are files of this machine or of a file system that it mounts",
            hint="give a path such as /data/out",
        )
    path = Path(text)
    if not path.is_absolute():
        raise UserError(f"sink path {text} is not absolute", hint=f"such as {path.absolute()}")
    if path == root or root in path.parents or path in root.parents:
        raise UserError(
            f"sink path {text} cannot be used",
            detail=f"it holds, or lies in, the root of the mesh {root}",
            hint="choose a folder of its own",
        )


def refused(verb: str, path: Path, error: OSError) -> StorageError:
    """The three-part error of a sink that cannot do what was asked."""
    code = errno.errorcode.get(error.errno or 0, "no code")
    return StorageError(
        f"cannot {verb} sink {path}",
        detail=f"{error.strerror or error} ({code})",
        hint=_HINTS.get(error.errno or 0, "look at its disk and mount, then resume()"),
    )
