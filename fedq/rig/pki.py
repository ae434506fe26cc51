"""Certificates of the rig: one certificate authority, one PEM file per identity.

Key and certificate stand in one file, so that each identity is there whole or not at all,
whenever a run is interrupted. Keys are P-256, as those take microseconds to make.
"""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from federation.edge.files import write_atomic
from fedq.rig.network import LOOPBACK

LIFETIME = timedelta(days=365)
SKEW = timedelta(hours=1)
"""Certificates begin in the past, for a clock that is set back."""

SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


class Authority:
    """The certificate authority in `folder`, made on first use."""

    def __init__(self, folder: Path) -> None:
        self.certificate_file = folder / "ca.crt"
        self._key_file = folder / "ca.key"
        if not self.certificate_file.exists():
            self._create()
        self._certificate = x509.load_pem_x509_certificate(self.certificate_file.read_bytes())
        key = serialization.load_pem_private_key(self._key_file.read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key = key

    def server(self, path: Path, host: str = LOOPBACK) -> Path:
        """Make, unless it is there, a serving certificate for the loopback and for `host`."""
        addresses = dict.fromkeys((LOOPBACK, host))
        names = x509.SubjectAlternativeName(
            [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
            + [x509.DNSName(name) for name in SERVER_NAMES]
        )
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        return self._issue(path, _name("fedq-rig"), both, names)

    def client(self, path: Path, user: str, groups: tuple[str, ...] = ()) -> Path:
        """Make, unless it is there, a client certificate: Kubernetes user `user` in `groups`."""
        return self._issue(path, _name(user, groups), [ExtendedKeyUsageOID.CLIENT_AUTH])

    def _create(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        # The key goes first: a certificate on disk then means that its key is there too.
        write_atomic(self._key_file, _pem(key))
        name = _name("fedq-rig-ca")
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        certificate = (
            _validity(name, name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(key, hashes.SHA256())
        )
        write_atomic(self.certificate_file, certificate.public_bytes(serialization.Encoding.PEM))

    def _issue(
        self,
        path: Path,
        subject: x509.Name,
        usages: list[x509.ObjectIdentifier],
        names: x509.SubjectAlternativeName | None = None,
    ) -> Path:
        if path.exists():
            return path
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _validity(subject, self._certificate.subject, key.public_key())
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        pem = certificate.public_bytes(serialization.Encoding.PEM)
        write_atomic(path, pem + _pem(key))
        return path


def signing_key(path: Path) -> Path:
    """Make, unless it is there, the key that signs a cluster's service-account tokens."""
    if not path.exists():
        # SEC 1 ("EC PRIVATE KEY"): the API server reads no public key out of a PKCS #8 file.
        key = ec.generate_private_key(ec.SECP256R1())
        write_atomic(path, _pem(key, serialization.PrivateFormat.TraditionalOpenSSL))
    return path


def _name(common_name: str, organizations: tuple[str, ...] = ()) -> x509.Name:
    pairs = [(NameOID.COMMON_NAME, common_name)]
    pairs += [(NameOID.ORGANIZATION_NAME, name) for name in organizations]
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in pairs])


def _validity(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + LIFETIME)
    )


def _pem(
    key: ec.EllipticCurvePrivateKey,
    form: serialization.PrivateFormat = serialization.PrivateFormat.PKCS8,
) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
