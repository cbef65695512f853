"""The doctor: does this folder do what the log needs of a root? Reports, never repairs.

Agreement in a mesh with nobody in charge comes from one property of the store, create-if-absent:
of many who create one file exactly one wins. So the doctor lets threads and processes race for
it, and a root where they do not agree is refused. A race can show that the property is missing;
that it always holds it cannot prove.

    refuse     Shoal must not run here
    warn       it runs, and somebody should look
    good       looked at, nothing found

Not here: printing (`cli/`), and the histories of tables (`validate`).
"""

import os
import secrets
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal

from shoal.kernel.errors import ShoalError, StorageError
from shoal.kernel.time import SECOND, format_instant
from shoal.log.durable import TEMPORARY_MARK, create_if_absent, replace, sync_file, sync_folder

__all__ = ["Create", "Finding", "contend", "examine", "refuse_if_unfit"]

Level = Literal["good", "warn", "refuse"]
#: The operation under test: True for the one caller that created the file.
Create = Callable[[Path, bytes], bool]

THREADS = 8
PROCESSES = 3
#: Files that all of them race for.
ROUNDS = 40
#: Seconds until a process that takes part in the race is given up.
RACE_TIMEOUT_S = 60.0
#: Bytes below which a root is refused, and below which the doctor warns; guesses.
FREE_REFUSE = 64 * 1024**2
FREE_WARN = 2 * 1024**3
#: Milliseconds for one sync of file and folder: a commit needs several.
SYNC_WARN_MS = 50.0
#: Microseconds between this machine's clock and the disk's.
SKEW_WARN = 5 * SECOND
#: 2024-01-01: a clock before this was never set.
CLOCK_MIN = 1_704_067_200 * SECOND
#: Seconds after which a file that was never finished belongs to a process that died.
UNFINISHED_AGE_S = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at: its name, what was found, and what to do about it."""

    check: str
    level: Level
    what: str
    hint: str = ""


def examine(
    root: Path,
    *,
    create: Create = create_if_absent,
    clock: Callable[[], float] = time.time,
) -> tuple[Finding, ...]:
    """Look at everything that the log needs of this root, in order of weight.

    `create` must be importable by its module and name, because other processes call it too.
    """
    rights = _rights(root)
    if rights.level == "refuse":
        return (rights,)
    try:
        with _workshop(root) as folder:
            return (
                rights,
                _create_if_absent(folder, create),
                _synced(folder),
                _space(root),
                _clocks(folder, clock),
                _leftovers(root),
            )
    except (ShoalError, OSError) as error:
        what = error.what if isinstance(error, ShoalError) else str(error)
        hint = error.hint if isinstance(error, ShoalError) else "look at the disk of the root"
        return (rights, Finding(check="writing", level="refuse", what=what, hint=hint))


def refuse_if_unfit(root: Path, findings: Sequence[Finding]) -> None:
    """Raise if any finding says that Shoal must not run on this root."""
    bad = [finding for finding in findings if finding.level == "refuse"]
    if bad:
        raise StorageError(
            f"{root} cannot be a root of Shoal",
            detail="; ".join(finding.what for finding in bad),
            hint=bad[0].hint,
        )


def contend(operation: str, folder: str, name: str, rounds: str) -> None:
    """Take part in the race as a process of its own; tells which rounds it won. See `_race`."""
    module, _, function = operation.partition(":")
    create: Create = getattr(import_module(module), function)
    place = Path(folder)
    (place / f"ready-{name}").touch()
    deadline = time.monotonic() + RACE_TIMEOUT_S
    while not (place / "go").exists() and time.monotonic() < deadline:
        time.sleep(0.0005)
    won = [
        str(number)
        for number in range(int(rounds))
        if create(place / f"round-{number}", name.encode())
    ]
    (place / f"won-{name}").write_text(" ".join(won), encoding="ascii")


def _rights(root: Path) -> Finding:
    check = "rights"
    if not root.is_dir():
        return Finding(
            check=check,
            level="refuse",
            what=f"{root} is not a folder",
            hint="create it with mode 0700, or let shoal create it",
        )
    if not os.access(root, os.R_OK | os.W_OK | os.X_OK):
        return Finding(
            check=check,
            level="refuse",
            what=f"this user may not read and write {root}",
            hint="give the root to the user that runs Shoal (mode 0700)",
        )
    mode = root.stat().st_mode & 0o777
    if mode & 0o077:
        return Finding(
            check=check,
            level="warn",
            what=f"other users may use the root: its mode is {mode:04o}",
            hint=f"chmod 0700 {root}",
        )
    return Finding(check=check, level="good", what=f"a folder of this user alone, mode {mode:04o}")


def _create_if_absent(folder: Path, create: Create) -> Finding:
    check = "create-if-absent"
    advice = "choose a file system with hard links, such as ext4, xfs or NFS 4"
    try:
        for place, race in (("threads", _race_threads), ("processes", _race_processes)):
            wins = race(folder / place, create)
            wrong = {number: count for number, count in enumerate(wins) if count != 1}
            if wrong:
                number, count = next(iter(wrong.items()))
                return Finding(
                    check=check,
                    level="refuse",
                    what=f"{count} {place} created one file in round {number}, exactly 1 must; "
                    f"{len(wrong)} of {ROUNDS} rounds went wrong",
                    hint=advice,
                )
    except (ShoalError, OSError) as error:
        what = error.what if isinstance(error, ShoalError) else str(error)
        detail = f": {error.detail}" if isinstance(error, ShoalError) and error.detail else ""
        return Finding(
            check=check,
            level="refuse",
            what=f"files cannot be created only once: {what}{detail}",
            hint=advice,
        )
    return Finding(
        check=check,
        level="good",
        what=f"{THREADS} threads and {PROCESSES} processes agreed in {2 * ROUNDS} rounds",
    )


def _race_threads(folder: Path, create: Create) -> list[int]:
    """How many of the threads won each round."""
    folder.mkdir(mode=0o700)
    wins = [0] * ROUNDS
    errors: list[ShoalError | OSError] = []
    together = threading.Barrier(THREADS)
    counting = threading.Lock()

    def race(name: int) -> None:
        for number in range(ROUNDS):
            try:
                together.wait(RACE_TIMEOUT_S)
                won = create(folder / f"round-{number}", str(name).encode())
            except (ShoalError, OSError) as error:
                errors.append(error)
                together.abort()
                return
            except threading.BrokenBarrierError:
                return
            with counting:
                wins[number] += won

    racers = [threading.Thread(target=race, args=(name,)) for name in range(THREADS)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    if errors:
        raise errors[0]
    return wins


def _race_processes(folder: Path, create: Create) -> list[int]:
    """How many of the processes won each round."""
    folder.mkdir(mode=0o700)
    operation = f"{create.__module__}:{create.__qualname__}"
    program = "import sys; from shoal.log.doctor import contend; contend(*sys.argv[1:])"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)}
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", program, operation, str(folder), str(name), str(ROUNDS)],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in range(PROCESSES)
    ]
    try:
        _start_together(folder, racers)
        for racer in racers:
            complaint = racer.communicate(timeout=RACE_TIMEOUT_S)[1]
            if racer.returncode:
                raise OSError((complaint.strip().splitlines() or ["a process died"])[-1])
    except subprocess.TimeoutExpired as error:
        raise OSError(f"a process did not end within {RACE_TIMEOUT_S:.0f} s") from error
    finally:
        for racer in racers:
            racer.kill()
            racer.communicate()
    wins = [0] * ROUNDS
    for name in range(PROCESSES):
        for number in (folder / f"won-{name}").read_text(encoding="ascii").split():
            wins[int(number)] += 1
    return wins


def _start_together(folder: Path, racers: Sequence[subprocess.Popen[str]]) -> None:
    deadline = time.monotonic() + RACE_TIMEOUT_S
    while any(not (folder / f"ready-{name}").exists() for name in range(len(racers))):
        if any(racer.poll() is not None for racer in racers) or time.monotonic() > deadline:
            break
        time.sleep(0.002)
    (folder / "go").touch()


def _synced(folder: Path) -> Finding:
    path = folder / "sync"
    began = time.monotonic()
    replace(path, b"1")
    replace(path, b"22")
    sync_file(path)
    sync_folder(folder)
    took_ms = (time.monotonic() - began) * 1_000 / 3
    if path.read_bytes() != b"22":
        return Finding(
            check="sync",
            level="refuse",
            what="a file that was replaced shows its old content",
            hint="choose a file system that replaces files whole, without caching on other hosts",
        )
    slow = took_ms > SYNC_WARN_MS
    return Finding(
        check="sync",
        level="warn" if slow else "good",
        what=f"a synced write takes {took_ms:.1f} ms",
        hint="each commit waits for several; use a faster disk for the root" if slow else "",
    )


def _space(root: Path) -> Finding:
    free = shutil.disk_usage(root).free
    files = os.statvfs(root)
    # Some file systems do not count files and say 0 of 0.
    few = files.f_files > 0 and files.f_favail < files.f_files // 100
    level: Level = "warn" if free < FREE_WARN or few else "good"
    return Finding(
        check="space",
        level="refuse" if free < FREE_REFUSE else level,
        what=f"{free / 1024**3:.1f} GiB and {files.f_favail} files are free",
        hint="" if level == "good" else "free space on the disk of the root",
    )


def _clocks(folder: Path, clock: Callable[[], float]) -> Finding:
    before = int(clock() * SECOND)
    replace(folder / "clock", b"")
    disk = (folder / "clock").stat().st_mtime_ns // 1_000
    after = int(clock() * SECOND)
    if after < CLOCK_MIN or after < before:
        return Finding(
            check="clock",
            level="refuse",
            what=f"the clock of this machine says {format_instant(after)}",
            hint="set the clock (NTP): idle splits, leases and retention depend on it",
        )
    skew = max(before - disk, disk - after, 0)
    return Finding(
        check="clock",
        level="warn" if skew > SKEW_WARN else "good",
        what=f"{format_instant(after)}, {skew / SECOND:.1f} s from the clock of the disk",
        hint="synchronise the clocks of the machines (NTP)" if skew > SKEW_WARN else "",
    )


def _leftovers(root: Path) -> Finding:
    now = time.time()
    count = size = 0
    for path in _unfinished(root):
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        if now - status.st_mtime > UNFINISHED_AGE_S:
            count, size = count + 1, size + status.st_size
    return Finding(
        check="leftovers",
        level="warn" if count else "good",
        what=f"{count} unfinished files of processes that died, {size} bytes",
        hint=f"they may be deleted: find {root} -name '*{TEMPORARY_MARK}*' -mmin +60 -delete"
        if count
        else "",
    )


def _unfinished(root: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(root):
        yield from (Path(folder, name) for name in names if TEMPORARY_MARK in name)


@contextmanager
def _workshop(root: Path) -> Iterator[Path]:
    """A folder inside the root for the time of the examination."""
    folder = root / f".doctor-{secrets.token_hex(6)}"
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
