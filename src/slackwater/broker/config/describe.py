"""Settings as DescribeConfigs shows them: value, source and synonyms.

Invariants:
- The first synonym is the current value. The others would apply without it, in order of precedence.
- As in Kafka, `log.retention.ms` and others like it have no value of their own: without one they are null and have no
  synonyms, even if `log.retention.hours` is set. With one, the synonyms are under the names they were set under.
- As in Kafka, `min.insync.replicas` is a setting of the whole cluster (KIP-966).
- A password has no value in any place; the description says that it is sensitive.
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from slackwater.broker.config.broker import BROKER_SETTINGS
from slackwater.broker.config.store import Settings, find_setting
from slackwater.broker.config.topic import SYNONYMS, TOPIC_SETTINGS
from slackwater.settings import Setting, SettingType, Value, format_value

_DEFAULT_NAMES: Final = {
    "log.flush.interval.ms": ("log.flush.scheduler.interval.ms", 1),
    "log.retention.ms": ("log.retention.hours", 3_600_000),
    "log.roll.jitter.ms": ("log.roll.jitter.hours", 3_600_000),
    "log.roll.ms": ("log.roll.hours", 3_600_000),
}
"""Settings without a default of their own: the name and unit of the setting that has it."""
_CLUSTER_WIDE: Final = "min.insync.replicas"


class ConfigSource(IntEnum):
    """The source of a value, with Kafka's numbers."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    GROUP_CONFIG = 8


class ConfigSynonym(NamedTuple):
    """A value from one source."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigDescription(NamedTuple):
    """A setting with its current value."""

    setting: Setting
    value: str | None
    source: ConfigSource
    read_only: bool
    synonyms: list[ConfigSynonym]


def describe_topic(settings: Settings, overrides: Mapping[str, Value]) -> Iterator[ConfigDescription]:
    """Describe the settings of a topic, sorted by name."""
    for name in sorted(TOPIC_SETTINGS):
        setting = TOPIC_SETTINGS[name]
        synonyms = list(_broker_synonyms(settings, SYNONYMS[name])) if name in SYNONYMS else []
        if name in overrides:
            synonyms.insert(0, ConfigSynonym(name, format_value(overrides[name]), ConfigSource.DYNAMIC_TOPIC_CONFIG))
        value = format_value(settings.for_topic(name, overrides))
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
        yield ConfigDescription(setting, value, source, False, synonyms)


def describe_broker(settings: Settings) -> Iterator[ConfigDescription]:
    """Describe the settings of the broker and those of single listeners, sorted by name."""
    for name in sorted(BROKER_SETTINGS.keys() | settings.listener_names()):
        setting = find_setting(BROKER_SETTINGS, name)
        synonyms = list(_broker_synonyms(settings, name))
        value = _shown(name, settings[name]) if synonyms else None
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
        yield ConfigDescription(setting, value, source, not setting.dynamic, synonyms)


def describe_default(settings: Settings) -> Iterator[ConfigDescription]:
    """Describe the settings that were set for all brokers of the cluster."""
    cluster = _cluster_layer(settings)
    for name in sorted(cluster):
        setting = find_setting(BROKER_SETTINGS, name)
        value = ConfigSynonym(name, _shown(name, cluster[name]), ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
        yield ConfigDescription(setting, value.value, value.source, not setting.dynamic, [value])


def _broker_synonyms(settings: Settings, name: str) -> Iterator[ConfigSynonym]:
    layers = (
        (settings.dynamic, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (_cluster_layer(settings), ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (settings.static, ConfigSource.STATIC_BROKER_CONFIG),
    )
    if name in _DEFAULT_NAMES and not _is_set(settings, name):
        return
    for layer, source in layers:
        if name in layer:
            value = _shown(name, layer[name])
            alternative = settings.alternatives.get(name) if layer is settings.static else None
            yield ConfigSynonym(*(alternative or (name, value)), source)
    default = find_setting(BROKER_SETTINGS, name).default
    if name in _DEFAULT_NAMES:
        assert isinstance(default, int)
        name, unit = _DEFAULT_NAMES[name]
        default //= unit
    if default not in ("", ()):
        yield ConfigSynonym(name, format_value(default), ConfigSource.DEFAULT_CONFIG)


def _shown(name: str, value: Value) -> str | None:
    is_secret = find_setting(BROKER_SETTINGS, name).kind is SettingType.PASSWORD
    return None if is_secret else format_value(value)


def _is_set(settings: Settings, name: str) -> bool:
    """Whether a setting has a value under its own name."""
    is_static = name in settings.static and name not in settings.alternatives
    return is_static or name in settings.dynamic or name in settings.cluster


def _cluster_layer(settings: Settings) -> dict[str, Value]:
    return {_CLUSTER_WIDE: settings[_CLUSTER_WIDE]} | settings.cluster
