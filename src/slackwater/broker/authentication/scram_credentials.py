"""The SCRAM credentials of a broker: salted and hashed, in a small file of the data directory.

Invariants:
- The file is replaced atomically before a change takes effect, and only its owner can read it.
- A password is not stored, and cannot be computed from what is stored.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from slackwater.broker.storage.log.files import replace_file
from slackwater.group.errors import UsageError
from slackwater.security.scram import ScramAlgorithm, ScramCredential

FILE: Final = "credentials.json"
NUMBERS: Final = {ScramAlgorithm.SHA_256: 1, ScramAlgorithm.SHA_512: 2}
"""Kafka's numbers of the mechanisms."""
_Key = tuple[str, ScramAlgorithm]


class ScramCredentials:
    """The credentials by user and mechanism."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE
        self._credentials: dict[_Key, ScramCredential] = {}
        if not self._path.exists():
            return
        try:
            for row in json.loads(self._path.read_bytes()):
                salt, stored_key, server_key = (b64decode(row[name]) for name in ("salt", "stored_key", "server_key"))
                credential = ScramCredential(salt, stored_key, server_key, row["iterations"])
                self._credentials[row["user"], ScramAlgorithm(row["mechanism"])] = credential
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"Cannot parse the credentials in {self._path}. Repair it, or remove it and create the users again."
            ) from error

    def find(self, user: str, mechanism: ScramAlgorithm) -> ScramCredential | None:
        """Return a credential, if there is one."""
        return self._credentials.get((user, mechanism))

    def users(self) -> dict[str, dict[ScramAlgorithm, ScramCredential]]:
        """Return the credentials of each user."""
        users: dict[str, dict[ScramAlgorithm, ScramCredential]] = {}
        for (user, mechanism), credential in self._credentials.items():
            users.setdefault(user, {})[mechanism] = credential
        return users

    def change(self, new: Mapping[_Key, ScramCredential], deleted: Iterable[_Key] = ()) -> None:
        """Set and delete credentials; raise `OSError` if they cannot be stored."""
        changed = {**self._credentials, **new}
        for key in deleted:
            changed.pop(key, None)
        rows = [
            {
                "user": user,
                "mechanism": mechanism.value,
                "iterations": credential.iterations,
                "salt": b64encode(credential.salt).decode(),
                "stored_key": b64encode(credential.stored_key).decode(),
                "server_key": b64encode(credential.server_key).decode(),
            }
            for (user, mechanism), credential in changed.items()
        ]
        replace_file(self._path, json.dumps(rows, indent=1).encode(), sync=True, mode=0o600)
        self._credentials = changed
