"""Samples of messages, made from their types, so that a new message cannot be forgotten.

    least    every field as small as its type allows, optional things absent
    full     every field set, every list with two entries, negative and large numbers where allowed

A union of several structs gives one `full` sample for each. Everything is a function of the type:
the same class gives the same bytes in every run.
"""

import hashlib
from collections.abc import Iterator
from typing import Any

from msgspec import Struct, inspect

__all__ = ["depth", "samples"]

_UNIONS_MAX = 16


def samples(kind: type[Struct]) -> Iterator[tuple[str, Struct]]:
    """Named samples of a message class."""
    yield "least", _Maker(full=False, branch=0).make(kind)
    branch = 0
    while True:
        maker = _Maker(full=True, branch=branch)
        made = maker.make(kind)
        yield f"full{branch or ''}", made
        branch += 1
        if branch >= maker.branches:
            return
        assert branch < _UNIONS_MAX, f"{kind.__name__} has a union of too many"


class _Maker:
    """Makes one sample; `branch` chooses among the members of unions."""

    def __init__(self, *, full: bool, branch: int) -> None:
        self._full = full
        self._branch = branch
        self._count = 0
        self.branches = 1

    def make(self, kind: type[Struct]) -> Any:
        return self._value(inspect.type_info(kind))

    def _value(self, info: inspect.Type) -> Any:
        method = getattr(self, f"_{type(info).__name__}", None)
        if method is None:
            raise TypeError(f"no sample of {info}; does a message need it?")
        return method(info)

    def _StructType(self, info: inspect.StructType) -> Any:
        fields = {field.name: self._value(field.type) for field in info.fields}
        return info.cls(**fields)

    def _IntType(self, info: inspect.IntType) -> int:
        least = _first(info.ge, None if info.gt is None else info.gt + 1)
        most = _first(info.le, None if info.lt is None else info.lt - 1)
        if not self._full:
            return least or 0
        self._count += 1
        return min(most if most is not None else 1 << 62, (least or 0) + 1_000_003 * self._count)

    def _BoolType(self, info: inspect.BoolType) -> bool:
        return self._full

    def _FloatType(self, info: inspect.FloatType) -> float:
        return 0.5 if self._full else 0.0

    def _StrType(self, info: inspect.StrType) -> str:
        self._count += self._full
        text = f"größe{self._count}" if self._full else ""
        return text.ljust(info.min_length or 0, "x")[: info.max_length]

    def _BytesType(self, info: inspect.BytesType) -> bytes:
        self._count += self._full
        digest = hashlib.sha1(str(self._count).encode()).digest() if self._full else b""
        return digest.ljust(info.min_length or 0, b"\0")[: info.max_length]

    def _NoneType(self, info: inspect.NoneType) -> None:
        return None

    def _EnumType(self, info: inspect.EnumType) -> Any:
        return list(info.cls)[-1 if self._full else 0]

    def _LiteralType(self, info: inspect.LiteralType) -> Any:
        return info.values[-1 if self._full else 0]

    def _VarTupleType(self, info: inspect.VarTupleType) -> tuple[Any, ...]:
        return tuple(self._several(info))

    def _ListType(self, info: inspect.ListType) -> list[Any]:
        return self._several(info)

    def _several(self, info: inspect.VarTupleType | inspect.ListType) -> list[Any]:
        count = max(info.min_length or 0, 2 if self._full else 0)
        if info.max_length is not None:
            count = min(count, info.max_length)
        return [self._value(info.item_type) for _ in range(count)]

    def _TupleType(self, info: inspect.TupleType) -> tuple[Any, ...]:
        return tuple(self._value(one) for one in info.item_types)

    def _DictType(self, info: inspect.DictType) -> dict[Any, Any]:
        count = 2 if self._full else 0
        return {self._value(info.key_type): self._value(info.value_type) for _ in range(count)}

    def _UnionType(self, info: inspect.UnionType) -> Any:
        members = [one for one in info.types if not isinstance(one, inspect.NoneType)]
        self.branches = max(self.branches, len(members))
        if not self._full and len(members) < len(info.types):
            return None
        return self._value(members[self._branch % len(members)])


def _first(one: Any, other: Any) -> int | None:
    return one if one is not None else other


def depth(info: inspect.Type, seen: tuple[type, ...] = ()) -> int:
    """How deep a value of this type nests; a type that holds itself has no depth."""
    inner: list[inspect.Type] = []
    match info:
        case inspect.StructType(cls=cls, fields=fields):
            if cls in seen:
                raise TypeError(f"{cls.__name__} holds itself")
            seen = (*seen, cls)
            inner = [field.type for field in fields]
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            inner = [item]
        case inspect.TupleType(item_types=items):
            inner = list(items)
        case inspect.DictType(key_type=key, value_type=value):
            inner = [key, value]
        case inspect.UnionType(types=members):
            return max(depth(one, seen) for one in members)
        case _:
            return 0
    return 1 + max((depth(one, seen) for one in inner), default=0)
