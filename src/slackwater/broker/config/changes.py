"""Changes of settings by clients: of a topic, of this broker, of its loggers.

Rules kept here
- All changes of one resource take place, or none of them.
- What is changed is written down before it is in force, and holds at the next start; a logger's level does not.
- A setting that belongs to Kafka and means nothing here is taken and ignored, as at the start.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from slackwater.broker.broker import Broker
from slackwater.broker.config import (
    BROKER_SETTINGS,
    TOPIC_SETTINGS,
    Setting,
    SettingType,
    Value,
    dynamic_config,
    find_setting,
    loggers,
)
from slackwater.broker.config.resources import ResourceType
from slackwater.broker.config.store import is_foreign
from slackwater.broker.storage.topics import log_config
from slackwater.group.errors import BrokerError, Error, UsageError
from slackwater.settings import format_value


class ConfigOperation(IntEnum):
    """What is to become of a setting, by Kafka's numbers."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    """One change of one setting."""

    name: str
    operation: int
    value: str | None


class ResourceChanges(NamedTuple):
    """What is to be changed, and whether the changes are all it is to have."""

    resource_type: int
    resource_name: str
    changes: Sequence[ConfigChange]
    replaces: bool


class ResourceResult(NamedTuple):
    """What came of it."""

    target: ResourceChanges
    error: Error
    message: str | None


def alter_all(broker: Broker, targets: Sequence[ResourceChanges], *, validate_only: bool) -> list[ResourceResult]:
    """Change resources, each for itself; one that is named twice is not changed at all."""
    counts = Counter(target[:2] for target in targets)
    outcomes = []
    for target in targets:
        error, message = Error.NONE, None
        try:
            if counts[target[:2]] > 1:
                raise BrokerError(Error.INVALID_REQUEST, "Each resource must appear at most once.")
            _alter(broker, target, validate_only)
        except BrokerError as refused:
            error, message = refused.error, str(refused)
        except OSError as failed:
            error, message = Error.KAFKA_STORAGE_ERROR, f"The disk refused it: {failed.strerror}."
        outcomes.append(ResourceResult(target, error, message))
    return outcomes


def _alter(broker: Broker, target: ResourceChanges, validate_only: bool) -> None:
    _check_changes(target.changes)
    match target.resource_type:
        case ResourceType.TOPIC:
            _alter_topic(broker, target, validate_only)
        case ResourceType.BROKER:
            _alter_broker(broker, target, validate_only)
        case ResourceType.BROKER_LOGGER if not target.replaces:
            _alter_loggers(broker, target, validate_only)
        case ResourceType.GROUP:
            raise BrokerError(Error.INVALID_CONFIG, "This broker's groups have no settings of their own.")
        case ResourceType.CLIENT_METRICS:
            raise BrokerError(Error.INVALID_REQUEST, "This broker takes no metrics from clients.")
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
                Error.INVALID_REQUEST, f"{change.operation} is no operation on {change.name}; use 0 to 3."
            )
        if change.value is None and change.operation != ConfigOperation.DELETE:
            raise BrokerError(Error.INVALID_REQUEST, f"Null value not supported for : {change.name}")


def _alter_topic(broker: Broker, target: ResourceChanges, validate_only: bool) -> None:
    topic = broker.topics.get(target.resource_name)
    if topic is None:
        raise BrokerError(Error.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{target.resource_name}' does not exist.")
    own = topic.overrides
    in_force = {name: broker.settings.of_topic(name, own) for name in TOPIC_SETTINGS}
    overrides = broker.topics.check_settings(_changed(target, own, in_force, TOPIC_SETTINGS))
    if not validate_only:
        broker.topics.alter(topic, overrides)


def _alter_broker(broker: Broker, target: ResourceChanges, validate_only: bool) -> None:
    settings = broker.settings
    for_all = target.resource_name == ""
    if not for_all:
        check_broker_name(broker, target.resource_name)
    own = settings.cluster if for_all else settings.dynamic
    in_force = {name: settings[name] for name in BROKER_SETTINGS}
    try:
        texts = {
            name: text
            for name, text in _changed(target, own, in_force, BROKER_SETTINGS).items()
            if name in BROKER_SETTINGS or not is_foreign(name)
        }
        changed = {name: find_setting(BROKER_SETTINGS, name).parse(text) for name, text in texts.items()}
        fixed = [name for name in changed if not BROKER_SETTINGS[name].dynamic]
        if fixed:
            raise BrokerError(Error.INVALID_REQUEST, f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
        layers = (changed, settings.dynamic) if for_all else (settings.cluster, changed)
        trial = settings.with_dynamic(*layers)
        trial.check()
        for overrides in [{}, *(topic.overrides for topic in broker.topics)]:
            log_config(trial, overrides)
    except UsageError as error:
        raise BrokerError(Error.INVALID_REQUEST, str(error)) from error
    if not validate_only:
        dynamic_config.save(broker.directory.path, *layers)
        settings.set_dynamic(*layers)


def check_broker_name(broker: Broker, name: str) -> None:
    """Raise `BrokerError` unless this names this broker."""
    if not name.removeprefix("-").isdecimal():
        raise BrokerError(Error.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if int(name) != broker.node_id:
        raise BrokerError(
            Error.INVALID_REQUEST,
            f"Unexpected broker id, expected {broker.node_id} or empty string, but received {name}",
        )


def _alter_loggers(broker: Broker, target: ResourceChanges, validate_only: bool) -> None:
    check_broker_name(broker, target.resource_name)
    for change in target.changes:
        if change.operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
            raise BrokerError(Error.INVALID_REQUEST, f"The level of logger {change.name} can be set or deleted only.")
        loggers.check(change.name, change.value if change.operation == ConfigOperation.SET else None)
    if not validate_only:
        for change in target.changes:
            loggers.set_level(change.name, change.value if change.operation == ConfigOperation.SET else None)


def _changed(
    target: ResourceChanges, own: Mapping[str, Value], in_force: Mapping[str, Value], known: Mapping[str, Setting]
) -> dict[str, str]:
    """The settings that a resource is to have of its own, as texts."""
    texts = {} if target.replaces else {name: format_value(value) for name, value in own.items()}
    for change in target.changes:
        if change.operation == ConfigOperation.DELETE or change.value is None:
            texts.pop(change.name, None)
        elif change.operation == ConfigOperation.SET:
            texts[change.name] = change.value
        else:
            texts[change.name] = _spliced(change, in_force, known)
    return texts


def _spliced(change: ConfigChange, in_force: Mapping[str, Value], known: Mapping[str, Setting]) -> str:
    setting = known.get(change.name)
    if setting is None or setting.kind is not SettingType.LIST:
        raise BrokerError(
            Error.INVALID_CONFIG,
            f"Can't {ConfigOperation(change.operation).name} to key {change.name} because its type is not LIST.",
        )
    words = format_value(in_force[change.name]).split(",")
    given = [word.strip() for word in (change.value or "").split(",")]
    if change.operation == ConfigOperation.APPEND:
        words += [word for word in given if word not in words]
    else:
        words = [word for word in words if word not in given]
    return ",".join(word for word in words if word)
