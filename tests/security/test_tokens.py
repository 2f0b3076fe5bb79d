"""Tokens of OAUTHBEARER: which are accepted, and which attacks are not."""

import base64
import json
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from slackwater.security.errors import SaslAuthenticationError
from slackwater.security.server_mechanisms import OAuthBearerServerMechanism, Rejected
from slackwater.security.tokens import InvalidTokenError, TokenRules, UnknownKeyError, parse_keys, validate_token

NOW_S = 1_700_000_000
RSA = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())
OTHER = ec.generate_private_key(ec.SECP256R1())
RULES = TokenRules("https://issuer", ("kafka", "other"), 30, "sub")
CLAIMS = {"sub": "alice", "iss": "https://issuer", "aud": "kafka", "iat": NOW_S, "exp": NOW_S + 60}


def _keys() -> list[dict[str, Any]]:
    keys = [
        {**json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(RSA.public_key())), "kid": "rsa"},
        {**json.loads(jwt.algorithms.ECAlgorithm.to_jwk(EC.public_key())), "kid": "ec", "alg": "ES256", "use": "sig"},
        {"kty": "oct", "k": "c2VjcmV0", "kid": "shared"},
    ]
    return parse_keys(json.dumps({"keys": keys}).encode(), "keys")


KEYS = _keys()


def token(key: Any = EC, algorithm: str | None = "ES256", key_id: str | None = "ec", **claims: Any) -> str:
    values = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not None}
    return jwt.encode(values, key, algorithm, headers={"kid": key_id} if key_id else None)


def _part(values: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


def _forged(header: dict[str, Any], signature: str = "") -> str:
    return f"{_part(header)}.{_part(CLAIMS)}.{signature}"


@pytest.mark.parametrize(
    "text",
    [
        token(),
        token(key_id=None),
        token(RSA, "RS256", "rsa"),
        token(RSA, "PS512", "rsa"),
        token(aud=["x", "other"]),
        token(exp=NOW_S - 29),
        token(iat=NOW_S + 29),
    ],
    ids=["ES256", "no key id", "RS256", "PS512", "several audiences", "just expired", "just issued"],
)
def test_valid_token_names_the_principal(text: str) -> None:
    assert validate_token(text, KEYS, RULES, NOW_S).name == "alice"


PUBLIC_PEM = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
HEADER, PAYLOAD, SIGNATURE = token().split(".")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (token(OTHER), "signature"),
        (f"{HEADER}.{_part({**CLAIMS, 'sub': 'root'})}.{SIGNATURE}", "signature"),
        (_forged({"alg": "none"}), "algorithm 'none'"),
        (_forged({"alg": "None", "kid": "ec"}), "algorithm 'None'"),
        (_forged({"alg": ["ES256"], "kid": "ec"}), "algorithm"),
        (_forged({"alg": "ES256", "kid": "ec"}), "signature"),
        (_forged({"alg": "ES256", "kid": "ec"}, base64.urlsafe_b64encode(bytes(64)).decode().rstrip("=")), "signature"),
        (jwt.encode(CLAIMS, "x" * 64, "HS256", headers={"kid": "rsa"}), "algorithm 'HS256'"),
        (token(RSA, "RS256", "ec"), "no key"),
        (token(exp=NOW_S - 31), "expired"),
        (token(iat=NOW_S + 31), "not valid yet"),
        (token(nbf=NOW_S + 31), "not valid yet"),
        (token(iss="https://mallory"), "issuer"),
        (token(iss=None), "issuer"),
        (token(aud="mallory"), "is for"),
        (token(aud=None), "is for"),
        (token(aud={"kafka": 1}), "is for"),
        (token(exp=None), "claim exp"),
        (token(iat=None), "claim iat"),
        (token(exp="tomorrow"), "claim exp"),
        (token(sub=None), "no name"),
        (token(sub=" "), "no name"),
        ("", "cannot be read"),
        ("a.b", "cannot be read"),
        ("a.b.c", "cannot be read"),
        (token() + "." + "a", "cannot be read"),
        ("x" * 65_537, "characters"),
    ],
    ids=range(27),  # a signature is random, so the tokens cannot be the ids
)
def test_token_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(InvalidTokenError, match=reason):
        validate_token(text, KEYS, RULES, NOW_S)


def test_public_key_as_hmac_secret_is_refused() -> None:
    header = {"alg": "HS256", "kid": "rsa"}
    signed = f"{_part(header)}.{_part(CLAIMS)}".encode()
    import hmac

    signature = base64.urlsafe_b64encode(hmac.digest(PUBLIC_PEM, signed, "sha256")).decode().rstrip("=")
    with pytest.raises(InvalidTokenError, match="algorithm 'HS256'"):
        validate_token(f"{signed.decode()}.{signature}", KEYS, RULES, NOW_S)


def test_key_of_a_new_id_is_reported_as_unknown() -> None:
    with pytest.raises(UnknownKeyError):
        validate_token(token(key_id="new"), KEYS, RULES, NOW_S)


def test_shared_secrets_of_a_key_set_are_left_out() -> None:
    assert {key["kty"] for key in KEYS} == {"RSA", "EC"}


def _server() -> OAuthBearerServerMechanism:
    return OAuthBearerServerMechanism(lambda text: validate_token(text, KEYS, RULES, NOW_S))


def test_message_with_extensions_is_accepted() -> None:
    server = _server()
    assert server.respond(b"n,a=alice,\x01host=h\x01auth=Bearer " + token().encode() + b"\x01traceId=1\x01\x01") == b""
    assert server.identity is not None
    assert (server.identity.name, server.identity.expires_at_ms) == ("alice", (NOW_S + 60) * 1000)


def test_invalid_token_fails_after_the_client_has_the_error() -> None:
    server = _server()
    assert server.respond(b"n,,\x01auth=Bearer x.y.z\x01\x01") == b'{"status":"invalid_token"}'
    with pytest.raises(Rejected) as raised:
        server.respond(b"\x01")
    assert str(raised.value) == '{"status":"invalid_token"}'
    assert "the token cannot be read" in raised.value.reason
    assert server.identity is None


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"n,,",
        b"n,,\x01",
        b"n,,\x01\x01",
        b"y,,\x01auth=Bearer T\x01\x01",
        b"n,b=alice,\x01auth=Bearer T\x01\x01",
        b"n,,\x01auth=Basic T\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer T\x01",
        b"n,,\x01auth=Bearer T\x01\x01x",
        b"n,,\x01auth=Bearer T\x01trace\x01\x01",
        b"n,,\x011=x\x01auth=Bearer T\x01\x01",
        b"n,,\x01auth=Bearer T\x01\x01auth=Bearer T\x01\x01",
    ],
)
def test_invalid_first_message_is_refused(text: bytes) -> None:
    with pytest.raises(SaslAuthenticationError, match="Invalid OAUTHBEARER client first message"):
        _server().respond(text.replace(b"T", token().encode()))


def test_time_for_a_first_message_is_linear() -> None:
    """Half a megabyte of pairs took more than a minute with one regular expression."""
    started = time.process_time()
    with pytest.raises(SaslAuthenticationError):
        _server().respond(b"n,,\x01" + b"auth=Bearer x\x01" * 37_000 + b"!")
    assert time.process_time() - started < 5


def test_other_authorization_id_is_refused() -> None:
    with pytest.raises(Rejected, match="different"):
        _server().respond(b"n,a=bob,\x01auth=Bearer " + token().encode() + b"\x01\x01")
