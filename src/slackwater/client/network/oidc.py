"""Tokens of the OIDC client-credentials flow (KIP-768).

Invariants:
- The client secret goes to the configured address only: redirections are not followed.
"""

import base64
import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, Final

from slackwater.security.errors import SaslAuthenticationError

URL: Final = "sasl.oauthbearer.token.endpoint.url"
_TIMEOUT_S: Final = 6.0
_MAX_ANSWER_BYTES: Final = 1 << 20
_DEFAULT_EXPIRY_S: Final = 300
_REDIRECTIONS: Final = (301, 302, 303, 307, 308)


class _NoRedirections(urllib.request.HTTPRedirectHandler):
    """Makes an error of a redirection; urllib would send the secret to the new address, of whatever host."""

    def redirect_request(self, *arguments: Any) -> None:
        """Do not follow."""


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """Requests tokens of a token endpoint with a client id and secret."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""
    context: Callable[[], ssl.SSLContext] | None = None

    def __call__(self) -> tuple[str, int]:
        """Request a token; return it and its expiry in milliseconds since 1970."""
        form = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        secret = base64.b64encode(f"{self.client_id}:{self.client_secret}".encode()).decode()
        request = urllib.request.Request(
            self.url,
            urllib.parse.urlencode(form).encode(),
            {"Authorization": f"Basic {secret}", "Accept": "application/json"},
        )
        context = self.context() if self.context is not None and self.url.startswith("https:") else None
        opener = urllib.request.build_opener(_NoRedirections, urllib.request.HTTPSHandler(context=context))
        try:
            with opener.open(request, timeout=_TIMEOUT_S) as response:
                answer = json.loads(response.read(_MAX_ANSWER_BYTES))
        except urllib.error.HTTPError as error:
            with error:
                is_moved = error.code in _REDIRECTIONS
                advice = "set the final address" if is_moved else "check the client id, the client secret and the scope"
                raise SaslAuthenticationError(
                    f"{URL} = {self.url} answered with HTTP status {error.code} ({_reason(error)}); {advice}."
                ) from None
        except (OSError, ValueError, HTTPException) as error:
            reason = getattr(error, "reason", None) or type(error).__name__
            raise SaslAuthenticationError(f"{URL} = {self.url} gave no token: {reason}.") from None
        token = answer.get("access_token") if isinstance(answer, dict) else None
        if not isinstance(token, str):
            raise SaslAuthenticationError(f"{URL} = {self.url} answered without an access_token.")
        try:
            return token, int((time.time() + float(answer.get("expires_in", _DEFAULT_EXPIRY_S))) * 1000)
        except (TypeError, ValueError, OverflowError):
            raise SaslAuthenticationError(f"{URL} = {self.url} answered with an invalid expires_in.") from None


def _reason(error: urllib.error.HTTPError) -> str:
    """Return the OAuth error code of the answer, or the HTTP reason."""
    try:
        answer = json.loads(error.read(_MAX_ANSWER_BYTES))
    except (OSError, ValueError):
        return str(error.reason)
    return str(answer.get("error", error.reason)) if isinstance(answer, dict) else str(error.reason)
