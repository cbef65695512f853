"""Messages to bytes and back; newer and older ones; bytes that are none."""

import contextlib
import tracemalloc
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from shoal.kernel.errors import LocalError, RemoteError
from shoal.kernel.keys import Contact
from shoal.wire.codec import Codec
from shoal.wire.frames import FRAME_BYTES_MAX, Frame, FrameReader


class Old(Struct, frozen=True, array_like=True):
    """A message as it was."""

    number: int
    peers: tuple[Contact, ...] = ()


class New(Struct, frozen=True, array_like=True):
    """The same message, one release later."""

    number: int
    peers: tuple[Contact, ...] = ()
    note: str = "nothing"
    extra: dict[str, int] = {}


class Loose(Struct, frozen=True, array_like=True):
    """No message of ours looks like this; hostile bytes can do most with it."""

    anything: Any
    table: dict[str, bytes] = {}
    words: list[str] = []


PEER = Contact("p1", "h:1", 1)
OLD, NEW, LOOSE = (Codec({7: kind}) for kind in (Old, New, Loose))


def frame_of(data: bytes) -> Frame:
    """The one frame of some bytes."""
    (found,) = FrameReader().feed(data)
    return found


def test_there_and_back() -> None:
    """The message, its tag and its cause."""
    message = Old(-5, (PEER, Contact("größe", "", 2)))
    found = frame_of(OLD.encode(message, 99))
    assert (found.tag, found.cause) == (7, 99)
    assert OLD.decode(found) == message


def test_an_older_reader_leaves_out_what_it_does_not_know() -> None:
    """Fields behind those it knows, whatever is in them."""
    message = New(1, (PEER,), "news", {"a": 1})
    assert OLD.decode(frame_of(NEW.encode(message, 0))) == Old(1, (PEER,))


def test_a_newer_reader_fills_in_what_is_not_there() -> None:
    """With the defaults of the fields that were added."""
    assert NEW.decode(frame_of(OLD.encode(Old(1, (PEER,)), 0))) == New(1, (PEER,))


class Cat(Struct, frozen=True, array_like=True, tag=1):
    """A kind that was always there."""

    name: str


class Dog(Struct, frozen=True, array_like=True, tag=2):
    """A kind that somebody added later."""

    name: str


class Pets(Struct, frozen=True, array_like=True):
    """Several of one kind."""

    pets: tuple[Cat, ...]


class MorePets(Struct, frozen=True, array_like=True):
    """The same message with another kind in its union, as a minor version must not have it."""

    pets: tuple[Cat | Dog, ...]


def test_another_kind_in_a_union_is_not_a_minor_change() -> None:
    """The whole message would be lost to an older reader, the cat too."""
    older = Codec({7: Pets})
    data = Codec({7: MorePets}).encode(MorePets((Cat("a"), Dog("b"))), 0)
    with pytest.raises(RemoteError, match="cannot be read"):
        older.decode(frame_of(data))


def test_which_tags_are_known() -> None:
    assert (OLD.knows(7), OLD.knows(8)) == (True, False)


def test_what_is_not_in_the_table() -> None:
    """A class without a tag is our mistake, a tag without a class is the sender's."""
    with pytest.raises(LocalError, match="New has no tag"):
        OLD.encode(New(1), 0)
    with pytest.raises(RemoteError, match="0x0008"):
        OLD.decode(Frame(tag=8, cause=0, payload=b""))
    with pytest.raises(LocalError, match="two tags"):
        Codec({1: Old, 2: Old})


def size(count: int) -> bytes:
    """Four bytes that promise this much."""
    return count.to_bytes(4, "big")


BOMBS = {
    "nothing": b"",
    "a long array": b"\xdd" + size(1 << 31),
    "a long string": b"\x93\xc0\x80\x91\xdb" + size((1 << 32) - 1),
    "long bytes": b"\x92\xc0\x81\xa1a\xc6" + size((1 << 32) - 1),
    "a long map": b"\x92\xc0\xdf" + size(1 << 31),
    "many long arrays": b"\x91" + (b"\xdd" + size(1 << 19)) * 900,
    "deep arrays": b"\x91" * (FRAME_BYTES_MAX - 16),
    "deep maps": b"\x91" + b"\x81\xa1a" * 300_000,
    "deep in what is skipped": b"\x94\xc0\x80\x90" + b"\x91" * 900_000,
    "a list as a key": b"\x91\x81\x91\x01\x01",
    "an extension": b"\x91\xc7\x03\x05abc",
    "a time out of range": b"\x91\xd7\xff" + b"\xff" * 8,
    "an unfinished time": b"\x91\xd7\xff\x01",
    "not UTF-8": b"\x92\xc0\x81\xa2\xff\xfe\xc4\x00",
    "half a character": b"\x91\xa1\xc3",
    "an unused byte": b"\x91\xc1",
    "more behind the end": b"\x91\xc0\xc0",
    "a map for an array": b"\x81\xa8anything\xc0",
    "a large number": b"\x91\xcf" + b"\xff" * 8,
    "not a number": b"\x91\xcb\x7f\xf8" + bytes(6),
}


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize("codec", [OLD, NEW, LOOSE], ids=["old", "new", "loose"])
def test_bombs(name: str, codec: Codec) -> None:
    """A message or RemoteError, and memory in proportion to what was sent."""
    tracemalloc.start()
    with contextlib.suppress(RemoteError):
        assert isinstance(codec.decode(Frame(tag=7, cause=0, payload=BOMBS[name])), Struct)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    if codec is not LOOSE:  # types without bound are refused in tests/unit/peer/test_messages.py
        assert peak < 1 << 20


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    """A message or RemoteError, never anything else."""
    for codec in (OLD, NEW, LOOSE):
        try:
            message = codec.decode(Frame(tag=7, cause=0, payload=data))
        except RemoteError:
            continue
        again = codec.decode(frame_of(codec.encode(message, 0)))
        assert msgspec.msgpack.encode(again) == msgspec.msgpack.encode(message)


def test_a_full_frame_of_the_smallest_things_is_bounded() -> None:
    """The worst our own types allow: contacts of four bytes. The bound is stated in codec.py."""
    count = (FRAME_BYTES_MAX - 64) // 4
    payload = b"\x92\x01\xdd" + size(count) + b"\x93\xa0\xa0\x00" * count
    tracemalloc.start()
    message = OLD.decode(Frame(tag=7, cause=0, payload=payload))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(message, Old)
    assert len(message.peers) == count
    assert peak < 32 * FRAME_BYTES_MAX
