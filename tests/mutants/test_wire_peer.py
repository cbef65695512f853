"""Each mutant of wire and peer is caught by what watches it, and the real ones are not."""

from collections.abc import Sequence

import pytest
from msgspec import Struct

from shoal.kernel.effects import Answer, Effect
from shoal.kernel.errors import LocalError
from shoal.kernel.events import Asked, Started, Stopping
from shoal.kernel.keys import Contact
from shoal.peer.peer import Peer
from shoal.wire import frames
from shoal.wire.codec import Codec
from shoal.wire.frames import FrameReader
from tests.casts.toy import Add, Sum, Toy
from tests.checked import Checked
from tests.fuzz.wire import WireFuzzer
from tests.mutants.wire_peer import (
    ForgetfulReader,
    LooseCodec,
    SilentPeer,
    TrustingPeer,
    any_length,
)

ME = Contact("me", "me:1", 1)
INPUTS = 6_000


def fuzz(codec: type[Codec], reader: type[FrameReader]) -> None:
    """A short run of the fuzzer."""
    fuzzer = WireFuzzer(seed=2, codec=codec, reader=reader)
    for _ in range(INPUTS):
        fuzzer.validate(fuzzer.input())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("codec", "reader", "why"),
    [
        (Codec, ForgetfulReader, "cutting"),
        (LooseCodec, FrameReader, "utf-8"),
    ],
    ids=["ForgetfulReader", "LooseCodec"],
)
def test_W1_mutants_are_caught(codec: type[Codec], reader: type[FrameReader], why: str) -> None:
    """By the fuzzer, in a few thousand inputs, each for what it does."""
    with pytest.raises((AssertionError, ValueError), match=why):
        fuzz(codec, reader)


@pytest.mark.slow
def test_W1_a_reader_without_bound_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would hold what any header asks for."""
    monkeypatch.setattr(frames, "_wrong", any_length)
    with pytest.raises(AssertionError, match="no bound"):
        fuzz(Codec, FrameReader)


@pytest.mark.slow
def test_W1_the_real_ones_pass() -> None:
    """The same inputs."""
    fuzz(Codec, FrameReader)


class Echo(Toy):
    """A machine that answers as often as it is told, now or never."""

    def __init__(self, times: int) -> None:
        super().__init__([])
        self.times = times

    def handle(self, event: Struct, now: int) -> Sequence[Effect]:
        if not isinstance(event, Asked):
            return []
        return [Answer(event.request, Sum(0))] * self.times


def live(kind: type[Peer], times: int) -> None:
    """A peer is asked, then ends; its answers and its state are watched."""
    peer = kind(ME, [Echo(times)], story_lines_max=10)
    answers = []
    for event in (Started({}), Asked(1, Add(1)), Stopping()):
        answers += [one for one in peer.handle(event, 0) if isinstance(one, Answer)]
        peer.validate()
    assert len(answers) == 1, f"P1: {len(answers)} answers"


@pytest.mark.parametrize(("kind", "times"), [(SilentPeer, 0), (TrustingPeer, 2)])
def test_P1_mutants_are_caught(kind: type[Peer], times: int) -> None:
    """By the peer's own check, or by counting what came out of it."""
    with pytest.raises((LocalError, AssertionError), match="P1"):
        live(kind, times)


@pytest.mark.parametrize("times", [0, 1])
def test_P1_the_real_peer_passes(times: int) -> None:
    """Whether the machine answers or leaves it to the end."""
    live(Peer, times)


def test_P1_a_machine_that_answers_twice_is_caught() -> None:
    """By the peer, and by `Checked`."""
    with pytest.raises(LocalError, match="P1"):
        live(Peer, 2)
    checked = Checked(Echo(2))
    with pytest.raises(AssertionError, match="answers what is not open"):
        checked.handle(Asked(1, Add(1)), 0)
