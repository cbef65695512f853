"""A log that was cut off anywhere is its whole batches; damage inside is not a torn end."""

from hypothesis import given
from hypothesis import strategies as st

from shoal.wire.batches import Change, Replay, batch, replay

CHANGES = st.lists(st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.binary())))
THREE: list[list[Change]] = [[("a", b"1")], [("b", None), ("c", b"2" * 40)], [("a", None)]]


def log_of(batches: list[list[Change]]) -> tuple[bytes, list[int]]:
    """The bytes of some batches, and where each ends."""
    data, ends = b"", [0]
    for number, changes in enumerate(batches, start=8):
        data += batch(number, changes)
        ends.append(len(data))
    return data, ends


def test_there_and_back() -> None:
    data, _ = log_of(THREE)
    changes = [change for one in THREE for change in one]
    assert replay(data, 7) == Replay(changes, 10, len(data))
    assert replay(b"", 7) == Replay([], 7, 0)
    assert replay(batch(50, THREE[0]), None) == Replay(THREE[0], 50, len(batch(50, THREE[0])))
    assert replay(b"", None) == Replay([], 0, 0)


@given(st.lists(CHANGES, max_size=4), st.data(), st.binary(max_size=40))
def test_cut_anywhere_with_anything_behind(
    batches: list[list[Change]], draw: st.DataObject, noise: bytes
) -> None:
    """Every batch before the cut, and nothing of the one that was cut."""
    data, ends = log_of(batches)
    cut = draw.draw(st.integers(0, len(data)))
    whole = sum(end <= cut for end in ends) - 1
    found = replay(data[:cut] + noise, 7)
    kept = [change for changes in batches[:whole] for change in changes]
    assert found == Replay(kept, 7 + whole, ends[whole])


def test_every_bit_counts() -> None:
    """Nothing that was changed is read; what is whole behind it tells that this is damage."""
    data, ends = log_of(THREE)
    for bit in range(8 * ends[2]):
        broken = bytearray(data)
        broken[bit // 8] ^= 1 << bit % 8
        found = replay(bytes(broken), 7)
        first = bit // 8 < ends[1]
        assert found.changes == ([] if first else THREE[0])
        assert "damaged, later ones are whole" in found.damage
    torn = bytearray(data)
    torn[ends[2] + 5] ^= 1
    assert replay(bytes(torn), 7) == Replay(THREE[0] + THREE[1], 9, ends[2])


def test_a_gap_is_damage() -> None:
    data, ends = log_of(THREE)
    assert replay(data[: ends[1]] + data[ends[2] :], 7).damage == "batch 9 is missing"
    assert replay(data, 6).damage == "batch 7 is missing"
