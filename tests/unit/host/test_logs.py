"""One line each; what repeats is left out; a terminal that takes nothing stops nobody."""

import io
import json
import threading

import pytest

from shoal.host import logs
from shoal.host.logs import Log, Writer


def test_for_people() -> None:
    lines: list[str] = []
    log = Log(lines.append, peer="p2")
    log.info("up", address="127.0.0.1:7", note="two words", empty="", bad="a\nb\x1b[31m")
    log.warn("flood", peer="p9")
    log.debug("not shown")
    assert [line.split(" ", 1)[1] for line in lines] == [
        'p2 up address=127.0.0.1:7 note="two words" empty="" bad="a\\nb\\u001b[31m"',
        "p2 warn: flood peer=p9",
    ]
    assert log.counts == {"info": 1, "warn": 1, "debug": 1}


def test_for_programs() -> None:
    lines: list[str] = []
    Log(lines.append, peer="p2", json=True, level="debug").error("broke", why=ValueError("no"))
    found = json.loads(lines[0])
    assert found.pop("at").endswith("Z")
    assert found == {"level": "error", "peer": "p2", "event": "broke", "why": "no"}


def test_repetitions_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(logs.time, "monotonic", lambda: now[0])
    lines: list[str] = []
    log = Log(lines.append, peer="p2")
    for _ in range(3):
        log.warn("flood", peer="p9")
    log.warn("flood", peer="p8")
    now[0] += 31
    log.warn("flood", peer="p9")
    assert [line.rpartition("=")[2] for line in lines] == ["p9", "p8", "p9"]
    assert log.counts["left out"] == 2


def test_subjects_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_SUBJECTS_MAX", 2)
    lines: list[str] = []
    log = Log(lines.append, peer="p2")
    for name in ("a", "b", "c", "a"):
        log.warn("flood", peer=name)
    assert len(lines) == 4


def test_the_writer_writes_everything_before_it_closes() -> None:
    stream = io.StringIO()
    writer = Writer(stream)
    for number in range(500):
        writer(str(number))
    writer.close()
    assert stream.getvalue().split() == [str(number) for number in range(500)]


class Stuck(io.StringIO):
    """A terminal that somebody has stopped."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()

    def write(self, text: str) -> int:
        self.go_on.wait(30)
        return super().write(text)


def test_a_stuck_terminal_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_LINES_MAX", 10)
    stream = Stuck()
    writer = Writer(stream)
    for number in range(100):
        writer(str(number))
    assert writer.dropped >= 89
    writer.close(wait_s=0.01)
    stream.go_on.set()
    writer.close()


def test_a_closed_stream_stops_nobody() -> None:
    stream = io.StringIO()
    stream.close()
    writer = Writer(stream)
    writer("lost")
    writer.close()
    assert writer.dropped == 1
