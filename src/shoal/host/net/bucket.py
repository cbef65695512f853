"""A bucket of tokens: so many in a second, and so many at once. Time is an argument."""

__all__ = ["Bucket"]


class Bucket:
    """Holds at most `burst` tokens and gains `rate` a second. It may be overdrawn."""

    __slots__ = ("_burst", "_level", "_rate", "_seen")

    def __init__(self, *, rate: float, burst: float, now: float) -> None:
        self._rate = rate
        self._burst = burst
        self._level = burst
        self._seen = now

    def take(self, count: float, now: float) -> float:
        """Take tokens out, all of them; the seconds until the level is no longer below zero.

        >>> bucket = Bucket(rate=10, burst=5, now=0.0)
        >>> bucket.take(5, 0.0), bucket.take(5, 0.0), bucket.take(1, 0.6)
        (0.0, 0.5, 0.0)
        """
        self._level = min(self._burst, self._level + (now - self._seen) * self._rate) - count
        self._seen = now
        return max(0.0, -self._level / self._rate)
