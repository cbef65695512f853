"""Randomness as an argument: one stream of draws per machine, split by name.

    root = Rng(42)
    ring = root.split("p7").split("ring")

Splitting by *name* means that a new draw in one machine moves no other machine's draws, so a seed
goes on telling the same story when unrelated code changes.

The one file of the pure side that imports `random`.
"""

import hashlib
import random
from collections.abc import MutableSequence, Sequence
from typing import TypeVar

__all__ = ["Rng"]

T = TypeVar("T")


class Rng:
    """A deterministic stream of draws."""

    __slots__ = ("_digest", "_random", "below", "uniform")

    def __init__(self, seed: int | bytes, name: str = "") -> None:
        path = seed if isinstance(seed, bytes) else str(seed).encode() + b"/"
        self._digest = hashlib.sha256(path + name.encode()).digest()
        self._random = random.Random(int.from_bytes(self._digest))
        #: `below(n)`: an integer from 0 to n - 1.
        self.below = self._random.randrange
        #: `uniform()`: a float in [0, 1).
        self.uniform = self._random.random

    def split(self, name: str) -> "Rng":
        """An independent stream; the same name gives the same stream, drawn from or not."""
        return Rng(self._digest, name)

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.uniform() < probability

    def between(self, low: int, high: int) -> int:
        """An integer from low to high, both included."""
        return low + self.below(high - low + 1)

    def exponential(self, mean: float) -> float:
        """A waiting time with this mean."""
        return self._random.expovariate(1.0 / mean)

    def pareto(self, shape: float) -> float:
        """A heavy tail: at least 1, infinite variance for a shape of 2 or less."""
        return self._random.paretovariate(shape)

    def choice(self, items: Sequence[T]) -> T:
        """One of them."""
        return items[self.below(len(items))]

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """Some of them, each at most once, at most as many as there are."""
        return self._random.sample(items, min(count, len(items)))

    def shuffle(self, items: MutableSequence[T]) -> None:
        """Put them in random order."""
        self._random.shuffle(items)

    def bits(self, count: int) -> int:
        """An integer of this many random bits."""
        return self._random.getrandbits(count)
