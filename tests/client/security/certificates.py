"""Certificates for tests: an authority, and certificates that it signs."""

import datetime
import ipaddress
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)

DAY: Final = datetime.timedelta(days=1)


class Authority:
    """A certificate authority that writes its files into a directory."""

    def __init__(self, directory: Path, name: str = "Test CA") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.now(datetime.UTC)
        self._certificate = (
            x509.CertificateBuilder(self._name, self._name, self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 400 * DAY)
            .not_valid_after(now + 400 * DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.path = directory / f"{name.replace(' ', '-')}.pem"
        self.path.write_bytes(self._certificate.public_bytes(Encoding.PEM))

    def issue(
        self, file: str, common_name: str, *hosts: str, begins_in_days: float = -1, ends_in_days: float = 30
    ) -> "Issued":
        """Issue a certificate for these host names and addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder(
                self._name,
                x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)]),
                key.public_key(),
            )
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + begins_in_days * DAY)
            .not_valid_after(now + ends_in_days * DAY)
        )
        if hosts:
            names: list[x509.GeneralName] = [
                x509.IPAddress(ipaddress.ip_address(host)) if host[0].isdigit() else x509.DNSName(host)
                for host in hosts
            ]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Issued(self, self.directory / file, key, certificate)

    @property
    def certificate(self) -> x509.Certificate:
        """The certificate of the authority."""
        return self._certificate


class Issued:
    """A certificate with its private key, in files of several formats."""

    def __init__(
        self, authority: Authority, base: Path, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate
    ) -> None:
        self._authority = authority
        self._base = base
        self._key = key
        self._certificate = certificate

    def certificate(self) -> Path:
        """A PEM file with the certificate."""
        return self._write(".crt", self._certificate.public_bytes(Encoding.PEM))

    def key(self, password: str = "") -> Path:
        """A PEM file with the private key."""
        return self._write(".encrypted.key" if password else ".key", self._private(password))

    def combined(self, password: str = "") -> Path:
        """A PEM file with both."""
        pem = self._private(password) + self._certificate.public_bytes(Encoding.PEM)
        return self._write(".encrypted.pem" if password else ".pem", pem)

    def pkcs12(self, password: str) -> Path:
        """A PKCS12 file with both, and the authority."""
        data = pkcs12.serialize_key_and_certificates(
            b"client",
            self._key,
            self._certificate,
            [self._authority.certificate],
            BestAvailableEncryption(password.encode()),
        )
        return self._write(".p12", data)

    def _private(self, password: str) -> bytes:
        encryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)

    def _write(self, suffix: str, data: bytes) -> Path:
        path = self._base.with_name(self._base.name + suffix)
        path.write_bytes(data)
        return path
