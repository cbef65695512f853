"""Watermarks by example; tests/property/test_watermark.py compares them with a dumb twin."""

import pytest

from shoal.kernel.errors import LocalError
from shoal.kernel.time import HOUR, SECOND
from shoal.log.watermark import SplitClock, SplitClocks, WatermarkRule

RULE = WatermarkRule(lateness=10, idle_after=100, ahead_max=1_000, idle_advances=False)
IDLE_ADVANCES = WatermarkRule(lateness=10, idle_after=100, ahead_max=1_000, idle_advances=True)


def step(
    state: SplitClocks, now: int, rule: WatermarkRule = RULE, waiting: str = "", **highest: int
) -> SplitClocks:
    return state.advanced(rule, highest, waiting=waiting.split(), now=now)


def test_the_rule_of_a_lateness() -> None:
    rule = WatermarkRule.of(lateness=60 * SECOND, idle_advances=False)
    assert (rule.idle_after, rule.ahead_max) == (120 * SECOND, HOUR)
    assert WatermarkRule.of(lateness=0, idle_advances=True).idle_after == 5 * SECOND
    for lateness in (-1, 367 * 24 * HOUR):
        with pytest.raises(LocalError):
            WatermarkRule.of(lateness=lateness, idle_advances=False)


def test_the_minimum_over_splits_that_never_falls() -> None:
    state = SplitClocks()
    assert state.watermark is None
    state = step(state, 0, a=50, b=80)
    assert state.watermark == 40
    state = step(state, 1, a=70)
    assert state.watermark == 60
    state = step(state, 2, a=20, b=10)
    assert state.watermark == 60
    assert state.splits["a"] == SplitClock(watermark=60, seen=2)


def test_a_new_split_that_is_behind_holds_but_does_not_pull_back() -> None:
    state = step(SplitClocks(), 0, a=50)
    state = step(state, 1, c=5)
    assert state.watermark == 40
    state = step(state, 2, a=500)
    assert state.watermark == 40
    state = step(state, 3, c=100)
    assert state.watermark == 90


def test_an_idle_split_leaves_and_comes_back() -> None:
    state = step(SplitClocks(), 0, a=50, b=50)
    state = step(state, 99, a=500)
    assert state.watermark == 40
    state = step(state, 100, a=510)
    assert state.watermark == 500
    assert state.active(RULE) == ("a",)
    state = step(state, 101, b=60)
    assert state.watermark == 500
    assert state.active(RULE) == ("a", "b")
    state = step(state, 102, a=900)
    assert state.watermark == 500
    state = step(state, 103, b=700)
    assert state.watermark == 690


def test_the_splits_heard_last_stay() -> None:
    state = step(SplitClocks(), 0, a=50)
    state = step(state, 10, b=500)
    assert step(state, 10_000).watermark == 490
    state = step(step(SplitClocks(), 0, a=50, b=500), 10_000)
    assert state.watermark == 40


def test_with_no_data_at_all_the_watermark_stands() -> None:
    state = step(SplitClocks(), 0, a=50)
    for now in (99, 100, 101, 10**15):
        assert step(state, now).watermark == 40


def test_idle_advances_follows_the_clock_without_a_leap() -> None:
    state = step(SplitClocks(), 1_000, IDLE_ADVANCES, a=1_000)
    assert state.watermark == 990
    assert step(state, 1_099, IDLE_ADVANCES).watermark == 990
    state = step(state, 1_100, IDLE_ADVANCES)
    assert state.watermark == 990
    state = step(state, 1_150, IDLE_ADVANCES)
    assert state.watermark == 1_040
    state = step(state, 1_160, IDLE_ADVANCES, a=1_020)
    assert state.watermark == 1_040
    assert step(state, 1_170, IDLE_ADVANCES, a=1_170).watermark == 1_160


def test_idle_advances_before_the_first_tuple() -> None:
    assert step(SplitClocks(), 1_000, IDLE_ADVANCES).watermark == 890
    assert step(SplitClocks(), 1_000, IDLE_ADVANCES, waiting="a").watermark is None


def test_after_silence_a_split_that_fell_idle_is_worth_a_commit() -> None:
    """However little the watermark moves by it: while nothing else comes, nobody moves it again."""
    state = step(SplitClocks(), 0, slow=50)
    state = step(state, 50, fast=51)
    assert state.watermark == 40
    assert state.after_silence(RULE, waiting=(), now=99) is None
    moved = state.after_silence(RULE, waiting=(), now=100)
    assert moved is not None
    assert moved.watermark == 41
    assert moved.after_silence(RULE, waiting=(), now=10**15) is None


def test_after_silence_the_first_watermark_is_told_whatever_it_is() -> None:
    """Also one before 1970, which a split that waited to be heard held back until it was empty."""
    state = step(SplitClocks(), 0, waiting="empty", a=-500)
    assert state.watermark is None
    moved = state.after_silence(RULE, waiting=(), now=1)
    assert moved is not None
    assert moved.watermark == -510


def test_after_silence_the_clock_is_followed_now_and_then() -> None:
    state = step(SplitClocks(), 1_000, IDLE_ADVANCES, a=1_000)
    assert state.after_silence(IDLE_ADVANCES, waiting=(), now=1_099 + SECOND) is None
    moved = state.after_silence(IDLE_ADVANCES, waiting=(), now=1_100 + SECOND)
    assert moved is not None
    assert moved.watermark == 990 + SECOND
    both = step(step(SplitClocks(), 0, IDLE_ADVANCES, slow=50), 50, IDLE_ADVANCES, fast=51)
    moved = both.after_silence(IDLE_ADVANCES, waiting=(), now=151)
    assert moved is not None
    assert moved.watermark == 41, "a split fell idle; the clock has brought next to nothing"


def test_splits_that_wait_are_not_idle() -> None:
    """After a pause of the ingest, what lies there unread keeps its split active."""
    state = step(SplitClocks(), 0, a=50, b=50)
    state = step(state, 10**6, a=10**5, waiting="b")
    assert state.watermark == 40
    state = step(state, 10**6 + 1, waiting="b", b=60)
    assert state.watermark == 50


def test_a_split_that_waits_to_be_heard_holds_everything() -> None:
    state = step(SplitClocks(), 0, a=50)
    state = step(state, 1, a=500, waiting="new")
    assert state.watermark == 40
    state = step(state, 2, new=300)
    assert state.watermark == 290


def test_the_clock_never_goes_back() -> None:
    state = step(SplitClocks(), 1_000, a=50, b=50)
    state = step(state, 10, a=60)
    assert state.clock == 1_000
    assert state.splits["a"].seen == 1_000
    assert state.ahead_limit(RULE, 5) == 2_000
    assert step(state, 1_099, a=900).watermark == 40


def test_tuples_ahead_of_the_clock_are_the_callers_to_keep_out() -> None:
    state = step(SplitClocks(), 1_000, a=2_000)
    assert state.watermark == 1_990
    with pytest.raises(LocalError, match="ahead of the ingest clock"):
        step(state, 1_000, a=2_001)


def test_event_times_at_the_ends_of_int64() -> None:
    state = step(SplitClocks(), 0, a=-(1 << 63))
    assert state.watermark == -(1 << 63)
    assert step(state, (1 << 63) - 2_000, a=0).watermark == -10


def test_transactions_there_and_back() -> None:
    before = SplitClocks().advanced(RULE, {"a/b": 50, "": 70}, waiting=(), now=100)
    written = before.changes(SplitClocks())
    assert written == {
        "wm": 40,
        "clock": 100,
        "split/a/b": 40,
        "seen/a/b": 100,
        "split/": 60,
        "seen/": 100,
    }
    others = {"shoal": 1 << 40, "in/x": 7, "splits": 3}
    assert SplitClocks.restored(written | others, RULE) == before
    after = before.advanced(RULE, {"a/b": 90}, waiting=(), now=150)
    assert after.changes(before) == {
        "wm": 60,
        "clock": 150,
        "split/a/b": 80,
        "seen/a/b": 150,
    }
    assert after.changes(after) == {}
    assert SplitClocks.restored({}, RULE) == SplitClocks()


def test_memory_goes_with_the_active_splits() -> None:
    state = SplitClocks()
    for number in range(1_000):
        heard = {f"client-{number}": 10 * number}
        state = state.advanced(RULE, heard, waiting=(), now=10 * number)
    assert len(state.splits) <= 12
    assert state.watermark == 10 * 989
