"""Following a panes table: commits without anything due cost nothing, and none is forgotten."""

from pathlib import Path

import pyarrow as pa
import pytest

from shoal.dataplane.rows import ALWAYS, FOREVER
from shoal.log.root import Root
from shoal.log.writer import Writer
from shoal.spark.feed import Feed
from shoal.spark.windows import follow as module
from shoal.spark.windows.due import Due, Wanted
from shoal.spark.windows.follow import Follower
from tests.unit.spark.windows.world import window

_SCHEMA = pa.schema([("a", pa.int64())])
TENS = (Wanted(window=window(10), after=ALWAYS, upto=FOREVER),)
SECOND = 1_000_000


class Pair:
    """A panes table, and the table of who follows it."""

    def __init__(self, path: Path) -> None:
        self.root = Root.open(path)
        for name in ("panes-1", "rollup-1"):
            Writer.create(self.root, name, _SCHEMA)
        self.panes = Writer.take_over(self.root, "panes-1", owner="test")
        self.writer = Writer.take_over(self.root, "rollup-1", owner="test")
        self.put(self.writer, {"in/panes-1": 0})
        self.feed = Feed(self.root, "panes-1", after=0)

    def put(self, writer: Writer, facts: dict[str, int]) -> None:
        writer.commit(step=writer.step + 1, segments=[], transactions=facts)

    def advance(self, *seconds: int) -> None:
        for second in seconds:
            self.put(self.panes, {"wm": second * SECOND, "evmax": (second + 5) * SECOND})
        self.feed.poll()

    def commit(self, follower: Follower, due: Due, upto: int) -> None:
        follower.plan(due)
        self.put(self.writer, due.facts(upto))
        follower.committed(self.writer.transactions)


@pytest.fixture
def pair(root: Path) -> Pair:
    return Pair(root)


def test_nothing_due_moves_on_without_a_commit(pair: Pair) -> None:
    follower = Follower(pair.feed, pair.writer)
    pair.advance(1, 4, 7)
    assert follower.lag == 3
    assert follower.next(TENS) is not None, "the first window has an end before any"
    assert follower.next(()) is None
    assert (follower.position, follower.done, follower.durable) == (3, 7 * SECOND, 0)
    assert (follower.planned, follower.evmax, follower.lag) == (3, 12 * SECOND, 0)
    pair.advance(9)
    assert follower.next(TENS) is None
    pair.advance(12, 25)
    due = follower.next(TENS)
    assert due is not None
    assert (due.after, due.upto, due.done, due.reached) == (4, 6, 9 * SECOND, 25 * SECOND)


def test_Q2_pieces_of_one_commit(pair: Pair) -> None:
    """A restart in the middle goes on in the middle."""
    follower = Follower(pair.feed, pair.writer)
    pair.advance(5, 45)
    due = follower.next(TENS)
    assert due is not None
    pair.commit(follower, due, 20 * SECOND)
    assert (follower.position, follower.done) == (1, 20 * SECOND)
    for one in (follower, Follower(pair.feed, pair.writer)):
        assert (one.planned, one.reached, one.evmax) == (2, 45 * SECOND, 50 * SECOND)
        rest = one.next(TENS)
        assert rest is not None
        assert (rest.done, rest.reached) == (20 * SECOND, 45 * SECOND)
    pair.commit(follower, rest, 45 * SECOND)
    assert (follower.position, follower.lag) == (2, 0)
    assert follower.next(TENS) is None


def test_a_restart_looks_again(pair: Pair) -> None:
    follower = Follower(pair.feed, pair.writer)
    pair.advance(1, 2)
    assert follower.next(()) is None
    again = Follower(pair.feed, pair.writer)
    assert (again.position, again.done) == (0, ALWAYS)
    assert again.next(()) is None
    assert again.position == 2


def test_now_and_then_a_commit(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a restart would look at again stays bounded."""
    monkeypatch.setattr(module, "LAZY_COMMITS", 3)
    follower = Follower(pair.feed, pair.writer)
    pair.advance(1)
    assert follower.next(()) is None
    pair.advance(2)
    assert follower.next(()) is None
    pair.advance(3)
    due = follower.next(())
    assert due is not None
    pair.commit(follower, due, due.reached)
    assert (follower.durable, follower.next(())) == (3, None)


def test_a_step_in_flight_fixes_where_others_join(pair: Pair) -> None:
    follower = Follower(pair.feed, pair.writer)
    pair.advance(15)
    due = follower.next(TENS)
    assert due is not None
    follower.plan(due)
    assert (follower.position, follower.planned, follower.reached) == (0, 1, 15 * SECOND)
