"""A short run of the fuzzers; the long one is `python -m tests.fuzz`."""

import pytest

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


@pytest.mark.slow
def test_hostile_messages() -> None:
    """Ten thousand events: the peer refuses or goes on, and stays valid."""
    fuzzer = PeerFuzzer(seed=6)
    for _ in range(10_000):
        fuzzer.step()
    assert fuzzer.counts["Received"] > 7_000
    assert 500 < fuzzer.counts["refused"] < fuzzer.counts["Received"]
