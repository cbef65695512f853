"""One side of a comparison: a process of its own that is told what to do line by line.

The harness starts `python -m <module>`, whose last act is `serve({...})`: it reads one JSON
object per line, calls the function it names and answers with one line. So each side has its
own interpreter and its own JVM, the harness reads their use from outside, and nothing the
harness does is charged to a side.

Not here: what the sides do (plain, shoal_side) and what is measured (harness).
"""

import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import Usage, adopt_orphans, tree_usage, watch_peak

__all__ = ["Side", "SideFailed", "Window", "serve"]

_REPOSITORY = Path(__file__).parent.parent
_ENDING_SECONDS = 60


class SideFailed(RuntimeError):
    """A side raised an error or died; the message holds its traceback or the end of its log."""


@dataclass(slots=True, kw_only=True)
class Window:
    """What a side used between two marks. Filled when the window closes."""

    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    resident_bytes_peak: int = 0
    descriptors: int = 0
    threads: int = 0


class Side:
    """The harness's handle of a side; close it, or use it as a context manager."""

    def __init__(self, module: str, *, log: Path, environment: Mapping[str, str] = {}) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log
        self._module = module
        paths = [str(_REPOSITORY), str(_REPOSITORY / "src"), os.environ.get("PYTHONPATH", "")]
        own = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "OPENBLAS_NUM_THREADS": "1"}
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, **own, **environment},
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def call(self, function: str, **arguments: Any) -> Any:
        """The answer of one function of the side."""
        orders, answers = self._process.stdin, self._process.stdout
        assert orders is not None
        assert answers is not None
        try:
            orders.write(json.dumps({"call": function, "with": arguments}) + "\n")
            orders.flush()
            line = answers.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-30:])
            raise SideFailed(f"{self._module} died in {function}:\n{tail}")
        answer = json.loads(line)
        if "error" in answer:
            raise SideFailed(f"{self._module}.{function} failed:\n{answer['error']}")
        return answer["result"]

    def usage(self) -> Usage:
        return tree_usage(self.pid)

    @contextmanager
    def window(self) -> Iterator[Window]:
        """Measure the side, whole tree, from here to the end of the block."""
        window = Window()
        before, began = self.usage(), time.monotonic()
        with watch_peak(self.pid) as peak:
            yield window
            # Before the watcher is joined, which takes up to one sample.
            after, ended = self.usage(), time.monotonic()
        window.cpu_seconds = after.cpu_seconds - before.cpu_seconds
        window.wall_seconds = ended - began
        window.resident_bytes_peak = max(peak.resident_bytes, after.resident_bytes)
        window.descriptors = after.descriptors
        window.threads = max(peak.threads, after.threads)

    def close(self) -> None:
        """Let the side end by itself; end it if it does not."""
        orders, answers = self._process.stdin, self._process.stdout
        assert orders is not None
        assert answers is not None
        with suppress(BrokenPipeError):
            orders.close()
        try:
            self._process.wait(_ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        answers.close()

    def __enter__(self) -> "Side":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(functions: Mapping[str, Callable[..., Any]], *, at_end: Callable[[], None]) -> None:
    """Answer calls until the input ends. Prints go to the log, only answers to the output."""
    adopt_orphans()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer = {"result": functions[order["call"]](**order["with"])}
        except Exception:  # noqa: BLE001 - whatever it is, the harness must hear of it
            answer = {"error": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    at_end()
