"""What a process and everything it started has used: CPU, memory, descriptors, threads.

CPU is exact for what has ended, too: Linux adds the CPU of an ended child to the parent that
waited for it, and `adopt_orphans` makes a side the parent of whatever its children leave
behind. So the sum of own and waited-for CPU over all living processes of the tree misses
nothing, however short a worker lived. Memory is the sum of resident sets, which counts pages
shared by forked workers once per worker; the peak is sampled.

Not here: when to read and what to compare (harness). Linux only, and says so.
"""

import ctypes
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

__all__ = ["Peak", "Usage", "adopt_orphans", "tree_usage", "watch_peak"]

_PR_SET_CHILD_SUBREAPER = 36
_SAMPLE_SECONDS = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """A reading of a process tree."""

    cpu_seconds: float
    resident_bytes: int
    descriptors: int
    threads: int
    processes: int


@dataclass(slots=True, kw_only=True)
class Peak:
    """The highest readings while a window was watched."""

    resident_bytes: int = 0
    threads: int = 0
    samples: int = 0


def adopt_orphans() -> None:
    """Let processes whose parent ends become children of this one, so that their CPU counts."""
    if sys.platform != "linux":
        raise RuntimeError("benchmarks measure process trees through Linux' /proc")
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")


def tree_usage(pid: int) -> Usage:
    """The use of a process and its descendants, ended ones included, since they began."""
    cpu = resident = descriptors = threads = processes = 0.0
    root = psutil.Process(pid)
    for process in [root, *root.children(recursive=True)]:
        try:
            times = process.cpu_times()
            cpu += times.user + times.system + times.children_user + times.children_system
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            resident += process.memory_info().rss
            threads += process.num_threads()
            descriptors += process.num_fds()
            processes += 1
        except psutil.NoSuchProcess:
            # It ended between the listing and the reading: its parent has its CPU by now.
            continue
    return Usage(
        cpu_seconds=round(cpu, 3),
        resident_bytes=int(resident),
        descriptors=int(descriptors),
        threads=int(threads),
        processes=int(processes),
    )


@contextmanager
def watch_peak(pid: int) -> Iterator[Peak]:
    """Sample a tree until the block ends. The sampling is paid by the caller's process."""
    peak = Peak()
    over = threading.Event()

    def sample() -> None:
        while not over.wait(_SAMPLE_SECONDS):
            usage = tree_usage(pid)
            peak.resident_bytes = max(peak.resident_bytes, usage.resident_bytes)
            peak.threads = max(peak.threads, usage.threads)
            peak.samples += 1

    watcher = threading.Thread(target=sample, name=f"peak of {pid}", daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        over.set()
        watcher.join()
