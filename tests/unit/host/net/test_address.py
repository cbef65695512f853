"""Addresses as people write them."""

import pytest

from shoal.host.net.address import join, loopback, split, unspecified
from shoal.kernel.errors import UserError


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:0", "127.0.0.1", 0),
        ("[::1]:65535", "::1", 65535),
        ("a.example:80", "a.example", 80),
    ],
)
def test_both_ways(text: str, host: str, port: int) -> None:
    assert split(text) == (host, port)
    assert join(host, port) == text


@pytest.mark.parametrize(
    "text",
    ["", "a", ":1", "a:", "a:x", "a:65536", "a:-1", "::1:80", "[]:1", "a:١", "x" * 300 + ":1"],
)
def test_what_is_none(text: str) -> None:
    with pytest.raises(UserError) as raised:
        split(text)
    assert raised.value.hint


def test_who_can_reach_it() -> None:
    assert [loopback(host) for host in ("127.0.0.1", "::1", "localhost", "10.0.0.1", "a.b")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert [unspecified(host) for host in ("0.0.0.0", "::", "10.0.0.1", "a")] == [
        True,
        True,
        False,
        False,
    ]
