"""`Acls` decides as a naive reading of Kafka's rules does, for any rules and any order of changes."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.security.acls import Acl, AclFilter, AclOperation, AclPermissionType, AclResourceType, Acls, PatternType

RESOURCES = (AclResourceType.TOPIC, AclResourceType.GROUP)
NAMES = ("a", "ab", "abc", "b", "*", "a*")
PRINCIPALS = ("User:alice", "User:bob", "User:root")
HOSTS = ("10.0.0.1", "10.0.0.2")
OPERATIONS = (
    AclOperation.READ,
    AclOperation.ALTER,
    AclOperation.CREATE,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
SUPER_USER = "User:root"

RULES = st.builds(
    Acl,
    st.sampled_from(RESOURCES),
    st.sampled_from(NAMES),
    st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
    st.sampled_from((*PRINCIPALS, "User:*")),
    st.sampled_from((*HOSTS, "*")),
    st.sampled_from((*OPERATIONS, AclOperation.ALL)),
    st.sampled_from((AclPermissionType.ALLOW, AclPermissionType.DENY)),
)
FILTERS = st.builds(
    AclFilter,
    st.sampled_from((AclResourceType.ANY, *RESOURCES)),
    st.none() | st.sampled_from(NAMES),
    st.sampled_from(PatternType),
    st.none() | st.sampled_from(PRINCIPALS),
    st.none() | st.sampled_from((*HOSTS, "*")),
    st.sampled_from((AclOperation.ANY, AclOperation.ALL, *OPERATIONS)),
    st.sampled_from(AclPermissionType),
)


def names_resource(acl: Acl, resource: AclResourceType, name: str) -> bool:
    if acl.resource is not resource:
        return False
    if acl.pattern is PatternType.PREFIXED:
        return name.startswith(acl.name)
    return acl.name in ("*", name)


def oracle(
    acls: set[Acl],
    everyone: bool,
    principal: str,
    host: str,
    operation: AclOperation,
    resource: AclResourceType,
    name: str,
) -> bool:
    if principal == SUPER_USER:
        return True
    rules = [acl for acl in acls if names_resource(acl, resource, name)]
    if not rules:
        return everyone
    own = [acl for acl in rules if acl.principal in (principal, "User:*") and acl.host in (host, "*")]
    implied = {operation, AclOperation.ALL}
    denied = any(acl.permission is AclPermissionType.DENY and acl.operation in implied for acl in own)
    if operation is AclOperation.DESCRIBE:
        implied |= {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
    if operation is AclOperation.DESCRIBE_CONFIGS:
        implied |= {AclOperation.ALTER_CONFIGS}
    return not denied and any(acl.permission is AclPermissionType.ALLOW and acl.operation in implied for acl in own)


@pytest.mark.proves("AC-01", "AC-02", "AC-03")
@given(st.lists(st.tuples(st.booleans(), RULES), max_size=12), st.booleans())
def test_decisions_equal_a_naive_oracle(changes: list[tuple[bool, Acl]], everyone: bool) -> None:
    acls, expected = Acls(super_users=[SUPER_USER], allow_if_no_acl_found=everyone), set[Acl]()
    for is_removed, acl in changes:
        acls.allows(acl.principal, acl.host, acl.operation, acl.resource, acl.name)  # a stored decision must not stay
        if is_removed and expected:
            victim = min(expected)
            acls.remove([victim])
            expected.remove(victim)
        else:
            acls.add([acl])
            expected.add(acl)
    assert list(acls) == sorted(expected)
    for principal, host, operation, resource, name in itertools.product(
        PRINCIPALS, HOSTS, OPERATIONS, RESOURCES, ("a", "abcd", "ab", "c", "*", "a*b")
    ):
        assert acls.allows(principal, host, operation, resource, name) == oracle(
            expected, everyone, principal, host, operation, resource, name
        )


@given(st.lists(RULES, max_size=12))
def test_allows_any_holds_if_some_resource_is_allowed(rules: list[Acl]) -> None:
    acls = Acls(rules)
    for principal, host in itertools.product(PRINCIPALS[:2], HOSTS):
        granted = any(
            oracle(set(rules), False, principal, host, AclOperation.READ, AclResourceType.TOPIC, name)
            for name in ("hardcode", *(rule.name for rule in rules if rule.name != "*"))
        )
        if granted:
            assert acls.allows_any(principal, host, AclOperation.READ, AclResourceType.TOPIC)


@given(st.lists(RULES, max_size=12), FILTERS)
def test_match_filter_selects_the_rules_that_decide(rules: list[Acl], acl_filter: AclFilter) -> None:
    selected = set(Acls(rules).select(acl_filter))
    for acl in set(rules):
        if acl_filter.name is None:
            is_named = acl_filter.pattern in (PatternType.ANY, PatternType.MATCH, acl.pattern)
        elif acl_filter.pattern is PatternType.MATCH:
            is_named = names_resource(acl, acl.resource, acl_filter.name)
        else:
            is_named = acl_filter.pattern in (PatternType.ANY, acl.pattern) and acl.name == acl_filter.name
        expected = (
            is_named
            and acl_filter.resource in (AclResourceType.ANY, acl.resource)
            and acl_filter.principal in (None, acl.principal)
            and acl_filter.host in (None, acl.host)
            and acl_filter.operation in (AclOperation.ANY, acl.operation)
            and acl_filter.permission in (AclPermissionType.ANY, acl.permission)
        )
        assert (acl in selected) == expected
