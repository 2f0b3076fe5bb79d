"""TLS contexts from PEM, PKCS12 and Java's names.

Invariants:
- PEM needs only the standard library. PKCS12 needs the package `cryptography`.
- On Linux, OpenSSL reads private keys from files in memory; no key is written to a disk.
- Certificates are read again when one of their files has changed.
- No error shows a password or a key.
"""

import os
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from slackwater.group.errors import UsageError
from slackwater.security.distinguished_names import subject_name
from slackwater.security.errors import SslAuthenticationError
from slackwater.security.file_state import FileState, file_state

_JKS_MAGIC: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_PEM_MARK: Final = b"-----BEGIN"
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


@dataclass(frozen=True, slots=True)
class KeyMaterial:
    """Certificates, or a private key with its certificates, in PEM or PKCS12: in a file or as text.

    `setting` is the name for errors, such as `ssl.keystore`.
    """

    setting: str
    path: str = ""
    text: str = field(default="", repr=False)
    password: str = field(default="", repr=False)

    def read(self) -> bytes:
        """Return the bytes of the file, or the text."""
        if not self.path:
            return self.text.encode()
        try:
            data = Path(self.path).read_bytes()
        except OSError as error:
            raise UsageError(f"{self.setting} = {self.path} cannot be read: {error.strerror}.") from error
        if data.startswith(_JKS_MAGIC):
            raise UsageError(
                f"{self.setting} = {self.path} is a JKS file, which only Java reads. Convert it: keytool "
                f"-importkeystore -srckeystore {self.path} -destkeystore {Path(self.path).stem}.p12 "
                "-deststoretype PKCS12"
            )
        return data

    @property
    def given(self) -> bool:
        """Whether there is a file or a text."""
        return bool(self.path or self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTls:
    """The TLS settings of a client. Without `trust`, the certificate authorities of the system are trusted."""

    trust: KeyMaterial
    certificate: KeyMaterial  # with `key` empty it contains the private key as well
    key: KeyMaterial
    verify: bool = True
    check_hostname: bool = True
    versions: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that the context depends on."""
        return tuple(material.path for material in (self.trust, self.certificate, self.key) if material.path)

    @property
    def has_certificate(self) -> bool:
        """Whether the client has a certificate of its own."""
        return self.certificate.given

    def subject(self) -> str:
        """Return the subject of the client's certificate; empty if there is none that can be read."""
        try:
            data = self.certificate.read()
            if _PEM_MARK not in data:
                data = _pkcs12_to_pem(self.certificate, data)[1]
            text = data.decode("ascii", "ignore")
            start = text.index(ssl.PEM_HEADER)
            end = text.index(ssl.PEM_FOOTER, start) + len(ssl.PEM_FOOTER)
            return subject_name(ssl.PEM_cert_to_DER_cert(text[start:end]))
        except (UsageError, ValueError, SslAuthenticationError):
            return ""

    def context(self) -> ssl.SSLContext:
        """Read the files and return a context."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        limit_versions(context, self.versions)
        context.check_hostname = self.verify and self.check_hostname
        if not self.verify:
            context.verify_mode = ssl.CERT_NONE
        elif self.trust.given:
            load_trust(context, self.trust)
        else:
            context.load_default_certs()
        if self.certificate.given:
            load_certificate(context, self.certificate, self.key)
        elif self.key.given:
            raise UsageError(f"{self.key.setting} is a key without a certificate; set its certificate as well.")
        return context


class ReloadedContext:
    """A context that is made again when one of its files has changed."""

    def __init__(self, make: Callable[[], ssl.SSLContext], paths: tuple[str, ...]) -> None:
        self._make = make
        self._paths = paths
        self._states = self._file_states()
        self._context = make()

    def get(self) -> ssl.SSLContext:
        """Return the context of the present files; the old one while they are incomplete."""
        states = self._file_states()
        if states != self._states:
            with suppress(UsageError):  # the key may be new and its certificate still old
                self._context = self._make()
                self._states = states
        return self._context

    def _file_states(self) -> list[FileState | None]:
        return [file_state(path) for path in self._paths]


def limit_versions(context: ssl.SSLContext, versions: tuple[str, ...]) -> None:
    """Allow only these versions of `ssl.enabled.protocols`; TLS 1.2 and 1.3 by default."""
    unknown = [version for version in versions if version not in _VERSIONS]
    if unknown:
        raise UsageError(f"ssl.enabled.protocols has {unknown[0]!r}; use TLSv1.2, TLSv1.3.")
    allowed = sorted(_VERSIONS[version] for version in versions or _VERSIONS)
    context.minimum_version, context.maximum_version = allowed[0], allowed[-1]


def load_trust(context: ssl.SSLContext, trust: KeyMaterial) -> None:
    """Trust these certificates. As in Java, each of them is trusted as it is, even if it is not a root certificate."""
    if trust.path and Path(trust.path).is_dir():
        context.load_verify_locations(capath=trust.path)
        return
    data = trust.read()
    if _PEM_MARK not in data:
        data = _pkcs12_to_pem(trust, data)[1]
    try:
        context.load_verify_locations(cadata=data.decode("ascii", "ignore"))
    except ssl.SSLError as error:
        raise UsageError(f"{_name(trust)} has no valid certificate in PEM or PKCS12.") from error
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def load_certificate(context: ssl.SSLContext, certificate: KeyMaterial, key: KeyMaterial) -> None:
    """Load a private key and its certificate chain."""
    data = certificate.read()
    if _PEM_MARK in data:
        if key.given:
            data = key.read() + b"\n" + data
        password = key.password or certificate.password
    else:
        data, password = b"\n".join(_pkcs12_to_pem(certificate, data)), ""
    if b"PRIVATE KEY-----" not in data:
        raise UsageError(f"{_name(certificate)} has no private key; add it, or set ssl.key.location.")
    asked: list[bool] = []

    def give_password() -> str:
        asked.append(True)
        return password

    with _memory_file(data) as path:
        try:
            context.load_cert_chain(path, password=give_password)
        except (ssl.SSLError, ValueError, OSError) as error:
            if asked and not password:
                raise UsageError(
                    f"The private key of {_name(certificate)} is encrypted; set ssl.key.password."
                ) from None
            if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
                raise UsageError(f"The private key of {_name(certificate)} belongs to another certificate.") from None
            reason = "the password of its key is wrong" if asked else "its PEM is invalid"
            raise UsageError(f"{_name(certificate)} cannot be used: {reason}.") from None


def _name(material: KeyMaterial) -> str:
    return f"{material.setting} = {material.path}" if material.path else material.setting


def _pkcs12_to_pem(material: KeyMaterial, data: bytes) -> tuple[bytes, bytes]:
    """Return the private key, or nothing, and the certificates of a PKCS12 file."""
    try:
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12
    except ImportError:
        raise UsageError(
            f"{_name(material)} is a PKCS12 file, for which the package `cryptography` is missing; install "
            "slackwater[security], or use PEM."
        ) from None
    try:
        store = pkcs12.load_pkcs12(data, material.password.encode() or None)
    except ValueError:
        raise UsageError(
            f"{_name(material)} is no PEM file, and as a PKCS12 file it is invalid or its password is wrong."
        ) from None
    key = b""
    if store.key is not None:
        key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = [store.cert, *store.additional_certs] if store.cert is not None else store.additional_certs
    return key, b"".join(item.certificate.public_bytes(Encoding.PEM) for item in chain)


@contextmanager
def _memory_file(data: bytes) -> Iterator[str]:
    """The path of a file with these bytes, in memory where the system has such files."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("certificate")
        try:
            os.write(descriptor, data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:  # only its owner may read it
        file.write(data)
        file.flush()
        yield file.name


# --- errors -----------------------------------------------------------------------------------------------------------

_EXPIRED: Final = 10
_NOT_YET_VALID: Final = 9
_WRONG_NAMES: Final = frozenset({62, 64})  # a host name, an IP address
_UNTRUSTED: Final = frozenset({2, 18, 19, 20, 21, 24, 26})
_NO_CERTIFICATE: Final = frozenset({"TLSV13_ALERT_CERTIFICATE_REQUIRED", "TLSV1_ALERT_CERTIFICATE_REQUIRED"})
_BAD_CERTIFICATE: Final = frozenset(
    {
        "SSLV3_ALERT_BAD_CERTIFICATE",
        "SSLV3_ALERT_CERTIFICATE_EXPIRED",
        "SSLV3_ALERT_CERTIFICATE_REVOKED",
        "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
        "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE",
        "TLSV1_ALERT_UNKNOWN_CA",
        "TLSV1_ALERT_ACCESS_DENIED",
        "SSLV3_ALERT_HANDSHAKE_FAILURE",
    }
)
_NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE"})


def describe_tls_error(error: ssl.SSLError, peer: str, *, has_certificate: bool) -> str:
    """Return one sentence about a failed handshake: what is wrong, and what to change."""
    reason = error.reason or ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _describe_verification(error, peer)
    if reason in _NO_CERTIFICATE or (reason in _BAD_CERTIFICATE and not has_certificate):
        return (
            f"{peer} requires a certificate of the client, and this client has none; set ssl.keystore.location, or "
            "ssl.certificate.location and ssl.key.location."
        )
    if reason in _BAD_CERTIFICATE:
        return (
            f"{peer} rejected this client's certificate ({_words(reason)}); check that the broker trusts its issuer "
            "and that it has not expired."
        )
    if reason in _NOT_TLS:
        return not_tls(peer)
    if reason in ("TLSV1_ALERT_PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL"):
        return f"{peer} supports no TLS version that ssl.enabled.protocols of this client allows."
    return f"The TLS handshake with {peer} failed: {_words(reason) or error}."


def not_tls(peer: str) -> str:
    """Return the sentence about a port that does not answer with TLS."""
    return (
        f"{peer} does not answer with TLS: it is a port without TLS. Use another port, or security.protocol = "
        "PLAINTEXT or SASL_PLAINTEXT."
    )


def _describe_verification(error: ssl.SSLCertVerificationError, peer: str) -> str:
    code = error.verify_code
    if code == _EXPIRED:
        return f"The certificate of {peer} has expired; renew it on the broker, or check the clock of this machine."
    if code == _NOT_YET_VALID:
        return (
            f"The certificate of {peer} is not valid yet; check the clock of this machine, which may be slow, and "
            "that of the broker's certificate authority."
        )
    if code in _WRONG_NAMES:
        return (
            f"The certificate of {peer} is not for this host name; connect with a name of the certificate, or set "
            "ssl.endpoint.identification.algorithm to an empty value to accept any name."
        )
    if code in _UNTRUSTED:
        return (
            f"The certificate of {peer} is not signed by a trusted certificate authority; set ssl.truststore.location "
            "or ssl.ca.location to the authority of this cluster."
        )
    return f"The certificate of {peer} is invalid: {error.verify_message}."


def _words(reason: str) -> str:
    return reason.removeprefix("SSLV3_ALERT_").removeprefix("TLSV1_ALERT_").replace("_", " ").lower()
