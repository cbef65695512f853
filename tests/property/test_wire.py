"""Messages of the real table, with any values their types allow: there and back, in any pieces."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct, inspect

from shoal.kernel.errors import RemoteError
from shoal.peer.messages import MESSAGES
from shoal.wire.codec import Codec
from shoal.wire.frames import Frame, FrameReader

CODEC = Codec(MESSAGES)
LENGTH_MAX = 25


def values(info: inspect.Type) -> st.SearchStrategy[Any]:
    """Any value of a type that a message may have (tests/golden/test_wire.py lists the types)."""
    return _VALUES[type(info)](info)


def _struct(info: inspect.StructType) -> st.SearchStrategy[Any]:
    return st.builds(info.cls, **{field.name: values(field.type) for field in info.fields})


def _integer(info: inspect.IntType) -> st.SearchStrategy[Any]:
    low = info.ge if info.ge is not None else -(1 << 63) if info.gt is None else info.gt + 1
    high = info.le if info.le is not None else (1 << 64) - 1 if info.lt is None else info.lt - 1
    return st.integers(int(low), int(high))


def _text(info: inspect.StrType) -> st.SearchStrategy[Any]:
    high = min(info.max_length or LENGTH_MAX, LENGTH_MAX)
    return st.text(st.characters(codec="utf-8"), min_size=info.min_length or 0, max_size=high)


def _bytes(info: inspect.BytesType) -> st.SearchStrategy[Any]:
    high = min(info.max_length or LENGTH_MAX, LENGTH_MAX)
    return st.binary(min_size=info.min_length or 0, max_size=high)


_VALUES: dict[type, Callable[[Any], st.SearchStrategy[Any]]] = {
    inspect.StructType: _struct,
    inspect.IntType: _integer,
    inspect.BoolType: lambda info: st.booleans(),
    inspect.FloatType: lambda info: st.floats(allow_nan=False),
    inspect.StrType: _text,
    inspect.BytesType: _bytes,
    inspect.NoneType: lambda info: st.none(),
    inspect.LiteralType: lambda info: st.sampled_from(info.values),
    inspect.EnumType: lambda info: st.sampled_from(info.cls),
    inspect.VarTupleType: lambda info: st.lists(values(info.item_type), max_size=2).map(tuple),
    inspect.TupleType: lambda info: st.tuples(*map(values, info.item_types)),
    inspect.UnionType: lambda info: st.one_of(*map(values, info.types)),
}


@pytest.mark.slow
@pytest.mark.parametrize("upper", sorted({tag >> 8 for tag in MESSAGES}))
def test_messages_survive_in_any_pieces(upper: int) -> None:
    """What arrives, in order, is what was sent, with its cause."""
    kinds = [kind for tag, kind in MESSAGES.items() if tag >> 8 == upper]
    message = st.one_of(*(values(inspect.type_info(kind)) for kind in kinds))
    causes = st.integers(0, (1 << 64) - 1)

    @given(st.lists(st.tuples(message, causes), max_size=2), st.integers(1, 30))
    @settings(max_examples=60)
    def check(sent: list[tuple[Struct, int]], size: int) -> None:
        data = b"".join(CODEC.encode(message, cause) for message, cause in sent)
        reader = FrameReader()
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        frames = [one for piece in pieces for one in reader.feed(piece)]
        assert [(CODEC.decode(one), one.cause) for one in frames] == sent
        assert reader.waiting == 0

    check()


LEAVES = st.none() | st.booleans() | st.integers(-5, 70_000) | st.text(max_size=3) | st.binary()
FIELDS = st.lists(LEAVES | st.lists(LEAVES, max_size=3), max_size=7)


@given(st.sampled_from(sorted(MESSAGES)), FIELDS)
@settings(max_examples=150)
def test_any_values_under_any_tag(tag: int, fields: list[object]) -> None:
    """Well-formed msgpack of another shape: a message of that tag's class, or RemoteError."""
    payload = msgspec.msgpack.encode(fields)
    try:
        message = CODEC.decode(Frame(tag=tag, cause=0, payload=payload))
    except RemoteError:
        return
    assert type(message) is MESSAGES[tag]
