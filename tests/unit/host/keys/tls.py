"""TLS between two peers in memory, and what promise H3 asks of whoever decides about it."""

import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from shoal.host.keys import authority
from shoal.host.keys.trust import Trust
from shoal.kernel.errors import RemoteError

__all__ = ["connect", "crl", "validate_trust"]


def crl(folder: Path) -> bytes:
    """The list of an authority, as it is stored and sent."""
    found = x509.load_pem_x509_crl((folder / "revoked.pem").read_bytes())
    return found.public_bytes(Encoding.DER)


def connect(listening: Trust, dialling: Trust) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends after the handshake; what one writes the other reads."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        listening.listening.wrap_bio(up, down, server_side=True),
        dialling.dialling.wrap_bio(down, up),
    )
    open_ends = list(ends)
    for _ in range(10):
        for end in tuple(open_ends):
            try:
                end.do_handshake()
                open_ends.remove(end)
            except ssl.SSLWantReadError:
                pass
    assert not open_ends
    return ends


def validate_trust(folder: Path, kind: type[Trust] = Trust) -> None:
    """H3: members are known by name; strangers, and who was revoked, are not let in."""
    keys, foreign = folder / "keys", folder / "foreign"
    for made in (keys, foreign):
        authority.init(made)
        for name in ("p1", "p2", "p3"):
            authority.issue(made, name)
    one = kind(keys, "p1")
    for name in ("p2", "p3"):
        server, _ = connect(one, Trust(keys, name))
        assert one.identify(server).name == name, f"H3: {name} is taken for another"
    try:
        connect(one, Trust(foreign, "p2"))
    except ssl.SSLError:
        pass
    else:
        pytest.fail("H3: a certificate of another authority is let in")
    one.learn(one.refresh() or b"")
    server, _ = connect(one, Trust(keys, "p2"))
    authority.revoke(keys, "p2")
    _refused(one, server, "by the file")
    one.learn(one.refresh() or b"")
    _refused(one, server, "by the list")
    server, _ = connect(one, Trust(keys, "p3"))
    assert one.identify(server).name == "p3"


def _refused(one: Trust, server: ssl.SSLObject, how: str) -> None:
    try:
        one.identify(server)
    except RemoteError:
        return
    pytest.fail(f"H3: whoever was revoked {how} is let in")
