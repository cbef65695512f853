"""Names, keys and identities."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.kernel.errors import LocalError, UserError
from shoal.kernel.ids import ORDINAL_BITS, STEP_MAX, check_name, instance_of, key_of, tuple_id


@pytest.mark.parametrize("name", ["a", "Hot_Meters", "x" * 63, "q1"])
def test_names_that_can_be_used(name: str) -> None:
    """Case is not told apart."""
    assert check_name("query", name) == name.lower()


@pytest.mark.parametrize("name", ["", "1a", "_a", "a-b", "a b", "x" * 64, "größe", "a/b", "a\n"])
def test_names_that_cannot(name: str) -> None:
    """The kind of thing and the name are in the message."""
    with pytest.raises(UserError, match=re.escape(f"query name {name!r}")):
        check_name("query", name)


def test_keys_and_instances() -> None:
    """A key is the SHA-1 of a name; an instance is safe as a file name."""
    assert key_of("abc") == "a9993e364706816aba3e25717850c26c9cd0d89d"
    assert re.fullmatch(r"[0-9a-f]{40}", key_of("größe"))
    assert re.fullmatch(r"select-[0-9a-f]{12}", instance_of("select", "any text: /\\"))
    assert instance_of("select", "a") != instance_of("select", "b")


@given(
    st.tuples(st.integers(0, STEP_MAX), st.integers(0, (1 << ORDINAL_BITS) - 1)),
    st.tuples(st.integers(0, STEP_MAX), st.integers(0, (1 << ORDINAL_BITS) - 1)),
)
def test_identities_are_ordered_as_their_parts(
    one: tuple[int, int], other: tuple[int, int]
) -> None:
    """Unique, ordered by (step, ordinal), and within 63 bits."""
    first, second = (tuple_id(step=s, ordinal=o) for s, o in (one, other))
    assert (first < second) == (one < other)
    assert 0 <= first < 1 << 63


@pytest.mark.parametrize(("step", "ordinal"), [(-1, 0), (0, -1), (STEP_MAX + 1, 0), (0, 1 << 35)])
def test_identities_out_of_range(step: int, ordinal: int) -> None:
    """Refused, not wrapped around."""
    with pytest.raises(LocalError):
        tuple_id(step=step, ordinal=ordinal)
