"""Sets whose order is defined, against lists and built-in sets."""

from hypothesis import given
from hypothesis import strategies as st

from shoal.kernel.ordered import Membership, OrderedSet

STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=50)


@given(STEPS)
def test_an_ordered_set_keeps_the_order_of_insertion(steps: list[tuple[bool, int]]) -> None:
    """A list without doubles is the twin."""
    ours: OrderedSet[int] = OrderedSet()
    twin: list[int] = []
    for add, item in steps:
        if add:
            ours.add(item)
            twin += [item] if item not in twin else []
        else:
            ours.discard(item)
            twin = [one for one in twin if one != item]
        assert list(ours) == twin
        assert len(ours) == len(twin)
        assert (item in ours) == (item in twin)
    assert repr(ours) == f"OrderedSet({twin!r})"
    assert list(OrderedSet(twin + twin)) == twin


@given(STEPS, st.integers(1, 5))
def test_a_membership_forgets_the_oldest(steps: list[tuple[bool, int]], size_max: int) -> None:
    """A list cut to its length is the twin; `add` says whether it was news."""
    ours: Membership[int] = Membership(size_max=size_max)
    twin: list[int] = []
    for add, item in steps:
        if add:
            assert ours.add(item) == (item not in twin)
            twin = (twin if item in twin else [*twin, item])[-size_max:]
        else:
            ours.discard(item)
            twin = [one for one in twin if one != item]
        assert [one for one in range(10) if one in ours] == sorted(twin)
        assert len(ours) == len(twin)


def test_a_membership_cannot_be_iterated() -> None:
    """No order can leak, so no decision can depend on one."""
    assert not hasattr(Membership, "__iter__")
    assert not hasattr(Membership, "__getitem__")
