"""The keys that sign the tokens of OAUTHBEARER: from a file, or from a URL that is read again in the background.

Invariants:
- The start waits for the URL, at most `FETCH_TIMEOUT_S`, and fails without keys. After the start, the event loop never
  waits for it. A key that is not known yet causes one more read, at most every 10 s.
- If the keys cannot be read again, the previous ones stay in use, and the reason is logged.
"""

import asyncio
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any, Final

from slackwater.escaping import get_logger
from slackwater.group.errors import UsageError
from slackwater.security.file_state import FileState, file_state
from slackwater.security.server_mechanisms import Identity
from slackwater.security.tokens import TokenRules, UnknownKeyError, parse_keys, validate_token

log = get_logger("slackwater.broker")
FETCH_TIMEOUT_S: Final = 10.0
MIN_REFRESH_S: Final = 10.0
MAX_DOCUMENT_BYTES: Final = 1024 * 1024
_SETTING: Final = "sasl.oauthbearer.jwks.endpoint.url"


class IssuerKeys:
    """The current keys of one issuer."""

    def __init__(self, url: str, rules: TokenRules, refresh_s: float, now_s: Callable[[], float]) -> None:
        self._url = url
        self._rules = rules
        self._refresh_s = refresh_s
        self._now_s = now_s
        self._file_state: FileState | None = None
        self._is_file = urllib.parse.urlsplit(url).scheme == "file"
        self._is_reading = False
        self._keys: list[dict[str, Any]] = self._read()
        self._read_at = monotonic()

    def validate(self, token: str) -> Identity:
        """Return the identity of a valid token, or raise."""
        if self._is_file:
            self._reload_file()
        elif monotonic() - self._read_at > self._refresh_s:
            self._refresh()
        try:
            return validate_token(token, self._keys, self._rules, self._now_s())
        except UnknownKeyError:
            if not self._is_file and monotonic() - self._read_at > MIN_REFRESH_S:
                self._refresh()
            raise

    def _reload_file(self) -> None:
        if file_state(self._path()) != self._file_state:
            self._install(self._read)

    def _refresh(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            loop = asyncio.get_running_loop()
            loop.run_in_executor(None, self._read).add_done_callback(self._on_read)

    def _on_read(self, outcome: "asyncio.Future[list[dict[str, Any]]]") -> None:
        self._is_reading = False
        self._install(outcome.result)

    def _install(self, result: Callable[[], list[dict[str, Any]]]) -> None:
        self._read_at = monotonic()
        try:
            self._keys = result()
        except UsageError as error:
            log.warning("The token keys were not reloaded; the previous ones stay in use: %s", error)

    def _read(self) -> list[dict[str, Any]]:
        source = f"{_SETTING} = {self._url}"
        try:
            if self._is_file:
                self._file_state = file_state(self._path())
                return parse_keys(self._path().read_bytes(), source)
            with urllib.request.urlopen(self._url, timeout=FETCH_TIMEOUT_S) as response:
                return parse_keys(response.read(MAX_DOCUMENT_BYTES), source)
        except (OSError, ValueError) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            raise UsageError(f"{source} cannot be read: {reason}.") from error

    def _path(self) -> Path:
        return Path(urllib.request.url2pathname(urllib.parse.urlsplit(self._url).path))
