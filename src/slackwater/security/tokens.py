"""Tokens of OAUTHBEARER: JSON web tokens, checked with the public keys of their issuer (JWKS).

Invariants:
- Only asymmetric signatures are accepted, and only with a key of the same kind: neither `alg=none` nor an HMAC with a
  public key as its secret.
- A token needs a signature of a known key, an expiry, a time of issue and a name; issuer and audience are checked if
  they are configured.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from slackwater.group.errors import UsageError
from slackwater.security.errors import SaslAuthenticationError
from slackwater.security.server_mechanisms import Identity

_KEY_TYPES: Final = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    "EdDSA": "OKP",
}
MAX_TOKEN_CHARACTERS: Final = 65_536


class InvalidTokenError(SaslAuthenticationError):
    """A token that is not accepted; the reason is for the log."""


class UnknownKeyError(InvalidTokenError):
    """A token signed with a key that is not among those of the issuer, perhaps a new one."""


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What a token must have."""

    issuer: str = ""
    audiences: tuple[str, ...] = ()
    clock_skew_s: int = 30
    name_claim: str = "sub"


def parse_keys(text: bytes, source: str) -> list[dict[str, Any]]:
    """Return the keys of a JWKS document."""
    try:
        keys = json.loads(text)["keys"]
        return [dict(key) for key in keys if key.get("kty") in _KEY_TYPES.values() and key.get("use", "sig") == "sig"]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(f'{source} is not a JWKS document; it needs a list under "keys".') from None


def require_library() -> None:
    """Raise `UsageError` if the library for tokens is not installed."""
    try:
        import cryptography
        import jwt  # noqa: F401
    except ImportError:
        raise UsageError(
            "OAUTHBEARER needs the packages PyJWT and cryptography: pip install 'slackwater[security]'."
        ) from None
    del cryptography


def validate_token(token: str, keys: list[dict[str, Any]], rules: TokenRules, now_s: float) -> Identity:
    """Return the identity of a valid token; raise `InvalidTokenError` otherwise."""
    import jwt

    if len(token) > MAX_TOKEN_CHARACTERS:
        raise InvalidTokenError(f"the token has more than {MAX_TOKEN_CHARACTERS} characters")
    try:
        header = jwt.get_unverified_header(token)
    except jwt.PyJWTError as error:
        raise InvalidTokenError(f"the token cannot be read: {error}") from None
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in _KEY_TYPES:
        raise InvalidTokenError(f"the token has the algorithm {algorithm!r}; a public-key signature is needed")
    candidates = _candidates(keys, algorithm, header.get("kid"))
    if not candidates:
        raise UnknownKeyError(f"no key of the issuer has the id {header.get('kid')!r} for {algorithm}")
    for key in candidates:
        try:
            verified = jwt.api_jws.decode(token, jwt.PyJWK(key, algorithm), [algorithm])
            claims = json.loads(verified)
        except jwt.InvalidSignatureError:
            continue
        except (jwt.PyJWTError, ValueError) as error:
            raise InvalidTokenError(f"the token cannot be read: {error}") from None
        if not isinstance(claims, dict):
            raise InvalidTokenError("the token has no claims")
        return _check_claims(claims, rules, now_s)
    raise InvalidTokenError("the signature of the token is wrong")


def _candidates(keys: list[dict[str, Any]], algorithm: str, key_id: str | None) -> list[dict[str, Any]]:
    return [
        key
        for key in keys
        if key["kty"] == _KEY_TYPES[algorithm]
        and key.get("alg", algorithm) == algorithm
        and (key_id is None or key.get("kid", key_id) == key_id)
    ]


def _check_claims(claims: Mapping[str, Any], rules: TokenRules, now_s: float) -> Identity:
    expires_at, issued_at = _time(claims, "exp"), _time(claims, "iat")
    not_before = _time(claims, "nbf") if "nbf" in claims else issued_at
    if now_s - rules.clock_skew_s >= expires_at:
        raise InvalidTokenError(f"the token has expired {now_s - expires_at:.0f} s ago")
    if max(not_before, issued_at) > now_s + rules.clock_skew_s:
        raise InvalidTokenError("the token is not valid yet; the clocks of issuer and broker may differ")
    if rules.issuer and claims.get("iss") != rules.issuer:
        raise InvalidTokenError(f"the token is from the issuer {claims.get('iss')!r}, not {rules.issuer}")
    audience = claims.get("aud", [])
    audiences = [audience] if isinstance(audience, str) else audience
    if rules.audiences and not (isinstance(audiences, list) and set(rules.audiences) & set(map(str, audiences))):
        raise InvalidTokenError(f"the token is for {audience!r}, not for {', '.join(rules.audiences)}")
    name = claims.get(rules.name_claim)
    if not isinstance(name, str) or not name.strip():
        raise InvalidTokenError(f"the token has no name in the claim {rules.name_claim}")
    return Identity(name, int(expires_at * 1000))


def _time(claims: Mapping[str, Any], claim: str) -> float:
    value = claims.get(claim)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e12:
        raise InvalidTokenError(f"the token has no valid claim {claim}")
    return float(value)
