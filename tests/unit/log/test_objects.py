"""Small JSON objects: exact, named safely, and never a stack trace of a parser."""

from pathlib import Path

import pytest

from shoal.kernel.errors import LocalError, StorageError, UserError
from shoal.log.objects import check_file_name, encode, file_names, read_object

DAMAGE = [b"", b"{", b'{"a": 1', b"[1]", b"null", b"\x00" * 40, b"\xff\xfe", b"[" * 100_000]


@pytest.mark.parametrize("text", ["", "ü", "\u2028", "\ud800", "a\x00b", "\U0001f41f"])
def test_any_text_survives(tmp_path: Path, text: str) -> None:
    path = tmp_path / "object"
    path.write_bytes(encode({"text": text, text: [1, -0.0, None, True, 1 << 80]}))
    assert read_object(path) == {"text": text, text: [1, -0.0, None, True, 1 << 80]}


@pytest.mark.parametrize(
    "content",
    [float("nan"), float("inf"), object(), b"x", 10**5000],
    ids=["nan", "infinity", "object", "bytes", "too many digits"],
)
def test_content_that_json_cannot_hold(content: object) -> None:
    with pytest.raises(LocalError) as caught:
        encode({"a": content})
    assert caught.value.detail
    assert caught.value.hint


@pytest.mark.parametrize("data", DAMAGE, ids=[str(data[:8]) for data in DAMAGE])
def test_damage_is_told_in_three_parts(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "object.json"
    path.write_bytes(data)
    with pytest.raises(StorageError) as caught:
        read_object(path)
    assert str(path) in caught.value.what
    assert caught.value.detail
    assert caught.value.hint


def test_what_is_not_there(tmp_path: Path) -> None:
    assert read_object(tmp_path / "none") is None
    assert file_names(tmp_path / "none") == []
    (tmp_path / "file").touch()
    assert file_names(tmp_path / "file") == []
    assert file_names(tmp_path) == ["file"]
    with pytest.raises(StorageError, match="cannot read"):
        read_object(tmp_path)


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".", "..", ".hidden", "A", "a b", "x" * 181])
def test_names_that_leave_their_folder(name: str) -> None:
    with pytest.raises(UserError) as caught:
        check_file_name("reader", name)
    assert caught.value.hint


def test_names_that_stay() -> None:
    assert check_file_name("reader", "dashboard-1.eu_west") == "dashboard-1.eu_west"
