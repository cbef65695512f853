"""Both contenders as a benchmark drives them: the same files, the same SQL text, one window each.

`Feed` puts files of the workload into an input folder by hard link, so both sides find exactly
the same bytes and making files is charged to nobody. `Plain` and `Shoal` wrap one side each.
A window begins after everything fed before has been consumed, and ends when everything fed in
it has been.

Not here: what the sides do inside (plain, shoal_side), which cases are compared.
"""

import os
import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.side import Side, SideFailed, Window
from benchmarks.workload import TUPLES_PER_FILE, QuerySet, columns_of, source_file

__all__ = ["MASTER", "Feed", "Plain", "Shoal"]

MASTER = "local[2]"
_POLL_SECONDS = 0.02
#: Longest time that one file may take before a run is given up.
_FILE_SECONDS_MAX = 120


class Feed:
    """An input folder and the number of the next file."""

    def __init__(self, folder: Path, *, rows: int = TUPLES_PER_FILE) -> None:
        self.folder = folder
        self.rows = rows
        self.fed = 0
        self._lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)

    def put(self, files: int) -> int:
        """Add files; how many there are now. The files are made before the first appears."""
        with self._lock:
            paths = [source_file(self.fed + k, rows=self.rows) for k in range(files)]
            for path in paths:
                os.link(path, self.folder / path.name)
            self.fed += files
            return self.fed

    def expected(self, queries: QuerySet) -> int:
        """The rows that these queries must have given over everything fed."""
        counts = (
            queries.matches(columns_of(pq.read_table(source_file(index, rows=self.rows)))).sum()
            for index in range(self.fed)
        )
        return int(sum(counts))


class Plain:
    """Plain Spark: groups of streaming queries, each group over an input folder of its own."""

    def __init__(
        self, work: Path, *, settings: Mapping[str, str] | None = None, fair: bool = False
    ) -> None:
        self._work = work / "plain"
        self._feeds: dict[str, Feed] = {}
        self._counts: dict[str, int] = {}
        self.side = Side("benchmarks.plain", log=work / "plain.log")
        self.side.call("start_session", master=MASTER, settings=dict(settings or {}), fair=fair)

    def start(self, group: str, texts: Sequence[str], *, warm_up: int) -> None:
        """Start the group's queries; returns when each has consumed the warm-up files."""
        feed = self._feeds[group] = Feed(self._work / group / "in")
        feed.put(warm_up)
        self._counts[group] = len(texts)
        self._start(group, texts)
        self.wait(group)

    def add(self, group: str, text: str) -> float:
        """Start one more query beside the group's; seconds until its first batch is committed."""
        began = time.monotonic()
        self._start(group, [text])
        number = self._counts[group]
        self._counts[group] += 1
        first = self._commits(group, number) / "0"
        while not first.exists():
            time.sleep(_POLL_SECONDS)
        return time.monotonic() - began

    def feed(self, group: str, files: int) -> None:
        self._feeds[group].put(files)

    def run(self, group: str, files: int) -> Window:
        """Feed files and measure until every query of the group has consumed them all."""
        with self.side.window() as window:
            self.feed(group, files)
            self.wait(group)
        return window

    def wait(self, group: str) -> None:
        """Until every query has committed a batch for every file: one file is one batch."""
        last = self._feeds[group].fed - 1
        deadline = time.monotonic() + _FILE_SECONDS_MAX * self._feeds[group].fed
        waiting = [self._commits(group, n) / str(last) for n in range(self._counts[group])]
        while waiting := [path for path in waiting if not path.exists()]:
            if time.monotonic() > deadline:
                errors = self.side.call("errors", group=group)
                raise SideFailed(f"plain {group} does not go on: {errors[:1]}")
            time.sleep(_POLL_SECONDS)

    def stop(self, group: str, queries: QuerySet) -> None:
        """End the group; an error if its results are not what the workload says."""
        self.side.call("stop", group=group)
        outputs = (self._work / group).glob("q*/out/*.parquet")
        rows = sum(pq.read_metadata(path).num_rows for path in outputs)
        _check(f"plain {group}", rows, self._feeds[group].expected(queries))
        shutil.rmtree(self._work / group)
        del self._feeds[group], self._counts[group]

    def _start(self, group: str, texts: Sequence[str]) -> None:
        self.side.call(
            "start",
            group=group,
            texts=list(texts),
            folder=str(self._work / group),
        )

    def _commits(self, group: str, number: int) -> Path:
        return self._work / group / f"q{number}" / "checkpoint" / "commits"

    def close(self) -> None:
        self.side.close()


class Shoal:
    """Shoal: one mesh of one peer; every case is a stream of its own with its queries."""

    def __init__(self, work: Path, *, settings: Mapping[str, str] | None = None) -> None:
        self._work = work / "shoal-in"
        self._feeds: dict[str, Feed] = {}
        self._queries: dict[str, QuerySet] = {}
        self.side = Side("benchmarks.shoal_side", log=work / "shoal.log")
        self.side.call(
            "open", root=str(work / "shoal"), master=MASTER, settings=dict(settings or {})
        )

    def stream(self, name: str, *, store: bool, rows: int = TUPLES_PER_FILE) -> None:
        feed = self._feeds[name] = Feed(self._work / name, rows=rows)
        self.side.call("stream", name=name, folder=str(feed.folder), store=store)

    def select(self, name: str, queries: QuerySet, *, warm_up: int) -> None:
        """All queries of a set over a stream; returns when the warm-up files are consumed."""
        self._queries[name] = queries
        self.side.call("select", stream=name, texts=list(queries.texts))
        self.run(name, warm_up)

    def feed(self, name: str, files: int) -> None:
        self._feeds[name].put(files)

    def run(self, name: str, files: int) -> Window:
        """Feed files and measure until they are consumed and their results committed."""
        with self.side.window() as window:
            self.feed(name, files)
            self.side.call("drain")
        return window

    def steps(self) -> list[dict[str, Any]]:
        """The reports of the steps since the last call."""
        found: list[dict[str, Any]] = self.side.call("steps")
        return found

    def check(self, name: str) -> None:
        """An error if the results in the tables are not what the workload says."""
        rows = self.side.call("results", stream=name)
        _check(f"shoal {name}", rows, self._feeds[name].expected(self._queries[name]))

    def close(self) -> None:
        self.side.close()


def _check(who: str, rows: int, expected: int) -> None:
    if rows != expected:
        raise SideFailed(f"{who}: {rows} rows of results, expected {expected}")
