"""Timers fire in order of their instants, once, and only as set last."""

from hypothesis import given
from hypothesis import strategies as st

from shoal.host import timers as module
from shoal.host.timers import Timers


def fired(timers: Timers, now: int) -> list[str]:
    found = []
    while (timer := timers.due(now)) is not None:
        found.append(timer)
    return found


def test_in_order_of_instants() -> None:
    timers = Timers()
    for name, at in (("c", 30), ("a", 10), ("b", 20)):
        timers.set(name, at)
    assert timers.next() == 10
    assert fired(timers, 25) == ["a", "b"]
    assert fired(timers, 25) == []
    assert timers.next() == 30


def test_set_anew_and_cancelled() -> None:
    timers = Timers()
    timers.set("a", 10)
    timers.set("a", 50)
    timers.set("b", 20)
    timers.cancel("b")
    timers.cancel("unknown")
    assert fired(timers, 40) == []
    assert fired(timers, 50) == ["a"]
    assert len(timers) == 0
    assert timers.next() is None


def test_what_was_replaced_does_not_pile_up() -> None:
    timers = Timers()
    for at in range(10_000):
        timers.set("a", at)
    assert len(timers._heap) <= module._STALE_MIN + 2
    assert fired(timers, 9_998) == []
    assert fired(timers, 9_999) == ["a"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["set", "cancel", "due"]), st.sampled_from("abc"), st.integers(0, 9)
        )
    )
)
def test_like_a_dictionary(steps: list[tuple[str, str, int]]) -> None:
    """A dumb twin: a dictionary that is searched."""
    timers, twin = Timers(), {}
    for what, name, at in steps:
        if what == "set":
            timers.set(name, at)
            twin[name] = at
        elif what == "cancel":
            timers.cancel(name)
            twin.pop(name, None)
        else:
            due = sorted((when, one) for one, when in twin.items() if when <= at)
            for _, one in due:
                del twin[one]
            assert fired(timers, at) == [one for _, one in due]
        assert timers.next() == min(twin.values(), default=None)
