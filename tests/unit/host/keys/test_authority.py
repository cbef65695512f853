"""The authority: what it issues, what it takes back, and what it refuses to do."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from shoal.host.keys import authority
from shoal.kernel.errors import UserError


def certificate(folder: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / "peer.pem").read_bytes())


def revoked(folder: Path) -> tuple[int, list[int]]:
    found = x509.load_pem_x509_crl((folder / "revoked.pem").read_bytes())
    number = found.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
    return number, [entry.serial_number for entry in found]


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    authority.init(folder)
    authority.issue(folder, "p1")
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.rglob("*")}
    assert {modes.pop(name) for name in ("issued", "peers", "p1")} == {0o700}
    assert set(modes.values()) == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_certificate_says_whose_it_is(tmp_path: Path) -> None:
    mesh = authority.init(tmp_path)
    made = certificate(authority.issue(tmp_path, "P1", days=10))
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == [f"shoal://{mesh}/p1"]
    assert len(mesh) == 16
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    left = made.not_valid_after_utc - datetime.now(UTC)
    assert timedelta(days=9) < left <= timedelta(days=10)
    issuer = x509.load_pem_x509_certificate((tmp_path / "authority.pem").read_bytes())
    made.verify_directly_issued_by(issuer)


def test_issued_again_is_another_key_and_number(tmp_path: Path) -> None:
    authority.init(tmp_path)
    first = certificate(authority.issue(tmp_path, "p1"))
    second = certificate(authority.issue(tmp_path, "p1"))
    assert first.serial_number != second.serial_number
    assert first.public_key() != second.public_key()
    assert len(list((tmp_path / "issued").iterdir())) == 2


def test_revoked_is_every_certificate_of_a_peer(tmp_path: Path) -> None:
    authority.init(tmp_path)
    serials = [certificate(authority.issue(tmp_path, "p1")).serial_number for _ in range(2)]
    other = certificate(authority.issue(tmp_path, "p2")).serial_number
    assert revoked(tmp_path) == (1, [])
    assert authority.revoke(tmp_path, "p1") == 2
    assert authority.revoke(tmp_path, "p1") == 0
    number, found = revoked(tmp_path)
    assert (number, sorted(found)) == (2, sorted(serials))
    assert authority.revoke(tmp_path, "p2") == 1
    assert revoked(tmp_path)[0] == 3
    assert sorted(revoked(tmp_path)[1]) == sorted([*serials, other])


def test_there_is_one_authority(tmp_path: Path) -> None:
    authority.init(tmp_path)
    before = (tmp_path / "authority.key").read_bytes()
    with pytest.raises(UserError, match="already has an authority"):
        authority.init(tmp_path)
    assert (tmp_path / "authority.key").read_bytes() == before


@pytest.mark.parametrize("damage", ["missing folder", "no key", "other key", "garbage"])
def test_an_authority_that_cannot_issue(tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "keys"
    if damage != "missing folder":
        authority.init(folder)
    if damage == "no key":
        (folder / "authority.key").unlink()
    elif damage == "other key":
        authority.init(tmp_path / "other")
        (tmp_path / "other" / "authority.key").replace(folder / "authority.key")
    elif damage == "garbage":
        (folder / "authority.key").write_text("no key", encoding="utf-8")
    with pytest.raises(UserError) as raised:
        authority.issue(folder, "p1")
    assert raised.value.hint


def test_names_and_days_that_cannot_be(tmp_path: Path) -> None:
    authority.init(tmp_path)
    with pytest.raises(UserError, match="cannot be used"):
        authority.issue(tmp_path, "../p1")
    with pytest.raises(UserError, match="0 days"):
        authority.issue(tmp_path, "p1", days=0)
    authority.issue(tmp_path, "meter")
    with pytest.raises(UserError) as raised:
        authority.revoke(tmp_path, "metre")
    assert "'meter'" in raised.value.hint


def test_where_a_peers_keys_are(tmp_path: Path) -> None:
    authority.init(tmp_path)
    made = authority.issue(tmp_path, "p1")
    assert authority.peer_folder(made, "p1") == made
    assert authority.peer_folder(tmp_path, "p1") == made
    with pytest.raises(UserError) as raised:
        authority.peer_folder(tmp_path, "p2")
    assert "shoal keys issue p2" in raised.value.hint
