"""So many in a second, and so many at once."""

from hypothesis import given
from hypothesis import strategies as st

from shoal.host.net.bucket import Bucket


def test_a_burst_and_then_the_rate() -> None:
    bucket = Bucket(rate=10.0, burst=5.0, now=0.0)
    assert [bucket.take(1, 0.0) for _ in range(5)] == [0.0] * 5
    assert bucket.take(1, 0.0) == 0.1
    assert bucket.take(1, 10.0) == 0.0


@given(st.lists(st.tuples(st.floats(0, 2), st.integers(1, 20)), max_size=50))
def test_who_waits_as_told_never_exceeds_the_rate(steps: list[tuple[float, int]]) -> None:
    bucket = Bucket(rate=10.0, burst=5.0, now=0.0)
    now, taken = 0.0, 0
    for pause, count in steps:
        now += pause
        before = taken
        taken += count
        assert before <= 5.0 + 10.0 * now + 1e-6
        now += bucket.take(count, now)
