"""Small JSON objects as files: how the log writes them, reads them and names them.

Promises: what is read is what was written, or a StorageError that names the file; never a stack
trace of a parser. A name that came from outside cannot leave its folder.

Not here: when a file is created or replaced (`durable`), and what the objects mean.
"""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shoal.kernel.errors import LocalError, StorageError, UserError

__all__ = [
    "FILE_NAME_MAX",
    "JSON",
    "check_file_name",
    "encode",
    "file_names",
    "read_object",
]

#: What an object may hold: null, booleans, integers, finite floats, text, lists and mappings.
JSON = Any

#: Bytes of a name that becomes a file name; leaves room for a suffix within the usual 255.
FILE_NAME_MAX = 180

_FILE_NAME = re.compile(r"[a-z0-9_-][a-z0-9_.-]*")


def check_file_name(kind: str, name: str) -> str:
    """The name if it can be a file name as it stands, else an error that says why."""
    if len(name) > FILE_NAME_MAX or not _FILE_NAME.fullmatch(name):
        raise UserError(
            f"{kind} name {name[:FILE_NAME_MAX]!r} cannot be used",
            detail=f"it names a file: 1 to {FILE_NAME_MAX} of a-z, 0-9, '_', '-' and '.', "
            "and no '.' at the start",
            hint="choose a name such as dashboard-1",
        )
    return name


def encode(content: Mapping[str, JSON]) -> bytes:
    """The bytes of an object; text of any Unicode survives, also lone surrogates."""
    try:
        text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise LocalError(
            "content cannot be written as JSON",
            detail=str(error),
            hint="use null, booleans, integers, finite floats, text, lists and mappings of text",
        ) from error
    return text.encode("ascii") + b"\n"


def read_object(path: Path) -> dict[str, JSON] | None:
    """The object in this file, None if there is no such file."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, len(data), str(error)) from error
    if not isinstance(content, dict):
        raise _damaged(path, len(data), "it is not a JSON object")
    return content


def file_names(folder: Path) -> list[str]:
    """The names in a folder, in no order; none if it is not there or is a file."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise _unreadable(folder, error) from error


def _unreadable(path: Path, error: OSError) -> StorageError:
    return StorageError(
        f"cannot read {path}",
        detail=str(error.strerror),
        hint="look at the rights and the disk of the root: shoal doctor",
    )


def _damaged(path: Path, size: int, detail: str) -> StorageError:
    return StorageError(
        f"damaged file {path}",
        detail=f"{size} bytes: {detail}",
        hint="Shoal writes such files whole or not at all: suspect the disk, or an edit by hand; "
        "restore the file from a backup",
    )
