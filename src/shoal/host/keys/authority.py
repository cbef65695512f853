"""The mesh's own authority: it issues a certificate for each peer, and takes them back.

    <folder>/authority.pem     the authority's certificate, which every peer has
    <folder>/authority.key     what certificates are signed with; it never leaves this folder
    <folder>/revoked.pem       the numbered, signed list of what was taken back
    <folder>/issued/<serial>.pem
    <folder>/peers/<name>/     what a peer needs, to be copied to its machine
        peer.pem               its key and its certificate in one file, so that they fit
        authority.pem          revoked.pem

The identity of the mesh is the fingerprint of the authority's key. A certificate says the mesh and
the peer's name in one place, a URI of the form `shoal://<mesh>/<name>`.

Promises   H3  a certificate that was revoked stays in the list. Every file is whole or absent; keys
           are readable by their owner alone.
Not here   who is let in (`keys/trust.py`); how a list reaches peers (`net/transport.py`).
"""

import contextlib
import difflib
import fcntl
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from shoal.kernel.errors import UserError
from shoal.kernel.ids import check_name
from shoal.log.durable import create_if_absent, replace

__all__ = ["PEER_DAYS", "init", "issue", "mesh_of", "peer_folder", "revoke", "uri_of"]

#: How long certificates hold. Ten years: renewing the authority means a new mesh. A year for a
#: peer: long enough for people, short enough that a forgotten key ends by itself.
AUTHORITY_DAYS = 3_650
PEER_DAYS = 365
#: Certificates hold from this much earlier on, for machines whose clocks are behind.
CLOCKS_BEHIND = timedelta(hours=1)

_USAGE_NONE = {
    "digital_signature": False,
    "content_commitment": False,
    "key_encipherment": False,
    "data_encipherment": False,
    "key_agreement": False,
    "key_cert_sign": False,
    "crl_sign": False,
    "encipher_only": False,
    "decipher_only": False,
}


def init(folder: Path) -> str:
    """Make an authority in the folder; return the identity of its mesh."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(folder):
        if (folder / "authority.pem").exists():
            raise UserError(
                f"folder {folder} already has an authority",
                detail="a second one would make strangers of all peers of the first",
                hint="issue from it with `shoal keys issue NAME`, or give another folder",
            )
        key = Ed25519PrivateKey.generate()
        mesh = mesh_of(key.public_key())
        replace(folder / "authority.key", _key_pem(key))
        certificate = _authority_certificate(key, mesh)
        replace(folder / "revoked.pem", _list_pem(key, certificate, (), number=1))
        create_if_absent(folder / "authority.pem", _pem(certificate))  # last: now it is one
    return mesh


def issue(folder: Path, name: str, *, days: int = PEER_DAYS) -> Path:
    """Issue a certificate with a new key to a peer; return the folder to give to it."""
    name = check_name("peer", name)
    if not 1 <= days <= AUTHORITY_DAYS:
        raise UserError(
            f"certificate cannot hold for {days} days",
            detail=f"between 1 and {AUTHORITY_DAYS} are allowed",
            hint=f"leave --days out for {PEER_DAYS}",
        )
    with _locked(folder):
        authority_key, authority = _authority(folder)
        key = Ed25519PrivateKey.generate()
        certificate = _peer_certificate(name, key, authority_key, authority, days)
        _make(folder / "issued")
        replace(folder / "issued" / f"{certificate.serial_number:040x}.pem", _pem(certificate))
        target = folder / "peers" / name
        _make(folder / "peers")
        _make(target)
        replace(target / "authority.pem", _pem(authority))
        replace(target / "revoked.pem", (folder / "revoked.pem").read_bytes())
        replace(target / "peer.pem", _key_pem(key) + _pem(certificate))
    return target


def revoke(folder: Path, name: str) -> int:
    """Take back all certificates of a peer; return how many that were."""
    with _locked(folder):
        authority_key, authority = _authority(folder)
        issued = [
            x509.load_pem_x509_certificate(path.read_bytes())
            for path in sorted((folder / "issued").glob("*.pem"))
        ]
        known = x509.load_pem_x509_crl((folder / "revoked.pem").read_bytes())
        names = [_name_in(certificate) for certificate in issued]
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            raise UserError(
                f"peer {name!r} has no certificate of this authority",
                detail=f"{len(dict.fromkeys(names))} peers have one",
                hint=f"did you mean {near[0]!r}?" if near else f"look into {folder / 'peers'}",
            )
        serials = [
            certificate.serial_number
            for certificate in issued
            if _name_in(certificate) == name
            and known.get_revoked_certificate_by_serial_number(certificate.serial_number) is None
        ]
        number = known.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
        entries = (*known, *(_entry(serial) for serial in serials))
        data = _list_pem(authority_key, authority, entries, number=number + 1)
        if serials:
            replace(folder / "revoked.pem", data)
    return len(serials)


def mesh_of(key: Ed25519PublicKey) -> str:
    """The identity of the mesh whose authority has this key: 16 hexadecimal digits."""
    digest = hashes.Hash(hashes.SHA256())
    digest.update(key.public_bytes_raw())
    return digest.finalize().hex()[:16]


def uri_of(mesh: str, name: str) -> str:
    """How a certificate says whose it is."""
    return f"shoal://{mesh}/{name}"


def peer_folder(folder: Path, name: str) -> Path:
    """Where the key of this peer is: the folder itself, or below it if it is the authority's."""
    inner = folder / "peers" / name
    if (folder / "peer.pem").exists():
        return folder
    if (inner / "peer.pem").exists():
        return inner
    raise UserError(
        f"keys of peer {name!r} are not in {folder}",
        detail=f"there is neither {folder / 'peer.pem'} nor {inner / 'peer.pem'}",
        hint=f"make them with `shoal keys issue {name}` where the authority is, and copy its "
        "folder here",
    )


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process at a time changes what the authority has."""
    try:
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UserError(
            f"folder {folder} cannot be used for keys",
            detail=str(error.strerror),
            hint="make an authority first: `shoal keys init FOLDER`",
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _authority(folder: Path) -> tuple[Ed25519PrivateKey, x509.Certificate]:
    try:
        certificate = x509.load_pem_x509_certificate((folder / "authority.pem").read_bytes())
        key = serialization.load_pem_private_key((folder / "authority.key").read_bytes(), None)
    except (OSError, ValueError) as error:
        raise UserError(
            f"folder {folder} has no authority that can issue",
            detail=str(error),
            hint="make one with `shoal keys init FOLDER`, or name its folder with --keys",
        ) from error
    if not isinstance(key, Ed25519PrivateKey) or key.public_key() != certificate.public_key():
        raise UserError(
            f"key and certificate of the authority in {folder} do not fit",
            hint="restore both files from the same copy",
        )
    return key, certificate


def _make(folder: Path) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _subject(name: str, mesh: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, f"shoal mesh {mesh}"),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )


def _name_in(certificate: x509.Certificate) -> str:
    (found,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found.value)


def _authority_certificate(key: Ed25519PrivateKey, mesh: str) -> x509.Certificate:
    now = datetime.now(UTC)
    usage = x509.KeyUsage(**{**_USAGE_NONE, "key_cert_sign": True, "crl_sign": True})
    public = key.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(_subject("authority", mesh))
        .issuer_name(_subject("authority", mesh))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS_BEHIND)
        .not_valid_after(now + timedelta(days=AUTHORITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(key, None)
    )


def _peer_certificate(
    name: str,
    key: Ed25519PrivateKey,
    authority_key: Ed25519PrivateKey,
    authority: x509.Certificate,
    days: int,
) -> x509.Certificate:
    now = datetime.now(UTC)
    mesh = mesh_of(authority_key.public_key())
    until = min(now + timedelta(days=days), authority.not_valid_after_utc)
    usage = x509.KeyUsage(**{**_USAGE_NONE, "digital_signature": True})
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(_subject(name, mesh))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS_BEHIND)
        .not_valid_after(until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage(both), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri_of(mesh, name))]),
            critical=False,
        )
        .add_extension(signer, critical=False)
        .sign(authority_key, None)
    )


def _entry(serial: int) -> x509.RevokedCertificate:
    now = datetime.now(UTC)
    return x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now).build()


def _list_pem(
    key: Ed25519PrivateKey,
    authority: x509.Certificate,
    entries: tuple[x509.RevokedCertificate, ...],
    *,
    number: int,
) -> bytes:
    """The list of what was taken back; a higher number replaces a lower one."""
    now = datetime.now(UTC)
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(authority.subject)
        .last_update(now)
        .next_update(now + timedelta(days=AUTHORITY_DAYS))
        .add_extension(x509.CRLNumber(number), critical=False)
    )
    for entry in entries:
        builder = builder.add_revoked_certificate(entry)
    return builder.sign(key, None).public_bytes(serialization.Encoding.PEM)
