"""Whom this host lets in: certificates of its mesh's authority that were not taken back.

The list of what was taken back comes from three places: this host's own store, the file beside
its key, and other peers. It is signed and numbered, so it does not matter who brings it, and the
highest number counts. What is believed and passed on is stored first (`refresh` returns the list
to store, `learn` believes it), so that a host never forgets a revocation by starting again. To
refuse is safe before that: `identify` looks whether the file has changed, so whoever is on it is
refused at its next connection, and not when files are looked at next.

Promises   H3  nobody is let in without a certificate of this authority that names it, and nobody
           whose certificate is on the highest list that was ever seen here.
Not here   issuing (`keys/authority.py`); what a stranger costs until then (`net/gate.py`).
"""

import ssl
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding
from msgspec import Struct

from shoal.host.keys.authority import mesh_of, peer_folder, uri_of
from shoal.kernel.errors import RemoteError, UserError

__all__ = ["Identified", "Trust"]


class Identified(Struct, frozen=True):
    """Who is at the other end of a connection, by certificate."""

    name: str
    serial: int


class Trust:
    """What a host needs for TLS, from the folder of its peer."""

    def __init__(self, folder: Path, name: str, *, stored: bytes | None = None) -> None:
        self._name = name
        self._folder = peer_folder(folder, name)
        #: Also the authority's own list where it lies on this machine.
        self._lists = [self._folder / "revoked.pem"]
        if self._folder.parent.parent == folder:
            self._lists.append(folder / "revoked.pem")
        self._authority = self._load_authority()
        self.mesh = mesh_of(self._authority)
        self._seen: dict[Path, tuple[int, int, int]] = {}
        self._revoked = x509.load_der_x509_crl(stored) if stored else None
        #: The newest list in the files, stored or not; and whether `refresh` has yet to hand it on.
        self._found: x509.CertificateRevocationList | None = None
        self._fresh = False
        self._complaints: list[str] = []
        self.listening, self.dialling = self._contexts()
        #: Why the newest change of the files was not taken over, for the log.
        self.complaint = ""

    @property
    def number(self) -> int:
        """The number of the list that is believed; 0 without one."""
        return 0 if self._revoked is None else _number(self._revoked)

    @property
    def revocations(self) -> bytes:
        """The list itself, as it is stored and sent."""
        return b"" if self._revoked is None else self._revoked.public_bytes(Encoding.DER)

    def days_left(self) -> int:
        """How long this peer's own certificate holds."""
        pem = (self._folder / "peer.pem").read_bytes()
        until = x509.load_pem_x509_certificate(pem).not_valid_after_utc
        return (until - datetime.now(UTC)).days

    def refresh(self) -> bytes | None:
        """Look at the files again; a newer list if one is there, to be stored and `learn`ed."""
        self._look()
        if self._changed(self._folder / "peer.pem"):
            try:
                self.listening, self.dialling = self._contexts()
            except UserError as error:
                self._complaints.append(str(error))
        self.complaint, self._complaints = "; ".join(self._complaints), []
        fresh, self._fresh = self._fresh, False
        if not fresh or self._found is None or _number(self._found) <= self.number:
            return None
        return self._found.public_bytes(Encoding.DER)

    def newer(self, data: bytes) -> bool:
        """Whether this list, brought by another peer, is signed and has a higher number."""
        return _number(self._check_list(data)) > self.number

    def learn(self, data: bytes) -> None:
        """Believe a list from now on; it has been stored."""
        found = self._check_list(data)
        if _number(found) > self.number:
            self._revoked = found

    def identify(self, connection: ssl.SSLObject) -> Identified:
        """Who is at the other end; RemoteError if it may not be there."""
        data = connection.getpeercert(binary_form=True)
        if not data:
            raise RemoteError("connection has no certificate")
        certificate = x509.load_der_x509_certificate(data)
        uris = _uris(certificate)
        start = uri_of(self.mesh, "")
        if len(uris) != 1 or not uris[0].startswith(start):
            raise RemoteError(
                "certificate names no peer of this mesh", detail=f"it says {uris!r:.200}"
            )
        who = Identified(uris[0].removeprefix(start), certificate.serial_number)
        self._look()
        if self.is_revoked(who.serial):
            raise RemoteError(
                f"certificate of peer {who.name!r} was revoked",
                detail=f"serial number {who.serial:040x}",
                hint="issue a new one with `shoal keys issue` if the peer may come back",
            )
        return who

    def is_revoked(self, serial: int) -> bool:
        """Whether the certificate with this number was taken back, as far as anybody has said."""
        return any(
            known is not None and known.get_revoked_certificate_by_serial_number(serial) is not None
            for known in (self._revoked, self._found)
        )

    def _look(self) -> None:
        """Read the lists that have changed; where none has, this costs one look at each."""
        for path in self._lists:
            if not self._changed(path):
                continue
            found = self._read_list(path)
            if found is not None and _number(found) > max(self.number, _number(self._found)):
                self._found, self._fresh = found, True

    def _load_authority(self) -> Ed25519PublicKey:
        path = self._folder / "authority.pem"
        try:
            key = x509.load_pem_x509_certificate(path.read_bytes()).public_key()
        except (OSError, ValueError) as error:
            raise UserError(
                f"certificate of the authority {path} cannot be read",
                detail=str(error),
                hint="copy the peer's folder again from where the authority is",
            ) from error
        if not isinstance(key, Ed25519PublicKey):
            raise UserError(
                f"certificate {path} is not of an authority of Shoal",
                hint="make one with `shoal keys init FOLDER`",
            )
        return key

    def _contexts(self) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        """For who connects to us, and for whom we connect to: TLS 1.3, certificates both ways."""
        made = []
        pair = self._folder / "peer.pem"
        self._changed(pair)
        for protocol in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT):
            context = ssl.SSLContext(protocol)
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            context.check_hostname = False  # names are of peers, and `identify` checks them
            context.verify_mode = ssl.CERT_REQUIRED
            try:
                context.load_cert_chain(pair)
                context.load_verify_locations(self._folder / "authority.pem")
            except (OSError, ssl.SSLError) as error:
                raise UserError(
                    f"key and certificate of peer {self._name!r} cannot be used",
                    detail=f"{pair}: {error}",
                    hint=f"issue them again: `shoal keys issue {self._name}`",
                ) from error
            made.append(context)
        made[0].num_tickets = 0  # no resumption: each connection shows its certificate
        self._check_own(pair)
        return made[0], made[1]

    def _check_own(self, pair: Path) -> None:
        uris = _uris(x509.load_pem_x509_certificate(pair.read_bytes()))
        if uris != [uri_of(self.mesh, self._name)]:
            raise UserError(
                f"certificate {pair} is not of peer {self._name!r} of this mesh",
                detail=f"it says {', '.join(uris) or 'nothing'}",
                hint="give the --name that it was issued to, or the --keys of this peer",
            )

    def _changed(self, path: Path) -> bool:
        """Whether the file is another than when we looked last."""
        try:
            found = path.stat()
        except OSError:
            return False
        mark = (found.st_mtime_ns, found.st_size, found.st_ino)
        changed = self._seen.get(path) != mark
        self._seen[path] = mark
        return changed

    def _read_list(self, path: Path) -> x509.CertificateRevocationList | None:
        try:
            found = x509.load_pem_x509_crl(path.read_bytes())
            return self._check_list(found.public_bytes(Encoding.DER))
        except (OSError, ValueError, RemoteError) as error:
            self._complaints.append(f"list of revocations {path} cannot be used: {error}")
            return None

    def _check_list(self, data: bytes) -> x509.CertificateRevocationList:
        try:
            found = x509.load_der_x509_crl(data)
            signed = found.is_signature_valid(self._authority)
            number = _number(found)
        except (ValueError, TypeError, x509.ExtensionNotFound) as error:
            raise RemoteError(
                "list of revocations cannot be read", detail=str(error) or type(error).__name__
            ) from error
        if not signed or number < 1:
            raise RemoteError("list of revocations is not signed by the mesh's authority")
        return found


def _uris(certificate: x509.Certificate) -> list[str]:
    """Whom a certificate names."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (ValueError, x509.ExtensionNotFound):
        return []
    return found.value.get_values_for_type(x509.UniformResourceIdentifier)


def _number(found: x509.CertificateRevocationList | None) -> int:
    if found is None:
        return 0
    return found.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
