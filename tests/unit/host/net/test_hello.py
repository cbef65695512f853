"""Who may say hello, and what its bytes are."""

from collections.abc import Callable

import pytest

from shoal.host.net.hello import (
    CODEC,
    GoodBye,
    Hello,
    Refused,
    Revocations,
    StoryAsked,
    StoryTold,
    check,
    refused,
)
from shoal.kernel.errors import RemoteError
from shoal.kernel.keys import Contact
from shoal.wire.frames import FrameReader

ME = Contact("p2", "127.0.0.1:7702", 3)


def test_every_message_has_its_bytes(golden: Callable[[str, str], None]) -> None:
    samples = [
        Hello("3ccda83831185cdf", ME, "0.1.0", 7),
        Refused("certificate was revoked"),
        GoodBye(ending=True),
        Revocations(b"\x30\x00"),
        StoryAsked(4, "ring", 50),
        StoryTold(4, 9, ((1_000_000, 17, "p3#209", "ring", "successor p9 -> p4"),)),
    ]
    lines = []
    for sample in samples:
        data = CODEC.encode(sample, 5)
        (frame,) = FrameReader().feed(data)
        assert CODEC.decode(frame) == sample
        lines.append(f"{type(sample).__name__} {data.hex()}\n")
    golden("wire/host.hex", "".join(lines))


def test_who_it_is() -> None:
    hello = Hello("m", ME, "0.1.0")
    assert check(hello, mesh="m", certified="p2") == ME
    assert check(hello, mesh="m", certified=None) == ME


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (Hello("other", ME, "0.1.0"), "another mesh"),
        (Hello("m", Contact("p3", "127.0.0.1:1", 3), "0"), "says that it is 'p3'"),
        (Hello("m", Contact("", "127.0.0.1:1", 3), "0"), "cannot be read"),
        (Hello("m", Contact("P2", "127.0.0.1:1", 3), "0"), "cannot be read"),
        (Hello("m", Contact("p2", "nowhere", 3), "0"), "cannot be read"),
        (Hello("m", Contact("p2", "127.0.0.1:1", 0), "0"), "cannot be read"),
        (Hello("m", Contact("p2", "127.0.0.1:1", 1 << 63), "0"), "cannot be read"),
    ],
)
def test_who_it_is_not(said: Hello, why: str) -> None:
    with pytest.raises(RemoteError, match=why):
        check(said, mesh="m", certified="p2")


def test_a_reason_is_short() -> None:
    (frame,) = FrameReader().feed(refused(RemoteError("no", detail="x" * 10_000)))
    said = CODEC.decode(frame)
    assert isinstance(said, Refused)
    assert said.reason.startswith("no (xxx")
    assert len(said.reason) == 400
