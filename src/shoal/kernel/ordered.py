"""Sets whose order is defined, or that have none to rely on.

The order of a built-in set of strings changes with PYTHONHASHSEED, and with it every decision
that iterates over one. `OrderedSet` keeps the order of insertion. `Membership` answers whether
something is in it and cannot be iterated at all.
"""

from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeVar

__all__ = ["Membership", "OrderedSet"]

T = TypeVar("T", bound=Hashable)


class OrderedSet(Generic[T]):
    """A set in order of insertion."""

    __slots__ = ("_items",)

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._items = dict.fromkeys(items)

    def add(self, item: T) -> None:
        """Put it at the end, unless it is in already."""
        self._items[item] = None

    def discard(self, item: T) -> None:
        """Take it out if it is in."""
        self._items.pop(item, None)

    def __contains__(self, item: object) -> bool:
        return item in self._items

    def __iter__(self) -> Iterator[T]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"OrderedSet({list(self._items)!r})"


class Membership(Generic[T]):
    """A set that answers membership and cannot be iterated, so that no order can leak.

    With a bound, the oldest are forgotten first.
    """

    __slots__ = ("_items", "_size_max")

    def __init__(self, *, size_max: int | None = None) -> None:
        self._items: dict[T, None] = {}
        self._size_max = size_max

    def add(self, item: T) -> bool:
        """Put it in; False if it was in already."""
        if item in self._items:
            return False
        self._items[item] = None
        if self._size_max is not None and len(self._items) > self._size_max:
            del self._items[next(iter(self._items))]
        return True

    def discard(self, item: T) -> None:
        """Take it out if it is in."""
        self._items.pop(item, None)

    def __contains__(self, item: object) -> bool:
        return item in self._items

    def __len__(self) -> int:
        return len(self._items)
