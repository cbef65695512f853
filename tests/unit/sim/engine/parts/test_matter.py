"""What rows get of commits: tuples by their conditions, volumes by shares."""

import pytest

from shoal.dataplane.rows import RosterRow
from shoal.kernel.errors import UserError
from shoal.kernel.time import SECOND
from shoal.query.meaning.evaluate import Installed
from shoal.sim.engine.memory import Commit, Item, Volume
from shoal.sim.engine.parts.matter import Trouble, Tuples, Volumes, kept
from tests.unit.sim.engine.world import row_of, select_of, stream_of

STREAM = stream_of()
SPEC = select_of(STREAM, "value > 1")


def items(*values: int) -> tuple[Item, ...]:
    return tuple((n * SECOND, n, {"value": n, "ts": n * SECOND, "zone": n % 4}) for n in values)


def commit(step: int, content: tuple[Item, ...] | Volume | None) -> Commit:
    return Commit(epoch=1, step=step, transactions={}, rows=0, items=content)


def matter(**functions: Installed) -> Tuples:
    return Tuples(functions, lambda spec, commit: items(7))


def test_Q1_intervals_of_event_time_and_of_steps() -> None:
    commits = [commit(1, items(2, 3)), commit(2, items(4, 5)), commit(3, items(6))]

    def got(**fields: int) -> list[int]:
        row = row_of("a", STREAM, "value > 1", **fields)
        return [found.values["value"] for found in matter().select(SPEC, [row], commits).results]

    assert got() == [2, 3, 4, 5, 6]
    assert got(start=3 * SECOND, until=5 * SECOND) == [4, 5]
    assert got(since=1, cut=2) == [4, 5]


def test_O1_results_are_in_order_of_event_time() -> None:
    rows = [row_of(name, STREAM, "value > 1") for name in "ba"]
    out = matter().select(SPEC, rows, [commit(1, items(5, 3))])
    assert [(found.values["value"], found.query) for found in out.results] == [
        (3, "a"),
        (3, "b"),
        (5, "a"),
        (5, "b"),
    ]
    assert out.rows == 4


def test_S3_what_is_not_looked_at_is_counted() -> None:
    rows = [row_of("half", STREAM, "value > 1", keep=0.5), row_of("all", STREAM, "value > 1")]
    out = matter().select(SPEC, rows, [commit(1, items(*range(2, 402)))])
    seen = [found.query for found in out.results]
    assert seen.count("all") == 400
    assert 150 < seen.count("half") < 250
    assert seen.count("half") + out.counters["shed/half"] == 400


def test_a_lesser_share_is_a_part_of_a_greater_one() -> None:
    few = [n for n in range(1000) if kept(n, 0.2)]
    assert all(kept(n, 0.6) for n in few)
    assert 150 < len(few) < 250


def test_errors_are_counted_per_query() -> None:
    spec = select_of(STREAM, "12 / zone > 5")
    row = row_of("a", STREAM, "12 / zone > 5")
    out = matter().select(spec, [row], [commit(1, items(1, 2, 3, 4, 8))])
    assert [found.values["value"] for found in out.results] == [1, 2]
    assert out.counters == {"error/a": 2}


def test_what_is_not_stored_is_read_again() -> None:
    out = matter().select(SPEC, [row_of("a", STREAM, "value > 1")], [commit(1, None)])
    assert [found.values["value"] for found in out.results] == [7]


def test_what_a_function_raises_is_trouble_and_what_is_unknown_is_refused() -> None:
    def fails(*_: object) -> bool:
        raise KeyError("x")

    spec = select_of(STREAM, "value > 1")
    object.__setattr__(spec.signature, "condition", "mine(s.`value`)")
    object.__setattr__(spec.signature, "name", "other")
    with pytest.raises(UserError):
        matter().check(spec)
    with pytest.raises(Trouble, match="KeyError"):
        matter(mine=Installed(run=fails, type="BOOLEAN")).select(
            spec, [row_of("a", STREAM, "value > 1")], [commit(1, items(2))]
        )


def test_Q2_volumes_do_not_depend_on_steps() -> None:
    """Fractions are rounded by commit, so grouping commits into steps changes nothing."""
    volumes = Volumes({"a": 0.0123}, 0.5)
    commits = [commit(n, Volume(100, n * SECOND, n * SECOND + 999)) for n in range(1, 101)]
    rows: list[RosterRow] = [row_of("a", STREAM, "value > 1")]
    whole = volumes.select(SPEC, rows, commits).rows
    parts = sum(volumes.select(SPEC, rows, [one]).rows for one in commits)
    assert whole == parts
    assert whole == pytest.approx(123, abs=25)
    volumes.check(SPEC)


def test_volumes_respect_intervals_and_shares() -> None:
    volumes = Volumes({}, 1.0)
    content = [commit(1, Volume(1000, 1, 1000)), commit(2, Volume(1000, 1001, 2000))]

    def got(**fields: float) -> tuple[int, dict[str, int]]:
        out = volumes.select(SPEC, [row_of("a", STREAM, "value > 1", **fields)], content)
        return out.rows, out.counters

    assert got() == (2000, {})
    assert got(start=500, until=1500) == (1000, {})
    assert got(since=1) == (1000, {})
    assert got(keep=0.25) == (500, {"shed/a": 1500})
    assert volumes.share_of(row_of("a", STREAM, "value > 1")) == 1.0
