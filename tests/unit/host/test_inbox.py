"""In their order; a full inbox holds connections back until it is half empty."""

from shoal.host.inbox import Inbox
from shoal.kernel.events import Received, TimerFired
from shoal.kernel.keys import Contact


def inbox(*, events: int = 4, size: int = 1_000) -> tuple[Inbox, list[int]]:
    one = Inbox(events_max=events, bytes_max=size)
    calls: list[int] = []
    one.on_room = lambda: calls.append(one.waiting)
    return one, calls


def test_in_order() -> None:
    one, _ = inbox()
    for number in range(3):
        one.put(TimerFired(f"a/{number}"))
    assert one.ready.is_set()
    assert [one.take() for _ in range(4)] == [*(TimerFired(f"a/{n}") for n in range(3)), None]


def test_messages_can_be_forgotten() -> None:
    """Timers and questions stay; whoever was held back may go on."""
    one, calls = inbox(events=4)
    for number in range(3):
        one.put(Received(Contact("p2", "h:1", 1), TimerFired(f"{number}")), 300)
    one.put(TimerFired("a"))
    assert one.full
    assert one.drop_messages() == 3
    assert calls == [1]
    assert one.take() == TimerFired("a")
    assert one.drop_messages() == 0


def test_full_by_number_until_half_empty() -> None:
    one, calls = inbox(events=4)
    for number in range(3):
        one.put(TimerFired(f"a/{number}"))
    assert not one.full
    one.put(TimerFired("a/3"))
    assert one.full
    one.take()
    assert not one.full
    assert calls == []
    one.take()
    assert calls == [2]
    one.take()
    assert calls == [2]


def test_full_by_bytes() -> None:
    one, calls = inbox(size=1_000)
    one.put(TimerFired("a/1"), 1_000)
    assert one.full
    one.take()
    assert calls == [0]
    assert not one.full


def test_nobody_is_called_who_was_not_held_back() -> None:
    one, calls = inbox(events=1)
    one.put(TimerFired("a/1"))
    one.take()
    assert calls == []
