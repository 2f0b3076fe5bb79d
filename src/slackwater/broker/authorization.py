"""The broker's authorizer: the rules of `security.acls`, stored in the data directory.

Invariants:
- Rules are on disk before they apply. The file is replaced atomically: after a crash the old or the new rules apply.
- If the file cannot be read or its checksum is wrong, the broker does not start: it would decide differently. A file
  without a checksum is accepted, so that it can be repaired by hand.
"""

import ipaddress
import json
from collections.abc import Collection, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from slackwater.broker.config import Settings
from slackwater.broker.storage.log.files import replace_file, verify_checksum, with_checksum
from slackwater.group.errors import UsageError
from slackwater.security.acls import Acl, AclFilter, AclOperation, AclPermissionType, AclResourceType, Acls, PatternType

FILE: Final = "acls"
NOT_REQUESTED: Final = -(2**31)
"""The value of `authorized_operations` that were not requested."""


class Authorizer:
    """Decides what a principal may do, and stores the rules."""

    def __init__(self, directory: Path, settings: Settings) -> None:
        self._path = directory / FILE
        self._acls = Acls(
            _read(self._path),
            super_users=_super_users(settings.text("super.users")),
            allow_if_no_acl_found=settings.flag("allow.everyone.if.no.acl.found"),
        )

    def allows(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType, name: str) -> bool:
        """Whether a principal may perform an operation; `host` is the client's address as Kafka shows it."""
        return self._acls.allows(principal, _java_address(host), operation, resource, name)

    def allows_any(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType) -> bool:
        """Whether a principal may perform an operation on some resource of this type."""
        return self._acls.allows_any(principal, _java_address(host), operation, resource)

    def select(self, acl_filter: AclFilter) -> list[Acl]:
        """Return the rules that a filter selects, sorted."""
        return self._acls.select(acl_filter)

    def add(self, acls: Collection[Acl]) -> None:
        """Store rules. Raises OSError if they cannot be written; then nothing changes."""
        self._write({*self._acls, *acls})
        self._acls.add(acls)

    def remove(self, acls: Collection[Acl]) -> None:
        """Remove existing rules. Raises OSError if that cannot be written; then nothing changes."""
        self._write({*self._acls}.difference(acls))
        self._acls.remove(acls)

    def _write(self, acls: Iterable[Acl]) -> None:
        text = json.dumps([_row(acl) for acl in sorted(acls)], indent=1)
        replace_file(self._path, with_checksum(f"{text}\n").encode(), sync=True)


def create_authorizer(directory: Path, settings: Settings) -> Authorizer | None:
    """Return the authorizer of the settings; None if there is none."""
    return Authorizer(directory, settings) if settings.text("authorizer.class.name") else None


def needs(operation: AclOperation) -> str:
    """Return the message for a request that needs a right on the cluster."""
    return f"Request needs {operation.name} permission."


def _row(acl: Acl) -> dict[str, str]:
    return {
        "resource": acl.resource.name,
        "name": acl.name,
        "pattern": acl.pattern.name,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.name,
        "permission": acl.permission.name,
    }


def _acl(row: dict[str, Any]) -> Acl:
    texts = {key: str(row[key]) for key in ("name", "principal", "host")}
    return Acl(
        resource=AclResourceType[row["resource"]],
        pattern=PatternType[row["pattern"]],
        operation=AclOperation[row["operation"]],
        permission=AclPermissionType[row["permission"]],
        **texts,
    )


def _read(path: Path) -> list[Acl]:
    if not path.exists():
        return []
    try:
        text, _ = verify_checksum(path.read_text(encoding="utf-8"))
        return [_acl(row) for row in json.loads(text)]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"Cannot read the ACLs in {path}: {error}. Repair the file and remove its checksum, or remove the file and "
            "create the ACLs again."
        ) from error


def _super_users(text: str) -> list[str]:
    users = [user.strip() for user in text.split(";") if user.strip()]
    for user in users:
        if ":" not in user:
            raise UsageError(f"super.users = {text} names {user!r} without its type; write User:{user}.")
    return users


@lru_cache(1024)
def _java_address(host: str) -> str:
    """Return an address in the form of rules: Java writes IPv6 addresses with eight groups."""
    text = host.removeprefix("/")
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return text
    if isinstance(address, ipaddress.IPv4Address):
        return text
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))
