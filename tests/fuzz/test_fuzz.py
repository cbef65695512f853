"""A short run of the fuzzers; the long one is `python -m tests.fuzz`."""

import sys

import pytest

from tests.fuzz import __main__ as long_form
from tests.fuzz.peer import PeerFuzzer
from tests.fuzz.wire import WireFuzzer


@pytest.mark.slow
def test_W1_hostile_bytes() -> None:
    """Twenty thousand inputs: messages, the wish for more, or RemoteError."""
    fuzzer = WireFuzzer(seed=6)
    for _ in range(20_000):
        fuzzer.validate(fuzzer.input())
    assert fuzzer.counts["messages read"] > 2_000
    assert fuzzer.counts["messages refused"] > 2_000
    assert fuzzer.counts["streams broken"] > 200


@pytest.mark.parametrize("what", ["wire", "peer"])
def test_W1_the_long_form_fails_when_memory_grows(
    what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same inputs pass and do not pass, by what the process has grown."""
    monkeypatch.setattr(sys, "argv", ["fuzz", what, "--inputs", "40"])
    sizes = iter([1_000, 1_000 + long_form.GROWN_KB_MAX, *[2_000] * 9])
    monkeypatch.setattr(long_form, "_memory_kb", lambda: next(sizes))
    assert long_form.main() == 0
    sizes = iter([1_000, *[1_001 + long_form.GROWN_KB_MAX] * 9])
    monkeypatch.setattr(long_form, "_memory_kb", lambda: next(sizes))
    assert long_form.main() == 1
    said = capsys.readouterr()
    assert "40 inputs in" in said.out
    assert "\n1 inputs in" in said.out
    assert "memory may grow by" in said.err


@pytest.mark.slow
def test_hostile_messages() -> None:
    """Ten thousand events: the peer refuses or goes on, and stays valid."""
    fuzzer = PeerFuzzer(seed=6)
    for _ in range(10_000):
        fuzzer.step()
    assert fuzzer.counts["Received"] > 7_000
    assert 500 < fuzzer.counts["refused"] < fuzzer.counts["Received"]
