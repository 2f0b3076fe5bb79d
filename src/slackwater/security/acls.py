"""Access control lists: the decisions of Kafka's StandardAuthorizer, without I/O.

Invariants, as in Kafka:
- A rule that denies takes precedence over any rule that allows. Without a rule that allows, the request is denied.
- `allow.everyone.if.no.acl.found` decides only about resources that no rule matches, whatever its principal is.
- READ, WRITE, DELETE and ALTER imply DESCRIBE, and ALTER_CONFIGS implies DESCRIBE_CONFIGS, in rules that allow. A rule
  that denies denies only its own operation.
- Super users may do everything.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import total_ordering
from typing import Final

WILDCARD: Final = "*"
EVERYBODY: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The only name of a resource of type CLUSTER."""
_MAX_CACHED_DECISIONS: Final = 100_000


class AclResourceType(IntEnum):
    """The types of resources, with Kafka's numbers; ANY occurs only in filters."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How a rule names resources, with Kafka's numbers; ANY and MATCH occur only in filters."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """The operations, with Kafka's numbers; ANY occurs only in filters."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermissionType(IntEnum):
    """Whether a rule allows, with Kafka's numbers; ANY occurs only in filters."""

    ANY = 1
    DENY = 2
    ALLOW = 3


_IMPLIED_BY: Final = {
    AclOperation.DESCRIBE: {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER},
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}
_ALLOWED_BY: Final = {
    operation: frozenset({operation, AclOperation.ALL}) | _IMPLIED_BY.get(operation, set())
    for operation in AclOperation
}
"""The operations of rules that allow an operation."""


OPERATIONS: Final[dict[AclResourceType, tuple[AclOperation, ...]]] = {
    AclResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    AclResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    AclResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
}
"""The operations that `authorizedOperations` reports for each type of resource."""


@total_ordering
@dataclass(frozen=True, slots=True)
class Acl:
    """One rule: what `principal` may or may not do from `host`, on the resources that the pattern names."""

    resource: AclResourceType
    name: str
    pattern: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission: AclPermissionType

    def __lt__(self, other: "Acl") -> bool:
        return self._key < other._key

    @property
    def _key(self) -> tuple[object, ...]:
        return (self.resource, self.name, self.pattern, self.principal, self.host, self.operation, self.permission)

    def concerns(self, principal: str, host: str) -> bool:
        """Whether the rule is about this principal at this host."""
        return self.principal in (principal, EVERYBODY) and self.host in (host, WILDCARD)


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Selects rules; None and ANY match everything, MATCH the rules that decide about the named resource."""

    resource: AclResourceType = AclResourceType.ANY
    name: str | None = None
    pattern: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermissionType = AclPermissionType.ANY

    def matches(self, acl: Acl) -> bool:
        """Whether the filter selects this rule."""
        return (
            self.resource in (AclResourceType.ANY, acl.resource)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (AclPermissionType.ANY, acl.permission)
            and self._matches_name(acl)
        )

    def _matches_name(self, acl: Acl) -> bool:
        match self.pattern:
            case PatternType.ANY:
                return self.name in (None, acl.name)
            case PatternType.MATCH if acl.pattern is PatternType.LITERAL:
                return self.name is None or acl.name in (self.name, WILDCARD)
            case PatternType.MATCH:
                return self.name is None or self.name.startswith(acl.name)
            case _:
                return self.pattern is acl.pattern and self.name in (None, acl.name)


class Acls:
    """The rules, found by the name of a resource."""

    def __init__(
        self, acls: Iterable[Acl] = (), *, super_users: Iterable[str] = (), allow_if_no_acl_found: bool = False
    ) -> None:
        self._super_users = frozenset(super_users)
        self._allow_if_no_acl_found = allow_if_no_acl_found
        self._literal: dict[tuple[AclResourceType, str], set[Acl]] = {}
        self._prefixed: dict[tuple[AclResourceType, str], set[Acl]] = {}
        self._prefix_lengths: dict[AclResourceType, list[int]] = {}  # ascending; a name is looked up with each of them
        self._decisions: dict[tuple[str, str, AclOperation, AclResourceType, str], bool] = {}
        self._acls: set[Acl] = set()
        self.add(acls)

    def __iter__(self) -> Iterator[Acl]:
        """Return all rules, sorted."""
        return iter(sorted(self._acls))

    def __len__(self) -> int:
        return len(self._acls)

    def select(self, acl_filter: AclFilter) -> list[Acl]:
        """Return the rules that a filter selects, sorted."""
        return sorted(acl for acl in self._acls if acl_filter.matches(acl))

    def add(self, acls: Iterable[Acl]) -> None:
        """Add rules; one that exists already changes nothing."""
        for acl in acls:
            self._acls.add(acl)
            self._index(acl).setdefault((acl.resource, acl.name), set()).add(acl)
        self._reset()

    def remove(self, acls: Iterable[Acl]) -> None:
        """Remove existing rules."""
        for acl in acls:
            self._acls.remove(acl)
            index, key = self._index(acl), (acl.resource, acl.name)
            index[key].remove(acl)
            if not index[key]:
                del index[key]
        self._reset()

    def allows(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType, name: str) -> bool:
        """Whether the principal may perform the operation on this resource."""
        key = (principal, host, operation, resource, name)
        decision = self._decisions.get(key)
        if decision is None:
            if len(self._decisions) >= _MAX_CACHED_DECISIONS:
                self._decisions.clear()
            decision = self._decisions[key] = self._decide(*key)
        return decision

    def allows_any(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType) -> bool:
        """Whether there may be a resource of this type on which the principal may perform the operation (KIP-679)."""
        if self.allows(principal, host, operation, resource, "hardcode"):  # Kafka asks for this name, too
            return True
        patterns: dict[AclPermissionType, set[tuple[PatternType, str]]] = {
            AclPermissionType.ALLOW: set(),
            AclPermissionType.DENY: set(),
        }
        for acl in self._acls:
            if (
                acl.resource is resource
                and acl.operation in (operation, AclOperation.ALL)
                and acl.concerns(principal, host)
            ):
                patterns[acl.permission].add((acl.pattern, acl.name))
        denied = patterns[AclPermissionType.DENY]
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        return any(not _is_covered(pattern, name, denied) for pattern, name in patterns[AclPermissionType.ALLOW])

    def _index(self, acl: Acl) -> dict[tuple[AclResourceType, str], set[Acl]]:
        return self._literal if acl.pattern is PatternType.LITERAL else self._prefixed

    def _reset(self) -> None:
        self._decisions.clear()
        lengths: dict[AclResourceType, set[int]] = {}
        for resource, prefix in self._prefixed:
            lengths.setdefault(resource, set()).add(len(prefix))
        self._prefix_lengths = {resource: sorted(found) for resource, found in lengths.items()}

    def _decide(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType, name: str) -> bool:
        if principal in self._super_users:
            return True
        is_allowed, has_rules = False, False
        for acl in self._matching(resource, name):
            has_rules = True
            if not acl.concerns(principal, host):
                continue
            if acl.permission is AclPermissionType.DENY:
                if acl.operation in (operation, AclOperation.ALL):
                    return False
            elif acl.operation in _ALLOWED_BY[operation]:
                is_allowed = True
        return is_allowed if has_rules else self._allow_if_no_acl_found

    def _matching(self, resource: AclResourceType, name: str) -> Iterator[Acl]:
        yield from self._literal.get((resource, name), ())
        if name != WILDCARD:
            yield from self._literal.get((resource, WILDCARD), ())
        for length in self._prefix_lengths.get(resource, ()):
            if length > len(name):
                break
            yield from self._prefixed.get((resource, name[:length]), ())


def _is_covered(pattern: PatternType, name: str, denied: set[tuple[PatternType, str]]) -> bool:
    """Whether rules that deny cover all resources of a pattern."""
    if name == WILDCARD and pattern is PatternType.LITERAL:
        return False
    if pattern is PatternType.LITERAL and (pattern, name) in denied:
        return True
    return any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))
