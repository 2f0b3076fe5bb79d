"""Changes of settings by AlterConfigs: of a topic, of this broker, of its loggers.

Invariants:
- All changes of one resource are applied, or none.
- A change is written to disk before it takes effect, and survives a restart; the level of a logger does not.
- Kafka settings that have no effect here are accepted and ignored, as at the start.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from slackwater.broker.authentication.tls_context import build_context
from slackwater.broker.broker_state import BrokerState
from slackwater.broker.config import (
    BROKER_SETTINGS,
    TOPIC_SETTINGS,
    Setting,
    Settings,
    SettingType,
    Value,
    dynamic_config,
    find_setting,
    loggers,
)
from slackwater.broker.config.listeners import configured_endpoints
from slackwater.broker.config.resources import ConfigResourceType
from slackwater.broker.config.store import is_ignored
from slackwater.broker.request_context import RequestContext
from slackwater.broker.storage.topics import log_config
from slackwater.group.errors import BrokerError, Error, UsageError
from slackwater.security.acls import CLUSTER_NAME, AclOperation, AclResourceType
from slackwater.settings import format_value

AUTHORIZATION_ERRORS: Final = (
    Error.TOPIC_AUTHORIZATION_FAILED,
    Error.GROUP_AUTHORIZATION_FAILED,
    Error.CLUSTER_AUTHORIZATION_FAILED,
)


class ConfigOperation(IntEnum):
    """The operations of IncrementalAlterConfigs, with Kafka's numbers."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    """A change of one setting."""

    name: str
    operation: int
    value: str | None


class ResourceChanges(NamedTuple):
    """The changes of one resource; `replaces` removes all settings that are not among them."""

    resource_type: int
    resource_name: str
    changes: Sequence[ConfigChange]
    replaces: bool


class ResourceResult(NamedTuple):
    """The result for one resource."""

    target: ResourceChanges
    error: Error
    message: str | None


def check_rights(
    broker: BrokerState, context: RequestContext, operation: AclOperation, resource_type: int, name: str
) -> None:
    """Raise `BrokerError` unless the client may perform an operation on the settings of a resource."""
    match resource_type:
        case ConfigResourceType.TOPIC:
            resource, error, kind = AclResourceType.TOPIC, Error.TOPIC_AUTHORIZATION_FAILED, "Topic"
        case ConfigResourceType.GROUP:
            resource, error, kind = AclResourceType.GROUP, Error.GROUP_AUTHORIZATION_FAILED, "Group"
        case _:
            resource, error, kind = AclResourceType.CLUSTER, Error.CLUSTER_AUTHORIZATION_FAILED, "Cluster"
            name = CLUSTER_NAME
    if not broker.allows(context, operation, resource, name):
        raise BrokerError(error, f"{kind} authorization failed.")


def alter_all(
    broker: BrokerState, context: RequestContext, targets: Sequence[ResourceChanges], *, validate_only: bool
) -> list[ResourceResult]:
    """Change several resources independently; a resource that appears twice is not changed."""
    counts = Counter(target[:2] for target in targets)
    results = []
    for target in targets:
        error, message = Error.NONE, None
        try:
            if counts[target[:2]] > 1:
                raise BrokerError(Error.INVALID_REQUEST, "Each resource must appear at most once.")
            check_rights(broker, context, AclOperation.ALTER_CONFIGS, target.resource_type, target.resource_name)
            _alter(broker, target, validate_only)
        except BrokerError as rejected:
            error, message = rejected.error, str(rejected)
        except OSError as failed:
            error, message = Error.KAFKA_STORAGE_ERROR, f"Disk error: {failed.strerror}."
        results.append(ResourceResult(target, error, message))
    return results


def _alter(broker: BrokerState, target: ResourceChanges, validate_only: bool) -> None:
    _check_changes(target.changes)
    match target.resource_type:
        case ConfigResourceType.TOPIC:
            _alter_topic(broker, target, validate_only)
        case ConfigResourceType.BROKER:
            _alter_broker(broker, target, validate_only)
        case ConfigResourceType.BROKER_LOGGER if not target.replaces:
            _alter_loggers(broker, target, validate_only)
        case ConfigResourceType.GROUP:
            raise BrokerError(Error.INVALID_CONFIG, "Groups have no settings on this broker.")
        case ConfigResourceType.CLIENT_METRICS:
            raise BrokerError(Error.INVALID_REQUEST, "This broker does not collect client metrics.")
        case _:
            raise BrokerError(Error.INVALID_REQUEST, f"Unknown resource type {target.resource_type}")


def _check_changes(changes: Iterable[ConfigChange]) -> None:
    seen: set[str] = set()
    for change in changes:
        if change.name in seen:
            raise BrokerError(Error.INVALID_REQUEST, "Error due to duplicate config keys")
        seen.add(change.name)
        if change.operation not in list(ConfigOperation):
            raise BrokerError(
                Error.INVALID_REQUEST, f"{change.operation} is not an operation on {change.name}; use 0 to 3."
            )
        if change.value is None and change.operation != ConfigOperation.DELETE:
            raise BrokerError(Error.INVALID_REQUEST, f"Null value not supported for : {change.name}")


def _alter_topic(broker: BrokerState, target: ResourceChanges, validate_only: bool) -> None:
    topic = broker.topics.get(target.resource_name)
    if topic is None:
        raise BrokerError(Error.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{target.resource_name}' does not exist.")
    own = topic.overrides
    current = {name: broker.settings.for_topic(name, own) for name in TOPIC_SETTINGS}
    overrides = broker.topics.check_settings(_changed(target, own, current, TOPIC_SETTINGS))
    if not validate_only:
        broker.topics.alter(topic, overrides)


def _alter_broker(broker: BrokerState, target: ResourceChanges, validate_only: bool) -> None:
    settings = broker.settings
    is_cluster_wide = target.resource_name == ""
    if not is_cluster_wide:
        check_broker_name(broker, target.resource_name)
    _check_cluster_wide(target.changes, is_cluster_wide=is_cluster_wide)
    own = settings.cluster if is_cluster_wide else settings.dynamic
    current = {name: settings[name] for name in BROKER_SETTINGS}
    try:
        texts = {
            name: text for name, text in _changed(target, own, current, BROKER_SETTINGS).items() if not is_ignored(name)
        }
        changed = {name: find_setting(BROKER_SETTINGS, name).parse(text) for name, text in texts.items()}
        fixed = [name for name in changed if not find_setting(BROKER_SETTINGS, name).dynamic]
        if fixed:
            raise BrokerError(Error.INVALID_REQUEST, f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
        layers = (changed, settings.dynamic) if is_cluster_wide else (settings.cluster, changed)
        candidate = settings.with_dynamic(*layers)
        candidate.check()
        _check_certificates(candidate, changed)
        for overrides in [{}, *(topic.overrides for topic in broker.topics)]:
            log_config(candidate, overrides)
    except UsageError as error:
        raise BrokerError(Error.INVALID_REQUEST, str(error)) from error
    if not validate_only:
        dynamic_config.save(broker.directory.path, *layers)
        settings.set_dynamic(*layers)


def _check_certificates(candidate: Settings, changed: Iterable[str]) -> None:
    """Raise `UsageError` if a listener with TLS could not use its changed settings."""
    if any(".ssl." in f".{name}" for name in changed):
        for endpoint in configured_endpoints(candidate):
            if endpoint.protocol.has_tls:
                build_context(endpoint, candidate)


def _check_cluster_wide(changes: Iterable[ConfigChange], *, is_cluster_wide: bool) -> None:
    """Reject the changes of `min.insync.replicas` that Kafka rejects since KIP-966."""
    for change in changes:
        if change.name == "min.insync.replicas" and not is_cluster_wide:
            raise BrokerError(
                Error.INVALID_CONFIG, "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
            )
        if change.name == "min.insync.replicas" and change.operation == ConfigOperation.DELETE:
            raise BrokerError(
                Error.INVALID_CONFIG, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
            )


def check_broker_name(broker: BrokerState, name: str) -> None:
    """Raise `BrokerError` unless the name is the id of this broker."""
    if not name.removeprefix("-").isdecimal():
        raise BrokerError(Error.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if int(name) != broker.node_id:
        raise BrokerError(
            Error.INVALID_REQUEST,
            f"Unexpected broker id, expected {broker.node_id} or empty string, but received {name}",
        )


def _alter_loggers(broker: BrokerState, target: ResourceChanges, validate_only: bool) -> None:
    check_broker_name(broker, target.resource_name)
    for change in target.changes:
        if change.operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
            raise BrokerError(Error.INVALID_REQUEST, f"The level of logger {change.name} can only be set or deleted.")
        loggers.check(change.name, change.value if change.operation == ConfigOperation.SET else None)
    if not validate_only:
        for change in target.changes:
            loggers.set_level(change.name, change.value if change.operation == ConfigOperation.SET else None)


def _changed(
    target: ResourceChanges, own: Mapping[str, Value], current: Mapping[str, Value], known: Mapping[str, Setting]
) -> dict[str, str]:
    """Return the new overrides of a resource as text."""
    texts = {} if target.replaces else {name: format_value(value) for name, value in own.items()}
    for change in target.changes:
        if change.operation == ConfigOperation.DELETE or change.value is None:
            texts.pop(change.name, None)
        elif change.operation == ConfigOperation.SET:
            texts[change.name] = change.value
        else:
            texts[change.name] = _changed_list(change, current, known)
    return texts


def _changed_list(change: ConfigChange, current: Mapping[str, Value], known: Mapping[str, Setting]) -> str:
    setting = known.get(change.name)
    if setting is None or setting.kind is not SettingType.LIST:
        raise BrokerError(
            Error.INVALID_CONFIG,
            f"Can't {ConfigOperation(change.operation).name} to key {change.name} because its type is not LIST.",
        )
    words = format_value(current[change.name]).split(",")
    changed = [word.strip() for word in (change.value or "").split(",")]
    if change.operation == ConfigOperation.APPEND:
        words += [word for word in changed if word not in words]
    else:
        words = [word for word in words if word not in changed]
    return ",".join(word for word in words if word)
