"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): the client's and the server's half.

Invariants:
- Names and passwords are used as UTF-8 without SASLprep, as Kafka does. `,` and `=` in a name are escaped.
- A client accepts only a server that proves that it has the credential, and at least 4,096 iterations.
- A server compares proofs in constant time.
- No channel binding: Kafka has none.

A client:

    client = ScramClient(ScramAlgorithm.SHA_512, "user", "password")
    send(client.first()); send(client.final(receive())); client.verify(receive())

A server:

    first = ClientFirst.parse(receive())
    server = ScramServerExchange(ScramAlgorithm.SHA_512, first, credential_of(first.username))
    send(server.first()); send(server.final(receive()))
"""

import binascii
import hmac
import secrets
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from enum import Enum
from hashlib import new as new_hash
from hashlib import pbkdf2_hmac
from typing import Final, Self

from slackwater.security.errors import SaslAuthenticationError

MIN_ITERATIONS: Final = 4_096
MAX_ITERATIONS: Final = 1_000_000  # more would keep a client busy for seconds
_GS2_HEADER: Final = "n,,"
_NONCE_BYTES: Final = 24


class ScramError(SaslAuthenticationError):
    """A message that violates RFC 5802, or a wrong proof."""


class ScramAlgorithm(Enum):
    """The SCRAM mechanisms of Kafka, by their SASL names."""

    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"

    @property
    def hash_name(self) -> str:
        """The name of the hash function in `hashlib`."""
        return self.name.lower().replace("_", "")


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a server stores of a password."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int = MIN_ITERATIONS


def new_nonce() -> str:
    """Return a random nonce."""
    return secrets.token_urlsafe(_NONCE_BYTES)


def salted_password(mechanism: ScramAlgorithm, password: str, salt: bytes, iterations: int) -> bytes:
    """Return the salted password of RFC 5802."""
    return pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def credential_of_salted(mechanism: ScramAlgorithm, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Return the credential of a salted password, which is what AlterUserScramCredentials contains."""
    stored = _hash(mechanism, _hmac(mechanism, salted, b"Client Key"))
    return ScramCredential(salt, stored, _hmac(mechanism, salted, b"Server Key"), iterations)


def make_credential(
    mechanism: ScramAlgorithm, password: str, *, iterations: int = MIN_ITERATIONS, salt: bytes | None = None
) -> ScramCredential:
    """Return the credential of a password, with a random salt by default."""
    salt = secrets.token_bytes(_NONCE_BYTES) if salt is None else salt
    return credential_of_salted(mechanism, salted_password(mechanism, password, salt, iterations), salt, iterations)


class ScramClient:
    """One authentication of a client."""

    def __init__(
        self,
        mechanism: ScramAlgorithm,
        username: str,
        password: str,
        *,
        nonce: str | None = None,
        extensions: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """`extensions` are attributes of the first message, such as `tokenauth=true` of a delegation token."""
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce or new_nonce()
        more = "".join(f",{name}={value}" for name, value in extensions)
        self._first_bare = f"n={escape_name(username)},r={self._nonce}{more}"
        self._server_signature = b""

    def first(self) -> bytes:
        """Return the first message."""
        return (_GS2_HEADER + self._first_bare).encode()

    def final(self, server_first: bytes) -> bytes:
        """Return the proof for the first message of the server."""
        text = _text(server_first)
        attributes = _attributes(text)
        if "e" in attributes:
            raise ScramError(f"The broker rejected SCRAM: {attributes['e']}.")
        nonce, salt, iterations = attributes.get("r", ""), attributes.get("s", ""), attributes.get("i", "")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise ScramError("The broker's SCRAM nonce does not extend this client's.")
        if not iterations.isascii() or not iterations.isdigit():
            raise ScramError("The broker's first SCRAM message has no number of iterations.")
        if not MIN_ITERATIONS <= int(iterations) <= MAX_ITERATIONS:
            raise ScramError(
                f"The broker requests {int(iterations)} SCRAM iterations; {MIN_ITERATIONS} to {MAX_ITERATIONS} are "
                "allowed. Change the credential with kafka-configs.sh."
            )
        salted = salted_password(self._mechanism, self._password, _decode(salt), int(iterations))
        without_proof = f"c={b64encode(_GS2_HEADER.encode()).decode()},r={nonce}"
        message = f"{self._first_bare},{text},{without_proof}".encode()
        client_key = _hmac(self._mechanism, salted, b"Client Key")
        signature = _hmac(self._mechanism, _hash(self._mechanism, client_key), message)
        self._server_signature = _hmac(self._mechanism, _hmac(self._mechanism, salted, b"Server Key"), message)
        return f"{without_proof},p={b64encode(_xor(client_key, signature)).decode()}".encode()

    def verify(self, server_final: bytes) -> None:
        """Raise unless the server's last message proves that it has the credential."""
        attributes = _attributes(_text(server_final))
        if "e" in attributes:
            raise ScramError(f"The broker rejected SCRAM: {attributes['e']}.")
        if not self._server_signature or not hmac.compare_digest(
            _decode(attributes.get("v", "")), self._server_signature
        ):
            raise ScramError(
                "The broker could not prove that it has the SCRAM credential; it may not be the real broker."
            )


@dataclass(frozen=True, slots=True)
class ClientFirst:
    """The first message of a client."""

    username: str
    nonce: str
    authorization_id: str
    extensions: dict[str, str]
    gs2_header: str
    bare: str

    @classmethod
    def parse(cls, message: bytes) -> Self:
        """Parse the message."""
        binding, comma, rest = _text(message).partition(",")
        authorization_id, second, bare = rest.partition(",")
        if binding not in ("n", "y") or not comma or not second:
            raise ScramError("The first SCRAM message has an invalid header; channel binding is not supported.")
        if authorization_id and not authorization_id.startswith("a="):
            raise ScramError("The first SCRAM message has an invalid authorization id.")
        name, _, other = bare.partition(",")
        nonce, _, more = other.partition(",")
        if not name.startswith("n=") or not nonce.startswith("r=") or len(nonce) == 2:
            raise ScramError("The first SCRAM message needs a name and a nonce, in this order.")
        return cls(
            unescape_name(name[2:]),
            nonce[2:],
            unescape_name(authorization_id[2:]),
            _attributes(more) if more else {},
            f"{binding},{authorization_id},",
            bare,
        )


class ScramServerExchange:
    """One authentication of a server, after the client's first message."""

    def __init__(
        self,
        mechanism: ScramAlgorithm,
        client_first: ClientFirst,
        credential: ScramCredential,
        *,
        nonce: str | None = None,
    ) -> None:
        self._mechanism = mechanism
        self._client_first = client_first
        self._credential = credential
        self._nonce = client_first.nonce + (nonce or new_nonce())
        self._first = f"r={self._nonce},s={b64encode(credential.salt).decode()},i={credential.iterations}"

    def first(self) -> bytes:
        """Return the first message."""
        return self._first.encode()

    def final(self, client_final: bytes) -> bytes:
        """Return the server's signature; raise if the client's proof is wrong."""
        without_proof, comma, proof = _text(client_final).rpartition(",p=")
        attributes = _attributes(without_proof) if comma else {}
        if attributes.get("c") != b64encode(self._client_first.gs2_header.encode()).decode():
            raise ScramError("The last SCRAM message has no proof, or another header than the first.")
        if not hmac.compare_digest(attributes.get("r", "").encode(), self._nonce.encode()):
            raise ScramError("The last SCRAM message has another nonce.")
        message = f"{self._client_first.bare},{self._first},{without_proof}".encode()
        signature = _hmac(self._mechanism, self._credential.stored_key, message)
        received = _decode(proof)
        if len(received) != len(signature):
            raise ScramError("The SCRAM proof has the wrong length.")
        client_key = _xor(received, signature)
        if not hmac.compare_digest(_hash(self._mechanism, client_key), self._credential.stored_key):
            raise ScramError("The SCRAM proof is wrong.")
        return b"v=" + b64encode(_hmac(self._mechanism, self._credential.server_key, message))


def escape_name(name: str) -> str:
    """Write a name as a SCRAM attribute."""
    return name.replace("=", "=3D").replace(",", "=2C")


def unescape_name(text: str) -> str:
    """Read a name of a SCRAM attribute."""
    if "=" in text.replace("=2C", "").replace("=3D", ""):
        raise ScramError("A name in a SCRAM message has an invalid escape.")
    return text.replace("=2C", ",").replace("=3D", "=")


def _attributes(text: str) -> dict[str, str]:
    attributes: dict[str, str] = {}
    for item in text.split(","):
        name, equals, value = item.partition("=")
        if not equals or not name.isascii() or not name.isalpha() or name in attributes:
            raise ScramError("A SCRAM message has an invalid attribute.")
        attributes[name] = value
    if "m" in attributes:
        raise ScramError("A SCRAM message has a mandatory extension, which is not supported.")
    return attributes


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise ScramError("A SCRAM message is not UTF-8.") from None


def _decode(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ScramError("A SCRAM message has invalid base64.") from None


def _hmac(mechanism: ScramAlgorithm, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, mechanism.hash_name)


def _hash(mechanism: ScramAlgorithm, data: bytes) -> bytes:
    return new_hash(mechanism.hash_name, data).digest()


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
