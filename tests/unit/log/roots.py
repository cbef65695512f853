"""File systems that do not keep what a root promises, for the doctor to find out.

The doctor imports these in other processes too, so they live in a module of their own.
"""

import errno
import os
from pathlib import Path

from shoal.kernel.errors import StorageError


def last_one_wins(path: Path, data: bytes) -> bool:
    """Create by renaming over: everybody believes to have won."""
    temporary = path.with_name(f"{path.name}-{os.urandom(6).hex()}")
    temporary.write_bytes(data)
    temporary.replace(path)
    return True


def nobody_wins(path: Path, data: bytes) -> bool:
    """Create, and never say so."""
    path.touch()
    return False


def no_hard_links(path: Path, data: bytes) -> bool:
    """Refuse, as FAT does."""
    raise StorageError("cannot create a file", detail="Operation not permitted", hint="use ext4")


def no_such_call(path: Path, data: bytes) -> bool:
    """Refuse without a word of ours."""
    raise OSError(errno.EOPNOTSUPP, "Operation not supported")


def threads_only(path: Path, data: bytes) -> bool:
    """Right within a process, wrong between processes, as a cache of another host would be."""
    claimed = _claimed.setdefault(str(path), data)
    path.write_bytes(data)
    return claimed is data


_claimed: dict[str, bytes] = {}
