"""Watermarks against a dumb twin that forgets nothing and computes everything again."""

from dataclasses import dataclass, field
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from shoal.log.watermark import SplitClocks, WatermarkRule

SPLITS = ("a", "b", "c", "d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call: how far the clock moves, what was read, what waits."""

    elapsed: int
    highest: dict[str, int]
    waiting: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class Twin:
    """Remembers every event of every split; each watermark is computed from all of them."""

    rule: WatermarkRule
    clock: int | None = None
    watermark: int | None = None
    events: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def advance(self, highest: dict[str, int], waiting: tuple[str, ...], now: int) -> None:
        self.clock = now if self.clock is None else max(self.clock, now)
        for split, event_time in highest.items():
            self.events.setdefault(split, []).append((self.clock, event_time))
        if any(split not in self.events for split in waiting):
            return
        heard = {split: events[-1][0] for split, events in self.events.items()}
        latest = max(heard.values(), default=None)
        silent = latest is None or self.clock - latest >= self.rule.idle_after
        members = [
            split
            for split in heard
            if split in waiting
            or self.clock - heard[split] < self.rule.idle_after
            or heard[split] == latest
        ]
        values = [max(time for _, time in self.events[split]) for split in members]
        candidates = [min(values) - self.rule.lateness] if values else []
        if silent and self.rule.idle_advances and not waiting:
            candidates.append(self.clock - self.rule.idle_after - self.rule.lateness)
        for candidate in candidates:
            behind = self.watermark is not None and candidate < self.watermark
            self.watermark = self.watermark if behind else candidate


rules = st.builds(
    lambda lateness, advances: WatermarkRule(
        lateness=lateness,
        idle_after=max(2 * lateness, 50),
        ahead_max=1_000,
        idle_advances=advances,
    ),
    st.integers(0, 60),
    st.booleans(),
)
steps = st.lists(
    st.builds(
        Step,
        elapsed=st.integers(-60, 120),
        highest=st.dictionaries(st.sampled_from(SPLITS), st.integers(-1_000, 300), max_size=4),
        waiting=st.lists(st.sampled_from(SPLITS), max_size=2, unique=True).map(tuple),
    ),
    max_size=30,
)


@given(rules, steps)
def test_equal_to_the_twin(rule: WatermarkRule, script: list[Step]) -> None:
    state, twin, now = SplitClocks(), Twin(rule=rule), 0
    for item in script:
        now += item.elapsed
        highest = {split: (state.clock or now) + ahead for split, ahead in item.highest.items()}
        state = state.advanced(rule, highest, waiting=item.waiting, now=now)
        twin.advance(highest, item.waiting, now)
        assert (state.watermark, state.clock) == (twin.watermark, twin.clock)


@given(rules, steps)
def test_never_falls(rule: WatermarkRule, script: list[Step]) -> None:
    state, now = SplitClocks(), 0
    for item in script:
        now += item.elapsed
        highest = {split: (state.clock or now) + ahead for split, ahead in item.highest.items()}
        after = state.advanced(rule, highest, waiting=item.waiting, now=now)
        for before, later in ((state.watermark, after.watermark), (state.clock, after.clock)):
            assert before is None or (later is not None and later >= before)
        state = after


@given(rules, steps, st.randoms(use_true_random=False))
def test_the_order_of_splits_does_not_matter(
    rule: WatermarkRule, script: list[Step], rng: Random
) -> None:
    one, two, now = SplitClocks(), SplitClocks(), 0
    for item in script:
        now += item.elapsed
        highest = {split: (one.clock or now) + ahead for split, ahead in item.highest.items()}
        shuffled = list(highest.items())
        rng.shuffle(shuffled)
        one = one.advanced(rule, highest, waiting=item.waiting, now=now)
        two = two.advanced(rule, dict(shuffled), waiting=item.waiting[::-1], now=now)
        assert one == two


@given(rules, steps, st.lists(st.integers(0, 400), max_size=5))
def test_asking_more_often_changes_nothing(
    rule: WatermarkRule, script: list[Step], asked: list[int]
) -> None:
    state, now = SplitClocks(), 0
    for item in script:
        now += item.elapsed
        highest = {split: (state.clock or now) + ahead for split, ahead in item.highest.items()}
        state = state.advanced(rule, highest, waiting=item.waiting, now=now)
    often = state
    for elapsed in sorted(asked):
        often = often.advanced(rule, {}, waiting=(), now=now + elapsed)
    at_once = state.advanced(rule, {}, waiting=(), now=now + max(asked, default=0))
    assert often.watermark == at_once.watermark or not asked


@given(rules, steps, st.integers(1, 4))
def test_restored_goes_on_as_if_never_stopped(
    rule: WatermarkRule, script: list[Step], each: int
) -> None:
    """Commit every few steps what has changed; come back from the commits after each."""
    table: dict[str, int] = {}
    state, committed, now = SplitClocks(), SplitClocks(), 0
    restarted = SplitClocks()
    for number, item in enumerate(script):
        now += item.elapsed
        highest = {split: (state.clock or now) + ahead for split, ahead in item.highest.items()}
        state = state.advanced(rule, highest, waiting=item.waiting, now=now)
        restarted = restarted.advanced(rule, highest, waiting=item.waiting, now=now)
        assert restarted.watermark == state.watermark
        if number % each == 0:
            table |= restarted.changes(committed)
            restarted = committed = SplitClocks.restored(table, rule)
