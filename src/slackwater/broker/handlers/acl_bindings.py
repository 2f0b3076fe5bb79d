"""The rules and filters of CreateAcls, DescribeAcls and DeleteAcls as values of `security.acls`."""

from typing import Final, Protocol

from slackwater.group.errors import BrokerError, Error
from slackwater.security.acls import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
)
from slackwater.wire.messages.create_acls import AclCreation
from slackwater.wire.messages.delete_acls import DeleteAclsFilter
from slackwater.wire.messages.describe_acls import DescribeAclsRequest

_UNKNOWN: Final = 0
_FOR_FILTERS: Final = 1  # the number of ANY


class _Numbers(Protocol):
    operation: int
    permission_type: int


def has_unknown(numbers: _Numbers, resource_type: int, pattern_type: int) -> bool:
    """Whether Kafka cannot parse this rule or filter and closes the connection."""
    return _UNKNOWN in (resource_type, pattern_type, numbers.operation, numbers.permission_type)


def is_for_filters(creation: AclCreation) -> bool:
    """Whether a rule has a value that only a filter may have; Kafka fails on the whole request."""
    return creation.resource_pattern_type == PatternType.MATCH or _FOR_FILTERS in (
        creation.resource_type,
        creation.resource_pattern_type,
        creation.operation,
        creation.permission_type,
    )


def to_acl(creation: AclCreation) -> Acl:
    """Return the rule to create; raise `BrokerError` if it is invalid."""
    try:
        acl = Acl(
            AclResourceType(creation.resource_type),
            creation.resource_name,
            PatternType(creation.resource_pattern_type),
            creation.principal,
            creation.host,
            AclOperation(creation.operation),
            AclPermissionType(creation.permission_type),
        )
    except ValueError as error:
        raise BrokerError(Error.INVALID_REQUEST, f"Unknown element of an ACL: {error}.") from error
    if acl.resource is AclResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        raise BrokerError(Error.INVALID_REQUEST, f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not acl.name:
        raise BrokerError(Error.INVALID_REQUEST, "Invalid empty resource name")
    if ":" not in acl.principal:
        raise BrokerError(
            Error.INVALID_REQUEST,
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the principal type "
            "from the principal name)",
        )
    return acl


def to_filter(requested: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter | None:
    """Return a filter; None if it has an unknown element, with which it selects nothing."""
    try:
        return AclFilter(
            AclResourceType(requested.resource_type_filter),
            requested.resource_name_filter,
            PatternType(requested.pattern_type_filter),
            requested.principal_filter,
            requested.host_filter,
            AclOperation(requested.operation),
            AclPermissionType(requested.permission_type),
        )
    except ValueError:
        return None
