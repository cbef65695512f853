"""Files that survive a crash of the machine: synced, whole or absent, created once or replaced.

The library that commits tables does not sync to disk, so whatever the log
acknowledges passes through here. Promise L1 rests on these functions on a local root.

    create_if_absent   the one agreement primitive of a mesh: of many callers exactly one wins
    replace            a whole new content in place of the old, never a mixture
    sync_file          the bytes of a file
    sync_folder        the names in a folder: a new file is durable only when its folder is

What is not here: what the files mean, and any test whether a root keeps these promises.
"""

import contextlib
import errno
import os
import secrets
from pathlib import Path

from shoal.kernel.errors import StorageError

__all__ = ["TEMPORARY_MARK", "create_if_absent", "replace", "sync_file", "sync_folder"]

#: In the name of every file that is not yet whole; a crash may leave such a file behind.
TEMPORARY_MARK = ".unfinished-"


def create_if_absent(path: Path, data: bytes) -> bool:
    """Create the file with this content; False if it exists. Readers never see a part of it."""
    if path.exists():
        return False
    temporary = _write_beside(path, data)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError as error:
        raise _refused("create", path, error) from error
    finally:
        _discard(temporary)
    sync_folder(path.parent)
    return True


def replace(path: Path, data: bytes) -> None:
    """Give the file this content, whether or not it exists. Readers see the old or the new."""
    temporary = _write_beside(path, data)
    try:
        temporary.replace(path)
    except OSError as error:
        _discard(temporary)
        raise _refused("replace", path, error) from error
    sync_folder(path.parent)


def sync_file(path: Path) -> None:
    """Return when the bytes of the file are on disk."""
    _sync(path, os.O_RDONLY)


def sync_folder(path: Path) -> None:
    """Return when the names in the folder are on disk."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    try:
        descriptor = os.open(path, flags)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _refused("sync", path, error) from error


def _write_beside(path: Path, data: bytes) -> Path:
    temporary = path.with_name(f"{path.name}{TEMPORARY_MARK}{secrets.token_hex(6)}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        _discard(temporary)
        raise _refused("write", path, error) from error
    return temporary


def _discard(temporary: Path) -> None:
    """Remove what did not become whole; where even that fails, the first error says more."""
    with contextlib.suppress(OSError):
        temporary.unlink()


def _refused(verb: str, path: Path, error: OSError) -> StorageError:
    """The three-part error of a root that cannot do what was asked."""
    hints = {
        errno.ENOSPC: "free space on the disk of the root, then try again",
        errno.EDQUOT: "free space within the quota of the root's user, then try again",
        errno.EROFS: "the root is mounted read-only; mount it for writing or choose another",
        errno.EACCES: "give the root to the user that runs Shoal (mode 0700)",
        errno.EPERM: "the root must allow hard links; choose a file system that has them",
        errno.ENOENT: "the folder is gone; was the root moved or deleted under Shoal?",
    }
    return StorageError(
        f"cannot {verb} {path}",
        detail=f"{error.strerror} ({errno.errorcode.get(error.errno or 0, 'no code')})",
        hint=hints.get(error.errno or 0, "look at the disk and the mount of the root"),
    )
