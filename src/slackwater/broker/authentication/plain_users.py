"""The users of SASL/PLAIN: from Kafka's `sasl.jaas.config`, and from a file that is read again when it changes."""

from pathlib import Path
from typing import Final

from slackwater.escaping import get_logger
from slackwater.group.errors import UsageError
from slackwater.properties import read_properties
from slackwater.security.file_state import FileState, file_state
from slackwater.security.jaas import parse_jaas

log = get_logger("slackwater.broker")
_PREFIX: Final = "user_"


def jaas_users(text: str) -> dict[str, str]:
    """Return the `user_NAME="PASSWORD"` entries of a JAAS configuration."""
    options = parse_jaas(text).options if text else {}
    return {name.removeprefix(_PREFIX): value for name, value in options.items() if name.startswith(_PREFIX)}


def _read_users(path: Path) -> dict[str, str]:
    """Read the file; like a client's settings, passwords have no whitespace at their ends."""
    users = read_properties(path, allow_name_only=False)
    return {name: password.strip() for name, password in users.items()}


class PlainUsers:
    """The passwords by user; those of the file take precedence."""

    def __init__(self, jaas: str, file: str) -> None:
        self._fixed = jaas_users(jaas)
        self._path = Path(file) if file else None
        self._state: FileState | None = None
        self._from_file: dict[str, str] = {}
        if self._path is not None:
            self._state = file_state(self._path)  # before reading: a change in between is noticed
            self._from_file = _read_users(self._path)

    @property
    def is_empty(self) -> bool:
        """Whether there is no user and no file that could get one."""
        return self._path is None and not self._fixed

    def password_of(self, user: str) -> str | None:
        """Return the password of a user, or None."""
        if self._path is not None and (state := file_state(self._path)) != self._state:
            self._state = state
            try:
                self._from_file = _read_users(self._path)
            except UsageError as error:
                log.warning("The PLAIN users were not reloaded; the previous ones stay in use: %s", error)
        return self._from_file.get(user, self._fixed.get(user))
