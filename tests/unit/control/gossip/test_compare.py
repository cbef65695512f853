"""Comparisons: two stores become equal; an absence is not the way back for what was removed."""

from dataclasses import replace

from msgspec import Struct

from shoal.control.gossip.compare import COMPARE, Comparing, cut
from shoal.control.gossip.config import GossipConfig
from shoal.control.gossip.messages import (
    MESSAGES,
    Buckets,
    Compare,
    Fact,
    Give,
    Same,
    Summary,
    Version,
)
from shoal.control.gossip.state import Store, _bucket
from shoal.kernel.effects import Effect, Send, SetTimer
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.kernel.time import HOUR, SECOND
from shoal.wire.codec import Codec

CONFIG = replace(GossipConfig(), message_bytes_max=20_000)


def fact(key: str, counter: int = 1, body: bytes | None = b"x") -> Fact:
    return Fact("query", key, Version(counter, "w", 1), body)


class Side:
    """One peer's comparing, its store, and what it has said."""

    def __init__(self, name: str, *facts: Fact) -> None:
        self.me = Contact(name, f"{name}:1", 1)
        self.store = Store(facts_max=60_000, removed_life_us=HOUR, row_us=SECOND)
        self.comparing = Comparing(self.me, CONFIG, self.store, Rng(1, name))
        self.said: list[Struct] = []
        self.forgotten: list[str] = []
        self.out: list[Effect] = []
        self.comparing.start(0, self.out)
        for one in facts:
            self.store.take(one, 0)

    @property
    def keys(self) -> list[str]:
        return sorted(one.key for one in self.store)

    def flush(self) -> list[Struct]:
        """What is to be sent; its timers are looked at by the test."""
        messages = [effect.message for effect in self.out if isinstance(effect, Send)]
        self.said += messages
        self.out.clear()
        return messages

    def receive(self, sender: "Side", message: Struct, now: int) -> None:
        comparing, who, out = self.comparing, sender.me, self.out
        match message:
            case Compare():
                comparing.compare(who, message, now, out)
            case Same():
                comparing.same(who, message, now)
            case Buckets():
                comparing.buckets(who, message, now, out)
            case Summary():
                comparing.summary(who, message, now, out)
            case Give():
                new = [self.store.take(one, now) for one in message.facts]
                for name in comparing.given(who, message, now, out, learned=any(new)):
                    self.store.drop(name)
                    self.forgotten.append(name[1])
            case _:
                raise AssertionError(message)


def talk(one: Side, other: Side, now: int) -> None:
    """Let both say all they have to say."""
    for _ in range(100):
        from_one, from_other = one.flush(), other.flush()
        if not from_one and not from_other:
            return
        for message in from_one:
            other.receive(one, message, now)
        for message in from_other:
            one.receive(other, message, now)
    raise AssertionError("they never end")


def compare(one: Side, other: Side, now: int = SECOND) -> None:
    one.comparing.soon(other.me, now, one.out)
    one.comparing.timer(now + SECOND, one.out)
    talk(one, other, now + SECOND)


def kinds(side: Side) -> list[str]:
    return [type(message).__name__ for message in side.said]


def test_equal_stores_take_two_messages() -> None:
    one, other = Side("a", fact("q1")), Side("b", fact("q1"))
    compare(one, other)
    assert (kinds(one), kinds(other)) == (["Compare"], ["Same"])
    assert one.comparing.done == 1


def test_stores_become_equal_in_both_directions() -> None:
    one = Side("a", fact("old", 1), fact("new", 5), fact("mine"), fact("gone", 7, None))
    other = Side("b", fact("old", 9), fact("new", 2), fact("theirs"), fact("gone", 6))
    compare(one, other)
    assert one.store.digest == other.store.digest
    assert one.keys == ["gone", "mine", "new", "old", "theirs"]
    assert other.store.version(("query", "gone")) == Version(7, "w", 1)
    assert kinds(one)[-1] == "Compare", "until they are the same"
    assert kinds(other)[-1] == "Same"
    one.store.validate_all()


def test_a_newcomer_gets_everything_in_messages_that_fit() -> None:
    facts = [fact(f"q{number}", 1, b"y" * 1_000) for number in range(100)]
    one, other = Side("a"), Side("b", *facts)
    compare(one, other)
    assert one.store.digest == other.store.digest
    gives = [message for message in other.said if isinstance(message, Give)]
    assert len(gives) > 4
    assert [give.last for give in gives] == [False] * (len(gives) - 1) + [True]


def test_a_large_store_comes_in_rounds_each_of_bounded_size() -> None:
    """Nobody is made to say, or to hold, more than some messages at once."""
    facts = [fact(f"q{number}", 1, b"y" * 10_000) for number in range(200)]
    one, other = Side("a"), Side("b", *facts)
    compare(one, other)
    assert one.store.digest == other.store.digest
    size = 0
    for message in other.said:
        if isinstance(message, Give):
            size += sum(len(given.body or b"") for given in message.facts)
            assert size <= 8 * CONFIG.message_bytes_max
            size = 0 if message.last else size
    assert kinds(one).count("Compare") > 10


def test_a_neighbour_that_cannot_take_is_not_asked_for_ever() -> None:
    one, other = Side("a", fact("q1"), fact("q2")), Side("b")
    other.store._facts_max = 1
    compare(one, other)
    assert kinds(one).count("Compare") == 4
    assert one.comparing.done == 1


def test_many_names_take_several_summaries() -> None:
    facts = [fact(f"q{number}") for number in range(3_000)]
    one, other = Side("a", *facts), Side("b", *facts, fact("more"))
    other.store.take(fact("q0", 2), 0)
    compare(one, other)
    assert one.store.digest == other.store.digest
    apart = Side("c", *[fact(f"r{number}") for number in range(3_000)])
    compare(apart, other)
    assert apart.store.digest == other.store.digest
    assert kinds(apart).count("Summary") >= 3


def test_names_of_any_length_fit_into_frames() -> None:
    """The longest topics, keys and writers, in letters of four bytes, all in few buckets."""
    long = [
        Fact(
            "\U0001f41f" * 32,
            f"{number:08d}" + "\U0001f41f" * 120,
            Version(1, "\U0001f41f" * 128, 1),
            b"",
        )
        for number in range(8_000)
    ]
    crowded = [one for one in long if _bucket(one.name) < 2][:400]
    one, other = Side("a", *crowded, *[fact(f"q{number}") for number in range(3_000)]), Side("b")
    compare(one, other)
    codec = Codec(MESSAGES)
    assert max(len(codec.encode(message, 1)) for message in (*one.said, *other.said)) < 1 << 20
    assert len(other.store) > 1_000
    compare(other, one)
    assert one.store.digest == other.store.digest


def test_without_an_answer_it_asks_again_and_then_waits_for_the_next_time() -> None:
    one = Side("a", fact("q1"))
    one.comparing.soon(Contact("b", "b:1", 1), 0, one.out)
    now = SECOND
    for _ in range(10):
        one.comparing.timer(now, one.out)
        now += CONFIG.compare_wait_us
    assert kinds_of(one.flush()) == ["Compare"] * CONFIG.compare_tries


def kinds_of(messages: list[Struct]) -> list[str]:
    return [type(message).__name__ for message in messages]


def test_the_successor_is_compared_with_again_and_again() -> None:
    one = Side("a")
    one.comparing.neighbour(Contact("b", "b:1", 1), 0, one.out)
    count = 0
    for second in range(1, 301):
        one.comparing.timer(second * SECOND, one.out)
        for message in one.flush():
            count += 1
            assert isinstance(message, Compare)
            one.receive(Side("b"), Same(message.token), second * SECOND)
    assert count == 1 + 10, "once soon, and then every 30 s"


def test_answers_to_other_questions_are_nobodys() -> None:
    one, other = Side("a", fact("q1")), Side("b")
    one.receive(other, Same(5), 1)
    one.receive(other, Buckets(5, (0,) * 64, 1), 1)
    one.receive(other, Give(5, (), (), True), 1)
    assert one.flush() == []
    assert one.comparing.done == 0


def test_who_is_gone_is_not_waited_for() -> None:
    one = Side("a")
    one.comparing.soon(Contact("b", "b:1", 1), 0, one.out)
    one.comparing.gone("b")
    one.comparing.timer(SECOND, one.out)
    assert one.flush() == []


def away(side: Side, since: int, now: int) -> None:
    side.comparing.touched = since
    assert side.comparing.touch(now, side.out)


def test_a_short_silence_is_no_absence() -> None:
    one = Side("a")
    assert not one.comparing.touch(0, one.out)
    assert not one.comparing.touch(CONFIG.away_us, one.out)
    assert one.comparing.sound_us(CONFIG.away_us) == CONFIG.away_us


def test_G4_what_was_removed_during_an_absence_is_dropped() -> None:
    """The neighbour has forgotten the removal already; what is newer than the absence stays."""
    one = Side("a", fact("removed meanwhile"), fact("still there"))
    other = Side("b", fact("still there"))
    one.store.take(fact("written when back"), 2 * HOUR)
    away(one, 0, 2 * HOUR)
    compare(one, other, 2 * HOUR)
    assert one.forgotten == ["removed meanwhile"]
    assert one.keys == other.keys == ["still there", "written when back"]
    assert one.comparing.doubt_from is None
    assert one.comparing.sound_us(3 * HOUR) < HOUR, "sound since now"


def test_a_newer_version_of_what_the_neighbour_has_is_given_after_an_absence() -> None:
    one, other = Side("a", fact("q1", 5)), Side("b", fact("q1", 3))
    away(one, 0, 2 * HOUR)
    compare(one, other, 2 * HOUR)
    assert other.store.version(("query", "q1")) == Version(5, "w", 1)
    assert one.forgotten == []


def test_a_neighbour_that_was_up_for_a_shorter_time_cannot_know_better() -> None:
    """Otherwise two peers of which one restarts would lose everything."""
    one, other = Side("a", fact("q1")), Side("b")
    other.comparing.start(2 * HOUR - SECOND, other.out)
    away(one, 0, 2 * HOUR)
    compare(one, other, 2 * HOUR)
    assert other.keys == ["q1"]
    assert one.forgotten == []
    assert one.comparing.doubt_from is None


def test_in_doubt_a_peer_gives_nothing_away() -> None:
    one, other = Side("a", fact("q1")), Side("b")
    away(one, 0, 2 * HOUR)
    compare(other, one, 2 * HOUR)
    assert other.keys == []
    assert kinds(one) == []
    same = Side("c", fact("q1"))
    compare(same, one, 2 * HOUR)
    assert kinds(one) == ["Same"], "equal stores can be told"


def test_doubt_ends_when_all_neighbours_are_in_doubt() -> None:
    one = Side("a", fact("q1"))
    one.comparing.neighbour(Contact("b", "b:1", 1), 0, one.out)
    away(one, 0, 2 * HOUR)
    one.comparing.timer(2 * HOUR + CONFIG.compare_every_us, one.out)
    assert one.comparing.doubt_from is not None
    one.comparing.timer(2 * HOUR + 2 * CONFIG.compare_every_us, one.out)
    assert one.comparing.doubt_from is None
    assert one.keys == ["q1"]


def test_alone_doubt_waits_for_company() -> None:
    one = Side("a", fact("q1"))
    away(one, 0, 2 * HOUR)
    one.comparing.timer(5 * HOUR, one.out)
    assert one.comparing.doubt_from is not None
    one.comparing.neighbour(Contact("b", "b:1", 1), 6 * HOUR, one.out)
    one.comparing.timer(6 * HOUR + 2 * CONFIG.compare_every_us, one.out)
    assert one.comparing.doubt_from is None


def test_one_timer_for_whatever_is_next() -> None:
    one = Side("a")
    one.comparing.soon(Contact("b", "b:1", 1), 0, one.out)
    armed = [effect for effect in one.out if isinstance(effect, SetTimer)]
    assert all(effect.timer == COMPARE for effect in armed)
    assert armed[-1].at <= 2 * CONFIG.compare_soon_us


def test_pieces_fit_and_lose_nothing() -> None:
    facts = [fact(f"q{number}", 1, b"z" * number) for number in range(0, 500, 7)]
    pieces = cut(facts, 2_000)
    assert [one for piece in pieces for one in piece] == facts
    assert all(sum(len(one.body or b"") for one in piece) <= 2_000 for piece in pieces)
    assert cut([fact("large", 1, b"z" * 5_000)], 2_000) == [(fact("large", 1, b"z" * 5_000),)]
    assert cut([], 10) == []
