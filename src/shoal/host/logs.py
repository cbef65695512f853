"""What a host says while it runs: one line each, for people or for programs.

    12:00:01 p2 listening address=127.0.0.1:7702
    {"at":"2026-03-01T12:00:01.000000Z","level":"info","peer":"p2","event":"listening",...}

Lines are written by a thread of their own, so that a terminal that was stopped stops no peer; what
it cannot take is dropped and counted. `error` means that somebody must act.
"""

import contextlib
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, TextIO

import msgspec

__all__ = ["LEVELS", "Log", "Writer"]

LEVELS: Final = ("debug", "info", "warn", "error")
#: Lines that wait for a terminal that takes none.
_LINES_MAX = 10_000
#: A line that repeats, of one event and one subject, is written at most so often.
_REPEAT_S = 30.0
_SUBJECTS_MAX = 1_000
_TEXT_MAX = 500


class Log:
    """Events with fields; `sink` takes whole lines."""

    def __init__(
        self, sink: Callable[[str], None], *, peer: str, json: bool = False, level: str = "info"
    ) -> None:
        self._sink = sink
        self._peer = peer
        self._json = json
        self._lowest = LEVELS.index(level)
        self._repeated: dict[tuple[str, object], float] = {}
        #: How often each level was used, also where no line was written.
        self.counts: Counter[str] = Counter()

    def debug(self, event: str, **fields: Any) -> None:
        """For who looks for a defect."""
        self._say(0, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """For who wants to see it run."""
        self._say(1, event, fields)

    def warn(self, event: str, **fields: Any) -> None:
        """Something was refused or lost, and dealt with; repetitions are left out."""
        if self._again(event, fields.get("peer", fields.get("host"))):
            self.counts["left out"] += 1
            return
        self._say(2, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Somebody must act."""
        self._say(3, event, fields)

    def _again(self, event: str, subject: object) -> bool:
        now = time.monotonic()
        key = (event, subject)
        if now - self._repeated.get(key, -_REPEAT_S) < _REPEAT_S:
            return True
        self._repeated.pop(key, None)
        self._repeated[key] = now
        if len(self._repeated) > _SUBJECTS_MAX:
            del self._repeated[next(iter(self._repeated))]
        return False

    def _say(self, level: int, event: str, fields: dict[str, Any]) -> None:
        self.counts[LEVELS[level]] += 1
        if level < self._lowest:
            return
        moment = datetime.now(UTC)
        if self._json:
            line = {
                "at": moment.isoformat(timespec="microseconds").replace("+00:00", "Z"),
                "level": LEVELS[level],
                "peer": self._peer,
                "event": event,
                **fields,
            }
            self._sink(msgspec.json.encode(line, enc_hook=str).decode())
            return
        shown = "".join(f" {key}={_plain(value)}" for key, value in fields.items())
        mark = "" if level <= 1 else f"{LEVELS[level]}: "
        self._sink(f"{moment:%H:%M:%S} {self._peer} {mark}{event}{shown}")


def _plain(value: object) -> str:
    """A field on one line, in quotes if it has blanks; control characters are escaped."""
    text = str(value)[:_TEXT_MAX]
    if text and all(char.isprintable() and not char.isspace() and char != '"' for char in text):
        return text
    return msgspec.json.encode(text).decode()


class Writer:
    """Writes lines to a stream in a thread."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lines: queue.Queue[str | None] = queue.Queue(_LINES_MAX)
        self._thread = threading.Thread(target=self._write_all, name="log", daemon=True)
        self._thread.start()
        self.dropped = 0

    def __call__(self, line: str) -> None:
        """Have a line written."""
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            self.dropped += 1

    def close(self, wait_s: float = 1.0) -> None:
        """Write what waits, but do not wait for a stream that takes nothing."""
        with contextlib.suppress(queue.Full):
            self._lines.put(None, timeout=wait_s)
        self._thread.join(wait_s)

    def _write_all(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                self._stream.write(line + "\n")
                self._stream.flush()
            except (OSError, ValueError):  # nobody reads any more
                self.dropped += 1
