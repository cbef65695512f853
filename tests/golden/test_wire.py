"""The bytes of every message, pinned: tests/golden/wire/<machine>.hex, one line for each sample.

    0x0106 Ping least 00000010010001060000000000000007 9100

A difference means that peers of two releases would misread each other, unless it is a new line or
bytes added at the end of a line. What the table as a whole must keep is checked here too.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct, inspect

from shoal.kernel.errors import RemoteError
from shoal.peer.messages import MESSAGES, RANGES
from shoal.wire.codec import Codec
from shoal.wire.frames import HEADER_BYTES, Frame, FrameReader
from tests.samples import depth, samples

WIRE = Path(__file__).parent / "wire"
CODEC = Codec(MESSAGES)
CAUSE = 7
OWNERS = {upper: owner for upper, owner in RANGES.items() if owner != "host"}
#: Nesting below which a message cannot make a decoder recurse far. Records in items in messages.
DEPTH_MAX = 6

ALL = [pytest.param(tag, kind, id=f"{tag:#06x}-{kind.__name__}") for tag, kind in MESSAGES.items()]


def _lines(tags: range) -> list[str]:
    return [
        f"{tag:#06x} {kind.__name__} {name} {data[:HEADER_BYTES].hex()} {data[HEADER_BYTES:].hex()}"
        for tag, kind in sorted(MESSAGES.items())
        if tag in tags
        for name, sample in samples(kind)
        for data in [CODEC.encode(sample, CAUSE)]
    ]


@pytest.mark.parametrize(("upper", "owner"), OWNERS.items())
def test_bytes_are_pinned(upper: int, owner: str, golden: Callable[[str, str], None]) -> None:
    """Every message of the joined table, by owner; the host pins its own elsewhere."""
    lines = _lines(range(upper << 8, (upper + 1) << 8))
    assert lines
    golden(f"wire/{owner}.hex", "\n".join(lines) + "\n")


@pytest.mark.parametrize("owner", OWNERS.values())
def test_pinned_bytes_are_read_back(owner: str) -> None:
    """What stands in the files is what an earlier peer may send."""
    for line in (WIRE / f"{owner}.hex").read_text(encoding="utf-8").splitlines():
        tag, name, _, head, payload = line.split(" ")
        (frame,) = FrameReader().feed(bytes.fromhex(head + payload))
        message = CODEC.decode(frame)
        assert (frame.tag, frame.cause, type(message).__name__) == (int(tag, 16), CAUSE, name)


@pytest.mark.parametrize(("tag", "kind"), ALL)
def test_there_and_back(tag: int, kind: type[Struct]) -> None:
    """Every sample survives the wire."""
    for _, sample in samples(kind):
        (frame,) = FrameReader().feed(CODEC.encode(sample, CAUSE))
        assert (frame.tag, CODEC.decode(frame)) == (tag, sample)


@pytest.mark.parametrize(("tag", "kind"), ALL)
def test_newer_and_older_peers(tag: int, kind: type[Struct]) -> None:
    """Fields behind the last are left out; added fields that are missing have their defaults."""
    for _, sample in samples(kind):
        fields = msgspec.msgpack.decode(msgspec.msgpack.encode(sample))
        newer = msgspec.msgpack.encode([*fields, {"new": [1, 2]}, None])
        assert CODEC.decode(Frame(tag=tag, cause=0, payload=newer)) == sample
        needed = _required(kind)
        older = CODEC.decode(_frame(tag, fields[:needed]))
        for field in msgspec.structs.fields(kind)[: needed - _is_tagged(kind)]:
            assert getattr(older, field.name) == getattr(sample, field.name)
        if needed:
            with pytest.raises(RemoteError):
                CODEC.decode(_frame(tag, fields[: needed - 1]))


@pytest.mark.parametrize(("tag", "kind"), ALL)
def test_messages_are_of_one_make(tag: int, kind: type[Struct]) -> None:
    """Frozen arrays with a docstring; no field of any type, nothing that holds itself."""
    config = kind.__struct_config__
    assert config.frozen
    assert config.array_like
    assert not config.forbid_unknown_fields, "a newer peer's additions would be refused"
    assert kind.__doc__
    assert depth(inspect.type_info(kind)) <= DEPTH_MAX
    defaults = [field.required for field in msgspec.structs.fields(kind)]
    assert defaults == sorted(defaults, reverse=True), "what was added has a default and is last"


@pytest.mark.parametrize(("tag", "kind"), ALL)
def test_messages_hold_what_others_can_read(tag: int, kind: type[Struct]) -> None:
    """Only what msgpack writes alike everywhere: no times, decimals, extensions, untyped values."""
    assert _strange(inspect.type_info(kind)) == []


def test_a_strange_message_is_caught() -> None:
    """The checks above catch what they are for."""

    class Anything(Struct):
        anything: Any

    class Nested(Struct):
        inner: "tuple[Nested, ...]"

    assert _strange(inspect.type_info(Anything)) == ["AnyType"]
    with pytest.raises((TypeError, NameError)):
        depth(inspect.type_info(Nested))


def _frame(tag: int, fields: list[object]) -> Frame:
    return Frame(tag=tag, cause=0, payload=msgspec.msgpack.encode(fields))


def _is_tagged(kind: type[Struct]) -> bool:
    return kind.__struct_config__.tag is not None


def _required(kind: type[Struct]) -> int:
    """How many elements the first release of this message had at least."""
    fields = msgspec.structs.fields(kind)
    return sum(field.required for field in fields) + _is_tagged(kind)


_PLAIN = (
    *("StructType", "IntType", "BoolType", "FloatType", "StrType", "BytesType", "NoneType"),
    *("EnumType", "LiteralType", "VarTupleType", "TupleType", "ListType", "DictType", "UnionType"),
)


def _strange(info: inspect.Type) -> list[str]:
    name = type(info).__name__
    found = [] if name in _PLAIN else [name]
    inner: list[inspect.Type] = []
    match info:
        case inspect.StructType(fields=fields):
            inner = [field.type for field in fields]
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            inner = [item]
        case inspect.TupleType(item_types=items):
            inner = list(items)
        case inspect.DictType(key_type=key, value_type=value):
            inner = [key, value]
        case inspect.UnionType(types=members):
            inner = list(members)
    return found + [one for part in inner for one in _strange(part)]
