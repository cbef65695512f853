"""Whom a host lets in: TLS in memory, lists of revocations, renewed keys; then by whole hosts."""

import asyncio
import shutil
import ssl
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from shoal.host.keys import authority
from shoal.host.keys.trust import Identified, Trust
from shoal.host.loop import Host
from shoal.host.net.hello import Hello, Revocations
from shoal.kernel.errors import RemoteError, UserError
from tests.unit.host.keys.tls import connect, crl, validate_trust
from tests.unit.host.net.raw import dialled, hello, trusted
from tests.unit.host.setting import FAST, Call, eventually, running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An authority with keys for p1 and p2."""
    made = tmp_path / "keys"
    authority.init(made)
    for name in ("p1", "p2"):
        authority.issue(made, name)
    return made


def test_H3_only_members_that_were_not_revoked_are_let_in(tmp_path: Path) -> None:
    validate_trust(tmp_path)


def test_both_know_who_the_other_is(folder: Path) -> None:
    one, two = Trust(folder, "p1"), Trust(folder, "p2")
    server, client = connect(one, two)
    assert server.version() == "TLSv1.3"
    assert one.identify(server).name == "p2"
    found = two.identify(client)
    assert found.name == "p1"
    assert isinstance(found, Identified)
    assert one.mesh == two.mesh


def test_a_foreign_authority_is_refused(folder: Path, tmp_path: Path) -> None:
    authority.init(tmp_path / "other")
    authority.issue(tmp_path / "other", "p2")
    with pytest.raises(ssl.SSLError):
        connect(Trust(folder, "p1"), Trust(tmp_path / "other", "p2"))


def test_who_was_revoked_is_refused(folder: Path) -> None:
    one, two = Trust(folder, "p1"), Trust(folder, "p2")
    one.learn(one.refresh() or b"")
    server, _ = connect(one, two)
    one.identify(server)
    authority.revoke(folder, "p2")
    found = one.refresh()
    assert found is not None
    assert one.number == 1  # not before it is stored
    one.learn(found)
    assert one.number == 2
    with pytest.raises(RemoteError, match="certificate of peer 'p2' was revoked"):
        one.identify(server)
    authority.issue(folder, "p2")  # it may come back with a new one
    server, _ = connect(one, Trust(folder, "p2"))
    assert one.identify(server).name == "p2"


def test_who_is_on_the_file_is_refused_at_once(folder: Path) -> None:
    """Before anybody looks at the files, and before the list is stored and believed."""
    one, two = Trust(folder, "p1"), Trust(folder, "p2")
    one.learn(one.refresh() or b"")
    server, _ = connect(one, two)
    one.identify(server)
    authority.revoke(folder, "p2")
    for _ in range(2):
        with pytest.raises(RemoteError, match="certificate of peer 'p2' was revoked"):
            one.identify(server)
    assert one.number == 1
    found = one.refresh()  # it is still to be stored, and told to others
    assert found == crl(folder)
    assert one.refresh() is None
    one.learn(found)
    assert one.number == 2
    with pytest.raises(RemoteError, match="was revoked"):
        one.identify(server)


def test_a_file_that_cannot_be_read_is_said_at_the_next_look(folder: Path) -> None:
    """Whoever connects meanwhile is judged by what is known."""
    one, two = Trust(folder, "p1"), Trust(folder, "p2")
    one.learn(one.refresh() or b"")
    server, _ = connect(one, two)
    (folder / "revoked.pem").write_text("garbage", encoding="utf-8")
    assert one.identify(server).name == "p2"
    one.refresh()
    assert "cannot be used" in one.complaint
    one.refresh()
    assert one.complaint == ""


def test_a_revocation_is_not_forgotten(folder: Path) -> None:
    """An older file beside the key changes nothing for who has stored a newer list."""
    old = (folder / "revoked.pem").read_bytes()
    authority.revoke(folder, "p2")
    stored = crl(folder)
    (folder / "revoked.pem").write_bytes(old)
    one = Trust(folder, "p1", stored=stored)
    assert one.refresh() is None
    assert one.number == 2
    assert one.revocations == stored
    one.learn(x509.load_pem_x509_crl(old).public_bytes(Encoding.DER))
    assert one.number == 2


def test_lists_come_from_anybody_but_are_signed(folder: Path, tmp_path: Path) -> None:
    one = Trust(folder, "p1")
    assert one.newer(crl(folder))
    authority.init(tmp_path / "other")
    for data in (crl(tmp_path / "other"), b"", b"garbage", crl(folder)[:-1]):
        with pytest.raises(RemoteError, match="list of revocations"):
            one.newer(data)
    data = bytearray(crl(folder))
    data[-1] ^= 1
    with pytest.raises(RemoteError, match="signed"):
        one.learn(bytes(data))


def test_files_are_read_again_only_when_they_change(folder: Path) -> None:
    one = Trust(folder, "p1")
    assert one.refresh() is not None
    assert one.refresh() is None
    (folder / "revoked.pem").write_text("garbage", encoding="utf-8")
    assert one.refresh() is None
    assert "cannot be used" in one.complaint
    assert one.refresh() is None
    assert one.complaint == ""


def test_a_renewed_key_is_used(folder: Path) -> None:
    one, two = Trust(folder, "p1"), Trust(folder, "p2")
    before = one.identify(connect(one, two)[0]).serial
    authority.issue(folder, "p2")
    two.refresh()
    assert one.identify(connect(one, two)[0]).serial != before
    (folder / "peers" / "p2" / "peer.pem").write_text("garbage", encoding="utf-8")
    two.refresh()
    assert "cannot be used" in two.complaint
    connect(one, two)  # the old ones still serve


def test_the_list_beside_the_key_alone_is_enough(folder: Path, tmp_path: Path) -> None:
    """A peer's folder on its own machine, as copied."""
    shutil.copytree(folder / "peers" / "p1", tmp_path / "copied")
    one = Trust(tmp_path / "copied", "p1")
    one.learn(one.refresh() or b"")
    assert one.number == 1
    assert 300 < one.days_left() < 366


@pytest.mark.parametrize("damage", ["other name", "no authority", "garbage", "no pair"])
def test_keys_that_cannot_be_used(folder: Path, damage: str) -> None:
    inner = folder / "peers" / "p1"
    if damage == "other name":
        shutil.copy(folder / "peers" / "p2" / "peer.pem", inner)
    elif damage == "no authority":
        (inner / "authority.pem").unlink()
    elif damage == "garbage":
        (inner / "authority.pem").write_text("garbage", encoding="utf-8")
    else:
        (inner / "peer.pem").unlink()
    with pytest.raises(UserError) as raised:
        Trust(folder, "p1")
    assert raised.value.hint


def names(host: Host) -> list[str]:
    return [link.name for link in host.transport.view().links]


@pytest.mark.slow
def test_a_revocation_spreads_and_closes(tmp_path: Path) -> None:
    """One peer is told by file; the others by the peers. Connections of the revoked one end."""
    keys = tmp_path / "k"
    authority.init(keys)
    for name in ("p1", "p2", "p3"):
        authority.issue(keys, name)

    async def scene() -> None:
        async with AsyncExitStack() as stack:
            enter = stack.enter_async_context
            a = await enter(running(tmp_path / "a", "p1", keys=keys))
            b = await enter(running(tmp_path / "b", "p2", keys=keys / "peers" / "p2"))
            c = await enter(running(tmp_path / "c", "p3", keys=keys / "peers" / "p3"))
            await a.ask(Call(b.peer.me, "a"))
            await c.ask(Call(b.peer.me, "c"))
            authority.revoke(keys, "p3")
            await eventually(lambda: names(b) == ["p1"], "p2 heard it from p1")
            with pytest.raises(UserError, match="cannot reach p2"):
                await c.ask(Call(b.peer.me, "again"))
            with pytest.raises(UserError, match="cannot reach p3"):
                await a.ask(Call(c.peer.me, "a"))

    asyncio.run(scene())
    stored = running(tmp_path / "b", "p2", keys=keys / "peers" / "p2")

    async def after_a_restart() -> None:
        async with stored as b, dialled(b.peer.me.address, trusted(keys, "p3")) as raw:
            assert "was revoked" in (await raw.said())[0].reason

    asyncio.run(after_a_restart())


@pytest.mark.slow
def test_who_knows_a_newer_list_is_asked_nothing_it_says_so(tmp_path: Path) -> None:
    """The list goes to whoever says hello with a lower number."""
    keys = tmp_path / "k"
    authority.init(keys)
    for name in ("p1", "p2", "p3"):
        authority.issue(keys, name)
    authority.revoke(keys, "p3")

    async def scene() -> None:
        context = trusted(keys, "p2")
        async with (
            running(tmp_path / "a", "p1", keys=keys) as a,
            dialled(a.peer.me.address, context) as raw,
        ):
            raw.send(hello("p2", mesh=a.mesh or ""))
            said = await raw.one()
            assert isinstance(said, Hello)
            assert said.revocations == 2
            assert isinstance(await raw.one(), Revocations)

    asyncio.run(scene())


@pytest.mark.slow
def test_who_was_revoked_is_refused_at_its_next_connection(folder: Path, tmp_path: Path) -> None:
    """By a host that will not look at its files for a long time."""

    async def scene() -> None:
        slow_look = replace(FAST, keys_refresh_s=1_000.0)
        async with running(tmp_path / "a", "p1", keys=folder, host=slow_look) as a:
            context = trusted(folder, "p2")
            async with dialled(a.peer.me.address, context) as raw:
                raw.send(hello("p2", mesh=a.mesh or ""))
                await eventually(lambda: names(a) == ["p2"])
            authority.revoke(folder, "p2")
            async with dialled(a.peer.me.address, context) as raw:
                assert "was revoked" in (await raw.said())[0].reason

    asyncio.run(scene())
