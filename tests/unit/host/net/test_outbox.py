"""The oldest is dropped first, and what waits never exceeds its bounds."""

from hypothesis import given
from hypothesis import strategies as st

from shoal.host.net.outbox import Outbox, Total


def outbox(total: Total | None = None, **limits: int) -> Outbox:
    return Outbox(
        **{"frames_max": 3, "bytes_max": 100, "total": total or Total(bytes_max=1_000), **limits}
    )


def validate_outbox(kind: type[Outbox]) -> None:
    """H4: two peers take little of what waits for them, and together it is too much."""
    total = Total(bytes_max=150)
    boxes = [kind(frames_max=3, bytes_max=100, total=total) for _ in range(2)]
    for number in range(60):
        box = boxes[number % 2]
        box.put(b"x" * (number * 7 % 70 + 1))
        if number % 5 == 0:
            box.take(50)
        box.validate()


def test_H4_what_waits_is_bounded() -> None:
    validate_outbox(Outbox)


def test_in_order_and_together() -> None:
    one = outbox()
    for frame in (b"a", b"b", b"c"):
        one.put(frame)
    assert one.take(2) == b"ab"
    assert one.take(2) == b"c"
    assert one.take(2) == b""


def test_the_oldest_is_dropped() -> None:
    one = outbox()
    for frame in (b"a", b"b", b"c", b"d"):
        one.put(frame)
    assert one.dropped == 1
    assert one.take(10) == b"bcd"
    one.put(b"x" * 60)
    one.put(b"y" * 60)
    assert one.take(100) == b"y" * 60


def test_all_together_are_bounded() -> None:
    total = Total(bytes_max=10)
    first, second = outbox(total), outbox(total)
    first.put(b"123456")
    second.put(b"123456")
    assert (len(first), len(second), total.bytes, total.dropped) == (1, 0, 6, 1)
    assert first.drop() == 1
    assert total.bytes == 0


@given(st.lists(st.one_of(st.integers(1, 70), st.none())))
def test_bounds_hold(steps: list[int | None]) -> None:
    total = Total(bytes_max=150)
    boxes = [outbox(total), outbox(total)]
    for number, size in enumerate(steps):
        box = boxes[number % 2]
        if size is None:
            box.take(50)
        else:
            box.put(b"x" * size)
        box.validate()
        assert len(box) <= 3
        assert box.bytes <= 100
        assert total.bytes == sum(one.bytes for one in boxes) <= 150
