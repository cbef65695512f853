"""Frames: the same however the bytes are cut, within bounds whatever they are."""

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.kernel.errors import LocalError, RemoteError
from shoal.wire.frames import (
    FRAME_BYTES_MAX,
    HEADER_BYTES,
    MAJOR,
    MINOR,
    Frame,
    FrameReader,
    frame,
)

FRAMES = st.lists(
    st.builds(
        Frame,
        tag=st.integers(0, 0xFFFF),
        cause=st.integers(0, (1 << 64) - 1),
        payload=st.binary(max_size=40),
    ),
    max_size=6,
)


def bytes_of(frames: list[Frame]) -> bytes:
    """Frames one behind the other, as on a connection."""
    return b"".join(frame(one.tag, one.cause, one.payload) for one in frames)


def outcome(pieces: list[bytes]) -> tuple[list[Frame], str]:
    """All frames, and why the stream ended early, if it did."""
    reader = FrameReader()
    found: list[Frame] = []
    for piece in pieces:
        try:
            found += reader.feed(piece)
        except RemoteError as error:
            return found, error.what
        assert reader.waiting < FRAME_BYTES_MAX
    return found, reader.broken.what if reader.broken else ""


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """The data in pieces."""
    at = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[low:high] for low, high in itertools.pairwise(at)]


@given(FRAMES, st.lists(st.integers(0, 10_000), max_size=8))
def test_however_the_bytes_are_cut(frames: list[Frame], places: list[int]) -> None:
    """What comes out went in."""
    assert outcome(cut(bytes_of(frames), places)) == (frames, "")


@given(FRAMES, st.binary(max_size=60), st.lists(st.integers(0, 10_000), max_size=8))
def test_garbage_ends_the_stream_at_the_same_place(
    frames: list[Frame], garbage: bytes, places: list[int]
) -> None:
    """Frames before it are given; cutting changes neither them nor the reason."""
    data = bytes_of(frames) + garbage
    found, why = outcome(cut(data, places))
    assert (found, why) == outcome([data]) == outcome([data[n : n + 1] for n in range(len(data))])
    assert found[: len(frames)] == frames


def test_one_byte_at_a_time_is_not_quadratic() -> None:
    """A large frame in small pieces: what was read is not read again for each piece."""
    payload = bytes(200_000)
    data = frame(1, 2, payload)
    reader = FrameReader()
    found = [one for at in range(0, len(data), 100) for one in reader.feed(data[at : at + 100])]
    assert [one.payload for one in found] == [payload]
    assert reader.waiting == 0


def header(length: int, major: int = MAJOR, minor: int = MINOR) -> bytes:
    """A header that says what it wants."""
    return struct.pack(">IBBHQ", length, major, minor, 7, 9)


@pytest.mark.parametrize("length", [0, 11, FRAME_BYTES_MAX - 3, (1 << 32) - 1])
def test_a_length_out_of_bounds_is_refused_before_anything_is_kept(length: int) -> None:
    """Nobody makes us wait for four gigabytes."""
    reader = FrameReader()
    with pytest.raises(RemoteError, match=f"{length} bytes"):
        reader.feed(header(length))
    assert reader.waiting == 0


@pytest.mark.parametrize("length", [12, FRAME_BYTES_MAX - 4])
def test_the_least_and_the_greatest_frame(length: int) -> None:
    """Both are frames."""
    payload = bytes(length - 12)
    (found,) = FrameReader().feed(header(length) + payload)
    assert found == Frame(tag=7, cause=9, payload=payload)
    assert frame(7, 9, payload) == header(length) + payload


def test_a_frame_too_long_is_our_mistake() -> None:
    """Whoever made the message has to cut it."""
    with pytest.raises(LocalError, match="too long"):
        frame(7, 9, bytes(FRAME_BYTES_MAX - HEADER_BYTES + 1))


@pytest.mark.parametrize("major", [0, MAJOR + 1, 255])
def test_another_major_version_is_refused_with_a_reason(major: int) -> None:
    """The reason names both versions and says what to do."""
    reader = FrameReader()
    with pytest.raises(RemoteError) as caught:
        reader.feed(header(12, major=major))
    assert f"{major}.{MINOR}" in caught.value.what
    assert f"{MAJOR}.{MINOR}" in caught.value.detail
    assert "one release" in caught.value.hint


def test_a_newer_minor_version_is_read() -> None:
    """Fields are only ever added, so what we know of it is right."""
    (found,) = FrameReader().feed(header(13, minor=200) + b"x")
    assert found == Frame(tag=7, cause=9, payload=b"x", minor=200)


def test_a_broken_stream_stays_broken() -> None:
    """Frames before the break are given, then every call says why; nothing piles up."""
    reader = FrameReader()
    good = frame(1, 2, b"x")
    assert [one.payload for one in reader.feed(good + header(5) + good)] == [b"x"]
    assert reader.broken is not None
    for _ in range(3):
        with pytest.raises(RemoteError, match="5 bytes"):
            reader.feed(good)
    assert reader.waiting == 0


def test_a_cause_wraps_around() -> None:
    """A number of more than 64 bits is cut: it names an event, nothing is decided by it."""
    (found,) = FrameReader().feed(frame(1, (1 << 64) + 5, b""))
    assert found.cause == 5
