"""Certificates for tests: an authority, and the certificates that it signs, as PEM files.

They are valid for one day and for this machine. Each file of a certificate also has its private key.
"""

import ipaddress
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from slackwater.group.errors import UsageError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
NO_CRYPTOGRAPHY: Final = (
    "A test certificate needs the package cryptography: pip install 'slackwater[security]', or use "
    'Broker(security="SASL_PLAINTEXT").'
)


class TestAuthority:
    """A certificate authority that exists only for one broker."""

    __test__ = False  # pytest does not collect it

    def __init__(self, directory: Path) -> None:
        try:
            from cryptography.hazmat.primitives.asymmetric import ec
        except ImportError:
            raise UsageError(NO_CRYPTOGRAPHY) from None
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = _sign("Slackwater test authority", self._key, None)
        self.path = directory / "authority.pem"
        self.path.write_bytes(_pem(self.certificate))

    def issue(self, name: str, *, hosts: Sequence[str] = (), valid_for: timedelta = timedelta(days=1)) -> Path:
        """Create a certificate for a name and these hosts; return its file."""
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _sign(name, key, (self._key, self.certificate), hosts, valid_for)
        path = self._directory / f"{''.join(letter if letter.isalnum() else '_' for letter in name)}.pem"
        temporary = path.with_suffix(".tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + _pem(certificate))
        os.replace(temporary, path)
        return path


def _sign(
    name: str,
    key: "EllipticCurvePrivateKey",
    issuer: "tuple[EllipticCurvePrivateKey, x509.Certificate] | None",
    hosts: Sequence[str] = (),
    valid_for: timedelta = timedelta(days=1),
) -> "x509.Certificate":
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import NameOID

    now = datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer_key, issuer_name = (key, subject) if issuer is None else (issuer[0], issuer[1].subject)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer_name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + valid_for)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
        .add_extension(_key_usage(is_authority=issuer is None), critical=True)
    )
    if hosts:
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _key_usage(*, is_authority: bool) -> "x509.KeyUsage":
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> "x509.GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: "x509.Certificate") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)
